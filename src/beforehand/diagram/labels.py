"""The passes that find room for names: event labels beside their lane, message labels along their arrow.

A label that has no room is cut or left out, never drawn over another one; the tooltip has the whole text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from beforehand.diagram.arrows import ALARM_AT, RADIUS, Link, point_at
from beforehand.diagram.model import Arrow, ArrowKind, Place, Point, Side
from beforehand.diagram.text import fit, visible, width_of

__all__ = ["LABEL_GAP", "LABEL_ROOM", "LABEL_SIZE", "event_labels", "label_arrows", "label_sides"]

LABEL_SIZE: Final = 11.0
LABEL_ROOM: Final = 116.0
LABEL_GAP: Final = 8.0

_MESSAGE_ROOM: Final = 64.0
_MESSAGES_LABELLED_MAX: Final = 40
_MESSAGE_LENGTH_MAX: Final = 8
_STUBS: Final = (ArrowKind.UNSENT, ArrowKind.INCOMING, ArrowKind.UNRECEIVED, ArrowKind.ONWARD)

_Box = tuple[float, float, float, float]  # Left, top, right, bottom.


def label_sides(links: Sequence[Link], arrows: Sequence[Arrow], kept: Sequence[int]) -> dict[int, Side]:
    """Each label on the side of the lane with fewer arrows, above if equal."""
    surplus = dict.fromkeys(kept, 0)  # Arrows above minus arrows below.
    for link, arrow in zip(links, arrows, strict=True):
        # Stubs and arcs stay near the lane, just where labels stand; other arrows soon leave.
        weight = 2 if arrow.kind in _STUBS else 3 if arrow.kind is ArrowKind.OWN else 1
        # The second and the last but one point tell on which side a line or a curve leaves an event.
        if link.send is not None:
            surplus[link.send] += weight if arrow.points[1][1] < arrow.points[0][1] else -weight
        if link.receive is not None:
            surplus[link.receive] += weight if arrow.points[-2][1] < arrow.points[-1][1] else -weight
    return {node: Side.BELOW if count > 0 else Side.ABOVE for node, count in surplus.items()}


def event_labels(
    rows: Sequence[Sequence[int]],
    at: Mapping[int, Point],
    names: Mapping[int, str],
    sides: Mapping[int, Side],
    left: float,
    right: float,
) -> dict[int, str]:
    """The names, cut so that neighbours on one side of a lane share the room between them."""
    labels = dict.fromkeys(names, "")
    for row in rows:
        for side in Side:
            # By x: on the axis of clocks a clock that stepped back puts them in another order.
            named = sorted(
                (node for node in row if sides[node] is side and names[node]), key=lambda node: at[node][0]
            )
            halves = [(min(width_of(names[node], LABEL_SIZE), LABEL_ROOM) + LABEL_GAP) / 2 for node in named]
            # The ends of the lane are neighbours that need no room themselves.
            xs = [left, *(at[node][0] for node in named), right]
            needs = [0.0, *halves, 0.0]
            for position, node in enumerate(named, start=1):
                # A neighbour gets what it needs or half of the distance, whichever is less.
                free = min(
                    distance - min(need, distance / 2)
                    for distance, need in (
                        (xs[position] - xs[position - 1], needs[position - 1]),
                        (xs[position + 1] - xs[position], needs[position + 1]),
                    )
                )
                labels[node] = fit(names[node], min(2 * free - LABEL_GAP, LABEL_ROOM), LABEL_SIZE)
    return labels


def label_arrows(
    arrows: Sequence[Arrow], places: Sequence[Place], lane_height: float, *, wanted: bool | None
) -> tuple[Arrow, ...]:
    """The arrows with their labels. None as `wanted`: only if messages are few and their ids short."""
    if wanted is None:
        wanted = len(arrows) <= _MESSAGES_LABELLED_MAX and all(
            len(message) <= _MESSAGE_LENGTH_MAX for arrow in arrows for message in arrow.messages
        )
    taken = _Boxes()
    for place in places:
        taken.add(_box((place.x, place.y), 2 * RADIUS))
        if place.label:
            dy = -RADIUS - 11 if place.label_side is Side.ABOVE else RADIUS + 11
            taken.add(_box((place.x, place.y + dy), width_of(place.label, LABEL_SIZE)))
    for arrow in arrows:
        if arrow.violation:
            taken.add(_box(point_at(arrow.points, ALARM_AT), 16))
    labelled = list(arrows)
    # Stubs first: their labels cannot move, the others can.
    for number in sorted(range(len(arrows)), key=lambda number: arrows[number].kind not in _STUBS):
        arrow = arrows[number]
        text = _arrow_text(arrow, wanted=wanted)
        spot = _free_spot(arrow, text, taken, lane_height) if text else None
        if spot is not None:
            taken.add(_box(spot, width_of(text, LABEL_SIZE)))
            labelled[number] = replace(arrow, label=text, label_at=spot)
    return tuple(labelled)


def _arrow_text(arrow: Arrow, *, wanted: bool) -> str:
    many = f"×{len(arrow.messages)}" if len(arrow.messages) > 1 else ""
    match arrow.kind:
        case ArrowKind.UNSENT:
            return f"?{many}"
        case ArrowKind.ONWARD | ArrowKind.INCOMING:
            return f"…{many}"
        case _:
            loop = len(arrow.points) == 4  # Too small for a name.
            if many or not wanted or loop or not arrow.messages:
                return many
            return fit(visible(arrow.messages[0], 40), _MESSAGE_ROOM, LABEL_SIZE)


def _free_spot(arrow: Arrow, text: str, taken: _Boxes, lane_height: float) -> Point | None:
    if arrow.kind in _STUBS:
        # These signs carry meaning, so they are drawn in any case, just beyond the open end.
        outgoing = arrow.receive is None
        x, y = arrow.points[-1 if outgoing else 0]
        if arrow.kind is ArrowKind.UNRECEIVED:
            return (x + 4, y + 14)  # Below the cross.
        shift = 4 + width_of(text, LABEL_SIZE) / 2
        return (x + (shift if outgoing else -shift), y)
    width = width_of(text, LABEL_SIZE)
    for t in _candidates(arrow, lane_height):
        spot = point_at(arrow.points, t)
        if taken.are_clear_of(_box(spot, width)):
            return spot
    return None


def _candidates(arrow: Arrow, lane_height: float) -> Iterable[float]:
    """Where a message label looks well: half way between two lanes, first the two nearest to the send."""
    lanes = max(1, round(abs(arrow.points[-1][1] - arrow.points[0][1]) / lane_height))
    for shift in (0.5, 0.36, 0.64):
        for lane in range(min(lanes, 8)):
            yield (lane + shift) / lanes


def _box(centre: Point, width: float) -> _Box:
    x, y = centre
    return (x - width / 2 - 1, y - 7, x + width / 2 + 1, y + 7)


class _Boxes:
    """Rectangles that are taken, found again by cells of a grid: looking one up does not grow with their number."""

    _CELL: Final = 64

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], list[_Box]] = {}

    def add(self, box: _Box) -> None:
        for cell in self._cells_of(box):
            self._cells.setdefault(cell, []).append(box)

    def are_clear_of(self, box: _Box) -> bool:
        left, top, right, bottom = box
        return not any(
            left < other[2] and other[0] < right and top < other[3] and other[1] < bottom
            for cell in self._cells_of(box)
            for other in self._cells.get(cell, ())
        )

    def _cells_of(self, box: _Box) -> Iterable[tuple[int, int]]:
        left, top, right, bottom = (int(edge // self._CELL) for edge in box)
        return ((x, y) for x in range(left, right + 1) for y in range(top, bottom + 1))
