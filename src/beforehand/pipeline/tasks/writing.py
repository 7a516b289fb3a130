"""Rows that tasks write as they come: bounded memory, and files that appear whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from beforehand.events import Event, Rejection
from beforehand.formats import Unnumbered
from beforehand.formats.spans import LogRecord, Span
from beforehand.pipeline.rejecting import rejection_rows
from beforehand.pipeline.schemas import PARSED, STAGED_REJECTED, STAGED_SPAN

__all__ = ["ParsedWriter", "RejectedWriter", "RowWriter", "SpanWriter", "event_row"]

ROWS: Final = 20_000


class RowWriter:
    """Rows as tuples, written in groups. A context: the file appears when it ends well, if there is any row."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.schema = schema
        self.count = 0
        self._rows: list[tuple[Any, ...]] = []
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> RowWriter:
        return self

    def add(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        self.count += 1
        if len(self._rows) >= ROWS:
            self._flush()

    def table(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _flush(self) -> None:
        if not self._rows:
            return
        table = self.table(self._rows)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._part, self.schema, compression="zstd", compression_level=1)
        self._writer.write_table(table)
        self._rows = []

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
            if self._writer is not None:
                self._writer.close()
                if kind is None:
                    self._part.replace(self.path)
        finally:
            self._part.unlink(missing_ok=True)


class RejectedWriter(RowWriter):
    """Rejections of a task; `split` and `number` say in which part of which file, for line numbers."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, STAGED_REJECTED)

    def reject(self, rejections: Iterable[Rejection], *, number: int | None = None, split: int | None = None) -> None:
        for row in rejection_rows(rejections):
            self.add((*row, number, split))


class ParsedWriter(RowWriter):
    """Events, some without an index: those are counted per process."""

    def __init__(self, path: Path, rejected: RejectedWriter) -> None:
        super().__init__(path, PARSED)
        self._rejected = rejected
        self._ordinals: dict[tuple[str, str], int] = {}
        self.unnumbered = 0
        self.numbered = 0

    def event(
        self, event: Event | Unnumbered, *, number: int, split: int, offset: int, line: int | None, file: str | None
    ) -> None:
        ordinal = 0
        if event.index is None:
            key = (event.execution, event.process)
            ordinal = self._ordinals[key] = self._ordinals.get(key, 0) + 1
            self.unnumbered += 1
        else:
            self.numbered += 1
        row = event_row(event)
        try:
            for text in _texts(row):
                if not text.isascii():
                    text.encode()
        except UnicodeEncodeError as error:
            if event.index is None:
                self._ordinals[event.execution, event.process] -= 1
            detail = f"the event holds text that UTF-8 cannot: {error.reason}"
            rejection = Rejection(reason="not-an-event", detail=detail, file=file, line=line, offset=offset)
            self._rejected.reject([rejection], number=number, split=split)
            return
        self.add((*row, ordinal, number, split, offset, line))


def event_row(event: Event | Unnumbered) -> tuple[Any, ...]:
    return (
        event.execution,
        event.process,
        event.index,
        event.sends,
        event.receives,
        event.time,
        event.name,
        list(event.attributes.items()),
        None if event.clock is None else list(event.clock.items()),
    )


def _texts(row: tuple[Any, ...]) -> Iterable[str]:
    execution, process, _, sends, receives, _, name, attributes, clock = row
    yield from (execution, process, name, *sends, *receives)
    for key, value in attributes:
        yield from (key, value)
    yield from (key for key, _ in clock or ())


class SpanWriter(RowWriter):
    """Spans and log records, to be shuffled by execution."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, STAGED_SPAN)

    def record(self, record: Span | LogRecord) -> None:
        is_span = isinstance(record, Span)
        joins: list[str] = []
        if isinstance(record, Span):
            joins = sorted({r.trace_id for r in record.references if r.trace_id != record.trace_id})
        trace = record.trace_id.encode("utf-8", "backslashreplace").decode()
        self.add((trace, is_span, joins, msgspec.msgpack.encode(record)))
