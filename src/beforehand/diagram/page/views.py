"""One drawing inside the page: the SVG with handles for the script, and the numbers that belong to it.

The drawing is that of `to_svg`. The handles are put in afterwards, at exact places: an event's link becomes something
that can be focused and pressed, its sign gets a group of its own, an arrow gets its number. Text of events cannot be
mistaken for these places, because its `<` is escaped.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from beforehand.diagram.model import ArrowKind, Layout, Place
from beforehand.diagram.page.markup import Markup, text
from beforehand.diagram.signs import arrow_path, place_sign
from beforehand.diagram.svg import to_svg
from beforehand.diagram.text import visible
from beforehand.events import EventId

__all__ = ["View", "drawing_of", "numbers_of"]

_ARROW: Final = re.compile(r'<path class="arrow[^>]*/>')
_REACH: Final = 15  # Pixels around an event that answer to a finger: neighbours are at least 24 apart.
_NAMES_MAX: Final = 12  # Of the events of a run.


@dataclass(frozen=True, slots=True)
class View:
    """A layout with what the page calls it."""

    name: str
    layout: Layout


def drawing_of(view: View) -> str:
    """The SVG with handles: `data-place` on events, `data-arrow` on messages."""
    places = view.layout.places
    number_of = {place.id: number for number, place in enumerate(places)}
    svg = to_svg(view.layout, link=lambda event: f"#{number_of[event]}")
    parts: list[str] = []
    done = 0
    for number, place in enumerate(places):
        link = f'<a xlink:href="#{number}">'
        start = svg.index(link, done)
        sign_at = svg.index("</title>", start) + len("</title>")
        sign = place_sign(place.role, violation=place.violation, count=place.count)
        assert svg.startswith(sign, sign_at), "a sign follows the title of its event"
        handle = f'<a data-place="{number}" role="button" tabindex="-1" aria-label="{_spoken(place)}">'
        signed = f'<circle class="hit" r="{_REACH}"/><g class="sign">{sign}</g>'
        parts += [svg[done:start], handle, svg[start + len(link) : sign_at], signed]
        done = sign_at + len(sign)
    parts.append(svg[done:])
    return _number_arrows("".join(parts), view.layout)


def numbers_of(
    view: View, events: Mapping[EventId, int], owners: Mapping[str, int], causes: Sequence[Sequence[int]]
) -> dict[str, object]:
    """What the script needs to know of this drawing.

    Events are named by their number in the page's list, processes by that in `owners`.
    """
    layout = view.layout
    place_of = {place.id: number for number, place in enumerate(layout.places)}
    return {
        "name": view.name,
        "left": round(layout.left, 1),
        "right": round(layout.right, 1),
        "lanes": [
            {"label": lane.label, "name": visible(lane.process), "y": round(lane.y, 1)} for lane in layout.lanes
        ],
        "places": [
            {
                "event": events[place.id] if place.count == 1 else None,
                "run": None if place.count == 1 else _run(place, owners),
                "lane": place.lane,
                "x": round(place.x, 1),
                "role": str(place.role),
                "violation": place.violation,
                "causes": list(before),
            }
            for place, before in zip(layout.places, causes, strict=True)
        ],
        "arrows": [
            {
                "send": None if arrow.send is None else place_of.get(arrow.send),
                "receive": None if arrow.receive is None else place_of.get(arrow.receive),
                "role": str(arrow.role),
                "fixed": arrow.violation or arrow.kind is ArrowKind.BACKWARDS,  # Keeps its colour.
            }
            for arrow in layout.arrows
        ],
        "hidden": layout.hidden,
        "warnings": list(layout.warnings),
    }


def _number_arrows(svg: str, layout: Layout) -> str:
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for number, arrow in enumerate(layout.arrows):
        waiting[arrow_path(arrow)].append(number)

    def numbered(match: re.Match[str]) -> str:
        path = match[0]
        # The samples in the legend are no messages.
        return path.replace("<path ", f'<path data-arrow="{waiting[path].popleft()}" ', 1) if waiting[path] else path

    done = _ARROW.sub(numbered, svg)
    assert not any(waiting.values()), "every arrow is in the drawing"
    return done


def _spoken(place: Place) -> Markup:
    first = place.events[0]
    if place.count > 1:
        return text(f"{place.count} local events from {visible(str(first.id), 120)}")
    name = f"{visible(first.name, 120)}, " if first.name else ""
    return text(f"{name}{visible(str(first.id), 120)}, {first.kind}")


def _run(place: Place, owners: Mapping[str, int]) -> dict[str, object]:
    first, last = place.events[0], place.events[-1]
    return {
        "process": visible(first.process),
        "owner": owners[first.process],
        "first": str(first.index),
        "last": str(last.index),
        "count": place.count,
        "names": [visible(event.name, 120) for event in place.events[:_NAMES_MAX] if event.name],
    }
