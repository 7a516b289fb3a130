"""Witnesses of what replaying the blocks found: the same `Violation`s that a check of the history in memory makes.

Of an overtaken receive the pipeline knows only where it stands. The message that overtook it is the first one, on the
same process, whose send the late message's send happened before. Whoever received it knows the late message's send,
so the search begins at the first event that does (bisected over the blocks) and goes on from there.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from beforehand.errors import InputError
from beforehand.events import INFERRED
from beforehand.history.checks import Violation
from beforehand.pipeline.stored.blocks import CutExecution, Place
from beforehand.pipeline.stored.relating import Point, chain_between, first_knowing_block, reasons_of

__all__ = ["clock_witness", "overtaken_witness"]


class _Stored(Protocol):
    def cut_execution(self, execution: str) -> CutExecution: ...


def overtaken_witness(
    history: _Stored, execution: str, kind: str, member: int, index: int, position: int
) -> Violation:
    """For the receive at `position` of an event, which the pipeline found overtaken. `kind`: `causal` or `fifo`."""
    assert kind in ("causal", "fifo")
    of = history.cut_execution(execution)
    late = of.sure_place(member, index)
    sources = of.sources(late)
    if not 0 <= position < len(sources) or sources[position][0] < 0:
        raise InputError(f"{of.event_id(member, index)} has no receive {position} whose message was sent")
    sent = sources[position]
    early, early_position = _overtaking(of, kind, member, late, sent)
    overtaker = (member, int(of.keys(early.block).index[early.row]))
    path = chain_between(of, sent, of.sources(early)[early_position])
    m, n = of.event(late).receives[position], of.event(early).receives[early_position]
    received = of.event_id(member, index)
    return Violation(
        kind,
        tuple(of.event_id(*point) for point in (*path, overtaker, (member, index))),
        (m, n),
        f"{received} received {m!r} after {n!r} (at {of.event_id(*overtaker)}), "
        f"although {m!r} was sent first: {of.event_id(*sent)} → {of.event_id(*path[-1])}",
        tuple(reasons_of(of, path)),
    )


def _overtaking(of: CutExecution, kind: str, member: int, late: Place, sent: Point) -> tuple[Place, int]:
    """The first receive of the process that overtook a message of this send: its event, and its position there."""
    sender, send = sent
    first = first_knowing_block(of, member, sent, upto=late.block)
    for block in of.full[(of.full >= first) & (of.full <= late.block)].tolist():
        found = of.structure(block).block
        start = of.start(block)
        begin, end = found.receive_start[[start[member], start[member + 1]]].tolist()
        own = found.sender[begin:end] == sender
        if kind == "fifo":
            after = own & (found.send[begin:end] > send)
        else:
            known, entering = of.knowledge(block, sender)
            source = of.structure(block).source[begin:end]
            at_send = np.full(source.size, -1, np.int64)
            at_send[source >= 0] = known[source[source >= 0]]
            at_send[source < -1] = entering[-2 - source[source < -1]]
            after = (source != -1) & (at_send - own >= send)
        for r in (begin + np.flatnonzero(after)).tolist():
            row = int(np.searchsorted(found.receive_start, r, side="right")) - 1
            place, position = Place(block, row), r - int(found.receive_start[row])
            if place >= late:
                break
            if not of.event(place).receives[position].startswith(INFERRED):  # Only real messages are judged.
                return place, position
    raise InputError(f"no message overtook the one that {of.event_id(*sent)} sent to {of.processes[member]}")


def clock_witness(history: _Stored, execution: str, member: int, index: int) -> Violation:
    """For an event whose reported clock the pipeline found wrong."""
    of = history.cut_execution(execution)
    place = of.sure_place(member, index)
    event, stamp = of.event(place), of.stamp(place)
    reported = {process: count for process, count in (event.clock or {}).items() if count}
    expected = {process: int(stamp[at]) for at, process in enumerate(of.processes) if stamp[at]}
    why = f"{event.id} reports the clock {reported}; its messages imply {expected}"
    return Violation("clock", (event.id,), (), why)
