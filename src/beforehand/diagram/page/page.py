"""A space-time diagram to explore: one self-contained HTML file.

1. It needs nothing but itself and fetches nothing; text of events is escaped and cannot become markup or script.
2. It is drawn by the modules that draw the page of the service (`modules/`), which ask the data of the file what the
   page of a service asks the service.
3. What `figure` promises: exact pasts and futures, at most `events_max` places, same input and same bytes.

Without its script, and on paper, the file shows the drawing of `to_svg`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from beforehand.diagram.model import DEFAULT_OPTIONS, NO_MARKS, LayoutOptions, Marks
from beforehand.diagram.page.document import Drawings, asset, document, json_block
from beforehand.diagram.page.figure import figure
from beforehand.diagram.page.markup import element
from beforehand.diagram.page.sources import drawn_frame, drawn_script, drawn_style
from beforehand.diagram.text import visible
from beforehand.events import Event, EventId

__all__ = ["diagram_page"]


def diagram_page(
    events: Iterable[Event],
    *,
    marks: Marks = NO_MARKS,
    options: LayoutOptions = DEFAULT_OPTIONS,
    title: str = "",
    relations: Mapping[EventId, Collection[EventId]] | None = None,
    failures: Collection[EventId] = (),
) -> str:
    """The diagram of one execution as an HTML page.

    `relations` is for an excerpt of a longer history: for an event, events that happened before it by ways that lead
    outside what is given. `failures` get the sign of one. The selected event of `marks` is chosen when it opens.
    """
    made = figure(events, marks=marks, options=options, relations=relations, failures=failures)
    drawings = Drawings()
    shown_title = visible(title, 200) or "Space-time diagram"
    drawing = element("div", drawings.take(made.svg), class_="drawing")
    return document(
        title=shown_title,
        style=asset("beforehand.diagram.page", "page.css") + drawings.style,
        inner_style=drawn_style(),
        script=drawn_script(),
        body=[
            drawings.definitions,
            made.host("", drawing, element("h1", shown_title)),
            drawn_frame(),
            json_block("data", {"title": shown_title, **made.data}),
        ],
    )
