"""Checks that a figure which a page claims is the one that was measured.

A claim is a link to benchmarks/RESULTS.md with an anchor: `[110 s](benchmarks/RESULTS.md#pipeline-growth-10000000)`.
Every number in its text must stand in that row; it may be rounded, but not by more than a twentieth. So when
something is measured anew, the pages that claim the old figure are found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pages import Page, Problem, read_page

__all__ = ["check_figures", "figures_at", "same_figure"]

RESULTS: Final = Path("benchmarks") / "RESULTS.md"

_CLAIM: Final = re.compile(r"\[([^\[\]]+)\]\(([^)\s#]*RESULTS\.md)#([^)\s]+)\)")
_NUMBER: Final = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_ROW: Final = re.compile(r"<a id=\"([^\"]+)\"></a>")
_ROUNDED_MAX: Final = 0.05


def check_figures(pages: Sequence[Page], root: Path) -> list[Problem]:
    if not (root / RESULTS).is_file():
        return []
    results = read_page(root / RESULTS, root)
    problems: list[Problem] = []
    for page in pages:
        for match in _CLAIM.finditer(page.prose):
            if (page.path.parent / match.group(2)).resolve() == results.path.resolve():
                line = page.prose.count("\n", 0, match.start()) + 1
                problems += _check(page, line, match.group(1), match.group(3), results)
    return problems


def figures_at(results: Page, anchor: str) -> list[str] | None:
    """The numbers of the row with this anchor, as they are written; None if no row has it."""
    for line in results.prose.split("\n"):
        if anchor in _ROW.findall(line):
            return _NUMBER.findall(_ROW.sub("", line))
    return None


def same_figure(claimed: str, measured: str) -> bool:
    """Whether `claimed` is `measured`, rounded to as many digits as it has."""
    wanted, found = float(claimed.replace(",", "")), float(measured.replace(",", ""))
    digits = len(claimed.replace(",", "").replace(".", "").lstrip("0").rstrip("0" if "." not in claimed else ""))
    rounded = float(f"{found:.{max(digits, 1)}g}")
    return wanted == rounded and abs(wanted - found) <= _ROUNDED_MAX * abs(found)


def _check(page: Page, line: int, text: str, anchor: str, results: Page) -> Iterator[Problem]:
    measured = figures_at(results, anchor)
    if measured is None:
        return  # A heading, or nothing: then the link is broken, which is found elsewhere.
    claimed = _NUMBER.findall(text)
    if not claimed:
        yield Problem(page.name, line, f"the link to #{anchor} names no figure", "write the figure as its text")
    for number in claimed:
        if not any(same_figure(number, other) for other in measured):
            todo = f"there are {', '.join(measured)}"
            yield Problem(page.name, line, f"{number} is not in the row #{anchor} of {RESULTS.as_posix()}", todo)
