"""The passes that turn edges between places into arrows: which there are, and how each one runs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from beforehand.diagram.graph import Graph
from beforehand.diagram.model import Arrow, ArrowKind, Point, Role
from beforehand.events import INFERRED

__all__ = ["ALARM_AT", "CROSSED_MAX", "RADIUS", "RADIUS_SELECTED", "Link", "arrow_of", "find_links", "point_at"]

RADIUS: Final = 6.0
RADIUS_SELECTED: Final = 8.0
ALARM_AT: Final = 0.72  # Where along a violating message its sign stands: nearer to the receive, the harm done.
CROSSED_MAX: Final = 16  # Arrows over more lanes stay straight: no bend avoids that many events.
_ARC_HEIGHT_MAX: Final = 32.0
_STUBS: Final[Mapping[ArrowKind, Point]] = {  # From the event to its open end: four corners, flat, past the labels.
    ArrowKind.UNSENT: (-32.0, -14.0),
    ArrowKind.INCOMING: (-32.0, 14.0),
    ArrowKind.UNRECEIVED: (30.0, 14.0),
    ArrowKind.ONWARD: (32.0, -14.0),
}
_BENDS: Final = (0.0, 11.0, -11.0, 20.0, -20.0)
_CLEARANCE: Final = RADIUS + 4.0
_FLATNESS_MAX: Final = 6.0


@dataclass(frozen=True, slots=True)
class Link:
    """An arrow before it has a shape. For a stub, `send` or `receive` is None."""

    kind: ArrowKind
    send: int | None
    receive: int | None
    messages: tuple[str, ...]


def find_links(
    graph: Graph, *, ignored: Collection[int], kept: Collection[int], times: Sequence[int] | None
) -> list[Link]:
    """What to draw between the kept nodes, in a fixed order. With `times`, clocks decide what is backwards."""
    found: dict[tuple[ArrowKind, int | None, int | None], dict[str, None]] = {}
    for number, edge in enumerate(graph.edges):
        send = edge.send if edge.send in kept else None
        receive = edge.receive if edge.receive in kept else None
        if send is None and receive is None:
            continue
        if edge.send is None:
            kind = ArrowKind.UNSENT
        elif edge.receive is None:
            kind = ArrowKind.UNRECEIVED
        elif send is None:
            kind = ArrowKind.INCOMING
        elif receive is None:
            kind = ArrowKind.ONWARD
        elif number in ignored or (times is not None and times[receive] < times[send]):
            kind = ArrowKind.BACKWARDS
        elif graph.process_of[send] == graph.process_of[receive]:
            kind = ArrowKind.OWN
        else:
            kind = ArrowKind.MESSAGE
        # A dict, as an ordered set: a multicast with several receives left out is one stub.
        found.setdefault((kind, send, receive), {})[edge.message] = None
    links = [Link(kind, send, receive, tuple(messages)) for (kind, send, receive), messages in found.items()]
    if times is not None:
        links.extend(
            Link(ArrowKind.BACKWARDS, node - 1, node, ())
            for node in sorted(kept)
            if node - 1 in kept
            and graph.process_of[node - 1] == graph.process_of[node]
            and times[node] < times[node - 1]
        )
    return links


def arrow_of(
    link: Link,
    graph: Graph,
    *,
    at: Mapping[int, Point],
    roles: Mapping[int, Role],
    crossed: Sequence[tuple[float, Sequence[float]]],
    violating: Collection[str],
) -> Arrow:
    """The arrow, still without a label. `crossed`: the lanes between its ends, as y and sorted x of places."""
    points = _points(link, at, roles, crossed)
    return Arrow(
        kind=link.kind,
        messages=link.messages,
        send=None if link.send is None else graph.nodes[link.send][0].id,
        receive=None if link.receive is None else graph.nodes[link.receive][0].id,
        points=points,
        role=_role(link, roles),
        violation=any(message in violating for message in link.messages),
        inferred=bool(link.messages) and all(message.startswith(INFERRED) for message in link.messages),
        label="",
        label_at=points[0],
    )


def point_at(points: Sequence[Point], t: float) -> Point:
    """The point of a line or curve at `t` from 0 to 1 (de Casteljau's construction)."""
    while len(points) > 1:
        points = [(x1 + (x2 - x1) * t, y1 + (y2 - y1) * t) for (x1, y1), (x2, y2) in pairwise(points)]
    return points[0]


def _points(
    link: Link,
    at: Mapping[int, Point],
    roles: Mapping[int, Role],
    crossed: Sequence[tuple[float, Sequence[float]]],
) -> tuple[Point, ...]:
    if link.send is None or link.receive is None:
        node = link.send if link.receive is None else link.receive
        assert node is not None
        x, y = at[node]
        dx, dy = _STUBS[link.kind]
        border, end = _towards((x, y), (x + dx, y + dy), _radius(roles[node])), (x + dx, y + dy)
        return (border, end) if link.receive is None else (end, border)
    start, end = at[link.send], at[link.receive]
    if link.send == link.receive:  # An event that receives what it sends: a loop over its head.
        x, y = start
        return ((x - 4, y - 7), (x - 20, y - 34), (x + 20, y - 34), (x + 4, y - 7))
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    if start[1] == end[1]:
        height = min(_ARC_HEIGHT_MAX, 20 + abs(end[0] - start[0]) * 0.07)
        # What goes back runs below the lane, so that it never covers what goes forward.
        below = link.kind is ArrowKind.BACKWARDS
        control: Point | None = (middle[0], middle[1] + (2 if below else -2) * height)
    else:
        bend = _bend(start, end, crossed)
        control = (middle[0] + 2 * bend, middle[1]) if bend else None
    first = _towards(start, control or end, _radius(roles[link.send]))
    last = _towards(end, control or start, _radius(roles[link.receive]))
    return (first, last) if control is None else (first, control, last)


def _bend(start: Point, end: Point, crossed: Sequence[tuple[float, Sequence[float]]]) -> float:
    """How far to bow a message sideways, so that it does not run through an event that it has no part in.

    With the control point at half height, y is linear along the curve, so the crossing with a lane is
    explicit. The curve keeps moving forwards as long as four bends are less than its width.
    """
    if not crossed:
        return 0.0
    width, height = end[0] - start[0], end[1] - start[1]
    # A flat arrow passes close to an event over a long stretch of its lane.
    flatness = min(math.hypot(width, height) / abs(height), _FLATNESS_MAX)
    clearance = _CLEARANCE * flatness
    for bend in (one * flatness for one in _BENDS):
        if 4 * abs(bend) >= abs(width) and bend:
            break
        hits = False
        for y, xs in crossed:
            t = (y - start[1]) / height
            x = start[0] + width * t + 4 * bend * t * (1 - t)
            nearest = bisect_left(xs, x - clearance)
            if nearest < len(xs) and xs[nearest] <= x + clearance:
                hits = True
                break
        if not hits:
            return bend
    return 0.0


def _towards(start: Point, target: Point, distance: float) -> Point:
    dx, dy = target[0] - start[0], target[1] - start[1]
    length = math.hypot(dx, dy) or 1.0
    return (start[0] + dx / length * distance, start[1] + dy / length * distance)


def _radius(role: Role) -> float:
    return (RADIUS_SELECTED if role is Role.SELECTED else RADIUS) + 1.0  # Half of the outline.


def _role(link: Link, roles: Mapping[int, Role]) -> Role:
    """An arrow is in the past if both its ends are; the selected event belongs to both sides."""
    ends = {roles[node] for node in (link.send, link.receive) if node is not None}
    if ends <= {Role.PAST, Role.SELECTED} and Role.PAST in ends:
        return Role.PAST
    if ends <= {Role.FUTURE, Role.SELECTED} and Role.FUTURE in ends:
        return Role.FUTURE
    return Role.PLAIN if ends <= {Role.PLAIN, Role.SELECTED} else Role.CONCURRENT
