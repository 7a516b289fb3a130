"""`beforehand check`: did the messages arrive in order, and are the reported clocks right?"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Any

import click

from beforehand.cli.printing import directory_argument, echo_json, json_option, opened, shown

__all__ = ["check"]

_NAMES = {
    "fifo": "FIFO order: overtaken receives",
    "causal": "causal order: overtaken receives",
    "total": "total order: groups of messages that no one order fits",
    "clock": "reported clocks: wrong ones",
    "temporal": "temporal order: receives too late for δ",
}


@click.command(epilog="Exit status: 0 all in order, 1 violations found, 2 wrong usage or unusable input.")
@directory_argument
@click.option("--delta", metavar="MS", type=click.FloatRange(0), help="Check temporal order too, for this δ in ms.")
@click.option(
    "--limit", type=click.IntRange(0, 1_000_000), default=20, show_default=True, help="Witnesses to show at most."
)
@json_option
def check(directory: Path, delta: float | None, limit: int, as_json: bool) -> None:
    """Show violations of FIFO, causal and total order and of reported clocks, each with a witness.

    DIR is a history directory, as analyze writes it. With --json all witnesses that the analysis kept are listed.

    \b
    Example:
      beforehand check shop
    """
    history = opened(directory)
    from beforehand.pipeline.stored.checking import found_violations, temporal_violations

    found = history.report.get("violations")
    counts: dict[str, Any] = dict(found) if isinstance(found, dict) else {}
    notes = list(history.report.get("notes") or [])
    kept = found_violations(history.directory)
    witnesses = list(kept if as_json else islice(kept, limit))
    if delta is not None:
        ns = round(delta * 1_000_000)
        counts["temporal"], late, more = temporal_violations(history.scanner, ns, 1_000 if as_json else limit)
        notes += more
        witnesses += [
            {
                "execution": one.events[-1].execution,
                "kind": one.kind,
                "events": [str(event) for event in one.events],
                "messages": list(one.messages),
                "why": one.why,
                "reasons": list(one.reasons),
            }
            for one in late
        ]
    wrong = any(counts.values())
    if as_json:
        echo_json({"counts": counts, "violations": witnesses, "notes": notes})
        sys.exit(1 if wrong else 0)
    for kind, count in counts.items():
        mark = "?" if count is None else "✗" if count else "✓"
        number = "not checked" if count is None else f"{count:,}"
        click.echo(f"{mark} {_NAMES.get(kind, shown(kind))}: {number}")
    for witness in witnesses:
        click.echo(f"\n{shown(witness['kind'])}: {shown(witness['why'], 1_000)}")
        for reason in witness["reasons"]:  # type: ignore[attr-defined]
            click.echo(f"   {shown(reason, 500)}")
    left = sum(count or 0 for count in counts.values()) - len(witnesses)
    if left > 0 and wrong:
        click.echo(f"\n{left:,} more; --limit shows more witnesses, --json all that were kept")
    for note in notes:
        click.echo(f"note: {shown(note, 500)}")
    sys.exit(1 if wrong else 0)
