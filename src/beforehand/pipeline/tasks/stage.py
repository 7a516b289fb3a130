"""First pass over the blocks: put each one's structure right, summarize it, and keep its rows for the second."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beforehand.events import EventId, Rejection
from beforehand.history.kernels import locate
from beforehand.pipeline.block import UNSENT, Block, Knot, summarize, wire, without_cycles
from beforehand.pipeline.chains import links_of
from beforehand.pipeline.rejecting import rejection_table
from beforehand.pipeline.room import Room, spill_folder
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    BLOCK,
    CLOCK,
    DONE,
    FILE,
    INDEX,
    MEMBER,
    NAME,
    NUMBER,
    OFFSET,
    POSITION,
    RECEIVE_INDEX,
    RECEIVER,
    RECEIVES,
    SENDER,
    SENDS,
    SOURCES,
    TIME,
)
from beforehand.pipeline.tables import block_in, flat, integers, offsets, sources_array, write_parquet
from beforehand.pipeline.tasks.staging import LargeInfo, Staging

__all__ = ["stage_blocks"]

Integers = npt.NDArray[np.int64]

SHOWN_MAX = 8
"""Events of a cycle that the text of a rejection names."""

_KEPT = (MEMBER, INDEX, TIME, SENDS, RECEIVES, NAME, ATTRIBUTES, CLOCK)


def stage_blocks(
    staging: Staging, *, lamport: bool, held_max: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over BLOCK_ROW, whole blocks to a partition. Gives one DONE row per block:
    `block`, `events`, `duplicates`, `cycles` (receives left out) and `streamed`: whether it has more than `held_max`
    events and so was not held in memory. With duplicates nothing else is of use. `lamport`: what longest
    chains need is kept too.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, group in groupby(_by_block(batches), key=itemgetter(0)):
            done = _stage(number, (piece for _, piece in group), staging, lamport=lamport, held_max=held_max)
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(done)])], schema=DONE)

    return run


def _by_block(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches cut where a block ends."""
    current = -1
    for batch in batches:
        numbers = batch.column(BLOCK).to_numpy()
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), numbers.size]
        start = 0
        for end in ends if numbers.size else []:
            assert numbers[start] >= current  # Spark kept its sort across batches.
            current = int(numbers[start])
            yield current, batch.slice(start, end - start)
            start = end


def _stage(
    number: int, batches: Iterator[pa.RecordBatch], staging: Staging, *, lamport: bool, held_max: int
) -> dict[str, int | bool]:
    large = staging.large_of(number)
    held: deque[pa.RecordBatch] = deque()
    count = 0
    for batch in batches:
        held.append(batch)
        count += _events_in(batch)
        if count > held_max:
            break
    streamed = count > held_max
    room = Room(spill_folder() if streamed else None)
    tables = _whole_events(chain(_emptied(held), batches)) if streamed else iter([pa.Table.from_batches(held)])
    counts = {"events": 0, "duplicates": 0}
    kept: list[pa.Table] = []

    def rows() -> Iterator[pa.Table]:
        last = (-1, -1)
        for table in tables:
            staged, last, duplicates = _with_sources(table, len(large.processes), last)
            counts["events"] += len(staged)
            counts["duplicates"] += duplicates
            if not streamed:
                kept.append(staged)
            if not counts["duplicates"]:
                yield staged

    staging.write_rows(number, rows())
    done = {"block": number, **counts, "cycles": 0, "streamed": streamed}
    if counts["duplicates"]:
        return done

    def pieces() -> Iterator[pa.Table]:
        return staging.pieces(number) if streamed else iter(kept)

    block, _ = block_in(room, pieces(), staging.cut(large.number, number - large.base), small=large.small)
    wiring = wire(block, room)
    clear, knots = without_cycles(block, wiring, room)
    if knots:
        wiring = wire(clear, room)
        _reject(knots, block, pieces(), large, number, staging)
        staging.write_rows(number, _with_senders(pieces(), clear))
    leaving_sender, leaving_send, _ = staging.leaving(number)
    staging.write_summary(number, summarize(clear, leaving_sender, leaving_send, wiring, room))
    if lamport:
        staging.write_links(number, links_of(clear, wiring, leaving_sender, leaving_send))
    return done | {"cycles": sum(knot.receives.size for knot in knots)}


def _events_in(batch: pa.RecordBatch) -> int:
    return int((batch.column("rank").to_numpy() == 0).sum())


