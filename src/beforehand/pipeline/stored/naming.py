"""Which event a text means. Names may hold slashes and colons, so every reading is tried; one must be an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import INDEX_MAX, EventId

if TYPE_CHECKING:
    from beforehand.pipeline.stored.history import StoredHistory

__all__ = ["resolve"]

READINGS_MAX: Final = 50


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
