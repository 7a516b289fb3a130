"""What a part of the benchmarks found, as data: tables of figures, with the machine, the versions and the date.

A part makes one `Report`; its page, its plot and its place in RESULTS.md are drawn from that and nothing else, so
a figure is written down once. It has its spread if it was measured more than once, and every table says how often.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import msgspec

__all__ = [
    "ONE_RUN",
    "Cell",
    "Figure",
    "Report",
    "Row",
    "Section",
    "Table",
    "decode",
    "deliver",
    "encode",
    "median_of",
    "report_of",
    "slug",
    "target",
]

ONE_RUN: Final = "One run of each."
MANY: Final = 10
"""Repeats from which on quartiles say more than the least and the most, which only grow with the repeats."""
LOAD: Final = os.getloadavg()[0]  # Before this process adds to it.
_KEPT: Final = 6  # Digits of a figure that are stored: what is beyond is noise.


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A number that was measured, or made from such; `ratio` is to the baseline that its table names."""

    value: float
    digits: int = 0  # After the point, where people read it.
    low: float | None = None
    high: float | None = None
    ratio: float | None = None

    @classmethod
    def of(cls, values: Iterable[float], *, digits: int = 0, ratio: float | None = None) -> Figure:
        """The median of repeats, with the least and the most, or the quartiles of many. One value has no spread."""
        known = sorted(map(_kept, values))
        over = None if ratio is None else _kept(ratio)
        if len(known) == 1:
            return cls(known[0], digits, ratio=over)
        low, high = known[0], known[-1]
        if len(known) >= MANY:
            low, _, high = map(_kept, statistics.quantiles(known, method="inclusive"))
        return cls(_kept(statistics.median(known)), digits, low, high, over)

    def __str__(self) -> str:
        text = self.plain
        if self.low is not None and self.high is not None:
            text += f" ({self.low:,.{self.digits}f}–{self.high:,.{self.digits}f})"
        return text if self.ratio is None else f"{text} ×{self.ratio:.2f}"

    @property
    def plain(self) -> str:
        return f"{self.value:,.{self.digits}f}"


Cell = str | Figure | None
"""None: not measured."""


class Row(msgspec.Struct, frozen=True):
    """Its name may have several words, one for each of the first columns: what was varied."""

    name: tuple[str, ...]
    cells: tuple[Cell, ...]


class Table(msgspec.Struct, frozen=True):
    name: str
    columns: tuple[str, ...]  # All of them, those of the rows' names too.
    rows: tuple[Row, ...]
    how: str  # How often each figure was measured, and what is shown of that.

    def __post_init__(self) -> None:
        if not self.how:
            raise ValueError(f"table {self.name} does not say how often its figures were measured")
        for row in self.rows:
            if len(row.name) + len(row.cells) != len(self.columns):
                raise ValueError(f"table {self.name}, row {row.name}: not as many cells as columns")
        if len({slug(*row.name) for row in self.rows}) < len(self.rows):
            raise ValueError(f"table {self.name}: two rows would have the same anchor")

    def row(self, *name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    def figure(self, name: Sequence[str], column: str) -> Figure | None:
        """None if there is no such row or column, or nothing was measured there."""
        row = self.row(*name)
        if row is None or column not in self.columns:
            return None
        at = self.columns.index(column) - len(row.name)
        found = row.cells[at] if at >= 0 else None
        return found if isinstance(found, Figure) else None


class Section(msgspec.Struct, frozen=True, omit_defaults=True):
    title: str = ""  # The first one may have none.
    text: str = ""
    table: Table | None = None
    after: str = ""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    part: str
    date: str
    machine: str
    versions: dict[str, str]
    sections: tuple[Section, ...]
    about: str = ""  # What was measured: sizes, loads.

    def table(self, name: str) -> Table | None:
        tables = (section.table for section in self.sections)
        return next((table for table in tables if table is not None and table.name == name), None)

    def figure(self, table: str, name: Sequence[str], column: str) -> Figure | None:
        found = self.table(table)
        return None if found is None else found.figure(name, column)


def median_of(runs: int, more: str = "") -> str:
    """How a table says that its figures are medians of so many runs."""
    if runs == 1:
        return f"{ONE_RUN}{' ' + more if more else ''}"
    spread = "the quartiles" if runs >= MANY else "the least and the most"
    return f"Median of {runs} runs, in brackets {spread}.{' ' + more if more else ''}"


def report_of(part: str, sections: Iterable[Section], *, packages: Sequence[str] = (), about: str = "") -> Report:
    """A report of now, on this machine."""
    versions = {"Python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return Report(part, f"{datetime.now(UTC):%Y-%m-%d}", _machine(), versions, tuple(sections), about)


def encode(report: Report) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def decode(data: bytes) -> Report:
    """Raises `msgspec.ValidationError` if it is no report."""
    return msgspec.json.decode(data, type=Report)


def target(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """The arguments without `--to FILE`, and the file: where `python -m benchmarks` wants the report of a part."""
    rest = list(arguments)
    if "--to" not in rest:
        return rest, None
    at = rest.index("--to")
    if at + 1 == len(rest):
        sys.exit("--to needs a file")
    return rest[:at] + rest[at + 2 :], Path(rest[at + 1])


def deliver(report: Report, to: Path | None) -> int:
    """Print the page; write the report where it is wanted. A part that is run by itself leaves no file."""
    from benchmarks.markdown import part_page

    print(part_page(report), end="", flush=True)
    if to is not None:
        to.write_bytes(encode(report))
    return 0


def slug(*words: str) -> str:
    """As an anchor: letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower().replace(",", "")).strip("-")


def _kept(value: float) -> float:
    return float(f"{value:.{_KEPT}g}")


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"load {LOAD:.1f} when it began"
    )
