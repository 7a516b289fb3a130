"""`beforehand measure`: how far clocks are apart, how synchronous the system is, what it does not tell us."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from beforehand.cli.printing import directory_argument, echo_json, echo_table, json_option, opened, shown

__all__ = ["measure"]

_KEYS: Final = (
    "clocks",
    "references",
    "synchrony",
    "epsilon",
    "delta_ns",
    "lateness",
    "concurrency",
    "hidden_channels",
)
_SHOWN_MAX: Final = 20


@click.command()
@directory_argument
@json_option
def measure(directory: Path, as_json: bool) -> None:
    """Show what the analysis measured: clock offsets, synchrony, suspected hidden channels.

    DIR is a history directory, as analyze writes it. What could not be measured is not known, and a note says why.

    \b
    Example:
      beforehand measure shop
    """
    report = opened(directory).report
    notes = report.get("notes") or []
    if as_json:
        echo_json({**{key: report.get(key) for key in _KEYS}, "notes": notes})
        return
    clocks = report.get("clocks") or {}
    rows = [
        (shown(process), _duration(bounds.get("offset_min_ns")), _duration(bounds.get("offset_max_ns")))
        for process, bounds in clocks.items()
        if isinstance(bounds, Mapping)
    ]
    if rows:
        references = ", ".join(shown(name) for name in report.get("references") or [])
        click.echo(f"clocks, ahead of {references or 'the process with most messages'}:")
        echo_table(rows[:_SHOWN_MAX], ("process", "at least", "at most"))
        _rest(len(rows))
    synchrony = report.get("synchrony") or {}
    epsilon = report.get("epsilon") or {}
    figures = [
        ("tightness", _duration(synchrony.get("tightness_ns")), "receivers of one message get it this far apart"),
        ("steadiness", _duration(synchrony.get("steadiness_ns")), "delays to one process differ by this much"),
        ("uncertainty", _duration(synchrony.get("uncertainty_ns")), "all delays differ by this much"),
        ("epsilon, at least", _duration(epsilon.get("min_ns")), "two clocks are apart by this much"),
        ("epsilon, at most", _duration(epsilon.get("max_ns")), "no two clocks can be further apart"),
        ("delta", _duration(report.get("delta_ns")), "no message took longer"),
        ("concurrency", _share(report.get("concurrency")), "of all pairs of events are unordered"),
    ]
    click.echo("\nsynchrony, by the clocks as they are:")
    echo_table(figures)
    hidden = report.get("hidden_channels") or []
    if hidden:
        click.echo(
            f"\n{len(hidden)} suspected hidden channels: unordered events on one resource, surely apart in time"
        )
        keys = ("resource", "earlier", "later")
        echo_table(
            [(*(shown(one.get(key)) for key in keys), _duration(one.get("apart_ns"))) for one in hidden[:_SHOWN_MAX]],
            (*keys, "apart"),
        )
        _rest(len(hidden))
    if notes:
        click.echo("\nnotes:")
    for note in notes:
        click.echo(f"   {shown(note, 500)}")


def _rest(count: int) -> None:
    if count > _SHOWN_MAX:
        click.echo(f"and {count - _SHOWN_MAX} more; --json has all")


def _duration(nanoseconds: Any) -> str:
    if not isinstance(nanoseconds, int | float):
        return "not known"
    for unit, size in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if abs(nanoseconds) >= size:
            return f"{nanoseconds / size:,.3f} {unit}"
    return f"{nanoseconds:.0f} ns"


def _share(value: Any) -> str:
    return f"{100 * value:.1f} %" if isinstance(value, int | float) else "not known"
