"""The signs of the drawing, each as a piece of SVG: used in the diagram and again in its legend."""

from __future__ import annotations

from typing import Final

from beforehand.diagram.arrows import RADIUS, RADIUS_SELECTED
from beforehand.diagram.layout import RUN_HALF_WIDTH
from beforehand.diagram.model import Arrow, ArrowKind, Role

__all__ = ["arrow_path", "classes", "defs", "line_sign", "number", "place_sign"]

_HEADS: Final = ("", "past", "future", "violation")
_CROSS: Final = "M1.2 1.2L8.8 8.8M1.2 8.8L8.8 1.2"
_DIAMOND: Final = RADIUS + 2.2  # A diamond needs more radius to look as large as a circle.
_TRIANGLE: Final = RADIUS + 2.6  # A triangle even more.


def number(value: float) -> str:
    """At most one decimal, and no `-0`: equal drawings are equal bytes."""
    text = f"{value:.1f}"
    return "0" if text in ("0.0", "-0.0") else text.removesuffix(".0")


def classes(*names: str) -> str:
    return " ".join(name for name in names if name)


def defs() -> str:
    """Arrowheads. One per colour: SVG 1.1 has no way for a marker to take the colour of its line."""
    markers: list[str] = []
    for name in _HEADS:
        suffix = f"-{name}" if name else ""
        filled, outlined = classes("head", name), classes("open", name)
        markers += [
            _marker(f"st-head{suffix}", 8, 9.5, f'<path class="{filled}" d="M0 0L10 4L0 8L2 4Z"/>'),
            _marker(f"st-open{suffix}", 10, 9, f'<path class="{outlined}" d="M1.5 1L9 5L1.5 9"/>'),
            # Upright, or on a slanted line it would look like a plus.
            _marker(f"st-cross{suffix}", 10, 5, f'<path class="{outlined}" d="{_CROSS}"/>', orient="0"),
        ]
    return "<defs>" + "".join(markers) + "</defs>"


def arrow_path(arrow: Arrow) -> str:
    first, *rest = (f"{number(x)} {number(y)}" for x, y in arrow.points)
    command = {1: "L", 2: "Q", 3: "C"}[len(rest)]
    return line_sign(
        f"M{first}{command}{' '.join(rest)}",
        kind=arrow.kind,
        role=arrow.role,
        violation=arrow.violation,
        inferred=arrow.inferred,
    )


def line_sign(
    path: str,
    *,
    kind: ArrowKind = ArrowKind.MESSAGE,
    role: Role = Role.PLAIN,
    violation: bool = False,
    inferred: bool = False,
) -> str:
    backwards = kind is ArrowKind.BACKWARDS
    shown = "" if backwards or violation or role is Role.PLAIN else str(role)
    names = classes(
        "arrow",
        shown,
        "backwards" if backwards else "",
        "inferred" if inferred else "",
        "violation" if violation else "",
    )
    head = "cross" if kind is ArrowKind.UNRECEIVED else "open" if backwards else "head"
    colour = "violation" if violation else shown
    suffix = f"-{colour}" if colour in _HEADS and colour else ""
    return f'<path class="{names}" d="{path}" marker-end="url(#st-{head}{suffix})"/>'


def place_sign(role: Role, *, violation: bool = False, failure: bool = False, count: int = 1) -> str:
    """What is both a failure and a violation has the sign of a violation, as on the page."""
    if count > 1:
        half = number(RUN_HALF_WIDTH)
        return (
            f'<rect class="dot run" x="-{half}" y="-9" width="{number(2 * RUN_HALF_WIDTH)}" height="18" rx="9"/>'
            f'<text class="run-text" y="4">×{_short(count)}</text>'
        )
    radius = RADIUS_SELECTED if role is Role.SELECTED else RADIUS
    parts: list[str] = []
    if role is Role.SELECTED:
        # Paper under the rings, so that lanes and arrows stop at them.
        outer = number(RADIUS_SELECTED + (4 if violation or failure else 1))
        parts.append(f'<circle class="paper" r="{outer}"/><circle class="ring" r="{outer}"/>')
        radius -= 2.8
    if violation:
        size = number(_DIAMOND if role is not Role.SELECTED else RADIUS_SELECTED - 0.5)
        parts.append(f'<path class="dot" d="M0 -{size}L{size} 0L0 {size}L-{size} 0Z"/>')
        left, right = f"M0 -{size}L-{size} 0L0 {size}Z", f"M0 -{size}L{size} 0L0 {size}Z"
    elif failure:
        size = number(_TRIANGLE if role is not Role.SELECTED else RADIUS_SELECTED - 0.5)
        low = number(float(size) * 0.72)
        parts.append(f'<path class="dot" d="M0 -{size}L{size} {low}H-{size}Z"/>')
        left, right = f"M0 -{size}L-{size} {low}H0Z", f"M0 -{size}L{size} {low}H0Z"
    else:
        size = number(radius)
        parts.append(f'<circle class="dot" r="{size}"/>')
        left, right = (f"M0 -{size}A{size} {size} 0 0 {sweep} 0 {size}Z" for sweep in (0, 1))
    if role in (Role.PAST, Role.FUTURE):
        parts.append(f'<path class="half" d="{left if role is Role.PAST else right}"/>')
    return "".join(parts)


def _short(count: int) -> str:
    return str(count) if count < 1_000 else f"{count / 1_000:.3g}k" if count < 10**6 else f"{count / 10**6:.3g}M"


def _marker(name: str, size: int, tip: float, body: str, *, orient: str = "auto") -> str:
    # `userSpaceOnUse`: a thick line must not get a monstrous head.
    return (
        f'<marker id="{name}" markerUnits="userSpaceOnUse" orient="{orient}" viewBox="0 0 10 {size}"'
        f' markerWidth="10" markerHeight="{size}" refX="{number(tip)}" refY="{number(size / 2)}">{body}</marker>'
    )
