"""The diagram as a page: what could have led to an event at a click, search, cuts; alone or inside another page."""

from __future__ import annotations

from beforehand.diagram.page.figure import Figure, figure
from beforehand.diagram.page.page import diagram_page

__all__ = ["Figure", "diagram_page", "figure"]
