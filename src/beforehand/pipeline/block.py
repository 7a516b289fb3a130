"""One block of an execution as arrays: what lies between two consistent cuts, summarized and replayed.

The three steps of stamping, on one block each (docs/explanation/stamping-by-cuts.md has the proof):

    summarize   replay as if nothing was known before the block: a process starts with its own index at the cut, and a
                message that was sent earlier brings only its own send event
    step        (scan.py) from the true stamps at the block's beginning and its summary to those at its end
    replay      the same kernel with the true stamps

A block's memory is its events and receives, plus a stamp per message in flight inside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from beforehand.history.columns import find_knots
from beforehand.history.kernels import (
    NO_TIME,
    locate,
    path_back,
    replay_block,
    share_slots,
    topological_order,
)

__all__ = [
    "LEFT_OUT",
    "UNSENT",
    "Block",
    "Clocks",
    "Entry",
    "Knot",
    "Replayed",
    "Summary",
    "no_clocks",
    "without_cycles",
]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

UNSENT = -1
"""As the sender of a receive: nobody sent its message."""

LEFT_OUT = -2
"""As the sender of a receive: it was rejected, and is no receive any more."""


@dataclass(frozen=True, slots=True, eq=False)
class Clocks:
    """The vector clocks that the application reported, without zeros."""

    given: Flags  # Per row.
    start: Integers
    process: Numbers
    count: Integers


def no_clocks(rows: int) -> Clocks:
    return Clocks(
        np.zeros(rows, np.bool_), np.zeros(rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Events of one block, sorted by process and index; processes are numbers in the order of their names."""

    cut: Integers  # Per process, its last index before the block.
    process: Numbers
    index: Integers
    time: Integers  # NO_TIME where there is none.
    receive_start: Integers  # The receives of row i are receive_start[i] up to receive_start[i + 1].
    sender: Numbers  # Per receive: the process that sent its message, or UNSENT or LEFT_OUT.
    send: Integers  # Per receive: the index of the send.
    real: Flags  # Per receive: whether a source named its message.
    small: bool  # Whether 32 bits hold every index of the execution.

    @property
    def rows(self) -> int:
        return int(self.process.size)

    @property
    def width(self) -> int:
        return int(self.cut.size)

    @property
    def start(self) -> Integers:
        return np.searchsorted(self.process, np.arange(self.width + 1)).astype(np.int64)

    @property
    def receive_row(self) -> Integers:
        return np.repeat(np.arange(self.rows), np.diff(self.receive_start))

    def stamps(self, rows: int) -> Stamps:
        return np.zeros((rows, self.width), np.int32) if self.small else np.zeros((rows, self.width), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Entering:
    """The messages that were sent before the block and are received in it, each once, by sender and send index."""

    sender: Numbers
    send: Integers
    start: Integers  # Of process q: start[q] up to start[q + 1].

    @property
    def size(self) -> int:
        return int(self.send.size)


@dataclass(frozen=True, slots=True, eq=False)
class Wiring:
    """Where each receive's message comes from, and an order in which causes come first."""

    source: Integers  # Per receive: a row, -2 - e for entering message e, or -1.
    entering: Entering
    order: Integers


def wire(block: Block) -> Wiring:
    """`order` is shorter than the block if there is a cycle."""
    matched = block.sender >= 0
    sender = np.where(matched, block.sender, 0)
    before = matched & (block.send <= block.cut[sender])
    inside = matched & ~before
    source = np.full(block.sender.size, -1, np.int64)
    start = block.start
    rows = np.empty(int(inside.sum()), np.int64)
    locate(start, block.index, block.sender[inside], block.send[inside], rows)
    source[inside] = rows  # A send that is not there is -1, as one that nobody made.

    pairs = np.stack([block.sender[before].astype(np.int64), block.send[before]], axis=1)
    unique, number = np.unique(pairs, axis=0, return_inverse=True)
    source[before] = -2 - number.reshape(-1)
    entering_sender = unique[:, 0].astype(np.int32)
    entering = Entering(
        entering_sender,
        np.ascontiguousarray(unique[:, 1]),
        np.searchsorted(entering_sender, np.arange(block.width + 1)).astype(np.int64),
    )
    order = np.empty(block.rows, np.int64)
    placed = topological_order(start, block.receive_start, source, order)
    return Wiring(source, entering, order[:placed])


@dataclass(frozen=True, slots=True, eq=False)
class Knot:
    """Receives that are part of cycles, left out, and the rows of a shortest cycle."""

    receives: Integers  # Positions among the receives of the block before they were left out.
    cycle: Integers


def without_cycles(block: Block) -> tuple[Block, list[Knot]]:
    """Leave the receives inside strongly connected components out: a cycle lies within one block, for a consistent
    cut has all of it or nothing.
    """
    wiring = wire(block)
    if wiring.order.size == block.rows:
        return block, []
    rows, receive_row = block.rows, block.receive_row
    found = find_knots(block.process, receive_row, wiring.source)
    component, inside = found.component, found.inside
    parent, path = np.full(rows, -1, np.int64), np.empty(rows, np.int64)
    knots = []
    hits = np.flatnonzero(inside)
    for number in dict.fromkeys(component[receive_row[hits]].tolist()):
        receives = hits[component[receive_row[hits]] == number]
        length = path_back(
            found.start, found.target, component, rows, int(receive_row[receives[0]]), rows + 1, parent, path
        )
        knots.append(Knot(receives, path[:length][::-1].copy()))
    sender = block.sender.copy()
    sender[inside] = LEFT_OUT
    return replace(block, sender=sender), knots


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What a block adds, told as if nothing was known before it. Rows of matrices are the active processes."""

    cut: Integers  # Where the block begins.
    active: Numbers  # The processes that have events in the block.
    events: Integers  # How many, per active process.
    first: Integers  # The index of the first one.
    last: Integers  # The index of the last one.
    front: Stamps  # What the last event of each knows.
    front_time: Integers
    known_sends: Stamps  # The same for the sends of the messages that each received, entering ones left out.
    fifo_sends: Integers
    leaving_sender: Numbers  # The sends whose messages are received in later blocks too.
    leaving_send: Integers
    leaving: Stamps
    leaving_time: Integers
    entering_sender: Numbers
    entering_send: Integers
    entering_start: Integers
    arrived_receiver: Numbers  # Who received which entering message, where checks of order count it.
    arrived: Integers


def summarize(block: Block, leaving_sender: Numbers, leaving_send: Integers) -> Summary:
    """The block has no cycle. The sends given are those whose messages later blocks receive too."""
    wiring = wire(block)
    entering = wiring.entering
    front = block.stamps(block.width)
    np.fill_diagonal(front, block.cut)
    entering_stamps = block.stamps(entering.size)
    entering_stamps[np.arange(entering.size), entering.sender] = entering.send
    kept_rows = np.empty(leaving_send.size, np.int64)
    locate(block.start, block.index, leaving_sender, leaving_send, kept_rows)
    assert bool(np.all(kept_rows >= 0))
    result = _run(
        block,
        wiring,
        Entry(
            front=front,
            front_time=np.full(block.width, NO_TIME, np.int64),
            known_sends=block.stamps(block.width),
            fifo_sends=np.zeros((block.width, block.width), np.int64),
            entering=entering_stamps,
            entering_time=np.full(entering.size, NO_TIME, np.int64),
        ),
        no_clocks(block.rows),
        kept_rows,
        entering_known=False,
    )
    active, first_row, events = np.unique(block.process, return_index=True, return_counts=True)
    counted = block.real & (wiring.source < -1)
    return Summary(
        cut=block.cut,
        active=active,
        events=events.astype(np.int64),
        first=block.index[first_row],
        last=block.index[first_row + events - 1],
        front=result.front[active],
        front_time=result.front_time[active],
        known_sends=result.known_sends[active],
        fifo_sends=result.fifo_sends[active],
        leaving_sender=leaving_sender,
        leaving_send=leaving_send,
        leaving=result.kept,
        leaving_time=result.causal_time[kept_rows],
        entering_sender=entering.sender,
        entering_send=entering.send,
        entering_start=entering.start,
        arrived_receiver=block.process[block.receive_row[counted]],
        arrived=-2 - wiring.source[counted],
    )


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """All that is known where a block begins: of the front, and of the messages that enter it (in their order)."""

    front: Stamps
    front_time: Integers
    known_sends: Stamps
    fifo_sends: Integers
    entering: Stamps
    entering_time: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """Per row and per receive what replaying found, and the state after the block."""

    causal_time: Integers
    past_size: Integers
    clock_wrong: Flags
    causal: Flags  # Per receive: overtaken by a message that its send happened before.
    fifo: Flags
    kept: Stamps  # The stamps of the rows that were asked for.
    front: Stamps
    front_time: Integers
    known_sends: Stamps
    fifo_sends: Integers


def replay(block: Block, entry: Entry, *, clocks: Clocks | None = None, kept: Integers | None = None) -> Replayed:
    """With true stamps at the beginning. The stamps of the rows `kept` are given back."""
    rows = kept if kept is not None else np.empty(0, np.int64)
    return _run(block, wire(block), entry, clocks or no_clocks(block.rows), rows, entering_known=True)


def _run(
    block: Block, wiring: Wiring, entry: Entry, clocks: Clocks, kept_rows: Integers, *, entering_known: bool
) -> Replayed:
    assert wiring.order.size == block.rows
    kept = np.zeros(block.rows, np.bool_)
    kept[kept_rows] = True
    slot = np.empty(block.rows, np.int64)
    slots = share_slots(wiring.order, block.receive_start, wiring.source, kept, slot)
    stamps = block.stamps(slots)
    receives = block.sender.size
    counted = block.real & (block.sender >= 0)
    result = Replayed(
        causal_time=np.empty(block.rows, np.int64),
        past_size=np.empty(block.rows, np.int64),
        clock_wrong=np.zeros(block.rows, np.bool_),
        causal=np.zeros(receives, np.bool_),
        fifo=np.zeros(receives, np.bool_),
        kept=stamps[:0],
        front=entry.front.copy(),
        front_time=entry.front_time.copy(),
        known_sends=entry.known_sends.copy(),
        fifo_sends=entry.fifo_sends.copy(),
    )
    replay_block(
        wiring.order,
        block.process,
        block.index,
        block.time,
        block.receive_start,
        wiring.source,
        counted,
        block.sender,
        block.send,
        result.front,
        result.front_time,
        result.known_sends,
        result.fifo_sends,
        entry.entering,
        entry.entering_time,
        entering_known,
        slot,
        stamps,
        clocks.given,
        clocks.start,
        clocks.process,
        clocks.count,
        result.causal_time,
        result.past_size,
        result.clock_wrong,
        result.causal,
        result.fifo,
    )
    return replace(result, kept=stamps[slot[kept_rows]])
