"""One block of an execution as arrays: what lies between two consistent cuts, summarized and replayed.

The three steps of stamping, on one block each (docs/explanation/stamping-by-cuts.md has the proof):

    summarize   replay as if nothing was known before the block: a process starts with its own index at the cut, and a
                message that was sent earlier brings only its own send event
    step        (scan.py) from the true stamps at the block's beginning and its summary to those at its end
    replay      the same kernel with the true stamps

A block's memory is its events and receives, plus a stamp per message in flight inside it. With a `Room` in files none
of these is held: what is left are matrices of processes × processes, and what enters and leaves the block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from beforehand.history.columns import find_knots
from beforehand.history.kernels import (
    NO_TIME,
    assign_slots,
    count_uses,
    locate,
    order_state,
    path_back,
    place_rows,
    replay_block,
)
from beforehand.pipeline.room import Room

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


def no_clocks(rows: int, room: Room | None = None) -> Clocks:
    room = room or Room()
    return Clocks(
        room.zeros(rows, np.bool_), room.zeros(rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int64)
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

    def rows_receiving(self, receives: Integers) -> Integers:
        """The rows of some receives."""
        return np.searchsorted(self.receive_start, receives, side="right") - 1

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


def wire(block: Block, room: Room | None = None) -> Wiring:
    """`order` is shorter than the block if there is a cycle. What grows with the block lies in `room`."""
    room = room or Room()
    source, entering = connect(block, room)
    return Wiring(source, entering, causes_first(block, source, room))


def connect(block: Block, room: Room | None = None) -> tuple[Integers, Entering]:
    """`source` and `entering` of the wiring."""
    room = room or Room()
    entering = _entering(block, room)
    start = block.start
    source = room.empty(block.sender.size, np.int64)
    for part in room.slices(source.size):
        sender, send = block.sender[part], block.send[part]
        before = _is_before(block, sender, send)
        rows, numbers = np.empty(send.size, np.int64), np.empty(send.size, np.int64)
        # A send that is not there is -1, as one that nobody made.
        locate(start, block.index, np.where(before, np.int32(UNSENT), sender), send, rows)
        locate(entering.start, entering.send, np.where(before, sender, np.int32(UNSENT)), send, numbers)
        source[part] = np.where(before, -2 - numbers, rows)
    return source, entering


def causes_first(block: Block, source: Integers, room: Room | None = None) -> Integers:
    """`order` of the wiring."""
    room = room or Room()
    start = block.start
    order = room.empty(block.rows, np.int64)
    state = order_state(start, block.receive_start)
    placed = 0
    for part in room.slices(block.rows):
        placed += place_rows(start, block.receive_start, source, state, order[part])
    return order[:placed]


def _is_before(block: Block, sender: Numbers, send: Integers) -> Flags:
    """Which receives are of messages that were sent before the block."""
    result: Flags = (sender >= 0) & (send <= block.cut[np.maximum(sender, 0)])
    return result


def _entering(block: Block, room: Room) -> Entering:
    sender, send = np.empty(0, np.int32), np.empty(0, np.int64)
    for part in room.slices(block.sender.size):
        before = _is_before(block, block.sender[part], block.send[part])
        senders = np.concatenate([sender, block.sender[part][before]])
        sends = np.concatenate([send, block.send[part][before]])
        by = np.lexsort((sends, senders))
        senders, sends = senders[by], sends[by]
        new = np.ones(by.size, np.bool_)
        new[1:] = (senders[1:] != senders[:-1]) | (sends[1:] != sends[:-1])
        sender, send = senders[new], sends[new]
    return Entering(sender, send, np.searchsorted(sender, np.arange(block.width + 1)).astype(np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Knot:
    """Receives that are part of cycles, left out, and the rows of a shortest cycle."""

    receives: Integers  # Positions among the receives of the block before they were left out.
    cycle: Integers


def rows_of(block: Block, process: Numbers, index: Integers) -> Integers:
    """The rows of events that the block surely has."""
    rows = np.empty(index.size, np.int64)
    locate(block.start, block.index, process, index, rows)
    assert bool(np.all(rows >= 0))
    return rows


def without_cycles(block: Block, wiring: Wiring | None = None, room: Room | None = None) -> tuple[Block, list[Knot]]:
    """Leave the receives inside strongly connected components out: a cycle lies within one block, for a consistent
    cut has all of it or nothing. `wiring` is that of the block, if the caller has it. If there is a cycle,
    numbers for every event and receive of the block are held in memory, whatever the room.
    """
    room = room or Room()
    wiring = wiring or wire(block, room)
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
    sender = room.empty(inside.size, np.int32)
    for part in room.slices(inside.size):
        sender[part] = np.where(inside[part], np.int32(LEFT_OUT), block.sender[part])
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


def summarize(
    block: Block,
    leaving_sender: Numbers,
    leaving_send: Integers,
    wiring: Wiring | None = None,
    room: Room | None = None,
) -> Summary:
    """The block has no cycle. The sends given are those whose messages later blocks receive too. `wiring` is that of
    the block, if the caller has it.
    """
    room = room or Room()
    wiring = wiring or wire(block, room)
    entering = wiring.entering
    front = block.stamps(block.width)
    np.fill_diagonal(front, block.cut)
    entering_stamps = block.stamps(entering.size)
    entering_stamps[np.arange(entering.size), entering.sender] = entering.send
    kept_rows = rows_of(block, leaving_sender, leaving_send)
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
        no_clocks(block.rows, room),
        kept_rows,
        room,
        entering_known=False,
    )
    start = block.start
    active = np.flatnonzero(np.diff(start)).astype(np.int32)
    first_row, events = start[active], np.diff(start)[active]
    arrived = np.concatenate(
        [
            part.start + np.flatnonzero(block.real[part] & (wiring.source[part] < -1))
            for part in room.slices(wiring.source.size)
        ]
        or [np.empty(0, np.int64)]
    )
    return Summary(
        cut=block.cut,
        active=active,
        events=events,
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
        arrived_receiver=block.process[block.rows_receiving(arrived)],
        arrived=-2 - wiring.source[arrived],
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


def replay(
    block: Block,
    entry: Entry,
    *,
    clocks: Clocks | None = None,
    kept: Integers | None = None,
    room: Room | None = None,
) -> Replayed:
    """With true stamps at the beginning. The stamps of the rows `kept` are given back."""
    room = room or Room()
    rows = kept if kept is not None else np.empty(0, np.int64)
    clocks = clocks or no_clocks(block.rows, room)
    return _run(block, wire(block, room), entry, clocks, rows, room, entering_known=True)


def _run(
    block: Block,
    wiring: Wiring,
    entry: Entry,
    clocks: Clocks,
    kept_rows: Integers,
    room: Room,
    *,
    entering_known: bool,
) -> Replayed:
    assert wiring.order.size == block.rows
    slot, slots = _slots(block, wiring, kept_rows, room)
    stamps = room.zeros(slots * block.width, np.int32 if block.small else np.int64).reshape(slots, block.width)
    receives = block.sender.size
    counted = room.zeros(receives, np.bool_)
    for part in room.slices(receives):
        counted[part] = block.real[part] & (block.sender[part] >= 0)
    result = Replayed(
        causal_time=room.empty(block.rows, np.int64),
        past_size=room.empty(block.rows, np.int64),
        clock_wrong=room.zeros(block.rows, np.bool_),
        causal=room.zeros(receives, np.bool_),
        fifo=room.zeros(receives, np.bool_),
        kept=stamps[:0],
        front=entry.front.copy(),
        front_time=entry.front_time.copy(),
        known_sends=entry.known_sends.copy(),
        fifo_sends=entry.fifo_sends.copy(),
    )
    for part in room.slices(block.rows):
        replay_block(
            wiring.order[part],
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


def _slots(block: Block, wiring: Wiring, kept_rows: Integers, room: Room) -> tuple[Integers, int]:
    """Per row where its stamp goes, and how many places there are: `share_slots`, piece by piece."""
    kept = room.zeros(block.rows, np.bool_)
    kept[kept_rows] = True
    uses, free = room.zeros(block.rows, np.int64), room.empty(block.rows, np.int64)
    slot = room.empty(block.rows, np.int64)
    counts = np.zeros(2, np.int64)
    for part in room.slices(wiring.source.size):
        count_uses(wiring.source[part], uses)
    for part in room.slices(block.rows):
        assign_slots(wiring.order[part], block.receive_start, wiring.source, kept, uses, free, counts, slot)
    return slot, int(counts[1])
