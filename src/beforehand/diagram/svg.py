"""A layout as one self-contained SVG 1.1 document: style, signs, tooltips, no scripts, nothing fetched.

The same layout gives the same bytes. Every text that came from events passes through `visible` and is
escaped, here and nowhere else, so that no name can end the element that it stands in.

Colour is never the only sign. Of events: past is filled on its left half, future on its right half,
concurrent is a dashed ring, selected has a second ring around it, a violation is a diamond, a failure a
triangle. Of messages:
a violation is thick with an exclamation mark, backwards is dashed with an open head, inferred is dotted,
unreceived ends in a cross.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from beforehand.diagram.arrows import ALARM_AT, RADIUS, RADIUS_SELECTED, point_at
from beforehand.diagram.layout import RUN_HALF_WIDTH
from beforehand.diagram.legend import legend_of
from beforehand.diagram.model import Axis, Layout, Note, Place, Point, Role, Side
from beforehand.diagram.sheet import Theme, style_sheet
from beforehand.diagram.signs import arrow_path, classes, defs, number, place_sign
from beforehand.diagram.text import BOLD, fit, visible, width_of
from beforehand.diagram.tooltip import arrow_text, place_text
from beforehand.events import EventId

__all__ = ["to_svg"]

_MARGIN: Final = 20.0
_TAG_HEIGHT: Final = 26.0
_WIDTH_MIN: Final = 420.0
_NOTES_MAX: Final = 60  # Lines below the drawing; the badges stay, and the last line says how many more.
_NOTES_WIDTH: Final = 760.0  # A small diagram is widened up to this for its notes.
_LINE: Final = 19.0

# Later ones cover earlier ones: what matters most is drawn last.
_PAINT_ORDER: Final = {Role.CONCURRENT: 0, Role.PLAIN: 1, Role.FUTURE: 2, Role.PAST: 3, Role.SELECTED: 4}


def to_svg(
    layout: Layout,
    *,
    title: str = "",
    description: str = "",
    theme: Theme | str = Theme.AUTO,
    link: Callable[[EventId], str | None] | None = None,
) -> str:
    """Draw the layout.

    `link` may give an address for an event, which then becomes a link to it. `theme` is "auto" (follows
    the reader's preference), "light" or "dark".
    """
    width = max(layout.width, _WIDTH_MIN, width_of(visible(title, 120), 16 * BOLD) + 2 * _MARGIN)
    if layout.notes:
        width = max(width, min(_NOTES_WIDTH, max(width_of(_note_text(note), 11) for note in layout.notes) + 70))
    head = _header(layout, title)
    top = head[1] + (22.0 if layout.ticks else 0.0)
    foot, height = _footer(layout, width, top + layout.height + 4)
    spoken_title = visible(title, 200) or "Space-time diagram"
    spoken_description = visible(description, 2_000) or _summary(layout)
    lines = [
        _opening(width, height, role="group" if link else "img"),  # An image has no links for a screen reader.
        f"<title>{escape(spoken_title)}</title>",
        f"<desc>{escape(spoken_description)}</desc>",
        f'<style type="text/css"><![CDATA[\n{style_sheet(Theme(theme))}]]></style>',
        defs(),
        f'<rect class="paper" width="{number(width)}" height="{number(height)}"/>',
        *head[0],
        f'<g transform="translate(0 {number(top)})">',
        *_ticks(layout),
        *_lanes(layout),
        *_spans(layout),
        *_arrows(layout),
        *_gaps(layout),
        *_front(layout),
        *_places(layout, link),
        *_alarms(layout),
        "</g>",
        *foot,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _opening(width: float, height: float, *, role: str) -> str:
    size = f"{number(width)} {number(height)}"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" version="1.1"'
        f' class="st" role="{role}" width="{number(width)}" height="{number(height)}" viewBox="0 0 {size}">'
    )


def _text(x: float, y: float, text: str, *names: str) -> str:
    return f'<text class="{classes(*names)}" x="{number(x)}" y="{number(y)}">{escape(text)}</text>'


def _summary(layout: Layout) -> str:
    messages = len({message for arrow in layout.arrows for message in arrow.messages})
    events = sum(place.count for place in layout.places)
    return (
        f"Space-time diagram of {events} event(s) on {len(layout.lanes)} process(es) and {messages} "
        f"message(s), from left to right {'in causal order' if layout.axis is Axis.STEPS else 'by their clocks'}."
    )


def _header(layout: Layout, title: str) -> tuple[list[str], float]:
    lines: list[str] = []
    y = 10.0
    if title:
        y += 24
        lines.append(_text(_MARGIN, y, visible(title, 120), "title"))
        y += 8
    for warning in layout.warnings:
        y += 16
        lines.append(_text(_MARGIN, y, f"⚠ {warning}", "warning"))
    return lines, y + 6


def _ticks(layout: Layout) -> Iterable[str]:
    for tick in layout.ticks:
        x = number(tick.x)
        yield f'<path class="tick" d="M{x} -2V{number(layout.height)}"/>'
        yield _text(tick.x, -8, tick.label, "quiet", "middle")


def _lanes(layout: Layout) -> Iterable[str]:
    for lane in layout.lanes:
        y = number(lane.y)
        yield f'<path class="lane" d="M{number(layout.left)} {y}H{number(layout.right)}"/>'
        yield (
            f'<g><title>{escape(visible(lane.process))}</title><rect class="tag" x="{number(_MARGIN)}"'
            f' y="{number(lane.y - _TAG_HEIGHT / 2)}" width="{number(layout.left - _MARGIN)}"'
            f' height="{number(_TAG_HEIGHT)}" rx="{number(_TAG_HEIGHT / 2)}"/>'
        )
        yield _text((_MARGIN + layout.left) / 2, lane.y + 4.5, lane.label, "tag-name", "middle") + "</g>"


def _spans(layout: Layout) -> Iterable[str]:
    for span in layout.spans:
        y = layout.lanes[span.lane].y
        yield (f'<path class="span {span.role}" d="M{number(span.x1)} {number(y)}H{number(span.x2)}" fill="none"/>')


def _arrows(layout: Layout) -> Iterable[str]:
    ordered = sorted(layout.arrows, key=lambda arrow: (arrow.violation, _PAINT_ORDER[arrow.role]))
    for arrow in ordered:
        yield f"<g><title>{escape(arrow_text(arrow))}</title>{arrow_path(arrow)}</g>"
    for arrow in ordered:  # Labels over all lines, or a later line would strike one through.
        if arrow.label:
            x, y = arrow.label_at
            yield _text(x, y + 3.8, arrow.label, "quiet", "middle", "halo")


def _gaps(layout: Layout) -> Iterable[str]:
    for gap in layout.gaps:
        y = layout.lanes[gap.lane].y
        dots = "".join(f'<circle cx="{number(gap.x + dx)}" cy="{number(y)}" r="1.6"/>' for dx in (-6.0, 0.0, 6.0))
        yield (
            f'<g class="gap"><title>{gap.count} event(s) not drawn</title><rect class="paper"'
            f' x="{number(gap.x - 11)}" y="{number(y - 4)}" width="22" height="8"/>{dots}</g>'
        )


def _front(layout: Layout) -> Iterable[str]:
    if not layout.front:
        return
    first, last = layout.front[0], layout.front[-1]
    steps = [f"M{_point((first[0], first[1] - 34))}L{_point(first)}"]
    for (x1, y1), (x2, y2) in zip(layout.front, layout.front[1:], strict=False):
        middle = (y1 + y2) / 2  # Upright where it crosses a lane, so that it is clear what is inside.
        steps.append(f"C{_point((x1, middle))} {_point((x2, middle))} {_point((x2, y2))}")
    steps.append(f"L{_point((last[0], last[1] + 34))}")
    yield f'<path class="front" d="{"".join(steps)}"><title>cut</title></path>'


def _point(point: Point) -> str:
    return f"{number(point[0])} {number(point[1])}"


def _places(layout: Layout, link: Callable[[EventId], str | None] | None) -> Iterable[str]:
    for place in layout.places:
        names = classes(
            "event",
            place.role,
            "violation" if place.violation else "",
            "failure" if place.failure else "",
            "untimed" if place.untimed else "",
        )
        address = link(place.id) if link else None
        body = [
            f'<g class="{names}" transform="translate({number(place.x)} {number(place.y)})">',
            f"<title>{escape(place_text(place))}</title>",
            place_sign(place.role, violation=place.violation, failure=place.failure, count=place.count),
            *_label(place),
            "</g>",
        ]
        drawn = "".join(body)
        yield f"<a xlink:href={quoteattr(visible(address, 4_000))}>{drawn}</a>" if address else drawn


def _label(place: Place) -> Iterable[str]:
    radius = RADIUS_SELECTED + 3 if place.role is Role.SELECTED else RADIUS
    if place.label:
        y = -radius - 7 if place.label_side is Side.ABOVE else radius + 15
        yield _text(0, y, place.label, "name", "middle", "halo")
    if place.note is not None:
        x = RUN_HALF_WIDTH if place.count > 1 else radius + 5
        y = radius + 5 if place.label_side is Side.ABOVE else -radius - 5
        yield f'<circle class="badge" cx="{number(x)}" cy="{number(y)}" r="7"/>'
        yield _text(x, y + 3.2, str(place.note), "badge-text")


def _alarms(layout: Layout) -> Iterable[str]:
    for arrow in layout.arrows:
        if arrow.violation:
            x, y = point_at(arrow.points, ALARM_AT)
            yield f'<circle class="alarm" cx="{number(x)}" cy="{number(y)}" r="7.5"/>'
            yield _text(x, y + 3.4, "!", "badge-text")


def _note_text(note: Note) -> str:
    return f"{visible(str(note.event), 60)}: {visible(note.text, 300)}"


def _footer(layout: Layout, width: float, y: float) -> tuple[list[str], float]:
    lines: list[str] = []
    for note in layout.notes[:_NOTES_MAX]:
        y += _LINE
        lines.append(f'<circle class="badge" cx="{number(_MARGIN + 7)}" cy="{number(y - 4)}" r="7"/>')
        lines.append(_text(_MARGIN + 7, y - 0.8, str(note.number), "badge-text"))
        text = _note_text(note)
        shown = fit(text, width - 2 * _MARGIN - 20, 11)
        lines.append(f"<g><title>{escape(text)}</title>{_text(_MARGIN + 20, y, shown)}</g>")
    if len(layout.notes) > _NOTES_MAX:
        y += _LINE
        lines.append(_text(_MARGIN + 20, y, f"and {len(layout.notes) - _NOTES_MAX} more notes", "quiet"))
    legend, y = legend_of(layout, x1=_MARGIN, x2=width - _MARGIN, y=y + (8 if lines else 0))
    return [*lines, *legend], y + _MARGIN
