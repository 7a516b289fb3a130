"""The diagram as a page: zoom, search, and what could have led to an event at a click."""

from __future__ import annotations

from beforehand.diagram.page.page import diagram_page

__all__ = ["diagram_page"]
