"""The blocks of one execution that was cut, read as little as a question needs and kept for the next one.

A block is read in up to four parts: `keys` (what sorts its events), `structure` (who received from whom), `front`
(the true stamps where it begins) and rows of whole events. A vector stamp is one walk back through its past inside
the block; one entry of the stamps of all its events, or whether they lie inside a cut, is a pass without vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beforehand.errors import InputError
from beforehand.events import Event, EventId
from beforehand.formats.opening import shown_path
from beforehand.history.kernels import NO_TIME, replay, share_slots
from beforehand.pipeline.block import Block, causes_first, connect
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.schemas import (
    CAUSAL_TIME,
    FRONT,
    INDEX,
    KIND,
    MEMBER,
    PAST_SIZE,
    SEND_INDEX,
    SENDER,
    SOURCES,
    STORED,
)
from beforehand.pipeline.stored.arrays import list_starts, numbers, open_parquet, read_table, reading, selection
from beforehand.pipeline.stored.cache import Cache
from beforehand.pipeline.stored.kernels import inside_of, knowledge_of, stamp_of
from beforehand.pipeline.stored.records import EVENT_COLUMNS, events_of

__all__ = ["CutExecution", "Keys", "Place", "Structure"]

Integers = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Place(NamedTuple):
    """Where an event lies."""

    block: int
    row: int


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """By what the events of a block are sorted; rows are sorted by process and index."""

    index: Integers
    causal_time: Integers
    past_size: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """The events of a block without their texts, and where each receive's message comes from."""

    block: Block
    source: Integers  # Per receive: a row, -2 - e for entering message e, or -1.
    entering: int  # How many messages enter.


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """What is known where a block begins."""

    front: Stamps  # Processes × processes.
    entering: Stamps  # In the order of the block's entering messages.


