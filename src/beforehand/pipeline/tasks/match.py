"""Sends and receives of messages, sorted by message, to rows of `messages/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from beforehand.events import INFERRED as INFERRED_MARK
from beforehand.history.kernels import NO_TIME
from beforehand.history.measures import TIME_MAX
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.schemas import (
    DONE,
    DUPLICATE_RECEIVE,
    DUPLICATE_SEND,
    EXECUTION,
    INDEX,
    INFERRED,
    MEMBER,
    MESSAGE,
    MESSAGE_TABLE,
    NUMBER,
    OUTCOME,
    POSITION,
    RECEIVE_INDEX,
    RECEIVE_PROCESS,
    RECEIVE_TIME,
    RECEIVED,
    RECEIVER,
    RECEIVERS,
    SEND_INDEX,
    SEND_PROCESS,
    SEND_TIME,
    SENDER,
    SPREAD,
    TIME,
    UNRECEIVED,
    UNSENT,
)
from beforehand.pipeline.tables import integers, write_parquet

__all__ = ["KEY", "match_messages"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

KEY: Final = "key"
"""Of an end of a message: -1 for a send, else the member that received."""

_OUTCOMES: Final = pa.array([RECEIVED, UNSENT, UNRECEIVED, DUPLICATE_SEND, DUPLICATE_RECEIVE])


def match_messages(
    directory: Directory, executions: list[str], processes: list[list[str]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over the ends of messages (see matching.py), whole messages to a partition, sorted
    by message, key and place. Writes a file of `messages/` and gives a DONE row. `processes` has the names of the
    members of each large execution.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held)
        rows = _match(table, executions, processes)
        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        write_parquet(rows, directory.messages / "large" / f"{part:06d}.parquet", dictionary=_REPEATED)
        done = {"part": part, "rows": rows.num_rows}
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps(done)])], schema=DONE)

    return run


_REPEATED: Final = [EXECUTION, OUTCOME, SEND_PROCESS, RECEIVE_PROCESS]


def _match(table: pa.Table, executions: list[str], processes: list[list[str]]) -> pa.Table:
    message = table[MESSAGE].combine_chunks()
    number, member, index, key, position = (integers(table[name]) for name in (NUMBER, MEMBER, INDEX, KEY, POSITION))
    time = integers(table[TIME], NO_TIME)
    rows = number.size
    same = _flags(pc.equal(message[1:], message[:-1])) & (number[1:] == number[:-1])
    new = np.concatenate([[True], ~same])
    group = np.cumsum(new) - 1
    start = np.flatnonzero(new)

    is_receive = key >= 0
    repeated = np.concatenate([[False], same & (key[1:] == key[:-1])])
    counts = is_receive & ~repeated
    is_sent = (key[start] < 0)[group]
    first = start[group]
    receives = np.add.reduceat(counts.astype(np.int64), start)
    outcome = np.full(rows, -1, np.int64)
    outcome[counts & is_sent] = 0
    outcome[counts & ~is_sent] = 1
    outcome[~is_receive & ~repeated & (receives == 0)[group]] = 2
    outcome[~is_receive & repeated] = 3
    outcome[is_receive & repeated] = 4

    kept = np.flatnonzero(outcome >= 0)
    # One row of each message that stays has its figures: the last of its rows that do.
    figures = np.zeros(rows, np.bool_)
    figures[np.maximum.reduceat(np.where(outcome >= 0, np.arange(rows), -1), start)] = True
    spread = _spread(time, first, counts & is_sent, start, group)
    send = np.where(is_receive, first, np.arange(rows))  # The row that sent; of a duplicate send, itself.
    has_send = (is_sent | ~is_receive)[kept]
    sender_rows = send[kept]
    receiving = is_receive[kept]

    names = pa.array([name for of in processes for name in of], pa.string())
    base = np.concatenate([[0], np.cumsum([len(of) for of in processes])])[:-1]
    numbers = number[kept]
    columns = {
        EXECUTION: pa.array(executions, pa.string()).take(pa.array(numbers)),
        NUMBER: pa.array(numbers.astype(np.int32)),
        MESSAGE: message.take(pa.array(kept)),
        OUTCOME: _OUTCOMES.take(pa.array(outcome[kept])),
        SENDER: pa.array(member[sender_rows].astype(np.int32), mask=~has_send),
        SEND_PROCESS: names.take(pa.array(base[numbers] + member[sender_rows], mask=~has_send)),
        SEND_INDEX: pa.array(index[sender_rows], mask=~has_send),
        SEND_TIME: pa.array(time[sender_rows], mask=~has_send | (time[sender_rows] == NO_TIME)),
        RECEIVER: pa.array(member[kept].astype(np.int32), mask=~receiving),
        RECEIVE_PROCESS: names.take(pa.array(base[numbers] + member[kept], mask=~receiving)),
        RECEIVE_INDEX: pa.array(index[kept], mask=~receiving),
        RECEIVE_TIME: pa.array(time[kept], mask=~receiving | (time[kept] == NO_TIME)),
        POSITION: pa.array(position[kept].astype(np.int32), mask=~receiving),
        RECEIVERS: pa.array(receives[group[kept]].astype(np.int32), mask=~figures[kept]),
        SPREAD: pa.array(spread[group[kept]], mask=~figures[kept] | (spread[group[kept]] < 0)),
    }
    columns[INFERRED] = pc.starts_with(columns[MESSAGE], INFERRED_MARK)
    arrays = [columns[field.name].cast(field.type) for field in MESSAGE_TABLE]
    return pa.Table.from_arrays(arrays, schema=MESSAGE_TABLE)


def _spread(time: Integers, first: Integers, counts: Flags, start: Integers, group: Integers) -> Integers:
    """Per message, the longest less the shortest of its delivery times; -1 where no receive has usable times."""
    usable = (time > -TIME_MAX) & (time < TIME_MAX)
    timed = counts & usable & usable[first]
    longest = np.maximum.reduceat(np.where(timed, time, -TIME_MAX), start)
    shortest = np.minimum.reduceat(np.where(timed, time, TIME_MAX), start)
    any_timed = np.bincount(group[timed], minlength=start.size) > 0
    return np.where(any_timed, longest - shortest, -1)


def _flags(column: pa.Array) -> Flags:
    result: Flags = column.to_numpy(zero_copy_only=False).astype(np.bool_)
    return result
