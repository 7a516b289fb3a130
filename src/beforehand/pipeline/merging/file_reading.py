"""Files of published messages as rows: a line of JSON each, or Parquet with the same columns.

Only the fields are taken apart here; stamps and limits are judged with all others (`Decider`). A line that is no
record, or not one of these columns, is given as a row with the reason, as `RecordReader.line` tells it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beforehand.clocks.bounded import BoundedStamp
from beforehand.clocks.offset import OffsetStamp
from beforehand.clocks.wire import StampKind, from_text, peek_kind
from beforehand.errors import InputError, StampDecodeError, StampTooLargeError
from beforehand.events import parse_time
from beforehand.formats.json_text import RefusedError, decode_json
from beforehand.formats.lines import split_lines
from beforehand.formats.merged import DEPTH_MAX, UnreadableError, one_line, payload_of
from beforehand.formats.published import ARRIVAL_MAX, RECORD_KEYS, RecordLimits, RecordReader, SetAsideRecord
from beforehand.ordering.merging import MergeSettings, SetAside
from beforehand.pipeline.merging.schemas import ARRIVED

__all__ = ["last_arrivals", "read_file"]

T = TypeVar("T")

ROWS: Final = 20_000
BYTES: Final = 16 * 1024 * 1024
_LONG_MAX: Final = 2**63 - 1


def read_file(path: Path) -> Iterator[pa.RecordBatch]:
    """Rows of ARRIVED, in the order of the file."""
    return _read_parquet(path) if _is_parquet(path) else _read_lines(path)


def last_arrivals(path: Path, *, until_ns: int) -> tuple[int, int]:
    """The greatest arrival in a file up to `until_ns`, and the greatest above; 0 where there is none.

    Only those of records count, with a stamp that is one: what is set aside as unreadable moves no time.
    """
    last = _Last(until_ns)
    if _is_parquet(path):
        # What cannot be read is one bad record, as in `_read_parquet`.
        with suppress(pa.ArrowException, OSError, ValueError, TypeError, KeyError), pq.ParquetFile(path) as file:
            if not set(file.schema_arrow.names) <= RECORD_KEYS:
                return 0, 0
            for batch in file.iter_batches(batch_size=ROWS, columns=["arrival", "stamp"]):
                arrivals = _arrivals(batch.column("arrival")).to_pylist()
                pairs = zip(arrivals, batch.column("stamp").to_pylist(), strict=True)
                last.look([pair for pair in pairs if pair[0] is not None], _is_stamp)
    else:
        lines: list[tuple[int, bytes]] = []
        size = 0
        with _opened(path) as stream:
            for line in split_lines(stream, line_bytes_max=RecordLimits().record_bytes_max):
                # Deep brackets are a RecursionError: the line is no record.
                with suppress(msgspec.MsgspecError, ValueError, RecursionError):
                    found = _ARRIVAL.decode(line.data).arrival
                    lines.append((parse_time(found) if isinstance(found, str) else found, line.data))
                    size += len(line.data)
                if len(lines) >= ROWS or size >= BYTES:
                    last.look(lines, _is_record)
                    lines, size = [], 0
        last.look(lines, _is_record)
    return last.reached, last.ahead


class _Arrival(msgspec.Struct):
    arrival: int | str


_ARRIVAL: Final = msgspec.json.Decoder(_Arrival)


class _Last:
    """The greatest arrivals so far. Few rows are looked into: from the greatest arrival down, until one counts."""

    def __init__(self, until_ns: int) -> None:
        self._until_ns: Final = until_ns
        self.reached = 0
        self.ahead = 0

    def look(self, rows: list[tuple[int, T]], counts: Callable[[T], bool]) -> None:
        for arrival, row in sorted(rows, key=itemgetter(0), reverse=True):
            if arrival > self._until_ns:
                if self.ahead < arrival <= ARRIVAL_MAX and counts(row):
                    self.ahead = arrival
            elif arrival <= self.reached:
                return
            elif arrival <= ARRIVAL_MAX and counts(row):
                self.reached = arrival
                return


def _is_record(line: bytes) -> bool:
    fields = _fields(line)
    return fields is not None and _is_stamp(fields[3])


def _is_stamp(text: object) -> bool:
    """Of any settings: whether it is one of these publishers' is judged with all others."""
    if not isinstance(text, str):
        return False
    limit = RecordLimits().record_bytes_max
    try:
        data = from_text(text, limit=limit)
        if peek_kind(data) is StampKind.BOUNDED:
            BoundedStamp.decode(data, limit=limit, near=ARRIVAL_MAX)
        else:
            OffsetStamp.decode(data, limit=limit)  # Refuses other kinds.
    except (StampDecodeError, StampTooLargeError):
        return False
    return True


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
        if not isinstance(found, dict) or not found.keys() <= RECORD_KEYS:
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
    unknown = set(table.column_names) - RECORD_KEYS
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