class CutExecution:
    """One execution that was cut into blocks. Processes are numbers in the order of their names."""

    def __init__(
        self,
        directory: Directory,
        cache: Cache,
        *,
        number: int,
        execution: str,
        processes: Sequence[str],
        ends: Integers,
        counts: Integers,
        times: Integers,
    ) -> None:
        """`ends`, `counts` and `times` are blocks × processes: the cut where each block ends."""
        self.directory = directory
        self.cache = cache
        self.number = number
        self.execution = execution
        self.processes = tuple(processes)
        self.members = {process: member for member, process in enumerate(self.processes)}
        before = np.zeros((1, len(self.processes)), np.int64)
        # With the beginning as row 0: block b reaches from row b to row b + 1.
        self.cuts = np.concatenate([before, ends])
        self.counts = np.concatenate([before, counts])
        self.times = times
        self.sizes = np.diff(self.counts, axis=0)  # Blocks × processes: events.
        self.full = np.flatnonzero(self.sizes.sum(axis=1))  # The blocks that have events.
        self.small = not self.cuts.size or int(self.cuts[-1].max(initial=0)) < 2**31

    # Where things are.

    @property
    def width(self) -> int:
        return len(self.processes)

    @property
    def blocks(self) -> int:
        return int(self.cuts.shape[0]) - 1

    def event_id(self, member: int, index: int) -> EventId:
        return EventId(self.execution, self.processes[member], int(index))

    def block_of(self, member: int, index: int) -> int:
        """The block that holds an index, if any does; the number of blocks if it lies behind all of them."""
        return int(np.searchsorted(self.cuts[1:, member], index))

    def start(self, block: int) -> Integers:
        """Process p has the rows start[p] up to start[p + 1] of the block."""
        return np.concatenate([[0], np.cumsum(self.sizes[block])]).astype(np.int64)

    def is_dense(self, block: int, member: int) -> bool:
        """Whether the process has no gap in its indexes there."""
        gain = self.cuts[block + 1, member] - self.cuts[block, member]
        return bool(gain == self.sizes[block, member])

    def last_upto(self, member: int, index: int) -> tuple[int, int]:
        """The index of the process's last event up to an index (0 if there is none), and how many there are."""
        block = self.block_of(member, index)
        if block == self.blocks:
            return int(self.cuts[-1, member]), int(self.counts[-1, member])
        begin, count = int(self.cuts[block, member]), int(self.counts[block, member])
        if index == self.cuts[block + 1, member]:
            return index, int(self.counts[block + 1, member])
        if index <= begin or self.is_dense(block, member):
            return index, count + index - begin
        rows = self.rows_of(block, member)
        inside = int(np.searchsorted(rows, index, side="right"))
        return (int(rows[inside - 1]) if inside else begin), count + inside

    def place(self, member: int, index: int) -> Place | None:
        """Where the event with this index lies; None if there is none."""
        block = self.block_of(member, index)
        if block == self.blocks or index < 1:
            return None
        first = int(self.sizes[block, :member].sum())
        if self.is_dense(block, member):
            return Place(block, first + index - int(self.cuts[block, member]) - 1)
        rows = self.rows_of(block, member)
        at = int(np.searchsorted(rows, index))
        return Place(block, first + at) if at < rows.size and rows[at] == index else None

    def sure_place(self, member: int, index: int) -> Place:
        """Where an event lies that another one of this execution names."""
        place = self.place(member, index)
        if place is None:
            raise self.broken(self.block_of(member, index), f"has no event {self.event_id(member, index)}")
        return place

    def rows_of(self, block: int, member: int) -> Integers:
        """The indexes of a process in a block."""
        first = int(self.sizes[block, :member].sum())
        return self.keys(block).index[first : first + int(self.sizes[block, member])]

    # What a block holds.

    def keys(self, block: int) -> Keys:
        def make() -> tuple[Keys, int]:
            table = self._read(block, [INDEX, CAUSAL_TIME, PAST_SIZE])
            keys = Keys(numbers(table[INDEX]), numbers(table[CAUSAL_TIME], NO_TIME), numbers(table[PAST_SIZE]))
            return keys, 24 * keys.index.size

        return self.cache.get(("keys", self.number, block), make)

    def structure(self, block: int) -> Structure:
        def make() -> tuple[Structure, int]:
            table = self._read(block, [SOURCES])
            receive_start, entries = list_starts(table[SOURCES])
            senders = [numbers(part.field(SENDER)) for part in entries]
            sends = [numbers(part.field(SEND_INDEX)) for part in entries]
            index = self.keys(block).index
            receives = int(receive_start[-1])
            found = Block(
                cut=self.cuts[block],
                process=np.repeat(np.arange(self.width, dtype=np.int32), self.sizes[block]),
                index=index,
                time=index,  # No question about order needs the times.
                receive_start=receive_start,
                sender=np.concatenate([*senders, np.empty(0, np.int64)]).astype(np.int32),
                send=np.concatenate([*sends, np.empty(0, np.int64)]),
                real=np.zeros(receives, np.bool_),
                small=self.small,
            )
            source, entering = connect(found)
            return Structure(found, source, entering.size), 24 * found.rows + 32 * receives

        return self.cache.get(("structure", self.number, block), make)

    def order(self, block: int) -> Integers:
        """The rows of a block, causes before effects."""

        def make() -> tuple[Integers, int]:
            structure = self.structure(block)
            order = causes_first(structure.block, structure.source)
            if order.size != structure.block.rows:
                raise self.broken(block, "has a cycle")
            return order, order.nbytes

        return self.cache.get(("order", self.number, block), make)

    def front(self, block: int) -> Front:
        """The block has events."""

        def make() -> tuple[Front, int]:
            path = self.directory.front(self.number, block)
            table = read_table(path, FRONT)
            _, pieces = list_starts(table["stamp"])
            values = [numbers(piece) for piece in pieces]
            stamps = np.concatenate([*values, np.empty(0, np.int64)])
            if stamps.size != len(table) * self.width:
                raise InputError(f"{shown_path(path)} does not fit its history: analyze again")
            kind = np.int32 if self.small else np.int64
            rows = stamps.reshape(len(table), self.width).astype(kind)
            ahead = int(np.count_nonzero(self.cuts[block]))  # The front's rows come first.
            kinds = table[KIND].to_pylist()
            if kinds.count("front") != ahead or kinds[:ahead].count("front") != ahead:
                raise InputError(f"{shown_path(path)} does not fit its history: analyze again")
            front = np.zeros((self.width, self.width), kind)
            front[numbers(table[MEMBER])[:ahead]] = rows[:ahead]
            return Front(front, np.ascontiguousarray(rows[ahead:])), front.nbytes + rows.nbytes

        return self.cache.get(("front", self.number, block), make)

    def stamps(self, block: int, rows: Sequence[int]) -> Stamps:
        """The vector stamps of some rows of a block: one replay."""
        structure, entry = self._ready(block)
        found, order = structure.block, self.order(block)
        chosen = np.array(rows, np.int64)
        kept = np.zeros(found.rows, np.bool_)
        kept[chosen] = True
        slot = np.empty(found.rows, np.int64)
        slots = share_slots(order, found.receive_start, structure.source, kept, slot)
        stamps = found.stamps(slots)
        replay(
            order,
            found.process,
            found.index,
            found.time,
            found.receive_start,
            structure.source,
            entry.front.copy(),
            np.zeros(self.width, np.int64),
            entry.entering,
            np.zeros(entry.entering.shape[0], np.int64),
            slot,
            stamps,
            np.empty(found.rows, np.int64),
            np.empty(found.rows, np.int64),
        )
        result: Stamps = stamps[slot[chosen]]
        return result

    def stamp(self, place: Place) -> Integers:
        """The vector stamp of one event: a walk back through its past inside the block."""

        def make() -> tuple[Integers, int]:
            structure, entry = self._ready(place.block)
            found = structure.block
            stamp = np.zeros(self.width, np.int64)
            stamp_of(
                place.row,
                self.start(place.block),
                found.process,
                found.index,
                found.receive_start,
                structure.source,
                entry.front,
                entry.entering,
                stamp,
            )
            return stamp, stamp.nbytes

        return self.cache.get(("stamp", self.number, *place), make)

    def knowledge(self, block: int, wanted: int) -> tuple[Integers, Integers]:
        """How much of the process `wanted` each event of the block knows, and the send of each entering message."""

        def make() -> tuple[tuple[Integers, Integers], int]:
            structure, entry = self._ready(block)
            found = structure.block
            known = np.empty(found.rows, np.int64)
            entering = entry.entering[:, wanted].astype(np.int64)
            knowledge_of(
                self.order(block),
                found.process,
                found.index,
                found.receive_start,
                structure.source,
                wanted,
                entry.front[:, wanted].astype(np.int64),
                entering,
                known,
            )
            return (known, entering), known.nbytes + entering.nbytes

        return self.cache.get(("knowledge", self.number, block, wanted), make)

    def inside(self, block: int, cut: Integers) -> Flags:
        """Which events of the block lie inside a cut together with their whole past."""
        structure, entry = self._ready(block)
        found = structure.block
        inside = np.empty(found.rows, np.bool_)
        inside_of(
            self.order(block),
            found.process,
            found.index,
            found.receive_start,
            structure.source,
            cut,
            np.all(entry.front <= cut, axis=1),
            np.all(entry.entering <= cut, axis=1),
            inside,
        )
        return inside

    def sources(self, place: Place) -> list[tuple[int, int]]:
        """Per receive of an event, the member and the index that sent it; members below 0: nobody did."""
        found = self.structure(place.block).block
        first, last = found.receive_start[place.row : place.row + 2].tolist()
        return list(zip(found.sender[first:last].tolist(), found.send[first:last].tolist(), strict=True))

    def events(self, block: int, rows: Sequence[int]) -> list[Event]:
        """Whole events. Reads the row groups that hold them."""
        wanted = np.array(rows, np.int64)
        path = self.directory.block(self.number, block)
        bounds = self._row_groups(block)
        result: dict[int, Event] = {}
        for group, (first, end) in enumerate(pairwise(bounds)):
            here = np.unique(wanted[(wanted >= first) & (wanted < end)])
            if here.size:
                table = self._texts(block, group)
                with reading(path):
                    result.update(zip(here.tolist(), events_of(table.take(selection(here - first))), strict=True))
        return [result[row] for row in wanted.tolist()]

    def event(self, place: Place) -> Event:
        return self.events(place.block, [place.row])[0]

    # Reading.

    def _ready(self, block: int) -> tuple[Structure, Front]:
        structure, entry = self.structure(block), self.front(block)
        if structure.entering != entry.entering.shape[0]:
            raise self.broken(block, "does not fit its cut")
        return structure, entry

    def _read(self, block: int, columns: list[str]) -> pa.Table:
        path = self.directory.block(self.number, block)
        table = read_table(path, STORED, columns)
        if len(table) != int(self.sizes[block].sum()):
            raise self.broken(block, f"has {len(table)} events instead of {int(self.sizes[block].sum())}")
        return table

    def _row_groups(self, block: int) -> list[int]:
        def make() -> tuple[list[int], int]:
            path = self.directory.block(self.number, block)
            with open_parquet(path, STORED) as file:
                sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            if sum(sizes) != int(self.sizes[block].sum()):
                raise self.broken(block, f"has {sum(sizes)} events instead of {int(self.sizes[block].sum())}")
            return np.cumsum([0, *sizes]).tolist(), 8 * len(sizes)

        return self.cache.get(("groups", self.number, block), make)

    def _texts(self, block: int, group: int) -> pa.Table:
        def make() -> tuple[pa.Table, int]:
            path = self.directory.block(self.number, block)
            with reading(path), open_parquet(path, STORED) as file:
                table = file.read_row_group(group, columns=EVENT_COLUMNS, use_threads=False)
            return table, table.nbytes

        return self.cache.get(("texts", self.number, block, group), make)

    def broken(self, block: int, what: str) -> InputError:
        """What to raise if a block does not fit the rest."""
        path = shown_path(self.directory.block(self.number, min(block, self.blocks - 1)))
        return InputError(f"{path} {what}: this history directory is damaged, analyze again")
