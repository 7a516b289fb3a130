"""What `Marks` mean for single events: their role, whether they may be collapsed, what the cap keeps."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from beforehand.diagram.graph import Graph
from beforehand.diagram.model import Marks, Role
from beforehand.events import Event, EventId

__all__ = ["Marking"]

_NONE: Final[frozenset[EventId]] = frozenset()


class Marking:
    """`Marks`, ready for one look-up per event: the collections that callers pass may be lists."""

    def __init__(self, marks: Marks) -> None:
        self._selected = marks.selected
        self._past = _NONE if marks.past is None else frozenset(marks.past)
        self._future = _NONE if marks.future is None else frozenset(marks.future)
        self._rest_is_concurrent = marks.selected is not None and marks.past is not None and marks.future is not None
        self._notes = frozenset(marks.notes)
        self._cut = marks.cut
        self.violations = frozenset(marks.violations)
        self.violating_messages = frozenset(marks.violating_messages)
        self.failures = frozenset(marks.failures)

    def role(self, event: EventId) -> Role:
        if event == self._selected:
            return Role.SELECTED
        if event in self._past:
            return Role.PAST
        if event in self._future:
            return Role.FUTURE
        return Role.CONCURRENT if self._rest_is_concurrent else Role.PLAIN

    def is_marked(self, event: Event) -> bool:
        """Whether the event must be seen by itself. Being concurrent is no mark: it is the absence of one."""
        one = event.id
        pointed = one in self.violations or one in self.failures or one in self._notes
        return pointed or self.role(one) not in (Role.PLAIN, Role.CONCURRENT)

    def focus(self, graph: Graph) -> list[int]:
        """The nodes that matter most, for when not all can be drawn: the first of these that there are.

        The selected event; what is violated; failures; what has a note; past and future; the events before the cut.
        """
        wanted = [{self._selected} if self._selected else _NONE, self.violations]
        for ids in (*wanted, self.failures, self._notes, self._past | self._future):
            found = [node for node, unit in enumerate(graph.nodes) if unit[0].id in ids] if ids else []
            if ids is self.violations and self.violating_messages:
                found.extend(self._ends_of_violating_messages(graph))
            if found:
                return found
        return self._before_cut(graph)

    def _ends_of_violating_messages(self, graph: Graph) -> list[int]:
        return [
            end
            for edge in graph.edges
            if edge.message in self.violating_messages
            for end in (edge.send, edge.receive)
            if end is not None
        ]

    def _before_cut(self, graph: Graph) -> list[int]:
        if self._cut is None:
            return []
        nodes: list[int] = []
        for number, process in enumerate(graph.processes):
            start, stop = graph.starts[number], graph.starts[number + 1]
            last = bisect_right(graph.nodes, self._cut.get(process, 0), start, stop, key=lambda unit: unit[-1].index)
            if last > start:
                nodes.append(last - 1)
        return nodes
