"""Histories of any size for the pipeline's benchmark: native events in Parquet, made by a small compiled simulation.

Processes send to random others, and receive what has arrived, in the order of arrival; a third of all events are
local. The clocks are off by up to 50 ms each, twenty times the delay of a message.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit

from beforehand.pipeline.schemas import NATIVE

__all__ = ["make_history"]

STEP_NS: Final = 10_000
FILE_EVENTS: Final = 1_000_000


@njit(cache=True)
def _simulate(
    seed: int,
    events: int,
    first: int,
    inbox: npt.NDArray[np.int64],  # Processes × places: message numbers, a ring each.
    due: npt.NDArray[np.int64],
    head: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    count: npt.NDArray[np.int64],
    sent: int,
    process: npt.NDArray[np.int32],
    index: npt.NDArray[np.int64],
    sends: npt.NDArray[np.int64],
    receives: npt.NDArray[np.int64],
) -> int:
    np.random.seed(seed)
    processes, places = inbox.shape
    for i in range(events):
        now = first + i
        p = np.random.randint(processes)
        process[i] = p
        count[p] += 1
        index[i] = count[p]
        sends[i] = receives[i] = -1
        if size[p] and due[p, head[p]] <= now and np.random.random() < 0.9:
            receives[i] = inbox[p, head[p]]
            head[p] = (head[p] + 1) % places
            size[p] -= 1
        elif np.random.random() < 0.6:
            q = np.random.randint(processes)
            if size[q] < places:
                at = (head[q] + size[q]) % places
                inbox[q, at] = sent
                due[q, at] = now + np.random.randint(1, 250)
                size[q] += 1
                sends[i] = sent
                sent += 1
    return sent


def make_history(folder: Path, *, events: int, processes: int, seed: int = 1) -> None:
    """Write `events` events of one execution as Parquet files of a million each, in the order of true time."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    offset = random.integers(-50_000_000, 50_000_000, processes)
    names = pa.array([f"service-{p:04d}" for p in range(processes)])
    inbox, due = np.zeros((processes, 4096), np.int64), np.zeros((processes, 4096), np.int64)
    head, size, count = (np.zeros(processes, np.int64) for _ in range(3))
    sent = first = 0
    while first < events:
        rows = min(FILE_EVENTS, events - first)
        process, index = np.empty(rows, np.int32), np.empty(rows, np.int64)
        sends, receives = np.empty(rows, np.int64), np.empty(rows, np.int64)
        sent = _simulate(
            seed + first, rows, first, inbox, due, head, size, count, sent, process, index, sends, receives
        )
        time = 1_790_000_000_000_000_000 + (first + np.arange(rows)) * STEP_NS + offset[process]
        what = np.where(receives >= 0, 0, np.where(sends >= 0, 1, 2))
        columns: dict[str, Any] = {
            "execution": pa.array([""]).take(pa.array(np.zeros(rows, np.int8))),
            "process": names.take(pa.array(process)),
            "index": pa.array(index),
            "sends": _ids(sends),
            "receives": _ids(receives),
            "time": pa.array(time + random.integers(0, 2_000, rows)),
            "name": pa.array(["request handled", "request sent", "work done"]).take(pa.array(what)),
            "attributes": _attributes(random.integers(0, 1_000, rows)),
            "clock": pa.nulls(rows, NATIVE.field("clock").type),
        }
        table = pa.Table.from_arrays([columns[field.name].cast(field.type) for field in NATIVE], schema=NATIVE)
        pq.write_table(table, folder / f"{first // FILE_EVENTS:05d}.parquet", compression="zstd")
        first += rows


def _ids(numbers: npt.NDArray[np.int64]) -> pa.Array:
    kept = numbers >= 0
    texts = pa.array(numbers[kept]).cast(pa.string())
    ids = pa.compute.binary_join_element_wise("m", texts, "")
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)), ids)


def _attributes(users: npt.NDArray[np.int64]) -> pa.Array:
    rows = users.size
    starts = pa.array(np.arange(rows + 1, dtype=np.int32))
    keys = pa.array(["user"]).take(pa.array(np.zeros(rows, np.int8)))
    return pa.MapArray.from_arrays(starts, keys, pa.array(users).cast(pa.string()))
