"""The first passes of the layout: events to a graph of places, and the graph to columns.

Nodes are numbered so that those of one process are consecutive and in index order. The predecessor of a
node on its process is then the number before it, and no pass needs a table for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from beforehand.diagram.text import natural_key
from beforehand.errors import InputError
from beforehand.events import Event, Kind

__all__ = ["Edge", "Graph", "build_graph", "layers"]


@dataclass(frozen=True, slots=True)
class Edge:
    """One message from one event to another. One end may be missing, never both."""

    message: str
    send: int | None
    receive: int | None


@dataclass(frozen=True, slots=True)
class Graph:
    nodes: list[tuple[Event, ...]]  # One event each, or a collapsed run.
    processes: list[str]  # By name.
    starts: list[int]  # First node of each process, and at the end the number of nodes.
    process_of: list[int]  # Position in `processes`, by node.
    edges: list[Edge]


def build_graph(
    events: Iterable[Event],
    *,
    collapse_local: int | None,
    keep: Callable[[Event], bool],
    cut: Mapping[str, int],
) -> Graph:
    """The graph of one execution; the order in which the events come does not matter.

    Runs of more than `collapse_local` local events share a node, unless `keep` wants them to be seen or
    the cut passes between them.
    """
    histories = _histories(events)
    nodes: list[tuple[Event, ...]] = []
    processes = sorted(histories, key=natural_key)
    starts: list[int] = []
    process_of: list[int] = []
    for number, process in enumerate(processes):
        starts.append(len(nodes))
        units = _collapse(histories[process], collapse_local, keep, cut.get(process, 0))
        nodes.extend(units)
        process_of.extend([number] * len(units))
    starts.append(len(nodes))
    return Graph(nodes, processes, starts, process_of, _edges(nodes))


def layers(graph: Graph) -> tuple[list[int], set[int]]:
    """The column of each node, and the positions of the edges that had to be ignored for it.

    A node stands one step right of its predecessor on the process and of the sends that it receives from:
    longest-path layering. Message edges that would close a cycle are ignored, and only those; the order
    on a process never is.

    Works lane by lane. To place the next node of a lane, the lanes of its sends must come first: they go
    on a stack. A send on a lane that is already on the stack, beyond its next node, waits for us while we
    wait for it: that edge closes a cycle. Linear in nodes and edges, without recursion.
    """
    columns = [0] * len(graph.nodes)
    ignored: set[int] = set()
    incoming: list[list[int]] = [[] for _ in graph.nodes]
    for number, edge in enumerate(graph.edges):
        if edge.send is not None and edge.receive is not None:
            incoming[edge.receive].append(number)
    following = graph.starts[:-1]  # The next node to place, by process. A slice: ours to change.
    settled = [0] * len(graph.processes)  # How many incoming edges of that node are dealt with.
    waiting = [False] * len(graph.processes)  # Whether the process is on the stack.
    for start in range(len(graph.processes)):
        stack = [(start, graph.starts[start + 1])]
        waiting[start] = True
        while stack:
            process, stop = stack[-1]
            node = following[process]
            if node >= stop:
                waiting[process] = False
                stack.pop()
                continue
            blocker = None
            edges_in = incoming[node]
            while settled[process] < len(edges_in):
                send = graph.edges[edges_in[settled[process]]].send
                assert send is not None
                other = graph.process_of[send]
                if send < following[other]:
                    columns[node] = max(columns[node], columns[send] + 1)
                elif waiting[other]:
                    ignored.add(edges_in[settled[process]])
                else:
                    blocker = (other, send + 1)
                    break
                settled[process] += 1
            if blocker is not None:
                waiting[blocker[0]] = True
                stack.append(blocker)
                continue
            if node > graph.starts[process]:
                columns[node] = max(columns[node], columns[node - 1] + 1)
            following[process] += 1
            settled[process] = 0
    return columns, ignored


def _histories(events: Iterable[Event]) -> dict[str, list[Event]]:
    histories: dict[str, list[Event]] = {}
    execution: str | None = None
    for event in events:
        if execution is None:
            execution = event.execution
        elif event.execution != execution:
            raise InputError(
                f"a diagram shows one execution, but events of {execution!r} and {event.execution!r} "
                "were given: choose one"
            )
        histories.setdefault(event.process, []).append(event)
    for history in histories.values():
        history.sort(key=lambda event: event.index)
        for one, next_one in pairwise(history):
            if one.index == next_one.index:
                raise InputError(f"event {one.id} was given twice: a diagram needs each event once")
    return histories


def _collapse(
    history: list[Event], limit: int | None, keep: Callable[[Event], bool], boundary: int
) -> list[tuple[Event, ...]]:
    if limit is None:
        return [(event,) for event in history]
    units: list[tuple[Event, ...]] = []
    run: list[Event] = []

    def end_run() -> None:
        units.extend([tuple(run)] if len(run) > limit else [(event,) for event in run])
        run.clear()

    for event in history:
        if run and run[-1].index <= boundary < event.index:
            end_run()
        if event.kind is Kind.LOCAL and not keep(event):
            run.append(event)
        else:
            end_run()
            units.append((event,))
    end_run()
    return units


def _edges(nodes: list[tuple[Event, ...]]) -> list[Edge]:
    """One edge per receive, and one per send that nobody received.

    Should two events claim to send one message, the first by process and index is believed; the other
    then looks like a lost message, which is where a reader will look.
    """
    senders: dict[str, int] = {}
    for node, unit in enumerate(nodes):
        for message in unit[0].sends:
            senders.setdefault(message, node)
    edges: list[Edge] = []
    received: set[str] = set()
    for node, unit in enumerate(nodes):
        for message in unit[0].receives:
            received.add(message)
            edges.append(Edge(message, senders.get(message), node))
    for node, unit in enumerate(nodes):
        edges.extend(
            Edge(message, node, None)
            for message in unit[0].sends
            if message not in received or senders[message] != node
        )
    return edges
