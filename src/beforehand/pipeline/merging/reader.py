"""Reading what a merge wrote to a folder: only what its micro-batches committed, in order.

The files themselves can hold more: those of a micro-batch that was killed are partial, or come twice. No Spark is
needed here. What is read while the merge goes on is what was committed when reading began.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from beforehand.errors import InputError
from beforehand.formats.merged import MergedRecord, SetAsideRecord, UnreadableError, payload_of
from beforehand.pipeline.merging.ledger import Entry, Ledger
from beforehand.pipeline.merging.schemas import ASIDE, MERGED
from beforehand.pipeline.merging.table_files import aside_record, merged_record

__all__ = ["merged_tables", "read_merged", "read_set_aside"]


def read_merged(folder: Path, *, channel: str | None = None) -> Iterator[MergedRecord]:
    """The messages of all channels or of one, each channel in its order.

    Raises InputError if `folder` is no merge's, if a file is missing, or if positions of a channel do not follow
    one another.
    """
    last: dict[str, int] = {}
    for table in merged_tables(folder):
        for row in table.to_pylist():
            name, position = row["channel"], row["position"]
            if position != last.get(name, 0) + 1:
                raise InputError(f"{folder}: channel {name!r} has position {position} after {last.get(name, 0)}")
            last[name] = position
            if channel is None or name == channel:
                yield merged_record(row)


def merged_tables(folder: Path) -> Iterator[pa.Table]:
    """The same as tables (MERGED), one per file, in the order of the micro-batches."""
    for entry in _entries(folder):
        for name in entry["merged"]:
            yield _table(Path(folder) / "merged" / name, MERGED)


def read_set_aside(folder: Path) -> Iterator[SetAsideRecord]:
    """What was set aside, in no order that means anything within a micro-batch."""
    for entry in _entries(folder):
        for name in entry["aside"]:
            for row in _table(Path(folder) / "aside" / name, ASIDE).to_pylist():
                yield aside_record(row)


def _entries(folder: Path) -> Iterator[Entry]:
    folder = Path(folder)
    try:
        json.loads((folder / "merge.json").read_bytes())
    except (OSError, ValueError):
        raise InputError(f"{folder}: not the output of `beforehand merge`: it has no merge.json") from None
    return Ledger(folder / "commits").entries()


def _table(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path).select(schema.names).cast(schema)
        return pa.Table.from_pylist([_row(line) for line in path.read_bytes().splitlines()], schema=schema)
    except (
        OSError,
        pa.ArrowException,
        KeyError,
        TypeError,
        ValueError,
        msgspec.MsgspecError,
        UnreadableError,
    ) as error:
        raise InputError(f"{path}: committed by the merge, but it cannot be read: {error}") from error


def _row(line: bytes) -> dict[str, Any]:
    fields = msgspec.json.decode(line, type=dict[str, Any])
    fields["payload"] = payload_of(fields)
    return {name: value for name, value in fields.items() if name != "payload_base64"}
