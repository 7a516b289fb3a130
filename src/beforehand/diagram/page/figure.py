"""A diagram to explore, as a piece of a page: the drawing for who has no script, and the data for who has one.

1. Choosing an event shows all of it and marks its causal past and future among the drawn events. The answer is exact
   for the events that were given, drawn or not; `relations` adds what is known of events that were not.
2. At most `events_max` places per drawing, 2,000 unless told otherwise; the figure says how many are not drawn.
3. The same input gives the same bytes.

Runs of local events can be folded and unfolded: the data has both. Where the second drawing would be larger than
4,000 places, it has one and says so.

Cost: that of two layouts, and linear in events and messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from beforehand.diagram.graph import build_graph
from beforehand.diagram.layout import layout
from beforehand.diagram.model import DEFAULT_OPTIONS, NO_MARKS, Axis, LayoutOptions, Marks
from beforehand.diagram.page.axes import axes_of
from beforehand.diagram.page.markup import Markup, element
from beforehand.diagram.page.records import names_of, records_of
from beforehand.diagram.page.relations import Relations, direct_causes
from beforehand.diagram.page.views import View, numbers_of
from beforehand.diagram.svg import to_svg
from beforehand.diagram.text import visible
from beforehand.events import Event, EventId

__all__ = ["Figure", "figure"]

_SECOND_MAX: Final = 4_000  # Places of a second drawing.
_COLLAPSE: Final = 3  # Runs of more than this many local events are folded, unless the options say otherwise.


@dataclass(frozen=True, slots=True)
class Figure:
    """A diagram: `svg` by `to_svg`, what must be said beside it, and the data of the page, for JSON."""

    svg: str
    warnings: tuple[str, ...]
    data: Mapping[str, object]

    def host(self, key: str, drawing: Markup, *head: Markup) -> Markup:
        """The element that becomes the diagram; until then it shows `drawing`, which is `svg` as the page holds it.

        An empty `key` says that the page is this diagram's alone.
        """
        warnings = [element("p", f"⚠ {warning}", class_="warning", role="note") for warning in self.warnings]
        return element("div", *head, *warnings, drawing, class_="diagram", data_diagram=key)


def figure(
    events: Iterable[Event],
    *,
    marks: Marks = NO_MARKS,
    options: LayoutOptions = DEFAULT_OPTIONS,
    relations: Mapping[EventId, Collection[EventId]] | None = None,
    failures: Collection[EventId] = (),
) -> Figure:
    """The diagram of one execution. See `diagram_page` for what the arguments mean."""
    given = list(events)
    graph = build_graph(given, collapse_local=None, keep=lambda _: True, cut={})
    views = _views(given, marks, options)
    known = _known(relations or {}, marks)
    drawn = _drawn(views)
    axes = axes_of(graph)
    empty = {lane.process for view in views for lane in view.layout.lanes} - set(graph.processes)
    processes = [*graph.processes, *sorted(empty)]
    owners = {process: number for number, process in enumerate(processes)}
    names = names_of(processes)
    asked = "clocks" if options.axis is Axis.CLOCKS and "clocks" in axes.described else "steps"
    cut = None if marks.cut is None else {names[owners[p]]: i for p, i in marks.cut.items() if p in owners and i > 0}
    data = {
        "execution": visible(given[0].execution, 200) if given else "",
        "processes": names,
        "events": records_of(graph, drawn, marks, failures),
        "views": [numbers_of(view, drawn, owners, axes, direct_causes(graph, view.layout, known)) for view in views],
        "axes": axes.described,
        "axis": asked,
        "selected": None if marks.selected is None else drawn.get(marks.selected),
        "cut": cut,
    }
    first = views[0].layout
    return Figure(to_svg(first), first.warnings, data)


def _views(events: Sequence[Event], marks: Marks, options: LayoutOptions) -> list[View]:
    """The drawing that was asked for first, then the other one if it differs; what is left out is said."""
    limit = options.collapse_local or _COLLAPSE
    folded = View("folded", layout(events, marks=marks, options=replace(options, collapse_local=limit)))
    whole = View("whole", layout(events, marks=marks, options=replace(options, collapse_local=None)))
    first, second = (whole, folded) if options.collapse_local is None else (folded, whole)
    if all(place.count == 1 for place in folded.layout.places):
        return [first]
    if len(second.layout.places) > _SECOND_MAX:
        what = "folded" if second is folded else "unfolded"
        remark = f"Too large to hold a second drawing with runs of local events {what}."
        return [replace(first, layout=replace(first.layout, warnings=(*first.layout.warnings, remark)))]
    return [first, second]


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
