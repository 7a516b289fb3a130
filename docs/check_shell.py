"""Runs every shell example of a page, as a reader would type it, in the directory where its Python examples ran.

    console     lines that begin with `$ ` are typed; what follows is what they print: these lines, in this order,
                perhaps with others between them; `…` in a line stands for anything, a line `...` for any lines
    sh          a script: every command must succeed

A page may need things that are not worth showing: `<!-- run: COMMAND -->` on a line of its own is typed too. A
command that ends with `&`, and `beforehand serve`, run until the page is done or the next service begins. Ports 7171
and 4222 stand for ports that are free. Standard error is not compared, except for words about a file that was
written.

What cannot be run says so and why, where its fence begins: three backticks, `sh not run: it needs a cluster`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pages import Page, Problem

__all__ = ["KINDS", "TOOLS", "check_fences", "is_run", "missing_tools", "run_shell", "shell_fences", "steps_of"]

KINDS: Final = ("console", "ini", "json", "nginx", "python", "sh", "text", "toml", "usage", "yaml")
"""What a fence may be; of these `console`, `python` and `sh` are run."""

TOOLS: Final = ("bash", "curl", "jq", "sqlite3")
"""What examples may use that comes with neither Python nor this project."""

_NOT_RUN: Final = re.compile(r"(?:console|python|sh) not run: \S.{9,}")
_HIDDEN: Final = re.compile(r"^<!-- run: (.*) -->$", re.MULTILINE)
_PORTS: Final = ("7171", "4222")
_SECONDS_MAX: Final = 540.0  # Spark takes its time where others work too.
_JUDGING: Final = ("beforehand check", "beforehand simulate")  # Their status 1 is an answer.


@dataclass(frozen=True, slots=True)
class Step:
    """One command, with what the page says that it prints (None: nothing said)."""

    line: int
    command: str
    expected: tuple[str, ...] | None

    @property
    def stays(self) -> bool:
        return self.command.endswith("&") or self.command.startswith("beforehand serve")


def check_fences(pages: Sequence[Page]) -> Iterator[Problem]:
    """Every fence says what it is, so that no example can go unrun unseen."""
    for page in pages:
        for fence in page.fences:
            kind = fence.language.partition(" ")[0]
            if kind not in KINDS:
                what = f"a fence of the kind {kind!r}" if kind else "a fence without a kind"
                yield Problem(page.name, fence.line - 1, what, f"write one of {', '.join(KINDS)}")
            elif " " in fence.language and not _NOT_RUN.fullmatch(fence.language):
                todo = "write `KIND not run: REASON`, with a reason"
                yield Problem(page.name, fence.line - 1, f"unknown words {fence.language!r}", todo)


def is_run(language: str) -> bool:
    return language in ("console", "python", "sh")


def shell_fences(page: Page) -> bool:
    return any(fence.language in ("console", "sh") for fence in page.fences)


def missing_tools(page: Page) -> list[str]:
    """Those that the page uses and this machine does not have: its examples for the shell cannot run here."""
    words = {"bash", *(word for step in steps_of(page) for word in re.findall(r"\w+", step.command))}
    return [tool for tool in TOOLS if tool in words and shutil.which(tool) is None]


def steps_of(page: Page) -> list[Step]:
    """What is typed on a page, from its top to its bottom."""
    steps = [
        Step(page.prose.count("\n", 0, match.start()) + 1, match.group(1), None)
        for match in _HIDDEN.finditer(page.prose)
    ]
    for fence in page.fences:
        if fence.language == "sh":
            steps.append(Step(fence.line, f"set -e\n{fence.text}", None))
        elif fence.language == "console":
            steps += _typed(fence.line, fence.text.rstrip("\n").split("\n"))
    return sorted(steps, key=lambda step: step.line)


def _typed(first: int, lines: Sequence[str]) -> Iterator[Step]:
    at = 0
    while at < len(lines):
        start = at
        command = lines[at].removeprefix("$ ")
        while command.endswith("\\") and at + 1 < len(lines):
            at += 1
            command += f"\n{lines[at]}"
        at += 1
        until = next((n for n in range(at, len(lines)) if lines[n].startswith("$ ")), len(lines))
        yield Step(first + start, command.rstrip(), tuple(lines[at:until]) or None)
        at = until


def run_shell(page: Page, directory: Path) -> list[Problem]:
    """At most one problem: what follows a failure depends on it."""
    ports = {port: str(_free_port()) for port in _PORTS}
    with tempfile.TemporaryDirectory() as shims, contextlib.ExitStack() as stack:
        environment = _environment(Path(shims), ports["7171"])
        staying: list[subprocess.Popen[bytes]] = []
        stack.callback(_end_all, staying)
        for number, step in enumerate(steps_of(page)):
            command = _with_ports(step.command, ports)
            expected = None if step.expected is None else [_with_ports(line, ports) for line in step.expected]
            if step.stays:
                if command.startswith("beforehand serve"):
                    _end_all(staying)
                said = Path(shims) / f"said-{number}"
                with said.open("wb") as out:
                    staying.append(
                        subprocess.Popen(  # noqa: S602 (our own pages: running them is the point)
                            command.rstrip("& "),
                            shell=True,
                            executable="/bin/bash",
                            cwd=directory,
                            env=environment,
                            stdin=subprocess.DEVNULL,
                            stdout=out,
                            stderr=out,
                            start_new_session=True,
                        )
                    )
                wrong = _wait(staying[-1], said, expected)
            else:
                wrong = _once(command, expected, directory, environment)
            if wrong is not None:
                shown = step.command.removeprefix("set -e\n").strip().split("\n")[0]
                return [Problem(page.name, step.line, f"`{shown}` {wrong}", "correct the page or the code")]
    return []


def _once(command: str, expected: Sequence[str] | None, directory: Path, environment: dict[str, str]) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 (as above)
            ["/bin/bash", "-o", "pipefail", "-c", command],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {_SECONDS_MAX:.0f} seconds"
    if done.returncode not in ((0, 1) if command.startswith(_JUDGING) else (0,)):
        return f"ended with status {done.returncode}: {done.stderr.strip()[-400:]}"
    wrote = [line for line in done.stderr.split("\n") if line.startswith("wrote ")]
    return _missing(expected, [*done.stdout.split("\n"), *wrote])


def _wait(process: subprocess.Popen[bytes], said: Path, expected: Sequence[str] | None) -> str | None:
    """Until it has said what the page says; a service that the page shows nothing of, until it serves."""
    wanted = expected or (["serving …"] if "serve" in str(process.args) else [])
    until = time.monotonic() + _SECONDS_MAX
    while (wrong := _missing(wanted, said.read_text().split("\n"))) is not None:
        if process.poll() is not None or time.monotonic() > until:
            return wrong
        time.sleep(0.05)
    return None


def _missing(expected: Sequence[str] | None, lines: Sequence[str]) -> str | None:
    """The first expected line that does not come after those before it."""
    at = 0
    for line in expected or ():
        if line.strip() in ("", "..."):
            continue
        pattern = re.compile(".*".join(map(re.escape, line.rstrip().split("…"))))
        found = next((n for n in range(at, len(lines)) if pattern.fullmatch(lines[n].rstrip())), None)
        if found is None:
            return f"does not print {line.strip()!r} (there), but {' / '.join(lines)[:600]!r}"
        at = found + 1
    return None


def _environment(shims: Path, port: str) -> dict[str, str]:
    command = shims / "beforehand"
    command.write_text(
        "#!/bin/bash\n"
        f'if [ "$1" = serve ]; then shift; set -- serve --port {port} "$@"; fi\n'
        f'exec "{sys.executable}" -m beforehand "$@"\n'
    )
    command.chmod(0o755)
    # Not a link: Python would look for its packages beside it.
    (shims / "python").write_text(f'#!/bin/bash\nexec "{sys.executable}" "$@"\n')
    (shims / "python").chmod(0o755)
    faster = "BEFOREHAND_JAVA_CLASSES"
    kept = {key: value for key, value in os.environ.items() if key == faster or not key.startswith("BEFOREHAND_")}
    return {**kept, "PATH": f"{shims}:{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"}


def _with_ports(text: str, ports: dict[str, str]) -> str:
    for port, free in ports.items():
        text = text.replace(f":{port}", f":{free}")
    return text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end_all(processes: list[subprocess.Popen[bytes]]) -> None:
    while processes:
        _end(processes.pop())


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