def _emptied(held: deque[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while held:
        yield held.popleft()


def _whole_events(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows, cut where an event begins: its sources follow it."""
    rest: list[pa.RecordBatch] = []
    for batch in batches:
        begins = np.flatnonzero(batch.column("rank").to_numpy() == 0)
        if begins.size:
            last = int(begins[-1])
            if rest or last:
                yield pa.Table.from_batches([*rest, batch.slice(0, last)])
            rest = [batch.slice(last)]
        else:
            rest.append(batch)
    if rest:
        yield pa.Table.from_batches(rest)


def _with_sources(table: pa.Table, width: int, last: tuple[int, int]) -> tuple[pa.Table, tuple[int, int], int]:
    """Events, each with the sources of its receives, from rows of both; the member and index of the last one, and how
    many are there twice. `last` is what came before.
    """
    rank = table["rank"].to_numpy()
    events = table.filter(pa.array(rank == 0))
    sources = table.filter(pa.array(rank == 1))
    member, index = integers(events[MEMBER]).astype(np.int32), integers(events[INDEX])
    members, indexes = np.concatenate([[last[0]], member]), np.concatenate([[last[1]], index])
    same = members[1:] == members[:-1]
    assert bool(np.all((members[1:] > members[:-1]) | (same & (indexes[1:] >= indexes[:-1]))))  # Spark kept its sort.
    duplicates = int((same & (indexes[1:] == indexes[:-1])).sum())

    receive_start = offsets(flat(events[RECEIVES]))
    sender = np.full(int(receive_start[-1]), UNSENT, np.int32)
    send = np.zeros(sender.size, np.int64)
    if not duplicates:
        start = np.searchsorted(member, np.arange(width + 1)).astype(np.int64)
        row = np.empty(len(sources), np.int64)
        locate(start, index, integers(sources[MEMBER]).astype(np.int32), integers(sources[INDEX]), row)
        receive = receive_start[row] + integers(sources[FILE])
        sender[receive] = integers(sources[SENDER]).astype(np.int32)
        send[receive] = integers(sources[OFFSET])
    rows = events.select(list(_KEPT)).append_column(SOURCES, sources_array(receive_start, sender, send))
    return rows, (int(members[-1]), int(indexes[-1])), duplicates


def _with_senders(pieces: Iterator[pa.Table], block: Block) -> Iterator[pa.Table]:
    """The rows of a block, with its own sources in place of theirs."""
    first = 0
    for rows in pieces:
        starts = block.receive_start[first : first + len(rows) + 1]
        receives = slice(int(starts[0]), int(starts[-1]))
        sources = sources_array(starts - starts[0], block.sender[receives], block.send[receives])
        yield rows.set_column(rows.schema.get_field_index(SOURCES), SOURCES, sources)
        first += len(rows)


def _reject(
    knots: list[Knot], block: Block, pieces: Iterator[pa.Table], large: LargeInfo, number: int, staging: Staging
) -> None:
    """Write what was left out: for people, and for the table of messages."""
    messages = _messages(pieces, np.sort(np.concatenate([knot.receives for knot in knots])))

    def event(row: int) -> EventId:
        return EventId(large.execution, large.processes[block.process[row]], int(block.index[row]))

    rejections = []
    left_out = []
    for knot in knots:
        witness = tuple(event(int(row)) for row in knot.cycle)
        shown = [str(at) for at in witness[:SHOWN_MAX]]
        shown += [f"… ({len(witness) - SHOWN_MAX} more)"] if len(witness) > SHOWN_MAX else []
        cycle = " → ".join([*shown, shown[0]])
        for receive in knot.receives.tolist():
            message, row = messages[receive], int(block.rows_receiving(receive))
            sent = EventId(large.execution, large.processes[block.sender[receive]], int(block.send[receive]))
            detail = f"message {message!r}, sent at {sent}, received at {event(row)}, is in a cycle: {cycle}"
            rejections.append(Rejection(reason="cycle", detail=detail, events=witness, message=message))
            position = receive - int(block.receive_start[row])
            left_out.append((large.number, int(block.process[row]), int(block.index[row]), position))
    write_parquet(rejection_table(rejections), Path(staging.folder("rejected")) / f"cycle-{number:06d}.parquet")
    columns = list(zip(*left_out, strict=True))
    types = (pa.int32(), pa.int32(), pa.int64(), pa.int32())
    names = [NUMBER, RECEIVER, RECEIVE_INDEX, POSITION]
    write_parquet(
        pa.table([pa.array(list(c), t) for c, t in zip(columns, types, strict=True)], names=names),
        Path(staging.folder("cycles")) / f"{number:06d}.parquet",
    )


def _messages(pieces: Iterator[pa.Table], receives: Integers) -> dict[int, str]:
    """The messages of some receives, given in order."""
    result: dict[int, str] = {}
    first = 0
    for rows in pieces:
        ids = flat(rows[RECEIVES]).flatten()
        here = receives[np.searchsorted(receives, first) : np.searchsorted(receives, first + len(ids))]
        result.update(zip(here.tolist(), ids.take(pa.array(here - first)).to_pylist(), strict=True))
        first += len(ids)
    return result
