"""One drawing as numbers, for the page: which places there are, what is between them, and where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from beforehand.diagram.model import ArrowKind, Layout, Place, Role
from beforehand.diagram.page.axes import Axes
from beforehand.diagram.text import visible
from beforehand.events import EventId

__all__ = ["View", "numbers_of"]

_NAMES_MAX: Final = 12  # Of the events of a run.
_SHARED_MAX: Final = 100  # Messages with the same two ends.
_STUBS: Final = (ArrowKind.UNRECEIVED, ArrowKind.UNSENT, ArrowKind.ONWARD, ArrowKind.INCOMING)


@dataclass(frozen=True, slots=True)
class View:
    """A layout with what the page calls it."""

    name: str
    layout: Layout


def numbers_of(
    view: View, events: Mapping[EventId, int], owners: Mapping[str, int], axes: Axes, causes: Sequence[Sequence[int]]
) -> dict[str, object]:
    """What the page needs to know of this drawing.

    Events are named by their number in the page's list, processes by that in `owners`, places by their position.
    """
    layout = view.layout
    messages, stubs = _arrows(layout)
    return {
        "name": view.name,
        "lanes": [owners[lane.process] for lane in layout.lanes],
        "places": [
            {
                **({"event": events[place.id]} if place.count == 1 else {"run": _run(place)}),
                "lane": place.lane,
                **({} if place.role is Role.PLAIN else {"role": str(place.role)}),
                **({"violation": True} if place.violation else {}),
                "causes": list(before),
                "steps": place.column,
                **{axis: places[place.id] for axis, places in axes.places.items()},
            }
            for place, before in zip(layout.places, causes, strict=True)
        ],
        "messages": messages,
        "stubs": stubs,
        "warnings": list(layout.warnings),
    }


def _arrows(layout: Layout) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Messages with both ends, and those of which one end is not drawn."""
    place_of = {place.id: number for number, place in enumerate(layout.places)}
    messages: list[dict[str, object]] = []
    stubs: list[dict[str, object]] = []
    for arrow in layout.arrows:
        send = None if arrow.send is None else place_of.get(arrow.send)
        receive = None if arrow.receive is None else place_of.get(arrow.receive)
        names = [visible(message, 200) for message in arrow.messages[:_SHARED_MAX]]
        if arrow.kind in _STUBS:
            at = send if send is not None else receive
            stubs += [{"message": name, "at": at, "kind": str(arrow.kind)} for name in names]
        else:
            wrong = {"violation": True} if arrow.violation else {}
            messages += [{"message": name, "from": send, "to": receive, **wrong} for name in names]
    return messages, stubs


def _run(place: Place) -> dict[str, object]:
    first, last = place.events[0], place.events[-1]
    return {
        "first": str(first.index),
        "last": str(last.index),
        "count": place.count,
        "names": [visible(event.name, 120) for event in place.events[:_NAMES_MAX] if event.name],
    }
