"""`beforehand cut`: a state in which the system could have been."""

from __future__ import annotations

from pathlib import Path

import click

from beforehand.cli.completing import events
from beforehand.cli.printing import (
    directory_argument,
    echo_json,
    echo_table,
    execution_option,
    json_option,
    opened,
    read_time,
    shown,
    shown_id,
)

__all__ = ["cut"]


@click.command()
@directory_argument
@click.option("--at", metavar="TIME", help="The largest with nothing later: RFC 3339, or nanoseconds since 1970.")
@click.option(
    "--after", metavar="EVENT", multiple=True, shell_complete=events, help="The smallest that contains these events."
)
@click.argument("more", metavar="[EVENT]...", nargs=-1, shell_complete=events)
@execution_option
@json_option
def cut(
    directory: Path,
    at: str | None,
    after: tuple[str, ...],
    more: tuple[str, ...],
    execution: str | None,
    as_json: bool,
) -> None:
    """Show a consistent cut, its front, and the messages in flight across it.

    DIR is a history directory, as analyze writes it. An EVENT is an id such as cart:17; more may follow --after. With
    --at each process goes by its own clock.

    \b
    Examples:
      beforehand cut shop --after orders:17
      beforehand cut shop --at 2026-09-21T14:13:20.5Z
    """
    if (at is None) == (not after):
        raise click.UsageError("give either --at TIME or --after EVENT")
    if more and not after:
        raise click.UsageError(f"{shown(more[0])!r}: events follow --after")
    if execution is not None and after:
        raise click.UsageError("--execution goes with --at: an event's id says where it belongs")
    history = opened(directory)
    found = history.cut_after(*after, *more) if at is None else history.cut_at(read_time(at), execution=execution)
    if as_json:
        document = {
            "cut": dict(found.cut),
            "front": [str(event) for event in found.front],
            "in_flight": list(found.in_flight),
            "unreceived": list(found.unreceived),
            "consistent": found.consistent,
        }
        echo_json(document)
        return
    inside = [(shown_id(process), str(index)) for process, index in found.cut.items() if index]
    echo_table(inside, ("process", "last event inside"), whole=0)
    if outside := len(found.cut) - len(inside):
        click.echo(f"{outside:,} processes have no event inside")
    click.echo(f"\nthe cut is {'consistent' if found.consistent else 'not consistent'}")
    for what, messages in (("in flight", found.in_flight), ("never received", found.unreceived)):
        named = ", ".join(shown_id(message, 40) for message in messages[:10])
        rest = f" and {len(messages) - 10} more" if len(messages) > 10 else ""
        click.echo(f"{len(messages)} messages are {what}{': ' if messages else ''}{named}{rest}")
