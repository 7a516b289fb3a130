"""A space-time diagram to explore: one self-contained HTML file around the drawing of `to_svg`.

1. It needs nothing but itself and fetches nothing; text of events is escaped and cannot become markup or script.
2. Choosing an event shows all of it and marks its causal past and future among the drawn events. The answer is exact
   for the events that were given, drawn or not; `relations` adds what is known of events that were not.
3. At most `events_max` places per drawing, 2,000 unless told otherwise; the page says how many are not drawn.
4. The same input gives the same bytes.

Runs of local events can be folded and unfolded: the page holds both drawings. Where the second one would be larger
than 4,000 places, it holds one and says so.

Cost: that of two layouts, and linear in events and messages. Without its script the page shows the drawing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from beforehand.diagram.graph import Graph, build_graph
from beforehand.diagram.layout import layout
from beforehand.diagram.model import DEFAULT_OPTIONS, NO_MARKS, LayoutOptions, Marks, Role
from beforehand.diagram.page.document import Drawings, asset, document, json_block
from beforehand.diagram.page.markup import Markup, element
from beforehand.diagram.page.relations import Relations, direct_causes
from beforehand.diagram.page.times import rfc3339
from beforehand.diagram.page.views import View, drawing_of, numbers_of
from beforehand.diagram.signs import place_sign
from beforehand.diagram.text import visible
from beforehand.events import Event, EventId

__all__ = ["diagram_page"]

_SECOND_MAX: Final = 4_000  # Places of a second drawing.
_COLLAPSE: Final = 3  # Runs of more than this many local events are folded, unless the options say otherwise.
_ATTRIBUTES_MAX: Final = 200
_MESSAGES_MAX: Final = 100  # Of one event.
_PEERS_MAX: Final = 50  # Receivers of one message.
_PACKAGE: Final = "beforehand.diagram.page"


def diagram_page(
    events: Iterable[Event],
    *,
    marks: Marks = NO_MARKS,
    options: LayoutOptions = DEFAULT_OPTIONS,
    title: str = "",
    relations: Mapping[EventId, Collection[EventId]] | None = None,
) -> str:
    """The diagram of one execution as an HTML page.

    `relations` is for an excerpt of a longer history: for an event, events that happened before it by ways that lead
    outside what is given. The selected event of `marks` is chosen when the page opens.
    """
    given = list(events)
    graph = build_graph(given, collapse_local=None, keep=lambda _: True, cut={})
    views, remark = _views(given, marks, options)
    known = _known(relations or {}, marks)
    drawn = _drawn(views)
    owners = {process: number for number, process in enumerate(graph.processes)}
    drawings = Drawings()
    figures = [
        element("div", drawings.take(drawing_of(view)), class_="drawing", data_view=number, hidden=number > 0)
        for number, view in enumerate(views)
    ]
    data = {
        "events": _records(graph, drawn, marks),
        "views": [numbers_of(view, drawn, owners, direct_causes(graph, view.layout, known)) for view in views],
        "signs": {
            str(role): {name: place_sign(role, violation=name == "violation") for name in ("plain", "violation")}
            for role in Role
        },
        "selected": None if marks.selected is None else drawn.get(marks.selected),
    }
    shown_title = visible(title, 200) or "Space-time diagram"
    warnings = [
        element("p", f"⚠ {warning}", class_="warning", role="note", data_of=number, hidden=number > 0)
        for number, view in enumerate(views)
        for warning in (*view.layout.warnings, *remark)
    ]
    body = [
        drawings.definitions,
        _toolbar(shown_title, views),
        *warnings,
        element("main", _stage(figures), _panel(), id="content"),
        json_block("data", data),
    ]
    return document(
        title=shown_title,
        style=asset(_PACKAGE, "diagram.css") + drawings.style,
        script=asset(_PACKAGE, "diagram.js"),
        body=body,
    )


def _views(events: Sequence[Event], marks: Marks, options: LayoutOptions) -> tuple[list[View], list[str]]:
    """The drawing that was asked for first, then the other one if it differs, and what there is to say about that."""
    limit = options.collapse_local or _COLLAPSE
    folded = View("folded", layout(events, marks=marks, options=replace(options, collapse_local=limit)))
    whole = View("whole", layout(events, marks=marks, options=replace(options, collapse_local=None)))
    first, second = (whole, folded) if options.collapse_local is None else (folded, whole)
    if all(place.count == 1 for place in folded.layout.places):
        return [first], []
    if len(second.layout.places) > _SECOND_MAX:
        what = "folded" if second is folded else "unfolded"
        return [first], [f"Too large to hold a second drawing with runs of local events {what}."]
    return [first, second], []


def _known(relations: Relations, marks: Marks) -> Relations:
    """The past and future that the marks give are known too: what opens must show no less."""
    if marks.selected is None:
        return relations
    known = {event: list(earlier) for event, earlier in relations.items()}
    known.setdefault(marks.selected, []).extend(marks.past or ())
    for later in marks.future or ():
        known.setdefault(later, []).append(marks.selected)
    return known


def _drawn(views: Sequence[View]) -> dict[EventId, int]:
    """The events that some drawing shows by themselves, numbered."""
    ids = (place.id for view in views for place in view.layout.places if place.count == 1)
    return {one: number for number, one in enumerate(dict.fromkeys(ids))}


def _records(graph: Graph, drawn: Mapping[EventId, int], marks: Marks) -> list[dict[str, object]]:
    """All that the panel shows of each drawn event."""
    number_of = [drawn.get(unit[0].id) for unit in graph.nodes]
    receivers: dict[tuple[int, str], list[int]] = {}
    senders: dict[tuple[int, str], int | None] = {}
    for edge in graph.edges:
        if edge.receive is not None:
            senders[edge.receive, edge.message] = edge.send
            if edge.send is not None:
                receivers.setdefault((edge.send, edge.message), []).append(edge.receive)
    records: list[dict[str, object]] = [{} for _ in drawn]
    for node, number in enumerate(number_of):
        if number is None:
            continue
        event = graph.nodes[node][0]
        sends = [_peers(message, receivers.get((node, message), []), number_of) for message in event.sends]
        receives = []
        for message in event.receives:
            source = senders.get((node, message))
            receives.append(_peers(message, [] if source is None else [source], number_of))
        attributes = sorted(event.attributes.items())
        records[number] = {
            "id": visible(str(event.id)),
            "process": visible(event.process),
            "owner": graph.process_of[node],  # Names may look alike once made visible; numbers do not.
            "index": str(event.index),  # As text: JavaScript would round one beyond 2^53.
            "kind": str(event.kind),
            "name": visible(event.name),
            "time": "" if event.time is None else rfc3339(event.time),
            "attributes": [[visible(key, 200), visible(value, 2_000)] for key, value in attributes[:_ATTRIBUTES_MAX]],
            "attributesMore": max(0, len(attributes) - _ATTRIBUTES_MAX),
            "sends": sends[:_MESSAGES_MAX],
            "sendsMore": max(0, len(sends) - _MESSAGES_MAX),
            "receives": receives[:_MESSAGES_MAX],
            "receivesMore": max(0, len(receives) - _MESSAGES_MAX),
            "note": visible(marks.notes.get(event.id, ""), 2_000),
        }
    return records


def _peers(message: str, nodes: Sequence[int], number_of: Sequence[int | None]) -> dict[str, object]:
    """A message with the events at its other end: those that are drawn by number, the others counted."""
    numbers = [number_of[node] for node in nodes]
    drawn = [number for number in numbers if number is not None]
    return {
        "message": visible(message, 200),
        "events": drawn[:_PEERS_MAX],
        "more": max(0, len(drawn) - _PEERS_MAX),
        "elsewhere": len(numbers) - len(drawn),
    }


def _toolbar(title: str, views: Sequence[View]) -> Markup:
    search = element(
        "form",
        element("label", "Search", for_="search", class_="spoken"),
        element(
            "input",
            id="search",
            type="search",
            placeholder="Name, process, id, attribute",
            autocomplete="off",
            spellcheck="false",
        ),
        _button("previous", "↑", "Previous match"),
        _button("next", "↓", "Next match"),
        element("output", "", id="found", for_="search", aria_live="polite"),
        role="search",
        id="searching",
    )
    zoom = element(
        "div",
        _button("out", "−", "Zoom out"),
        element("output", "100 %", id="scale", aria_label="Zoom"),
        _button("in", "+", "Zoom in"),
        _button("fit", "Fit", "Fit the whole diagram"),
        role="group",
        aria_label="Zoom",
        class_="group",
    )
    parts: list[Markup] = [search, zoom]
    if len(views) > 1:
        folded = views[0].name == "folded"
        parts.append(
            element(
                "button",
                "Fold local events",
                id="fold",
                type="button",
                aria_pressed="true" if folded else "false",
                title="Draw runs of local events as one sign",
            )
        )
    return element("header", element("h1", title), element("div", *parts, class_="tools"))


def _button(name: str, sign: str, label: str) -> Markup:
    return element("button", sign, id=name, type="button", aria_label=label, title=label)


def _stage(figures: Sequence[Markup]) -> Markup:
    return element(
        "div",
        element("div", class_="lanes", id="lanes", aria_hidden="true"),
        *figures,
        id="stage",
        tabindex=0,
        role="region",
        aria_label="Diagram: arrow keys go from event to event, plus and minus zoom",
    )


def _panel() -> Markup:
    keys = [
        ("click, or arrow keys", "choose an event"),
        ("drag, wheel", "move"),
        ("Ctrl + wheel, + and −", "zoom; 0 fits, 1 is full size"),
        ("/", "search; Enter goes on, Shift + Enter back"),
        ("Esc", "choose nothing"),
    ]
    rows = [element("div", element("dt", key), element("dd", what)) for key, what in keys]
    return element(
        "aside",
        element("div", "", id="details", aria_live="polite"),
        element(
            "div",
            element("h2", "Choose an event"),
            element(
                "p",
                "Its causal past, all that could have led to it, and its future, all that it could have influenced, "
                "are then marked. The rest is concurrent with it.",
            ),
            element("dl", *rows, class_="keys"),
            id="help",
        ),
        aria_label="Chosen event",
    )
