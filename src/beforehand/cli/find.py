"""`beforehand find`: which events are there?"""

from __future__ import annotations

from pathlib import Path

import click

from beforehand.cli.printing import (
    directory_argument,
    echo_events,
    echo_json,
    execution_option,
    json_option,
    opened,
)

__all__ = ["find"]


@click.command()
@directory_argument
@click.option("--where", metavar="EXPR", help="Which events, such as 'name ~ failed and process = cart'.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="How many at most.")
@execution_option
@json_option
def find(directory: Path, where: str | None, limit: int, execution: str | None, as_json: bool) -> None:
    """Find events and their ids, newest first.

    DIR is a history directory, as analyze writes it. Newest means last in the causal order of the whole
    history, whatever the clocks say.

    \b
    Example:
      beforehand find shop --where 'attributes.level = error'
    """
    from itertools import islice

    from beforehand.predicate import Predicate

    predicate = None if where is None else Predicate.parse(where)
    history = opened(directory)
    if execution is not None:
        history.one_execution(execution)
    # One more than asked for tells whether there are more.
    found = list(islice(history.find(predicate, limit=limit + 1, execution=execution), limit + 1))
    more = len(found) > limit
    found = found[:limit]
    if as_json:
        from beforehand.pipeline.documents import event_record

        echo_json({"events": [event_record(event) for event in found], "more": more})
        return
    if not found:
        click.echo("no event is like that")
        return
    echo_events(found)
    if more:
        click.echo(f"\nthe newest {limit}; --limit shows more", err=True)
