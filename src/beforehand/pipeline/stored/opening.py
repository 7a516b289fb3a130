"""What a directory says of its executions, read once, and whether its files are all there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from beforehand.errors import InputError
from beforehand.formats.opening import shown_path
from beforehand.history.kernels import NO_TIME
from beforehand.pipeline.directory import Directory, Manifest
from beforehand.pipeline.schemas import BLOCK, CAUSAL_TIME, CUT, MEMBER, MEMBERS, NUMBER, PROCESS, STORED
from beforehand.pipeline.stored.arrays import list_starts, numbers, open_parquet, read_table
from beforehand.pipeline.stored.blocks import CutExecution
from beforehand.pipeline.stored.cache import Cache

__all__ = ["read_cut_executions", "verify_events"]


def read_cut_executions(directory: Directory, cache: Cache, numbered: Mapping[str, int]) -> dict[str, CutExecution]:
    """The executions that were cut into blocks, by name. Reads two small tables."""
    path = directory.cuts / "cuts.parquet"
    cuts = read_table(path, CUT, [NUMBER, BLOCK, "cut", "count", CAUSAL_TIME])
    members = read_table(directory.cuts / "members.parquet", MEMBERS, [NUMBER, MEMBER, PROCESS])
    number, block, names = numbers(cuts[NUMBER]), numbers(cuts[BLOCK]), members[PROCESS].to_pylist()
    member_number = numbers(members[NUMBER])
    columns = []
    for column, fill in (("cut", 0), ("count", 0), (CAUSAL_TIME, NO_TIME)):
        starts, pieces = list_starts(cuts[column])
        columns.append((starts, np.concatenate([np.empty(0, np.int64), *(numbers(piece, fill) for piece in pieces)])))
    result = {}
    for execution, at in numbered.items():
        processes = [names[row] for row in np.flatnonzero(member_number == at).tolist()]
        rows = np.flatnonzero(number == at)
        if not rows.size or not processes or not np.array_equal(block[rows], np.arange(rows.size)):
            raise InputError(f"{shown_path(path)} lacks blocks of execution {execution!r}: analyze again")
        parts = [values[starts[rows[0]] : starts[rows[-1] + 1]] for starts, values in columns]
        if any(part.size != rows.size * len(processes) for part in parts):
            raise InputError(f"{shown_path(path)} does not fit members.parquet: analyze again")
        ends, counts, times = (part.reshape(rows.size, len(processes)) for part in parts)
        result[execution] = CutExecution(
            directory,
            cache,
            number=at,
            execution=execution,
            processes=processes,
            ends=ends,
            counts=counts,
            times=times,
        )
    return result


def verify_events(directory: Directory, manifest: Manifest, cut: Mapping[str, CutExecution]) -> None:
    """Raise `InputError` unless all files of events are there."""
    found = 0
    for of in cut.values():
        found += int(of.counts[-1].sum())
        for block in of.full.tolist():
            path = directory.block(of.number, block)
            if not path.exists():
                raise InputError(f"{shown_path(path)} is missing: this history directory is not whole, analyze again")
    if not manifest.packs or not manifest.events:
        return
    for path in sorted(directory.events.glob("pack-*.parquet")):
        with open_parquet(path, STORED) as file:
            found += file.metadata.num_rows
    if found != manifest.events:
        shown = shown_path(directory.events)
        raise InputError(f"{shown} holds {found} events instead of {manifest.events}: analyze again")
