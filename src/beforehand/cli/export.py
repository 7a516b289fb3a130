"""`beforehand export`: the events for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from beforehand.cli.completing import events
from beforehand.cli.outputs import refuse_clashes
from beforehand.cli.printing import echo_json, execution_option, json_option, opened, writing
from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.events import Event
    from beforehand.pipeline.stored import StoredHistory

__all__ = ["export"]

EXECUTIONS_MAX: Final = 1_000
"""Executions that one log for ShiViz may hold."""


@click.command()
@click.argument("directory", metavar="DIR|STORE", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "form",
    type=click.Choice(["native", "shiviz", "perfetto", "dot"]),
    required=True,
    help="native: JSON Lines; shiviz: a log for ShiViz; perfetto: a trace for ui.perfetto.dev; dot: for Graphviz.",
)
@click.option("--around", metavar="EVENT", shell_complete=events, help="Only the events around this one.")
@click.option(
    "--count", type=click.IntRange(1, 100_000), default=40, show_default=True, help="Events of its past to take."
)
@click.option("--to", "target", type=click.Path(path_type=Path), required=True, help="The file (.gz, .zst).")
@execution_option
@json_option
def export(
    directory: Path, form: str, around: str | None, count: int, target: Path, execution: str | None, as_json: bool
) -> None:
    """Write events for other programs, in causal order: of a history directory, or of the store of a service.

    DIR is a history directory, STORE the file of a service. A store can be read while a service writes to it; it
    is exported as it is at the beginning.

    \b
    Examples:
      beforehand export shop --as perfetto --to shop.json
      beforehand export shop --as shiviz --around orders:17 --to failure.log
      beforehand export beforehand.db --as native --to events.jsonl
    """
    if around is not None and execution is not None:
        raise click.UsageError("--execution goes without --around: an event's id says where it belongs")
    refuse_clashes({"--to": target}, inputs={"what is exported": directory}, history=directory)
    from beforehand.formats import replacing

    counted = _Counted()
    if directory.is_file():
        _export_store(directory, form, around, target, execution, counted)
        _say(form, counted.count, target, as_json)
        return
    history = opened(directory)
    if execution is not None:
        history.one_execution(execution)
    chosen = None if around is None else history.around(around, count).events
    if form == "shiviz":
        pieces = _shiviz(history, chosen, execution, counted)
    else:
        events = counted.of(history.order(execution=execution) if chosen is None else chosen)
        pieces = _pieces(form, events)
    with replacing(target) as stream:
        for piece in pieces:
            stream.write(piece)
    _say(form, counted.count, target, as_json)


def _say(form: str, count: int, target: Path, as_json: bool) -> None:
    if as_json:
        echo_json({"as": form, "events": count, "to": str(target)})
    else:
        writing(target)


def _export_store(
    store: Path, form: str, around: str | None, target: Path, execution: str | None, counted: _Counted
) -> None:
    if form == "shiviz" or around is not None:
        raise click.UsageError(
            "--as shiviz and --around need a history directory: export the store as native, analyze that, and export "
            "from there"
        )
    from beforehand.formats import replacing
    from beforehand.service.export import exported, opened_to_read

    with opened_to_read(store) as db:
        pieces = _pieces(form, counted.of(exported(db, execution)))
        with replacing(target) as stream:
            for piece in pieces:
                stream.write(piece)


def _pieces(form: str, events: Iterator[Event]) -> Iterator[bytes]:
    if form == "native":
        from beforehand.formats import to_json

        return (to_json(event) + b"\n" for event in events)
    if form == "perfetto":
        from beforehand.cli.export_perfetto import perfetto_trace

        return perfetto_trace(events)
    from beforehand.cli.export_dot import dot_graph

    return dot_graph(events)


def _shiviz(
    history: StoredHistory, chosen: Iterable[Event] | None, execution: str | None, counted: _Counted
) -> Iterator[bytes]:
    from beforehand.cli.export_shiviz import shiviz_log
    from beforehand.pipeline.stored.clocks import clocked, clocked_among

    if chosen is not None:
        logs = [("", counted.pairs(clocked_among(history, list(chosen))))]
    else:
        if execution is None and history.executions > EXECUTIONS_MAX:
            raise InputError(f"{history.executions} executions are too many for ShiViz: choose one with --execution")
        names = [execution] if execution is not None else history.names()
        logs = [(name, counted.pairs(clocked(history, name))) for name in names]
    return ((line + "\n").encode() for line in shiviz_log(logs))


class _Counted:
    """Counts what passes."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            self.count += 1
            yield event

    def pairs(self, pairs: Iterable[tuple[Event, dict[str, int]]]) -> Iterator[tuple[Event, dict[str, int]]]:
        for pair in pairs:
            self.count += 1
            yield pair
