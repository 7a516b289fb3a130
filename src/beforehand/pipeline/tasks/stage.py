"""First pass over the blocks: put each one's structure right, summarize it, and keep its rows for the second."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beforehand.events import EventId, Rejection
from beforehand.history.kernels import locate
from beforehand.pipeline.block import UNSENT, Block, Knot, summarize, without_cycles
from beforehand.pipeline.rejecting import rejection_table
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
from beforehand.pipeline.tables import block_of, flat, integers, offsets, sources_array, write_parquet
from beforehand.pipeline.tasks.staging import LargeInfo, Staging

__all__ = ["stage_blocks"]

Integers = npt.NDArray[np.int64]

SHOWN_MAX = 8
"""Events of a cycle that the text of a rejection names."""

_KEPT = (MEMBER, INDEX, TIME, SENDS, RECEIVES, NAME, ATTRIBUTES, CLOCK)


def stage_blocks(staging: Staging) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over BLOCK_ROW, whole blocks to a partition. Gives one DONE row per block:
    `block`, `events`, `duplicates` and `cycles` (receives left out). With duplicates nothing else is of use.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in _by_block(batches):
            done = _stage(table, staging)
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(done)])], schema=DONE)

    return run


def _by_block(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """One block at a time: batches cut blocks, and blocks batches."""
    held: list[pa.RecordBatch] = []
    current = -1
    for batch in batches:
        numbers = batch.column(BLOCK).to_numpy()
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), numbers.size]
        start = 0
        for end in ends if numbers.size else []:
            if held and numbers[start] != current:
                yield pa.Table.from_batches(held)
                held = []
            assert numbers[start] >= current  # Spark kept its sort across batches.
            current = int(numbers[start])
            held.append(batch.slice(start, end - start))
            start = end
    if held:
        yield pa.Table.from_batches(held)


def _stage(table: pa.Table, staging: Staging) -> dict[str, int]:
    number = table[BLOCK][0].as_py()
    large = staging.large_of(number)
    rank = table["rank"].to_numpy()
    events = table.filter(pa.array(rank == 0))
    sources = table.filter(pa.array(rank == 1))
    member, index = integers(events[MEMBER]).astype(np.int32), integers(events[INDEX])
    grows = (member[1:] > member[:-1]) | ((member[1:] == member[:-1]) & (index[1:] >= index[:-1]))
    assert bool(grows.all())  # Spark kept its sort across batches.
    duplicates = int(((member[1:] == member[:-1]) & (index[1:] == index[:-1])).sum())
    if duplicates:
        return {"block": number, "events": len(events), "duplicates": duplicates, "cycles": 0}

    receive_start = offsets(flat(events[RECEIVES]))
    sender = np.full(int(receive_start[-1]), UNSENT, np.int32)
    send = np.zeros(sender.size, np.int64)
    start = np.searchsorted(member, np.arange(len(large.processes) + 1)).astype(np.int64)
    row = np.empty(len(sources), np.int64)
    locate(start, index, integers(sources[MEMBER]).astype(np.int32), integers(sources[INDEX]), row)
    receive = receive_start[row] + integers(sources[FILE])
    sender[receive] = integers(sources[SENDER]).astype(np.int32)
    send[receive] = integers(sources[OFFSET])

    rows = events.select(list(_KEPT)).append_column(SOURCES, sources_array(receive_start, sender, send))
    local = number - large.base
    block = block_of(rows, member, staging.cut(large.number, local), small=large.small)
    clear, knots = without_cycles(block)
    if knots:
        rows = rows.set_column(
            rows.schema.get_field_index(SOURCES), SOURCES, sources_array(receive_start, clear.sender, clear.send)
        )
        _reject(knots, block, rows, large, number, staging)
    leaving_sender, leaving_send, _ = staging.leaving(number)
    staging.write_rows(number, rows)
    staging.write_summary(number, summarize(clear, leaving_sender, leaving_send))
    cycles = sum(knot.receives.size for knot in knots)
    return {"block": number, "events": len(events), "duplicates": 0, "cycles": cycles}


def _reject(knots: list[Knot], block: Block, rows: pa.Table, large: LargeInfo, number: int, staging: Staging) -> None:
    """Write what was left out: for people, and for the table of messages."""
    messages = flat(rows[RECEIVES]).flatten()
    row_of = block.receive_row

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
            message, row = messages[receive].as_py(), int(row_of[receive])
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
