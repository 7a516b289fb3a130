"""`beforehand check`: did the messages arrive in order, and are the reported clocks right?"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from beforehand.cli.numbers import FiniteRange
from beforehand.cli.printing import directory_argument, echo_json, json_option, opened, shown

if TYPE_CHECKING:
    from beforehand.history import Judged

__all__ = ["check"]

_NAMES = {
    "fifo": ("FIFO order", "overtaken receives"),
    "causal": ("causal order", "overtaken receives"),
    "total": ("total order", "groups of messages that no one order fits"),
    "clock": ("reported clocks", "wrong ones"),
    "temporal": ("temporal order", "receives too late for δ"),
}


@click.command(
    epilog=(
        "Exit status: 0 all in order, 1 violations found, 2 wrong usage or unusable input, or what --order or "
        "--delta names could not be judged."
    )
)
@directory_argument
@click.option(
    "--order",
    "orders",
    type=click.Choice(["fifo", "causal", "total", "clock"]),
    multiple=True,
    help="Judge by this only, as nothing else was promised (clock: the reported clocks); may be repeated.",
)
@click.option("--delta", metavar="MS", type=FiniteRange(0), help="Check temporal order too, for this δ in ms.")
@click.option(
    "--limit", type=click.IntRange(0, 1_000_000), default=20, show_default=True, help="Witnesses to show at most."
)
@json_option
def check(directory: Path, orders: tuple[str, ...], delta: float | None, limit: int, as_json: bool) -> None:
    """Show violations of FIFO, causal and total order and of reported clocks, each with a witness.

    DIR is a history directory, as analyze writes it. With --json all witnesses that the analysis kept are listed.

    \b
    Examples:
      beforehand check shop
      beforehand check shop --order fifo --order causal
    """
    history = opened(directory)
    from beforehand.history.judging import judged_notes, known_counts
    from beforehand.pipeline.stored.checking import found_violations, judged_of, temporal_judged, temporal_violations

    found = history.report.get("violations")
    counts: dict[str, Any] = dict(found) if isinstance(found, dict) else {}
    judged = judged_of(history.report)
    notes = list(history.report.get("notes") or [])
    said = {*judged_notes(judged)}
    kept = found_violations(history.directory)
    if orders:
        counts = {kind: count for kind, count in counts.items() if kind in orders}
        judged = {kind: one for kind, one in judged.items() if kind in orders}
        notes = [*(note for note in notes if note not in said), *judged_notes(judged)]
        kept = (one for one in kept if one["kind"] in orders)
    witnesses = list(kept if as_json else islice(kept, limit))
    if delta is not None:
        ns = round(delta * 1_000_000)
        counts["temporal"], late, more = temporal_violations(history.scanner, ns, 1_000 if as_json else limit)
        judged["temporal"] = temporal_judged(history.scanner)
        counts |= known_counts({"temporal": counts["temporal"]}, judged)
        notes += more + judged_notes({"temporal": judged["temporal"]})
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
    asked = {*orders, *(() if delta is None else ("temporal",))}
    unanswered = [kind for kind in _NAMES if kind in asked and counts.get(kind) is None]
    if as_json:
        told = {kind: one.document() for kind, one in judged.items()}
        echo_json({"counts": counts, "judged": told, "violations": witnesses, "notes": notes})
        _exit(wrong, unanswered)
    for kind, count in counts.items():
        click.echo(_line(kind, count, judged.get(kind)))
    for witness in witnesses:
        click.echo(f"\n{shown(witness['kind'])}: {shown(witness['why'], 1_000)}")
        for reason in witness["reasons"]:  # type: ignore[attr-defined]
            click.echo(f"   {shown(reason, 500)}")
    left = sum(count or 0 for count in counts.values()) - len(witnesses)
    if left > 0 and wrong:
        click.echo(f"\n{left:,} more; --limit shows more witnesses, --json all that were kept")
    said |= {*judged_notes(judged)}
    for note in (note for note in notes if note not in said):
        click.echo(f"note: {shown(note, 500)}")
    _exit(wrong, unanswered)


def _exit(wrong: bool, unanswered: list[str]) -> NoReturn:
    """Who names an order wants to hear of it: no violation found is not an answer if nothing could be judged."""
    if unanswered and not wrong:
        names = ", ".join(_NAMES[kind][0] for kind in unanswered)
        click.echo(f"beforehand: asked for, but not judged: {names}", err=True)
    sys.exit(1 if wrong else 2 if unanswered else 0)


def _line(kind: str, count: int | None, judged: Judged | None) -> str:
    name, what = _NAMES.get(kind, (shown(kind), "found"))
    if count is None:
        why = f": {shown(judged.why, 200)}" if judged is not None and judged.why else ""
        return f"? {name}: not judged{why}"
    partly = ""
    if judged is not None and judged.judged < judged.of:
        of = "events" if kind == "clock" else "receives"
        partly = f", judged by {judged.judged:,} of {judged.of:,} {of}: {shown(judged.why, 200)}"
    return f"{'✗' if count else '✓'} {name}: {what}: {count:,}{partly}"
