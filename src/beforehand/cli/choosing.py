"""Which events a picture or an excerpt shows: those around one, or a whole execution."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from beforehand.diagram import Marks
from beforehand.errors import InputError
from beforehand.events import Event

if TYPE_CHECKING:
    from beforehand.pipeline.stored import StoredHistory

__all__ = ["DRAWN_MAX", "Choice", "to_draw"]

DRAWN_MAX = 20_000
"""Events of an execution that is laid out whole; of these a drawing shows its own maximum."""


@dataclass(frozen=True, slots=True)
class Choice:
    events: list[Event]
    marks: Marks
    title: str


def to_draw(history: StoredHistory, directory: Path, around: str | None, count: int, execution: str | None) -> Choice:
    """Around an event if one is named; else the one execution, which must not be too large for a picture."""
    if around is not None:
        found = history.around(around, count)
        assert found.marks.selected is not None
        events = [*found.events, *found.beyond]
        return Choice(events, found.marks, f"around {found.marks.selected}")
    name = history.one_execution(execution)
    events = []
    for event in history.order(execution=name):
        events.append(event)
        if len(events) > DRAWN_MAX:
            raise InputError(
                f"execution {name!r} has more than {DRAWN_MAX} events: name the one to look at, with --around EVENT"
            )
    return Choice(events, Marks(), name or directory.name)
