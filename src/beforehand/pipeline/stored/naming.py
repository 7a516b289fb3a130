"""Which event a text means. Names may hold slashes and colons, so every reading is tried; one must be an event.

Texts of ours, in a report or a table of findings, stand beside their execution or process: these have one reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import INDEX_MAX, EventId
from beforehand.formats.failing import FAILURE_KEYS, FAILURE_VALUES
from beforehand.pipeline.schemas import ATTRIBUTES, EXECUTION

if TYPE_CHECKING:
    from beforehand.pipeline.stored.history import StoredHistory
    from beforehand.pipeline.stored.scanning import Scanner

__all__ = ["failure_id", "id_within", "resolve", "some_executions"]

READINGS_MAX: Final = 50
NAMED_MAX: Final = 3


def resolve(history: StoredHistory, text: str) -> EventId:
    """The one event that `process:index` or `execution/process:index` names."""
    process, _, digits = text.rpartition(":")
    if not process or not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        raise UnknownEventError(text, ": an event is named process:index, like cart:17")
    index = int(digits)
    if not 1 <= index <= INDEX_MAX:
        raise UnknownEventError(text, ": indexes count from 1")
    readings = [EventId("", process, index)]
    if history.executions == 1 and history.only_execution:
        readings.append(EventId(history.only_execution, process, index))
    slashes = [at for at, character in enumerate(process) if character == "/"][:READINGS_MAX]
    readings += [EventId(process[:at], process[at + 1 :], index) for at in slashes if process[at + 1 :]]
    found = [reading for reading in dict.fromkeys(readings) if history.has(reading)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"{text!r} may be {found[0].process!r} of execution {found[0].execution!r} or {found[1].process!r} of "
            f"execution {found[1].execution!r}: it names two events; ask for them by a program, with EventId"
        )
    raise UnknownEventError(text, _hint(history, readings))


def id_within(execution: str, text: str) -> EventId:
    """The id that was written as this text, of an event of this execution: so there is one reading of it."""
    process, _, index = text.removeprefix(f"{execution}/" if execution else "").rpartition(":")
    return EventId(execution, process, int(index))


def failure_id(failure: Mapping[str, Any]) -> EventId:
    """The id of a failure of a report, by its text, its process and its index: likewise."""
    process, index = str(failure["process"]), int(failure["index"])
    execution = str(failure["event"]).removesuffix(f"{process}:{index}").removesuffix("/")
    return EventId(execution, process, index)


def some_executions(scanner: Scanner) -> str:
    """The first few, for an error that asks for one: those with most failures first, as these are asked for."""
    keys = ", ".join(f"lower(\"{ATTRIBUTES}\"['{key}'])" for key in FAILURE_KEYS)
    values = ", ".join(f"'{value}'" for value in sorted(FAILURE_VALUES))
    failed = f"list_has_any([{keys}], [{values}]) AND \"{ATTRIBUTES}\"['phase'] IS DISTINCT FROM 'start'"
    sql = f"""
        SELECT "{EXECUTION}", count(*), count(*) FILTER (WHERE {failed}) FROM {scanner.events()}
        GROUP BY 1 ORDER BY 3 DESC, 2 DESC, 1 LIMIT {NAMED_MAX + 1:d}"""  # noqa: S608
    found = [
        f"{name!r} ({events:,} events{f', {failures:,} failures' if failures else ''})"
        for name, events, failures in scanner.rows(sql)
    ]
    return f"; there are {', '.join(found[:NAMED_MAX])}{', …' if len(found) > NAMED_MAX else ''}" if found else ""


def _hint(history: StoredHistory, readings: list[EventId]) -> str:
    for reading in readings:
        if history.is_cut(reading.execution):
            of = history.cut_execution(reading.execution)
            if reading.process in of.members:
                last = int(of.cuts[-1, of.members[reading.process]])
                return f": {reading.process!r} has indexes up to {last}"
            continue
        small = history.small_execution(reading.execution)
        if small is not None and reading.process in small.processes:
            last = max(event.index for event in small.columns.events if event.process == reading.process)
            return f": {reading.process!r} has indexes up to {last}"
    if history.executions > 1:
        return (
            f": there are {history.executions} executions, so an event is named execution/process:index; "
            "beforehand find shows the names"
        )
    return ": beforehand find shows the names of events"
