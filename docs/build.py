"""Draws the pictures of the pages and checks everything that the pages claim.

    python docs/build.py            draw docs/pictures/*.svg, then check; every example is run
    python docs/build.py --check    write nothing; a picture that would be drawn otherwise is a failure. Examples for
                                    the shell are left to the tests, which run them once

Every failure is one line: file, line, what is wrong, what to do. Exit 1 if there is any.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from check_examples import check_examples
from check_figures import check_figures
from check_interfaces import check_interfaces
from check_links import check_links, check_pictures_shown
from check_names import check_names, check_reasons
from check_security import check_security
from check_shell import check_fences, is_run
from check_tables import check_commands, check_tables
from check_words import check_words
from pages import ROOT, Page, Problem, pages_of
from pictures import PICTURES

__all__ = ["check_all", "check_drawn", "main", "write_pictures"]

FOLDER: Final = ROOT / "docs" / "pictures"


def write_pictures(folder: Path = FOLDER, pictures: Mapping[str, Callable[[], str]] = PICTURES) -> int:
    """Draw every picture; how many files changed. What is equal is not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = 0
    for name, draw in pictures.items():
        path, svg = folder / name, draw()
        if not path.is_file() or path.read_text(encoding="utf-8") != svg:
            path.write_text(svg, encoding="utf-8")
            changed += 1
    return changed


def check_drawn(folder: Path = FOLDER, pictures: Mapping[str, Callable[[], str]] = PICTURES) -> list[Problem]:
    """Each picture on disk is what would be drawn, and there are no others."""
    shown = folder.name if not folder.is_relative_to(ROOT) else folder.relative_to(ROOT).as_posix()
    problems: list[Problem] = []
    for name, draw in pictures.items():
        path = folder / name
        if not path.is_file():
            problems.append(Problem(f"{shown}/{name}", 1, "the picture is not there", "run docs/build.py"))
        elif path.read_text(encoding="utf-8") != draw():
            problems.append(Problem(f"{shown}/{name}", 1, "it would be drawn otherwise now", "run docs/build.py"))
    for path in sorted(folder.glob("*")):
        if path.name not in pictures:
            todo = "delete it, or add it to docs/pictures.py"
            problems.append(Problem(f"{shown}/{path.name}", 1, "nothing draws this file", todo))
    return problems


def check_all(pages: Sequence[Page], *, shell: bool) -> list[Problem]:
    """`shell`: run the examples for the shell too, which takes minutes: they start Spark."""
    return [
        *check_drawn(),
        *check_links(pages, ROOT),
        *check_figures(pages, ROOT),
        *check_pictures_shown(pages, PICTURES, FOLDER, ROOT),
        *check_names(pages),
        *check_reasons(pages, ROOT / "src"),
        *check_tables(pages),
        *check_commands(pages),
        *check_security(pages),
        *check_interfaces(pages),
        *check_words(pages),
        *check_fences(pages),
        *check_examples(pages, shell=shell),
    ]


def main(arguments: Sequence[str]) -> int:
    if list(arguments) not in ([], ["--check"]):
        print(f"docs/build.py: unknown arguments {' '.join(arguments)}: use none, or --check", file=sys.stderr)
        return 2
    changed = 0 if arguments else write_pictures()
    pages = pages_of()
    problems = check_all(pages, shell=not arguments)
    for problem in problems:
        print(problem)
    examples = sum(is_run(fence.language) for page in pages for fence in page.fences)
    if not problems:
        print(
            f"{len(pages)} pages, {examples} examples, {len(PICTURES)} pictures ({changed} drawn anew): all in order"
        )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
