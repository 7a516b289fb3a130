"""What spans tell of causality: typed edges between their starts and ends, and one order that respects them all.

Each span has two events here, start and end. Edges:

    child    from the parent's start to the child's start. Nothing says where inside the parent the call was made, and
             the clocks of two processes cannot be compared, so the start is the only send that is certain. Where
             the tracer made a client span, that span's start is the send itself.
    return   from the child's end to the parent's end, only if the call is synchronous.
    follows  from the referenced span (its end if it ended before by the clocks, else its start) to this one's start.
    link     the same.

Synchronous means that the parent waited for the child. Producers and consumers, FOLLOWS_FROM and links never
return. A client and its server do if the server's span is not longer than the client's, whatever their clocks say,
unless the client failed before the server was done (a timeout). Any other child does if it lies inside its parent
by the clock.

Cycles cannot be honoured. Parents that are their own descendants, then links that close a cycle, give rejections
with reason `cycle` and the edges are left out: all that lie inside the knot (the strongly connected component), for
none of them can be told to be the wrong one, so the choice is the same whatever the order of input. A link from an
end is first taken from the start instead. What is left has no cycle: starts respect the parents, ends the reverse,
and every start comes before its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from beforehand.formats.spans.identity import Finding, Identified
from beforehand.formats.spans.records import ReferenceKind, Span, SpanKind

__all__ = ["CYCLE", "RETURN", "Causes", "Edge", "causes_of", "end_of", "start_of"]

CYCLE: Final = "cycle"
RETURN: Final = "return"

_ASYNCHRONOUS: Final = frozenset({SpanKind.PRODUCER, SpanKind.CONSUMER})
_BEGINNING: Final = -(2**63)  # Before every time.
_NEVER: Final = 2**63  # After every time.


class Edge(NamedTuple):
    """From one span to another; what of them it joins follows from its kind."""

    kind: str
    source: int
    target: int
    from_end: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Causes:
    """The edges that stand, and an order of all starts (2 × position) and ends (that + 1) that respects them."""

    edges: Sequence[Edge]
    missing: Sequence[tuple[str, str, int]]  # Kind, label and target of references to spans that are not there.
    parent: Sequence[int]  # Per span, its parent's position or -1.
    nested: Sequence[bool]  # Per span, whether it could have run inside its parent, on the same lane.
    order: Sequence[int]
    findings: list[Finding]


def start_of(span: Span) -> int:
    """When a span began, at the earliest: its end if that is before its start, or if it has no start."""
    times = [time for time in (span.start_ns, span.end_ns) if time is not None]
    return min(times) if times else _BEGINNING


def end_of(span: Span) -> int:
    """When it was over. Never, if nobody reported an end."""
    return _NEVER if span.end_ns is None else max(span.end_ns, span.start_ns or span.end_ns)


def causes_of(identified: Identified, execution: str) -> Causes:
    """All that the references of an execution's spans say."""
    spans = identified.spans
    findings: list[Finding] = []
    parents: list[Edge] = []
    others: list[Edge] = []
    missing: list[tuple[str, str, int]] = []
    for at, span in enumerate(spans):
        caller = identified.caller(at)
        if caller is not None:
            parents.append(Edge(ReferenceKind.CHILD_OF, caller, at))
        for reference in identified.references(at):
            source = identified.meant(reference, identified.processes[at], other_than=at)
            if source is None and (reference.trace_id, reference.span_id) == (span.trace_id, span.span_id):
                detail = f"span {identified.labels[at]} names itself as its {_NAMES[reference.kind]}: left out"
                findings.append(Finding(CYCLE, detail, (at,)))
            elif source is None:
                missing.append((reference.kind, identified.label(reference, execution), at))
            elif reference.kind is ReferenceKind.CHILD_OF:
                parents.append(Edge(reference.kind, source, at))
            else:
                ended = end_of(spans[source]) <= start_of(span)
                others.append(Edge(reference.kind, source, at, from_end=ended))
    parents = _without_parent_cycles(identified, parents, findings)
    parent = [-1] * len(spans)
    for edge in reversed(parents):  # The first one counts.
        parent[edge.target] = edge.source
    nested = [p >= 0 and _nested(identified, p, at) for at, p in enumerate(parent)]
    returning = [
        Edge(RETURN, at, p)
        for at, p in enumerate(parent)
        if p >= 0 and _returns(spans[p], spans[at], nested=nested[at], same_process=_same(identified, p, at))
    ]
    # A nested span ends before its parent on their lane even if no message says so: the order must know.
    inside = [Edge(RETURN, at, p) for at, p in enumerate(parent) if nested[at]]
    fixed = [*parents, *returning, *inside]
    others, order = _ordered(identified, fixed, others, findings)
    return Causes([*parents, *returning, *others], missing, parent, nested, order, findings)


_NAMES: Final = {
    ReferenceKind.CHILD_OF: "parent",
    ReferenceKind.FOLLOWS_FROM: "predecessor",
    ReferenceKind.LINK: "link",
}


def _same(identified: Identified, parent: int, child: int) -> bool:
    return identified.processes[parent] == identified.processes[child]


def _within(parent: Span, child: Span) -> bool:
    """By the clocks. A span without any time lies in nothing."""
    return start_of(parent) <= start_of(child) and end_of(child) <= end_of(parent) and start_of(child) > _BEGINNING


def _nested(identified: Identified, parent: int, child: int) -> bool:
    """Whether the child may have run inside its parent, as a call in one thread would."""
    above, below = identified.spans[parent], identified.spans[child]
    called = above.kind is SpanKind.CLIENT and below.kind is SpanKind.SERVER
    apart = (
        below.remote_parent is True or called or below.kind is SpanKind.CONSUMER or above.kind is SpanKind.PRODUCER
    )
    return not apart and _same(identified, parent, child) and _within(above, below)


