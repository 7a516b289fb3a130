"""Which events a picture shows: those around one, or a whole execution. The same for commands and for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from beforehand.diagram import Marks
from beforehand.errors import InputError
from beforehand.events import Event, EventId

if TYPE_CHECKING:
    from beforehand.pipeline.stored.history import StoredHistory

__all__ = ["DRAWN_MAX", "Choice", "to_draw"]

DRAWN_MAX: Final = 20_000
"""Events of an execution that is laid out whole; of these a drawing shows its own maximum."""


@dataclass(frozen=True, slots=True)
class Choice:
    events: list[Event]
    marks: Marks
    title: str


def to_draw(
    history: StoredHistory, around: EventId | str | Event | None, *, count: int, execution: str | None
) -> Choice:
    """Around an event if one is named; else the one execution, which must not be too large for a picture."""
    if around is not None:
        found = history.around(around, count)
        return Choice([*found.events, *found.beyond], found.marks, f"around {found.marks.selected}")
    name = history.one_execution(execution)
    events = list(islice(history.order(execution=name), DRAWN_MAX + 1))
    if len(events) > DRAWN_MAX:
        raise InputError(f"execution {name!r} has more than {DRAWN_MAX} events: choose one to look around")
    return Choice(events, history.marked(Marks(), name, events), name or history.directory.path.name)
