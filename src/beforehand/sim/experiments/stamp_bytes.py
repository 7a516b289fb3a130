"""How many bytes a stamp adds to a message, against the number of processes, for every clock of this project."""

from __future__ import annotations

from math import log2
from typing import Final

from beforehand.diagram.chart import Panel, chart_svg, figure_text
from beforehand.sim.experiments.findings import (
    Claim,
    Experiment,
    Findings,
    Progress,
    Size,
    Spread,
    Table,
    line_of,
)
from beforehand.sim.experiments.stamped_traffic import CLOCKS, bytes_per_message

__all__ = ["STAMP_BYTES"]

_ROUNDS: Final = 16
_ROUNDS_LARGE: Final = 2  # Where a stamp takes n² numbers, and its size hardly varies.
_LARGE: Final = ("matrix", "ordering")


def _run(size: Size, progress: Progress) -> Findings:
    counts = (2, 4, 8, 16) if size.quick else (2, 4, 8, 16, 32, 64, 128, 256)
    found: dict[tuple[str, int], Spread] = {}
    for name, kind in CLOCKS.items():
        for processes in counts:
            progress(f"{name}, {processes} processes")
            rounds = _ROUNDS_LARGE if name in _LARGE else _ROUNDS
            sizes = [bytes_per_message(kind, processes, seed=seed, rounds=rounds) for seed in range(size.seeds)]
            found[name, processes] = Spread.of(bytes_ for one in sizes for bytes_ in one)
    growth = {name: _growth(found, name, counts) for name in CLOCKS}
    return Findings(
        state=(
            "each process has a name of 8 characters and made 100 to 10,000 events, known everywhere but for the "
            "last few; between two messages of the measured pair the group sends one message per process at random; "
            f"{size.seeds} seeds, {_ROUNDS} messages each ({_ROUNDS_LARGE} of matrix and ordering clocks); bytes as "
            "`encode()` writes them; bounded stamps: clocks within 10 ticks"
        ),
        claims=_claims(found, growth, counts),
        tables=(
            Table(
                title="Bytes of the stamp of one message, n processes",
                head=("clock", *(f"n={processes}" for processes in counts), "grows like"),
                rows=tuple(
                    (name, *(round(found[name, n].mean) for n in counts), f"n^{growth[name]:.2f}") for name in CLOCKS
                ),
            ),
        ),
        plot=chart_svg(
            [
                Panel(
                    title="Bytes of the stamp of one message, n processes",
                    x_label="processes",
                    y_label="bytes",
                    lines=tuple(line_of(name, [(n, found[name, n]) for n in counts]) for name in CLOCKS),
                    logarithmic_x=True,
                    logarithmic_y=True,
                )
            ],
            title="What a stamp costs on the wire",
        ),
    )


def _growth(found: dict[tuple[str, int], Spread], name: str, counts: tuple[int, ...]) -> float:
    """The exponent over the last doubling."""
    return log2(found[name, counts[-1]].mean / found[name, counts[-2]].mean)


def _claims(
    found: dict[tuple[str, int], Spread], growth: dict[str, float], counts: tuple[int, ...]
) -> tuple[Claim, ...]:
    most = counts[-1]
    constant = ("lamport", "hybrid", "offset", "bounded")
    largest = max(found[name, n].high for name in constant for n in counts)
    between, full = found["vector, difference", most].mean, found["vector", most].mean
    named, agreed = found["vector", most].mean, found["vector in a view", most].mean
    quadratic = {name: growth[name] for name in _LARGE}
    return (
        Claim(
            text="Lamport, hybrid, offset and bounded stamps do not grow with the group (000, 002)",
            holds=all(growth[name] < 0.1 for name in constant),
            seen=f"at most {figure_text(largest)} bytes",
        ),
        Claim(
            text="vector stamps grow with n (001, 002)",
            holds=0.7 < growth["vector"] < 1.2,
            seen=f"n^{growth['vector']:.2f}; at {most} processes {figure_text(named)} bytes with names, "
            f"{figure_text(agreed)} where the view is agreed",
        ),
        Claim(
            text="matrix and ordering stamps grow with n² (002 figure 12.2, 001 section 4.3)",
            holds=all(1.6 < value < 2.3 for value in quadratic.values()),
            seen=", ".join(f"{name} n^{value:.2f}" for name, value in quadratic.items()),
        ),
        Claim(
            text="differences save bytes where only part of the group was heard of between two messages",
            holds=between < full,
            seen=f"{figure_text(between)} of {figure_text(full)} bytes at {most} processes",
        ),
    )


STAMP_BYTES: Final = Experiment(
    name="stamp-bytes",
    title="Bytes of a stamp against the number of processes, for every clock",
    paper="000, 001, 002: the sizes of their stamps",
    run=_run,
    seeds=2,
)
