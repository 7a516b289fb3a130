"""Runs every fenced `python` example of a page, in order and in one namespace, in a directory of its own.

An example must check something, or it could go wrong unseen: by `assert`, or by a comment `# ->` after an expression,
on its line or on the lines below it. After a `print` the comment is what is printed, after any other expression it is
the value's `repr`; several such lines are several lines of text.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from check_shell import missing_tools, run_shell, shell_fences
from pages import Fence, Page, Problem

__all__ = ["check_examples"]

_SHOWN: Final = re.compile(r"(?:^|\s)# -> ?(.*)$")


def check_examples(pages: Sequence[Page], *, shell: bool = False) -> list[Problem]:
    """At most one problem per page comes from running it: what follows a failure depends on it.

    `shell`: those of the shell too, after those in Python, where the machine has what they use.
    """
    problems: list[Problem] = []
    for page in pages:
        fences = [fence for fence in page.fences if fence.language == "python"]
        problems += [_unchecked(page, fence) for fence in fences if not _checks_something(fence.text)]
        with tempfile.TemporaryDirectory() as directory:
            found = _run(page, fences, directory) if fences else []
            if shell and not found and shell_fences(page) and not missing_tools(page):
                found = run_shell(page, Path(directory))
        problems += found
    return problems


def _checks_something(text: str) -> bool:
    return re.search(r"^\s*assert\b", text, re.MULTILINE) is not None or "# ->" in text


def _unchecked(page: Page, fence: Fence) -> Problem:
    return Problem(
        page.name, fence.line, "the example checks nothing", "add an assert or a comment # -> with its value"
    )


def _run(page: Page, fences: Sequence[Fence], directory: str) -> list[Problem]:
    namespace: dict[str, object] = {"__name__": "example"}
    with contextlib.chdir(directory):
        for fence in fences:
            # Blank lines before the code, so that line numbers in errors are those of the page.
            text = "\n" * (fence.line - 1) + fence.text
            try:
                tree = ast.parse(text, filename=page.name)
            except SyntaxError as error:
                return [Problem(page.name, error.lineno or fence.line, f"not Python: {error.msg}", "correct it")]
            lines = text.split("\n")
            taken: set[int] = set()
            for statement in tree.body:
                expected, at = _expected(lines, statement)
                taken |= at
                if problem := _execute(page, lines, statement, expected, namespace):
                    return [problem]
            for number, line in enumerate(lines, start=1):
                if _SHOWN.search(line) and number not in taken:
                    todo = "put it after an expression at the outermost level"
                    return [Problem(page.name, number, "# -> belongs to no expression", todo)]
    return []


def _expected(lines: Sequence[str], statement: ast.stmt) -> tuple[str | None, set[int]]:
    """What the comments after an expression say it shows (None: nothing said), and on which lines they stand."""
    last = statement.end_lineno
    assert last is not None
    if not isinstance(statement, ast.Expr):
        return None, set()
    texts: list[str] = []
    taken: set[int] = set()
    if match := _SHOWN.search(lines[last - 1][statement.end_col_offset or 0 :]):
        texts.append(match.group(1))
        taken.add(last)
    for number in range(last + 1, len(lines) + 1):
        line = lines[number - 1].strip()
        if not line.startswith("# ->") or (match := _SHOWN.search(line)) is None:
            break
        texts.append(match.group(1))
        taken.add(number)
    return ("\n".join(texts) if texts else None), taken


def _execute(
    page: Page, lines: Sequence[str], statement: ast.stmt, expected: str | None, namespace: dict[str, object]
) -> Problem | None:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            if isinstance(statement, ast.Expr):
                code = compile(ast.Expression(statement.value), page.name, "eval", dont_inherit=True)
                value = eval(code, namespace)  # noqa: S307 (our own pages: running them is the point)
            else:
                # Not our own `annotations`: a reader who types the example has none.
                code = compile(ast.Module([statement], []), page.name, "exec", dont_inherit=True)
                value = None
                exec(code, namespace)  # noqa: S102 (as above)
    except Exception as error:  # noqa: BLE001 (whatever an example raises is its failure)
        line = _line(error, page, statement)
        text = str(error) or lines[line - 1].strip()
        return Problem(page.name, line, f"the example raises {type(error).__name__}: {text}", "correct it")
    if expected is None:
        return None
    shown = printed.getvalue().rstrip("\n") if _is_print(statement) else repr(value)
    if [line.rstrip() for line in shown.split("\n")] == [line.rstrip() for line in expected.split("\n")]:
        return None
    what = f"the example shows {shown!r}, the page says {expected!r}"
    return Problem(page.name, statement.lineno, what, "correct the page or the code")


def _is_print(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print"


def _line(error: Exception, page: Page, statement: ast.stmt) -> int:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == page.name]
    return (frames[-1].lineno if frames else None) or statement.lineno
