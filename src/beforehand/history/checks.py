"""Checks: did the messages arrive in FIFO, causal, total or temporal order, and are the reported clocks right?

Every finding comes with a witness and says why, edge by edge. What could not be checked is said in `notes`.

    fifo      a message was received after a later one from the same sender to the same process
    causal    a message was received after one that its own send happened before (Garg 12.1, condition CO)
    total     messages that no one order can satisfy: processes received them in orders that form a cycle
    temporal  a message was received after one that was sent more than δ later, by the senders' clocks
    clock     a vector clock that the application reported is not the one its messages imply

Messages of one send event, and messages received in one event, have no order among themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from beforehand.events import EventId
from beforehand.history.columns import Columns
from beforehand.history.judging import Judged, judged_clocks, judged_orders, judged_temporal, known_counts
from beforehand.history.kernels import NO_TIME, overtaken, path_back, strong_components
from beforehand.history.succession import Succession, succession

__all__ = ["CheckReport", "Violation", "check", "inferred_note", "total_order"]

Integers = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Chain = Callable[[int, int], list[int]]
Reasons = Callable[[list[int]], list[str]]
T = TypeVar("T")

SHORTEST_MAX: Final = 10_000
"""Messages in a knot up to which its witness is the shortest cycle of all; beyond, a short one."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding. `events` and `messages` are the witness; `reasons` explains it edge by edge."""

    kind: str
    events: tuple[EventId, ...]
    messages: tuple[str, ...]
    why: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckReport:
    """`counts` counts everything found; `violations` holds at most `limit` of each kind.

    `judged`, by kind: how much could be judged at all, and why not the rest.
    """

    counts: Mapping[str, int]
    violations: tuple[Violation, ...]
    notes: tuple[str, ...] = field(default=())
    judged: Mapping[str, Judged] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, int | None]:
        """`counts`, with None where nothing could be judged."""
        return known_counts(self.counts, self.judged)

    @property
    def passed(self) -> bool:
        return not any(self.counts.values())


def check(
    columns: Columns,
    stamps: Stamps,
    *,
    chain: Chain,
    reasons: Reasons,
    delta_ns: int | None,
    limit: int,
) -> CheckReport:
    """All checks of one history. `chain` and `reasons` explain how one row led to another."""
    checker = _Checker(columns, stamps, chain, reasons, limit)
    checker.fifo_and_causal()
    checker.total()
    if delta_ns is not None:
        checker.temporal(delta_ns)
    checker.clocks()
    return CheckReport(
        dict(checker.counts), tuple(checker.violations), tuple(checker.notes), checker.judged(delta_ns is not None)
    )


def total_order(columns: Columns, *, limit: int) -> CheckReport:
    """Total order alone, which needs no stamps."""

    def nothing(*_: object) -> list[int]:
        raise AssertionError("total order asks for no chain")

    stamps = np.zeros((0, len(columns.processes)), np.int32)
    checker = _Checker(columns, stamps, nothing, lambda _: [], limit)
    checker.total()
    return CheckReport({"total": checker.counts["total"]}, tuple(checker.violations), tuple(checker.notes))


def inferred_note(inferred: int) -> str:
    return f"{inferred} receives are of inferred messages; checks of order need real ones and left them out"


