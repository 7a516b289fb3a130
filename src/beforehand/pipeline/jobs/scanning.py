"""The scan: the driver passes over the summaries of all blocks in order and writes what is known at every cut."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beforehand.pipeline.block import Entry, Summary
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.scan import Scan
from beforehand.pipeline.schemas import CUT, FRONT, MEMBERS
from beforehand.pipeline.tables import times_array, write_parquet
from beforehand.pipeline.tasks.staging import LargeInfo, Staging

__all__ = ["scan_blocks"]

Integers = npt.NDArray[np.int64]


def scan_blocks(larges: list[LargeInfo], staging: Staging, directory: Directory) -> int:
    """Write the entries of all blocks (for replaying) and `cuts/` (for queries). Gives the most messages that were in
    flight at once.
    """
    rows: list[tuple[object, ...]] = []
    members: list[tuple[object, ...]] = []
    in_flight = 0
    for large in larges:
        scan = Scan(len(large.processes), small=large.small, spill=staging.path / f"flights-{large.number}")
        last = np.zeros(len(large.processes), np.int64)
        first = np.zeros(len(large.processes), np.int64)
        count = np.zeros(len(large.processes), np.int64)
        for local in range(large.blocks):
            number = large.base + local
            summary = staging.read_summary(number)
            events = 0
            if summary is None:
                scan.block += 1
            else:
                entry = scan.entry(summary)
                staging.write_entry(number, entry)
                write_parquet(_front(entry, summary, last), directory.front(large.number, local))
                _, _, until = staging.leaving(number)
                scan.step(summary, entry, until - large.base)
                events = int(summary.events.sum())
                last, count = last.copy(), count.copy()
                last[summary.active] = summary.last
                count[summary.active] += summary.events
                first[summary.active] = np.where(first[summary.active] == 0, summary.first, first[summary.active])
            rows.append((large.execution, large.number, local, events, last, count, scan.front_time.copy()))
        assert not scan.flights
        in_flight = max(in_flight, scan.in_flight_max)
        members += [
            (
                large.execution,
                large.number,
                member,
                process,
                int(count[member]),
                int(first[member]),
                int(last[member]),
            )
            for member, process in enumerate(large.processes)
        ]
    write_parquet(_table(rows, CUT), directory.cuts / "cuts.parquet")
    write_parquet(_table(members, MEMBERS), directory.cuts / "members.parquet")
    return in_flight


def _table(rows: list[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _front(entry: Entry, summary: Summary, last: Integers) -> pa.Table:
    width = last.size
    here = np.flatnonzero(last)
    stamps = np.concatenate([entry.front[here], entry.entering]).astype(np.int64)
    times = np.concatenate([entry.front_time[here], entry.entering_time])
    starts = pa.array(np.arange(stamps.shape[0] + 1, dtype=np.int32) * width)
    columns = [
        pa.array(["front"] * here.size + ["message"] * summary.entering_send.size, pa.string()),
        pa.array(np.concatenate([here, summary.entering_sender]).astype(np.int32)),
        pa.array(np.concatenate([last[here], summary.entering_send])),
        times_array(times),
        pa.ListArray.from_arrays(starts, pa.array(stamps.reshape(-1))).cast(FRONT.field("stamp").type),
    ]
    return pa.Table.from_arrays(columns, schema=FRONT)
