"""`beforehand tune`: which ε and δ a merger needs, and what each δ would have cost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import click

from beforehand.cli.numbers import FiniteRange
from beforehand.cli.outputs import refuse_clashes
from beforehand.cli.printing import (
    WIDTH,
    directory_argument,
    echo_json,
    echo_table,
    execution_option,
    json_option,
    opened,
    shown,
    writing,
)
from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.pipeline.stored.tuning import Tuning

__all__ = ["tune"]

_MS: Final = 1_000_000
_TICK_MS_MAX: Final = 1e9
_MS_MAX: Final = 1e11
_DELTAS_MAX: Final = 100


@click.command()
@directory_argument
@click.option(
    "--late",
    metavar="SHARE",
    type=FiniteRange(0, 1),
    default=0.001,
    show_default=True,
    help="The share of messages that may be late.",
)
@click.option(
    "--tick",
    metavar="MS",
    type=FiniteRange(1 / _MS, _TICK_MS_MAX),
    default=1.0,
    show_default=True,
    help="What the merger's clock counts; ε and δ are rounded up to it.",
)
@click.option(
    "--epsilon",
    metavar="MS",
    type=FiniteRange(0, _MS_MAX),
    help="ε in ms, instead of what the log says.",
)
@click.option(
    "--delta",
    "deltas",
    metavar="MS",
    type=FiniteRange(0, _MS_MAX),
    multiple=True,
    help="Show this δ too; may be repeated.",
)
@click.option("--to", "target", type=click.Path(path_type=Path), help="Draw the table as a plot, .svg.")
@execution_option
@json_option
def tune(
    directory: Path,
    late: float,
    tick: float,
    epsilon: float | None,
    deltas: tuple[float, ...],
    target: Path | None,
    execution: str | None,
    as_json: bool,
) -> None:
    """Recommend ε and δ for the merger, and show what each δ would have cost.

    DIR is a history directory, as analyze writes it. For each δ: how many messages would have been late, how long the
    others would have waited at the merger, and how many would have waited there at once.

    \b
    Examples:
      beforehand tune shop
      beforehand tune shop --late 0 --delta 250 --to shop.svg
    """
    if len(deltas) > _DELTAS_MAX:
        raise click.UsageError(f"--delta may be given {_DELTAS_MAX} times at most")
    if target is not None and target.suffix.lower() != ".svg":
        raise InputError(f"{target} must end in .svg")
    refuse_clashes({"--to": target}, history=directory)
    history = opened(directory)
    from beforehand.pipeline.stored.tuning import tune as tuned

    found = tuned(
        history,
        late=late,
        tick_ns=max(1, round(tick * _MS)),
        epsilon_ns=None if epsilon is None else round(epsilon * _MS),
        deltas_ns=[round(delta * _MS) for delta in deltas],
        execution=execution,
    )
    drawn = None
    if target is not None and found.table:
        drawn = target
        _draw(found, target)
    elif target is not None:
        raise InputError(f"{directory} has no message with times at both ends: there is nothing to draw")
    if as_json:
        echo_json(_document(found) | ({"to": str(drawn)} if drawn else {}))
        return
    _print(found)
    if drawn:
        writing(drawn)


def _draw(found: Tuning, target: Path) -> None:
    from beforehand.cli.tune_chart import tuning_chart
    from beforehand.formats import replacing

    with replacing(target) as stream:
        stream.write(tuning_chart(found).encode())


def _document(found: Tuning) -> dict[str, Any]:
    return {
        "messages": found.messages,
        "refused_messages": found.refused_messages,
        "epsilon": asdict(found.epsilon),
        "table": [asdict(one) for one in found.table],
        "recommended": {
            "epsilon_ns": found.recommended_epsilon_ns,
            "delta_ns": found.recommended_delta_ns,
            "tick_ns": found.tick_ns,
        },
        "late": found.late,
        "notes": list(found.notes),
    }


def _print(found: Tuning) -> None:
    from beforehand.pipeline.report.text import duration_text, share_text

    def told(nanoseconds: int | None) -> str:
        return "not known" if nanoseconds is None else duration_text(nanoseconds)

    def counted(number: int | None) -> str:
        return "not known" if number is None else f"{number:,}"

    def waited(one: int | None, in_time: int) -> str:
        return told(one) if in_time or found.recommended_epsilon_ns is None else "–"

    click.echo(f"{found.messages:,} messages with times at both ends")
    bounds = found.epsilon
    echo_table(
        [
            ("epsilon, at least", told(bounds.needed_ns), "two clocks are apart by this much"),
            ("epsilon, at most", told(bounds.sufficient_ns), "no two clocks can be further apart"),
        ]
    )
    if found.table:
        click.echo()
        head = (
            "",
            "δ",
            "late",
            "late messages",
            "mean wait",
            "longest",
            "δ + 3ε",
            "waiting at once",
            "at one process",
        )
        rows = []
        for one in found.table:
            in_time = found.messages - one.late_messages - (found.refused_messages or 0)
            rows.append(
                (
                    "=>" if one.delta_ns == found.recommended_delta_ns else "",
                    f"{_milliseconds(one.delta_ns)} ms",
                    share_text(one.late),
                    counted(one.late_messages),
                    waited(one.latency_mean_ns, in_time),
                    waited(one.latency_max_ns, in_time),
                    told(one.latency_bound_ns),
                    counted(one.buffered_max),
                    counted(one.buffered_process_max),
                )
            )
        echo_table(rows, head)
    click.echo()
    for note in found.notes:
        click.echo(fill(f"note: {shown(note, 1_000)}", WIDTH, subsequent_indent="      "))
    delta, epsilon = found.recommended_delta_ns, found.recommended_epsilon_ns
    if delta is not None:
        share = f"at most {share_text(found.late)} late"
        if epsilon is None:
            click.echo(f"recommended, for {share}: --delta {_milliseconds(delta)}; epsilon is not known")
        else:
            pair = f"--epsilon {_milliseconds(epsilon)} --delta {_milliseconds(delta)}"
            click.echo(f"recommended, for {share}: beforehand merge {pair}")


def _milliseconds(nanoseconds: int) -> str:
    """Exactly, without zeros at the end."""
    whole, rest = divmod(nanoseconds, _MS)
    return f"{whole}.{rest:06d}".rstrip("0") if rest else str(whole)