def _returns(parent: Span, child: Span, *, nested: bool, same_process: bool) -> bool:
    if parent.end_ns is None or child.end_ns is None:
        return False
    if child.kind in _ASYNCHRONOUS or parent.kind is SpanKind.PRODUCER:
        return False
    if nested:
        return True
    called = parent.kind is SpanKind.CLIENT and child.kind is SpanKind.SERVER
    if called and not same_process and parent.start_ns is not None and child.start_ns is not None:
        timeout = parent.error and child.end_ns > parent.end_ns
        # Durations do not depend on how the clocks are set.
        return 0 <= child.end_ns - child.start_ns <= parent.end_ns - parent.start_ns and not timeout
    return _within(parent, child)


# Cycles.


def _without_parent_cycles(identified: Identified, parents: list[Edge], findings: list[Finding]) -> list[Edge]:
    out: list[list[int]] = [[] for _ in identified.spans]
    for edge in parents:
        out[edge.source].append(edge.target)
    component = _components(out)
    if component is None:
        return parents
    kept = [edge for edge in parents if component[edge.source] != component[edge.target]]
    _report(identified, [edge for edge in parents if component[edge.source] == component[edge.target]], findings)
    return kept


def _ordered(
    identified: Identified, fixed: list[Edge], links: list[Edge], findings: list[Finding]
) -> tuple[list[Edge], list[int]]:
    """The links that close no cycle, and the order."""
    order = _order(identified.spans, [*fixed, *links])
    if order is not None:
        return links, order
    for demoting in (True, False):
        component = _components(_graph(len(identified.spans), [*fixed, *links]))
        if component is None:
            break
        knotted = [component[_tail(edge)] == component[_head(edge)] for edge in links]
        if demoting:
            links = [
                edge._replace(from_end=False) if inside else edge for edge, inside in zip(links, knotted, strict=True)
            ]
        else:
            _report(identified, [edge for edge, inside in zip(links, knotted, strict=True) if inside], findings)
            links = [edge for edge, inside in zip(links, knotted, strict=True) if not inside]
    order = _order(identified.spans, [*fixed, *links])
    assert order is not None
    return links, order


def _report(identified: Identified, edges: list[Edge], findings: list[Finding]) -> None:
    for edge in edges:
        source, target = identified.labels[edge.source], identified.labels[edge.target]
        detail = (
            f"span {target} comes after {source}, its {_NAMES[ReferenceKind(edge.kind)]}, which by other references "
            "comes after it: this one is left out"
        )
        findings.append(Finding(CYCLE, detail, (edge.source, edge.target), f"~{edge.kind}:{source}>{target}"))


# The graph of starts and ends.


def _tail(edge: Edge) -> int:
    return 2 * edge.source + (1 if edge.kind == RETURN or edge.from_end else 0)


def _head(edge: Edge) -> int:
    return 2 * edge.target + (1 if edge.kind == RETURN else 0)


def _graph(size: int, edges: Sequence[Edge]) -> list[list[int]]:
    out: list[list[int]] = []
    for at in range(size):
        out += [[2 * at + 1], []]
    for edge in edges:
        out[_tail(edge)].append(_head(edge))
    return out


def _order(spans: Sequence[Span], edges: Sequence[Edge]) -> list[int] | None:
    """Causes before effects and else by causal time (the latest reading in the past), so that it follows the clocks
    where they agree with causality; None if there is a cycle. At one instant, what ends goes before what starts, and
    what starts and lasts longest goes first.
    """
    out = _graph(len(spans), edges)
    waiting = [0] * len(out)
    for targets in out:
        for target in targets:
            waiting[target] += 1
    own: list[int] = []
    ties: list[tuple[int, int]] = []
    for span in spans:
        own += [start_of(span), end_of(span)]
        ties += [(1, -end_of(span)), (0, 0)]
    causal = own.copy()
    ready = [(causal[node], own[node], ties[node], node) for node, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        time, _, _, node = heappop(ready)
        order.append(node)
        for target in out[node]:
            if causal[target] < time:
                causal[target] = time
            waiting[target] -= 1
            if not waiting[target]:
                heappush(ready, (causal[target], own[target], ties[target], target))
    return order if len(order) == len(out) else None


def _components(out: list[list[int]]) -> list[int] | None:
    """Per node the number of its strongly connected component; None if there is no cycle. Tarjan, not recursive."""
    size = len(out)
    number = [-1] * size  # In the order of discovery.
    low = [0] * size
    component = [-1] * size
    stack: list[int] = []
    counter = components = 0
    cyclic = False
    for root in range(size):
        if number[root] >= 0:
            continue
        path = [(root, 0)]
        while path:
            node, step = path.pop()
            if step == 0:
                number[node] = low[node] = counter
                counter += 1
                stack.append(node)
            elif low[out[node][step - 1]] < low[node] and component[out[node][step - 1]] < 0:
                low[node] = low[out[node][step - 1]]
            while step < len(out[node]):
                target = out[node][step]
                step += 1
                if number[target] < 0:
                    path += [(node, step), (target, 0)]
                    break
                if component[target] < 0:
                    low[node] = min(low[node], number[target])
                    cyclic = True  # A back or cross edge within a path that is still open.
            else:
                if low[node] == number[node]:
                    while True:
                        member = stack.pop()
                        component[member] = components
                        if member == node:
                            break
                    components += 1
    return component if cyclic else None
