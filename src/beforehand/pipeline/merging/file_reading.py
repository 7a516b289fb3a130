"""Files of published messages as rows: a line of JSON each, or Parquet with the same columns.

Only the fields are taken apart here; stamps and limits are judged with all others (`Decider`). A line that is no
record, or not one of these columns, is given as a row with the reason, as `RecordReader.line` tells it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beforehand.errors import InputError
from beforehand.events import parse_time
from beforehand.formats.json_text import RefusedError, decode_json
from beforehand.formats.lines import split_lines
from beforehand.formats.merged import DEPTH_MAX, UnreadableError, one_line, payload_of
from beforehand.formats.published import RecordLimits, RecordReader, SetAsideRecord
from beforehand.ordering.merging import MergeSettings, SetAside
from beforehand.pipeline.merging.schemas import ARRIVED

__all__ = ["last_arrival", "read_file"]

ROWS: Final = 20_000
BYTES: Final = 16 * 1024 * 1024
_KEYS: Final = frozenset(
    ("channel", "publisher", "sequence", "stamp", "arrival", "payload", "payload_base64", "position")
)
_LONG_MAX: Final = 2**63 - 1


def read_file(path: Path) -> Iterator[pa.RecordBatch]:
    """Rows of ARRIVED, in the order of the file."""
    return _read_parquet(path) if _is_parquet(path) else _read_lines(path)


def last_arrival(path: Path) -> int:
    """The greatest arrival in a file that can be read; 0 if there is none."""
    if _is_parquet(path):
        try:
            column = pq.read_table(path, columns=["arrival"]).column("arrival")
            return _sane(pc.max(_arrivals(column)).as_py())
        except (pa.ArrowException, OSError, KeyError, ValueError):
            return 0
    latest = 0
    with _opened(path) as stream:
        for line in split_lines(stream, line_bytes_max=RecordLimits().record_bytes_max):
            try:
                found = _ARRIVAL.decode(line.data).arrival
                latest = max(latest, _sane(parse_time(found) if isinstance(found, str) else found))
            except (msgspec.MsgspecError, ValueError):
                continue
    return latest


class _Arrival(msgspec.Struct):
    arrival: int | str


_ARRIVAL: Final = msgspec.json.Decoder(_Arrival)


def _sane(arrival: int | None) -> int:
    """What cannot be an arrival is set aside when its row is judged, and moves no time."""
    from beforehand.formats.published import ARRIVAL_MAX

    return arrival if arrival is not None and 0 <= arrival <= ARRIVAL_MAX else 0


def _is_parquet(path: Path) -> bool:
    return path.suffix == ".parquet"


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"cannot open {path}: {error.strerror}") from error


def _read_lines(path: Path) -> Iterator[pa.RecordBatch]:
    limits = RecordLimits()
    reader = RecordReader(MergeSettings(epsilon_ns=0, delta_ns=0), limits=limits)
    rows: list[tuple[Any, ...]] = []
    size = 0
    with _opened(path) as stream:
        for line in split_lines(stream, line_bytes_max=limits.record_bytes_max):
            if not line.data.strip():
                continue
            place = (path.name, line.number)
            if line.length is not None and line.length > len(line.data):
                text = f"the line has {line.length} bytes, the limit is {limits.record_bytes_max}"
                kept = line.data[: limits.aside_bytes_max]
                rows.append((*[None] * 5, kept, *place, SetAside.OVERSIZE.value, text, line.length, None))
            else:
                rows.append(_row(line.data, place, reader))
            size += len(line.data)
            if len(rows) >= ROWS or size >= BYTES:
                yield _batch(rows)
                rows, size = [], 0
    if rows:
        yield _batch(rows)


def _row(data: bytes, place: tuple[Any, ...], reader: RecordReader) -> tuple[Any, ...]:
    fields = _fields(data)
    if fields is not None:
        return (*fields, *place, None, None, None, None)
    read = reader.line(data)
    if isinstance(read, SetAsideRecord):
        why = (read.reason.value, read.detail, read.payload_bytes)
        parts = (read.channel, read.publisher, read.sequence, read.stamp, read.arrival, read.payload)
        return (*parts, *place, *why, None)
    message = read.message
    parts = (read.channel, message.publisher, message.sequence, read.stamp, read.arrival, message.payload)
    return (*parts, *place, None, None, None, None)


def _fields(data: bytes) -> tuple[Any, ...] | None:
    """The fields of a line, if each has the type of its column; else None, and `RecordReader.line` says why."""
    try:
        found = decode_json(data, depth_max=DEPTH_MAX)
        if not isinstance(found, dict) or not found.keys() <= _KEYS:
            return None
        payload = payload_of(found)
        arrival = found.get("arrival")
        if isinstance(arrival, str):
            arrival = parse_time(arrival)
    except (RefusedError, UnreadableError, ValueError):
        return None
    channel, publisher, stamp = found.get("channel", ""), found.get("publisher"), found.get("stamp")
    sequence = found.get("sequence")
    texts = type(channel) is str and type(publisher) is str and type(stamp) is str
    numbers = type(sequence) is int and 1 <= sequence <= _LONG_MAX and type(arrival) is int
    if not texts or not numbers or not 0 <= arrival <= _LONG_MAX:  # type: ignore[operator]
        return None
    return channel, publisher, sequence, stamp, arrival, payload


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARRIVED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARRIVED)


def _read_parquet(path: Path) -> Iterator[pa.RecordBatch]:
    row = 1
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS):
                yield _columns(pa.Table.from_batches([batch]), path.name, row)
                row += batch.num_rows
    except FileNotFoundError as error:
        raise InputError(f"cannot open {path}: {error.strerror}") from error
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        text = one_line(f"the file cannot be read from row {row} on: {error}")
        empty = [None] * 6
        yield _batch([(*empty, path.name, row, SetAside.MALFORMED.value, text, 0, None)])


def _columns(table: pa.Table, name: str, first: int) -> pa.RecordBatch:
    count = table.num_rows
    unknown = set(table.column_names) - _KEYS
    if unknown:
        raise ValueError(f"it has a column {min(unknown)!r}")
    given: dict[str, Any] = {column: table.column(column).combine_chunks() for column in table.column_names}
    if "payload_base64" in given:
        coded = [
            None if text is None else b64decode(text, validate=True) for text in given["payload_base64"].to_pylist()
        ]
        plain = given.get("payload", pa.nulls(count, pa.binary())).cast(pa.binary())
        given["payload"] = pc.coalesce(plain, pa.array(coded, pa.binary()))
    given["channel"] = pc.fill_null(given["channel"], "") if "channel" in given else pa.array([""] * count)
    given["arrival"] = _arrivals(given["arrival"])
    given |= {"source": pa.array([name] * count, pa.string()), "offset": pa.array(range(first, first + count))}
    columns = [given.get(field.name, pa.nulls(count, field.type)) for field in ARRIVED]
    arrays = [_cast(column, field.type) for column, field in zip(columns, ARRIVED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARRIVED)


def _cast(column: Any, kind: Any) -> Any:
    return (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).cast(kind)


def _arrivals(column: Any) -> Any:
    """Nanoseconds, from numbers, timestamps of Arrow or RFC 3339."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns")).cast(pa.int64())
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    return pa.array([None if text is None else parse_time(text) for text in column.to_pylist()], pa.int64())
