"""Second pass over the blocks: replay each from its true entry stamps, and write its events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beforehand.history.kernels import NO_TIME
from beforehand.pipeline.block import Block, Replayed, replay
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.room import Room, spill_folder
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    BLOCK,
    CAUSAL_TIME,
    DONE,
    EXECUTION,
    KIND,
    LAMPORT_TIME,
    NAME,
    PAST_SIZE,
    PROCESS,
    STORED,
)
from beforehand.pipeline.tables import (
    block_in,
    failures_in,
    flat,
    kinds,
    row_groups,
    times_array,
    write_parquet_pieces,
)
from beforehand.pipeline.tasks.staging import Staging

__all__ = ["replay_blocks"]

Integers = npt.NDArray[np.int64]


def replay_blocks(
    staging: Staging, directory: Directory, *, limit: int, lamport: bool, streamed: frozenset[int]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over a column of block numbers; gives a DONE row per block: its
    counts, and of each kind of finding at most `limit`: receives as (member, index, position), events as (member,
    index). `lamport`: the Lamport times of all blocks are there. `streamed`: blocks too large to be held in memory.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                if staging.rows(number).exists():
                    done = _replay(number, staging, directory, limit, lamport=lamport, streamed=number in streamed)
                    yield pa.RecordBatch.from_arrays([pa.array([json.dumps(done)])], schema=DONE)

    return run


def _replay(
    number: int, staging: Staging, directory: Directory, limit: int, *, lamport: bool, streamed: bool
) -> dict[str, object]:
    large = staging.large_of(number)
    local = number - large.base
    room = Room(spill_folder() if streamed else None)
    whole = None if streamed else staging.read_rows(number)
    processes = pa.array(large.processes, pa.string())

    def pieces() -> Iterator[pa.Table]:
        return row_groups(staging.pieces(number)) if whole is None else iter([whole])

    cut = staging.cut(large.number, local)
    block, clocks = block_in(room, pieces(), cut, small=large.small, processes=processes)
    result = replay(block, staging.read_entry(number), clocks=clocks, room=room)
    times = staging.lamport_times(number) if lamport else None
    found = _Found(block, result, limit)
    found.counts["clocks"] = 0 if clocks is None else int(clocks.given.sum())

    def stored() -> Iterator[pa.Table]:
        first = 0
        for rows in pieces():
            part = slice(first, first + len(rows))
            columns = {
                **{name: rows[name] for name in rows.column_names},
                EXECUTION: pa.array([large.execution]).take(pa.array(np.zeros(len(rows), np.int8))),
                BLOCK: pa.array(np.full(len(rows), local, np.int32)),
                PROCESS: pa.DictionaryArray.from_arrays(pa.array(block.process[part]), processes).cast(pa.string()),
                KIND: kinds(rows),
                CAUSAL_TIME: times_array(result.causal_time[part]),
                PAST_SIZE: pa.array(result.past_size[part]),
                LAMPORT_TIME: pa.nulls(len(rows), pa.int64()) if times is None else pa.array(times[part]),
            }
            table = pa.Table.from_arrays(
                [flat(columns[field.name]).cast(field.type) for field in STORED], schema=STORED
            )
            yield table
            found.add(table, part)
            room.release()
            first = part.stop

    write_parquet_pieces(stored(), STORED, directory.block(large.number, local), dictionary=_REPEATED)
    return {"block": number, "events": block.rows, "streamed": streamed, **found.document()}


_REPEATED = [EXECUTION, PROCESS, KIND, NAME, f"{ATTRIBUTES}.key_value.key", f"{ATTRIBUTES}.key_value.value"]


class _Found:
    """What replaying a block found, gathered piece by piece in the order of rows; every list is bounded."""

    def __init__(self, block: Block, result: Replayed, limit: int) -> None:
        self.block = block
        self.result = result
        self.limit = limit
        self.counts: Counter[str] = Counter()
        self.past = 0
        self.receives: dict[str, list[tuple[int, int, int]]] = {"causal": [], "fifo": []}
        self.clock: dict[int, int] = {}  # Per member, the index of its first event whose clock is wrong.
        self.failures: list[tuple[int, int, int, int]] = []  # causal time, size of past, member, index.

    def add(self, table: pa.Table, part: slice) -> None:
        """These rows of the block."""
        block, result = self.block, self.result
        receives = slice(int(block.receive_start[part.start]), int(block.receive_start[part.stop]))
        for kind, overtaken in (("causal", result.causal[receives]), ("fifo", result.fifo[receives])):
            self.counts[kind] += int(overtaken.sum())
            room = self.limit - len(self.receives[kind])
            self.receives[kind] += [self._receive(receives.start + int(r)) for r in np.flatnonzero(overtaken)[:room]]
        wrong = part.start + np.flatnonzero(result.clock_wrong[part])
        self.counts["clock"] += int(wrong.size)
        for row in wrong[np.unique(block.process[wrong], return_index=True)[1]].tolist():
            self.clock.setdefault(int(block.process[row]), int(block.index[row]))
        failed = part.start + failures_in(table)
        self.counts["failures"] += int(failed.size)
        # The first ones in the deterministic order; rows are in the order of process and index already.
        order = np.lexsort((failed, result.past_size[failed], result.causal_time[failed]))[: self.limit]
        self.failures += [self._failure(row) for row in failed[order].tolist()]
        self.failures = sorted(self.failures)[: self.limit]
        self.past += _sum(result.past_size[part])
        self.counts["inferred"] += int((~block.real[receives] & (block.sender[receives] >= -1)).sum())
        self.counts["untimed"] += int((block.time[part] == NO_TIME).sum())
        self.counts["receives"] += receives.stop - receives.start

    def _receive(self, receive: int) -> tuple[int, int, int]:
        block = self.block
        row = int(np.searchsorted(block.receive_start, receive, side="right")) - 1
        return int(block.process[row]), int(block.index[row]), receive - int(block.receive_start[row])

    def _failure(self, row: int) -> tuple[int, int, int, int]:
        block, result = self.block, self.result
        place = (int(result.causal_time[row]), int(result.past_size[row]))
        return (*place, int(block.process[row]), int(block.index[row]))

    def document(self) -> dict[str, object]:
        return {
            "counts": {kind: self.counts[kind] for kind in ("causal", "fifo", "clock")},
            "past": self.past,
            **self.receives,
            "clock": sorted(self.clock.items()),
            "failures": self.failures,
            "failures_total": self.counts["failures"],
            **{name: self.counts[name] for name in ("inferred", "untimed", "receives", "clocks")},
        }


def _sum(sizes: Integers) -> int:
    """Exactly, though the sum may not fit 64 bits."""
    return (int((sizes >> 32).sum()) << 32) + int((sizes & 0xFFFFFFFF).sum())
