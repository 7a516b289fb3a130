"""What an experiment is and what it leaves behind: claims with what was seen of them, tables, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, TypeAlias

from beforehand.diagram.chart import ChartLine, ChartPoint, figure_text

__all__ = [
    "Cell",
    "Claim",
    "Experiment",
    "Findings",
    "Progress",
    "Size",
    "Spread",
    "Table",
    "line_of",
    "quantile",
    "share_line",
]

SEEDS: Final = 5

Progress: TypeAlias = "Callable[[str], None]"
"""Is told what is being measured."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of one figure over runs that differ in their seed alone, with the smallest and the largest."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Of at least one value."""
        known = sorted(values)
        return cls(sum(known) / len(known), known[0], known[-1])

    def __str__(self) -> str:
        if self.low == self.high:
            return figure_text(round(self.mean, 3))
        places = next(places for limit, places in ((0.1, 3), (10, 2), (100, 1), (inf, 0)) if abs(self.mean) < limit)
        return f"{self.mean:,.{places}f} ({self.low:,.{places}f}–{self.high:,.{places}f})"


Cell: TypeAlias = "str | int | float | Spread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of one kind. The first columns say what was varied."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def texts(self) -> list[list[str]]:
        """The rows as people read them."""
        return [[cell if isinstance(cell, str) else _text(cell) for cell in row] for row in self.rows]

    def records(self) -> list[dict[str, Any]]:
        """The rows as programs read them: by column, a spread as its three figures."""
        return [dict(zip(self.head, map(_plain, row), strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a paper says, or what follows from it; whether it was so here; and the figure that shows it."""

    text: str
    holds: bool
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that one experiment found."""

    state: str  # What was run: sizes, loads, network.
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...]
    plot: str  # A chart as SVG.
    examples: Mapping[str, str] = field(default_factory=dict)  # Runs drawn as SVG, by a word for each.


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is run. `quick` is for a look and for tests: fewer points, shorter runs."""

    seeds: int = SEEDS
    quick: bool = False

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError("an experiment needs at least one seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One question to the simulator."""

    name: str
    title: str
    paper: str
    run: Callable[[Size, Progress], Findings]
    seeds: int = SEEDS  # Unless told otherwise.


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of values in order, the one that `share` of them do not exceed; at least one value."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def line_of(name: str, points: Iterable[tuple[float, Spread]]) -> ChartLine:
    """A line of a chart, with the spreads as whiskers."""
    return ChartLine(name=name, points=tuple(ChartPoint(x=x, y=y.mean, low=y.low, high=y.high) for x, y in points))


def share_line(name: str, runs: Iterable[tuple[float, Sequence[object]]]) -> ChartLine:
    """A line of a chart: at each x the per cent of runs of which it is true."""
    shares = ((x, 100 * sum(map(bool, found)) / len(found)) for x, found in runs)
    return line_of(name, [(x, Spread(share, share, share)) for x, share in shares])


def _text(cell: int | float | Spread) -> str:
    return str(cell) if isinstance(cell, Spread) else figure_text(cell)


def _plain(cell: Cell) -> Any:
    return {"mean": cell.mean, "min": cell.low, "max": cell.high} if isinstance(cell, Spread) else cell