class _Checker:
    def __init__(self, columns: Columns, stamps: Stamps, chain: Chain, reasons: Reasons, limit: int) -> None:
        self.columns = columns
        self.stamps = stamps
        self.chain = chain
        self.reasons = reasons
        self.limit = limit
        self.counts: Counter[str] = Counter(fifo=0, causal=0, total=0, clock=0)
        self.violations: list[Violation] = []
        self.notes: list[str] = []
        self.latest_of: tuple[str, int] = ("", -1)
        self.latest: dict[int, tuple[Integers, Integers]] = {}
        self.row = columns.receive_row
        self.source = columns.source
        self.real = columns.real[columns.receive_message] if columns.messages else np.zeros(0, np.bool_)
        self.inferred = int((~self.real).sum())
        self.untimed = 0  # Receives of real messages without a send time, where temporal order was judged.
        if self.inferred:
            self.notes.append(inferred_note(self.inferred))

    def fifo_and_causal(self) -> None:
        columns, size = self.columns, len(self.columns.processes)
        causal, fifo = np.zeros(self.row.size, np.bool_), np.zeros(self.row.size, np.bool_)
        overtaken(
            columns.process,
            columns.receive_start,
            self.source,
            self.real,
            columns.process[self.source],
            columns.index[self.source],
            np.arange(columns.process.size),
            self.stamps,
            np.empty((0, size), self.stamps.dtype),
            np.zeros((size, size), self.stamps.dtype),
            np.zeros((size, size), np.int64),
            causal,
            fifo,
        )
        for kind, found in (("fifo", fifo), ("causal", causal)):
            hits = np.flatnonzero(found)
            self.counts[kind] = hits.size
            for r in self._some(kind, hits.tolist()):
                self._overtaken(kind, r)

    def _overtaken(self, kind: str, late: int) -> None:
        """Name the first message that was received before `late` although its send came after."""
        columns = self.columns
        sent, received = int(self.source[late]), int(self.row[late])
        receives, latest = self._latest(kind, int(columns.process[received]), int(columns.process[sent]))
        early = int(receives[np.searchsorted(latest, columns.index[sent] + (kind == "fifo"))])
        path = self.chain(sent, int(self.source[early]))
        m, n = (columns.messages[columns.receive_message[r]] for r in (late, early))
        overtaker = int(self.row[early])
        self.violations.append(
            Violation(
                kind,
                tuple(columns.event_id(at) for at in (*path, overtaker, received)),
                (m, n),
                f"{columns.event_id(received)} received {m!r} after {n!r} (at {columns.event_id(overtaker)}), "
                f"although {m!r} was sent first: {columns.event_id(sent)} → {columns.event_id(path[-1])}",
                tuple(self.reasons(path)),
            )
        )

    def _latest(self, kind: str, receiver: int, sender: int) -> tuple[Integers, Integers]:
        """The receives of a process, and after each how much of a sender's events their sends knew of so far.

        That only grows, so the first receive that overtakes a given send is found by bisection.
        """
        if self.latest_of != (kind, receiver):
            self.latest_of, self.latest = (kind, receiver), {}
        if sender not in self.latest:
            columns = self.columns
            first, end = (
                columns.receive_start[columns.start[receiver]],
                columns.receive_start[columns.start[receiver + 1]],
            )
            receives = np.arange(first, end)
            receives = receives[(self.source[receives] >= 0) & self.real[receives]]
            sources = self.source[receives]
            own = columns.process[sources] == sender
            if kind == "fifo":
                known = np.where(own, columns.index[sources], 0)
            else:
                known = self.stamps[sources, sender].astype(np.int64) - own
            self.latest[sender] = (receives, np.maximum.accumulate(known))
        return self.latest[sender]

    def total(self) -> None:
        graph = succession(self.columns, self.real)
        component = np.empty(graph.start.size - 1, np.int64)
        strong_components(graph.start, graph.target, component)
        sizes = np.bincount(component[: graph.messages], minlength=1) if graph.messages else np.zeros(1, np.int64)
        knots = np.flatnonzero(sizes > 1)
        self.counts["total"] = knots.size
        if not knots.size:
            return
        members: dict[int, list[int]] = {knot: [] for knot in self._some("total", knots.tolist())}
        for message in np.flatnonzero(graph.inverted):
            if int(component[message]) in members:
                members[int(component[message])].append(int(message))
        for knot, starts in members.items():
            self._knot(graph, component, starts, int(sizes[knot]))

    def _knot(self, graph: Succession, component: Integers, starts: list[int], size: int) -> None:
        parent = np.full(component.size, -1, np.int64)
        path = np.empty(component.size, np.int64)
        best: list[int] = []
        # Every cycle passes through a message that came after a higher numbered one.
        for message in starts if size <= SHORTEST_MAX else starts[:1]:
            longest = len(best) - 1 if best else component.size
            length = path_back(graph.start, graph.target, component, graph.messages, message, longest, parent, path)
            if length:
                best = [int(m) for m in reversed(path[:length])]
        first = best.index(min(best))  # A cycle has no beginning; its first message in the input will do.
        best = best[first:] + best[:first]
        self._cycle(best, size)

    def _cycle(self, cycle: list[int], size: int) -> None:
        columns = self.columns
        at: dict[tuple[int, int], int] = {}  # (process, message) -> row of its receive
        for r in np.flatnonzero(np.isin(columns.receive_message, cycle)):
            at[int(columns.process[self.row[r]]), int(columns.receive_message[r])] = int(self.row[r])
        events: list[EventId] = []
        reasons: list[str] = []
        for first, second in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            process = min(p for p, m in at if m == first and (p, second) in at and at[p, first] < at[p, second])
            pair = (columns.event_id(at[process, first]), columns.event_id(at[process, second]))
            events += pair
            reasons.append(
                f"{columns.processes[process]} received {columns.messages[first]!r} ({pair[0]}) "
                f"before {columns.messages[second]!r} ({pair[1]})"
            )
        names = tuple(columns.messages[m] for m in cycle)
        shown = " before ".join(repr(name) for name in (*names, names[0]))
        why = f"no one order fits {len(cycle)} messages: {shown}"
        if size > len(cycle):
            why += f"; such cycles tie {size} messages together"
        self.violations.append(Violation("total", tuple(events), names, why, tuple(reasons)))

    def temporal(self, delta_ns: int) -> None:
        """Per process keep the latest send time received so far; a new message may lie at most δ before it."""
        columns = self.columns
        self.counts["temporal"] = 0
        timed = self.real & (self.source >= 0)
        timed[timed] = columns.time[self.source[timed]] != NO_TIME
        self.untimed = without = int((self.real & ~timed).sum())
        if without:
            self.notes.append(f"temporal order: {without} receives are of messages without a send time")
        hits: list[tuple[int, int]] = []
        process, latest, seen = -1, -1, -1  # `latest` over earlier events; `seen` includes this one.
        row_before = -1
        for r in np.flatnonzero(timed):
            row = int(self.row[r])
            if columns.process[row] != process:
                process, latest, seen = int(columns.process[row]), -1, -1
            if row != row_before:
                latest, row_before = seen, row
            sent = int(columns.time[self.source[r]])
            if latest >= 0 and int(columns.time[self.source[latest]]) - sent > delta_ns:
                hits.append((int(r), latest))
            if seen < 0 or sent > columns.time[self.source[seen]]:
                seen = int(r)
        self.counts["temporal"] = len(hits)
        for late, early in self._some("temporal", hits):
            m, n = (columns.messages[columns.receive_message[r]] for r in (late, early))
            ahead = int(columns.time[self.source[early]]) - int(columns.time[self.source[late]])
            rows = (self.source[late], self.source[early], self.row[early], self.row[late])
            self.violations.append(
                Violation(
                    "temporal",
                    tuple(columns.event_id(int(at)) for at in rows),
                    (m, n),
                    f"{columns.event_id(int(rows[3]))} received {m!r} after {n!r}, which was sent {ahead} ns later "
                    f"by the senders' clocks (δ = {delta_ns} ns)",
                )
            )

    def clocks(self) -> None:
        columns = self.columns
        position = {process: at for at, process in enumerate(columns.processes)}
        firsts: dict[int, Violation] = {}
        unsure = 0
        for row, event in enumerate(columns.events):
            if event.clock is None:
                continue
            stamp = self.stamps[row]
            reported = {process: count for process, count in event.clock.items() if count}
            right = len(reported) == np.count_nonzero(stamp) and all(
                process in position and stamp[position[process]] == count for process, count in reported.items()
            )
            if right:
                continue
            self.counts["clock"] += 1
            unsure += any(not self._present(position.get(process), count) for process, count in reported.items())
            process = int(columns.process[row])
            if process not in firsts:
                expected = {p: int(stamp[at]) for p, at in position.items() if stamp[at]}
                why = f"{columns.event_id(row)} reports the clock {reported}; its messages imply {expected}"
                firsts[process] = Violation("clock", (columns.event_id(row),), (), why)
        self.violations += list(firsts.values())[: self.limit]
        if len(firsts) > self.limit:
            self.notes.append(f"clock: {len(firsts)} processes report wrong ones, the first {self.limit} are listed")
        if unsure:
            self.notes.append(
                f"clock: {unsure} of the {self.counts['clock']} wrong clocks name events that are not here; "
                "if the history is incomplete, they may be right"
            )

    def judged(self, temporal: bool) -> dict[str, Judged]:
        receives = int(self.row.size)
        unsent = int((self.real & (self.source < 0)).sum())
        result = judged_orders(receives=receives, inferred=self.inferred, unsent=unsent)
        if temporal:
            result["temporal"] = judged_temporal(receives=receives, inferred=self.inferred, untimed=self.untimed)
        events = self.columns.events
        clocks = sum(event.clock is not None for event in events)
        return result | {"clock": judged_clocks(events=len(events), clocks=clocks)}

    def _present(self, process: int | None, index: int) -> bool:
        if process is None:
            return False
        rows = self.columns.index[self.columns.start[process] : self.columns.start[process + 1]]
        at = int(np.searchsorted(rows, index))
        return at < rows.size and int(rows[at]) == index

    def _some(self, kind: str, hits: Sequence[T]) -> Sequence[T]:
        if len(hits) > self.limit:
            self.notes.append(f"{kind}: {len(hits)} found, the first {self.limit} are listed")
        return hits[: self.limit]
