"""The legend: the signs that occur in this diagram, and no others."""

from __future__ import annotations

from typing import Final

from beforehand.diagram.model import Arrow, ArrowKind, Layout, Place, Role
from beforehand.diagram.signs import line_sign, number, place_sign
from beforehand.diagram.text import width_of

__all__ = ["legend_of"]

_SIGN_ROOM: Final = 34.0
_ITEM_GAP: Final = 22.0
_LINE: Final = 22.0
_LINE_PATH: Final = "M2 0H26"

_ROLE_NAMES: Final = {
    Role.SELECTED: "selected event",
    Role.PAST: "its past",
    Role.FUTURE: "its future",
    Role.CONCURRENT: "concurrent with it",
}
_KIND_NAMES: Final = {
    ArrowKind.BACKWARDS: "backwards",
    ArrowKind.UNRECEIVED: "message never received",
    ArrowKind.UNSENT: "message never sent",
    ArrowKind.ONWARD: "continues outside this drawing",
}


def legend_of(layout: Layout, *, x1: float, x2: float, y: float) -> tuple[list[str], float]:
    """The lines of the legend between `x1` and `x2` below `y`, and where it ends. Empty if nothing needs it."""
    items = _items(layout)
    if not items:
        return [], y
    drawn: list[str] = []
    x, y = x1, y + _LINE
    for sign, text in items:
        width = _SIGN_ROOM + width_of(text, 11)
        if x > x1 and x + width > x2:
            x, y = x1, y + _LINE
        drawn.append(
            f'<g transform="translate({number(x)} {number(y)})">{sign}'
            f'<text class="quiet" x="{number(_SIGN_ROOM)}" y="4">{text}</text></g>'
        )
        x += width + _ITEM_GAP
    return drawn, y


def _items(layout: Layout) -> list[tuple[str, str]]:
    items: list[tuple[str, str]] = []
    for role, name in _ROLE_NAMES.items():
        if any(place.role is role for place in layout.places):
            items.append((_event(role), name))
    if any(place.violation for place in layout.places):
        items.append((_event(Role.PLAIN, violation=True), "violation"))
    if any(place.failure and not place.violation for place in layout.places):
        items.append((_event(Role.PLAIN, failure=True), "failure"))
    if any(arrow.violation for arrow in layout.arrows):
        alarm = '<circle class="alarm" cx="10" r="6.5"/><text class="badge-text" x="10" y="3.2">!</text>'
        items.append((line_sign(_LINE_PATH, violation=True) + alarm, "violating message"))
    kinds = {_shown(arrow) for arrow in layout.arrows}
    for kind, name in _KIND_NAMES.items():
        if kind in kinds:
            items.append((_stub(kind), name))
    if any(arrow.inferred for arrow in layout.arrows):
        items.append((line_sign(_LINE_PATH, inferred=True), "inferred message"))
    if layout.front:
        items.append(('<path class="front" d="M14 -9V9"/>', "cut"))
    if any(place.count > 1 for place in layout.places):
        items.append((_run(), "run of local events"))
    if any(place.untimed for place in layout.places):
        items.append((_untimed(layout.places), "no time, place estimated"))
    if layout.gaps:
        dots = "".join(f'<circle class="gap" cx="{x}" r="1.6"/>' for x in (8, 14, 20))
        items.append((dots, "events not drawn"))
    return items


def _shown(arrow: Arrow) -> ArrowKind:
    return ArrowKind.ONWARD if arrow.kind is ArrowKind.INCOMING else arrow.kind  # One sign for both ends.


def _event(role: Role, *, violation: bool = False, failure: bool = False) -> str:
    names = f"event {role}" + (" violation" if violation else "") + (" failure" if failure else "")
    sign = place_sign(role, violation=violation, failure=failure)
    return f'<g class="{names}" transform="translate(14 0)">{sign}</g>'


def _run() -> str:
    return f'<g class="event plain" transform="translate(14 0) scale(.68)">{place_sign(Role.PLAIN, count=9)}</g>'


def _untimed(places: tuple[Place, ...]) -> str:
    role = next(place.role for place in places if place.untimed)
    return f'<g class="event untimed {role}" transform="translate(14 0)">{place_sign(role)}</g>'


def _stub(kind: ArrowKind) -> str:
    mark = {ArrowKind.UNSENT: "?", ArrowKind.ONWARD: "…"}.get(kind, "")
    text = f'<text class="quiet middle" x="2" y="4">{mark}</text>' if mark else ""
    return text + line_sign(
        "M9 0H28" if mark else "M2 0H22" if kind is ArrowKind.UNRECEIVED else _LINE_PATH, kind=kind
    )
