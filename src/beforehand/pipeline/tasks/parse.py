"""Bytes to rows: what a Spark task does with its part of the input.

A task writes its events, spans and rejections as files of its own and gives back one DONE row: how much of each, how
many lines, notes, and, if reading stopped, why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats import Limits, Line, Unnumbered, open_bytes, parse_native, split_lines
from beforehand.formats.json_text import RefusedError
from beforehand.formats.opening import LIMITS_DEFAULT, shown_path
from beforehand.formats.spans import LogRecord, Note, Parsed, Span, read_jaeger, read_otlp, read_zipkin
from beforehand.formats.unnumbered import quoted
from beforehand.formats.vector_logs import read_govector, read_shiviz, read_tracing
from beforehand.pipeline.inputs import ParseTask
from beforehand.pipeline.schemas import DONE
from beforehand.pipeline.tasks.staging import Staging
from beforehand.pipeline.tasks.writing import ParsedWriter, RejectedWriter, SpanWriter

__all__ = ["lines_between", "parse_inputs"]


def parse_inputs(
    staging: Staging, tasks: list[ParseTask]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over a column of positions in `tasks`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                done = _parse(at, tasks[at], staging)
                yield pa.RecordBatch.from_arrays([pa.array([json.dumps(done)])], schema=DONE)

    return run


def _parse(at: int, task: ParseTask, staging: Staging) -> dict[str, Any]:
    name = f"{at:06d}.parquet"
    with ExitStack() as stack:
        rejected = stack.enter_context(RejectedWriter(staging.folder("rejected") / f"parse-{name}"))
        parsed = stack.enter_context(ParsedWriter(staging.folder("parsed") / name, cast(RejectedWriter, rejected)))
        spans = stack.enter_context(SpanWriter(staging.folder("spans") / name))
        reading = _Reading(task, cast(ParsedWriter, parsed), cast(SpanWriter, spans), cast(RejectedWriter, rejected))
        problem = None
        try:
            reading.run()
        except InputError as error:  # What was read before it is good.
            problem = str(error)
    return {
        "task": at,
        "error": problem,
        "number": task.files[0][0],
        "split": task.split,
        "lines": reading.lines,
        "events": parsed.count,
        "numbered": reading.parsed.numbered,
        "unnumbered": reading.parsed.unnumbered,
        "spans": spans.count,
        "rejected": rejected.count,
        "notes": [[note.reason, note.detail, note.count] for note in reading.notes],
    }


class _Reading:
    def __init__(self, task: ParseTask, parsed: ParsedWriter, spans: SpanWriter, rejected: RejectedWriter) -> None:
        self.task = task
        self.parsed = parsed
        self.spans = spans
        self.rejected = rejected
        self.lines = 0
        self.notes: list[Note] = []

    def run(self) -> None:
        match self.task.kind:
            case "lines":
                self._lines()
            case "table":
                self._table()
            case "vector":
                self._vector()
            case "spans":
                self._spans()

    def _lines(self) -> None:
        task, limits = self.task, LIMITS_DEFAULT
        number, path = task.files[0]
        file = shown_path(path)
        fields = task.options.fields if task.format == "mapped" else None
        parse = parse_native if fields is None else fields.parse_line
        for line in lines_between(path, task.start, task.end, limits=limits):
            self.lines += 1
            try:
                found = parse(line, limits=limits)
            except RefusedError as refused:
                rejection = Rejection(
                    reason=refused.reason,
                    detail=str(refused),
                    file=file,
                    line=self.lines,
                    offset=line.offset,
                    text=quoted(line.data, limits=limits),
                )
                self.rejected.reject([rejection], number=number, split=task.split)
                continue
            if found is not None:
                self._take(found, number, line.offset, self.lines, file)

    def _table(self) -> None:
        number, path = self.task.files[0]
        file, fields = shown_path(path), self.task.options.fields
        assert fields is not None
        with open_bytes(path, limits=LIMITS_DEFAULT) as stream:
            for offset, found in fields.read_rows(stream, file=file, limits=LIMITS_DEFAULT):
                if isinstance(found, Rejection):
                    self.rejected.reject([found])
                else:
                    self._take(found, number, offset, None, file)

    def _take(
        self, found: Unnumbered | Span | LogRecord, number: int, offset: int, line: int | None, file: str
    ) -> None:
        if isinstance(found, Unnumbered):
            self.parsed.event(found, number=number, split=self.task.split, offset=offset, line=line, file=file)
        else:
            self.spans.record(found)

    def _vector(self) -> None:
        task = self.task
        paths = [path for _, path in task.files]
        if task.format == "shiviz":
            options = task.options
            found = read_shiviz(
                paths,
                regex=options.regex,
                delimiter=options.delimiter,
                time_unit=options.time_unit,  # type: ignore[arg-type] # Checked by the command.
            )
        else:
            found = read_govector(paths) if task.format == "govector" else read_tracing(paths)
        for at, item in enumerate(found):
            if isinstance(item, Event):
                self.parsed.event(item, number=task.files[0][0], split=0, offset=at, line=None, file=None)
            else:
                self.rejected.reject([item])

    def _spans(self) -> None:
        readers: dict[str, Callable[[str], Iterator[Parsed]]] = {
            "otlp": read_otlp,
            "jaeger": read_jaeger,
            "zipkin": read_zipkin,
        }
        for item in readers[self.task.format](self.task.files[0][1]):
            if isinstance(item, Rejection):
                self.rejected.reject([item])
            elif isinstance(item, Note):
                self.notes.append(item)
            else:
                self.spans.record(item)


def lines_between(path: str | Path, start: int, end: int | None, *, limits: Limits) -> Iterator[Line]:
    """The lines that begin in this range of bytes; with 0 and None, those of a whole (perhaps compressed) file."""
    if start == 0 and end is None:
        with open_bytes(path, limits=limits) as stream:
            yield from split_lines(stream, line_bytes_max=limits.line_bytes_max)
        return
    try:
        raw = cast(BinaryIO, open(path, "rb", buffering=0))  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InputError(f"cannot open {shown_path(path)}: {error.strerror}") from error
    with raw:
        # From the byte before: up to its newline it is the line of whoever has the range before this one.
        base = max(start - 1, 0)
        raw.seek(base)
        for line in split_lines(_Failing(raw, shown_path(path)), line_bytes_max=limits.line_bytes_max):
            offset = base + line.offset
            if end is not None and offset >= end:
                return
            if start == 0 or line.offset > 0:
                yield line._replace(offset=offset, number=None)


class _Failing:
    """A file whose disk may fail: lines tell an `InputError` as the end of what could be read."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        self._raw = raw
        self._name = name

    def read(self, size: int, /) -> bytes:
        try:
            return self._raw.read(size)
        except OSError as error:
            raise InputError(f"{self._name}: {error.strerror or error}") from error
