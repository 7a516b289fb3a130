"""`beforehand explain`: what could have led to this event?"""

from __future__ import annotations

from pathlib import Path

import click

from beforehand.cli.completing import events, processes
from beforehand.cli.printing import (
    directory_argument,
    echo_events,
    echo_json,
    json_option,
    opened,
    shown_id,
)

__all__ = ["explain"]


@click.command()
@directory_argument
@click.argument("event", metavar="EVENT", shell_complete=events)
@click.option(
    "--last", type=click.IntRange(0, 1_000_000), default=25, show_default=True, help="How many events to show."
)
@click.option("--where", metavar="EXPR", help="Show only these of its past, such as 'kind = receive'.")
@click.option("--process", metavar="NAME", shell_complete=processes, help="Show only events of this process.")
@click.option(
    "--as",
    "form",
    type=click.Choice(["table", "json", "shiviz"]),
    default="table",
    show_default=True,
    help="A table, a JSON document, or a log for ShiViz.",
)
@json_option
def explain(
    directory: Path, event: str, last: int, where: str | None, process: str | None, form: str, as_json: bool
) -> None:
    """Show the causal past of an event, in order, newest last.

    DIR is a history directory, as analyze writes it. EVENT is an id such as cart:17, or trace/cart:17 where there
    are several executions; find shows them.

    \b
    Example:
      beforehand explain shop orders:17 --last 10
    """
    from beforehand.predicate import Predicate

    predicate = None if where is None else Predicate.parse(where)
    history = opened(directory)
    found = history.explain(event, last=last, where=predicate, process=process)
    if as_json or form == "json":
        from beforehand.pipeline.documents import event_record

        past = [event_record(one) for one in found.events]
        echo_json({"event": str(found.event.id), "past": found.past, "events": past})
    elif form == "shiviz":
        from beforehand.cli.export_shiviz import shiviz_log
        from beforehand.pipeline.stored.clocks import clocked_among

        for line in shiviz_log([("", clocked_among(history, [*found.events, found.event]))]):
            click.echo(line)
    else:
        echo_events([*found.events, found.event], found.event)
        only = " that were asked for" if where is not None or process is not None else ""
        click.echo(
            f"\n{len(found.events)} events{only}, the last of {found.past} "
            f"that happened before {shown_id(found.event.id)}"
        )
