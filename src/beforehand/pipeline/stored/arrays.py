"""Columns of Parquet files as numpy arrays, straight from their buffers.

`to_numpy` of pyarrow imports pandas where it is installed, which takes longer than most queries: nothing here does.
What cannot be read becomes an `InputError` that names the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from beforehand.errors import InputError
from beforehand.formats.opening import shown_path
from beforehand.pipeline.schemas import LAMPORT_TIME

__all__ = ["list_starts", "numbers", "open_parquet", "read_table", "reading", "selection"]

Integers = npt.NDArray[np.int64]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into one line that says so."""
    shown = shown_path(path)
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{shown} is missing: this history directory is not whole, analyze again") from None
    except (pa.ArrowException, OSError, KeyError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"{shown} cannot be read ({why}): analyze again") from error


def open_parquet(path: Path, schema: pa.Schema) -> pq.ParquetFile:
    """The file, which has at least the columns of the schema. Lamport times it need not have: nothing here asks."""
    with reading(path):
        file = pq.ParquetFile(path)
        held = {*file.schema_arrow.names, LAMPORT_TIME}
    missing = [name for name in schema.names if name not in held]
    if missing:
        raise InputError(f"{shown_path(path)} has no column {missing[0]!r}: analyze again")
    return file


def read_table(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    """Some columns of a file, all of them if none is named."""
    file = open_parquet(path, schema)
    with reading(path), file:
        return file.read(columns=list(columns or schema.names), use_threads=False)


def numbers(column: pa.ChunkedArray | pa.Array, fill: int = 0) -> Integers:
    """A column of integers as 64 bits, with nulls filled."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if len(chunks) == 1:
        return _numbers(chunks[0], fill)
    parts = [_numbers(chunk, fill) for chunk in chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _numbers(array: pa.Array, fill: int) -> Integers:
    size, first = len(array), array.offset
    valid, data = array.buffers()
    if data is None or not size:
        return np.full(size, fill, np.int64)
    kind = np.dtype(f"i{array.type.bit_width // 8}")
    values: Integers = np.frombuffer(data, kind, first + size)[first:].astype(np.int64, copy=False)
    if array.null_count and valid is not None:
        bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=first + size, bitorder="little")
        values = np.where(bits[first:] == 1, values, fill)
    return values


def list_starts(column: pa.ChunkedArray) -> tuple[Integers, list[pa.Array]]:
    """Of a column of lists without nulls: where the elements of each row begin, and the elements, in pieces."""
    starts = [np.zeros(1, np.int64)]
    elements = []
    base = 0
    for chunk in column.chunks:
        first, size = chunk.offset, len(chunk)
        ends = np.frombuffer(chunk.buffers()[1], np.int32, first + size + 1)[first:].astype(np.int64)
        starts.append(ends[1:] - ends[0] + base)
        base += int(ends[-1] - ends[0])
        elements.append(chunk.values[int(ends[0]) : int(ends[-1])])
    return np.concatenate(starts), elements


def selection(rows: Integers) -> pa.Array:
    """Rows as what `take` takes."""
    held = np.ascontiguousarray(rows, np.int64)
    return pa.Array.from_buffers(pa.int64(), held.size, [None, pa.py_buffer(held)])
