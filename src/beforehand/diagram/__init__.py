"""Space-time diagrams: processes as lanes, time from left to right, messages as arrows."""

from __future__ import annotations

from beforehand.diagram.drawing import draw
from beforehand.diagram.layout import layout
from beforehand.diagram.model import Arrow, ArrowKind, Axis, Layout, LayoutOptions, Marks, Place, Role
from beforehand.diagram.page import diagram_page
from beforehand.diagram.sheet import Theme
from beforehand.diagram.svg import to_svg

__all__ = [
    "Arrow",
    "ArrowKind",
    "Axis",
    "Layout",
    "LayoutOptions",
    "Marks",
    "Place",
    "Role",
    "Theme",
    "diagram_page",
    "draw",
    "layout",
    "to_svg",
]
