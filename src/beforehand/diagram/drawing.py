"""Events to SVG in one call."""

from __future__ import annotations

from collections.abc import Iterable

from beforehand.diagram.layout import layout
from beforehand.diagram.model import DEFAULT_OPTIONS, NO_MARKS, LayoutOptions, Marks
from beforehand.diagram.svg import to_svg
from beforehand.events import Event

__all__ = ["draw"]


def draw(
    events: Iterable[Event],
    *,
    marks: Marks = NO_MARKS,
    options: LayoutOptions = DEFAULT_OPTIONS,
    title: str = "",
) -> str:
    """The space-time diagram of one execution as an SVG document. See `layout` and `to_svg`."""
    return to_svg(layout(events, marks=marks, options=options), title=title)
