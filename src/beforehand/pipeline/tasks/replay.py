"""Second pass over the blocks: replay each from its true entry stamps, and write its events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beforehand.history.kernels import NO_TIME
from beforehand.pipeline.block import Replayed, replay
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    BLOCK,
    CAUSAL_TIME,
    DONE,
    EXECUTION,
    KIND,
    MEMBER,
    NAME,
    PAST_SIZE,
    PROCESS,
    RECEIVES,
    SOURCES,
    STORED,
)
from beforehand.pipeline.tables import (
    block_of,
    clocks_of,
    failures_in,
    flat,
    integers,
    kinds,
    times_array,
    write_parquet,
)
from beforehand.pipeline.tasks.staging import Staging

__all__ = ["replay_blocks"]

Integers = npt.NDArray[np.int64]


def replay_blocks(
    staging: Staging, directory: Directory, *, limit: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over a column of block numbers; gives a DONE row per block: its
    counts, and of each kind of finding at most `limit`: receives as (member, index, position), events as (member,
    index).
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                if staging.rows(number).exists():
                    found = _replay(number, staging, directory, limit)
                    yield pa.RecordBatch.from_arrays([pa.array([json.dumps(found)])], schema=DONE)

    return run


def _replay(number: int, staging: Staging, directory: Directory, limit: int) -> dict[str, object]:
    large = staging.large_of(number)
    local = number - large.base
    rows = staging.read_rows(number)
    member = integers(rows[MEMBER]).astype(np.int32)
    block = block_of(rows, member, staging.cut(large.number, local), small=large.small)
    processes = pa.array(large.processes, pa.string())
    clocks = clocks_of(rows, processes)
    result = replay(block, staging.read_entry(number), clocks=clocks)
    names = pa.DictionaryArray.from_arrays(pa.array(member), processes).cast(pa.string())
    columns = {
        **{name: rows[name] for name in rows.column_names},
        EXECUTION: pa.array([large.execution]).take(pa.array(np.zeros(block.rows, np.int8))),
        BLOCK: pa.array(np.full(block.rows, local, np.int32)),
        PROCESS: names,
        KIND: kinds(rows),
        CAUSAL_TIME: times_array(result.causal_time),
        PAST_SIZE: pa.array(result.past_size),
        SOURCES: rows[SOURCES],
    }
    table = pa.Table.from_arrays([flat(columns[field.name]).cast(field.type) for field in STORED], schema=STORED)
    write_parquet(table, directory.block(large.number, local), dictionary=_REPEATED)
    failures = failures_in(table)
    inferred = int((~block.real & (block.sender >= -1)).sum())
    return {
        "block": number,
        "events": block.rows,
        "counts": {
            "causal": int(result.causal.sum()),
            "fifo": int(result.fifo.sum()),
            "clock": int(result.clock_wrong.sum()),
        },
        "past": _sum(result.past_size),
        "causal": _receives(block.receive_row, block.receive_start, member, block.index, result.causal, limit),
        "fifo": _receives(block.receive_row, block.receive_start, member, block.index, result.fifo, limit),
        "clock": _first_wrong(member, block.index, result),
        "failures": [
            (int(result.causal_time[row]), int(result.past_size[row]), int(member[row]), int(block.index[row]))
            for row in _first(failures, result, limit)
        ],
        "failures_total": int(failures.size),
        "inferred": inferred,
        "untimed": int((block.time == NO_TIME).sum()),
        "receives": len(flat(rows[RECEIVES]).flatten()),
    }


_REPEATED = [EXECUTION, PROCESS, KIND, NAME, f"{ATTRIBUTES}.key_value.key", f"{ATTRIBUTES}.key_value.value"]


def _sum(sizes: Integers) -> int:
    """Exactly, though the sum may not fit 64 bits."""
    return (int((sizes >> 32).sum()) << 32) + int((sizes & 0xFFFFFFFF).sum())


def _first(failures: Integers, result: Replayed, limit: int) -> list[int]:
    """The first ones in the deterministic order; rows are in the order of process and index already."""
    order = np.lexsort((failures, result.past_size[failures], result.causal_time[failures]))
    return [int(row) for row in failures[order][:limit]]


def _receives(
    row: Integers,
    start: Integers,
    member: npt.NDArray[np.int32],
    index: Integers,
    found: npt.NDArray[np.bool_],
    limit: int,
) -> list[tuple[int, int, int]]:
    hits = np.flatnonzero(found)[:limit]
    return [(int(member[row[r]]), int(index[row[r]]), int(r - start[row[r]])) for r in hits]


def _first_wrong(member: npt.NDArray[np.int32], index: Integers, result: Replayed) -> list[tuple[int, int]]:
    rows = np.flatnonzero(result.clock_wrong)
    _, first = np.unique(member[rows], return_index=True)
    return [(int(member[rows[at]]), int(index[rows[at]])) for at in first]
