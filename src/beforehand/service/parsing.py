"""A file of any format as events, read by a process of its own: `python -m beforehand.service.parsing`.

A stranger's file may hold anything: a log whose first line is a regular expression that never ends, a few bytes that
decompress to terabytes, brackets without end. So whoever imports a file starts this as a process, with limits on its
memory and its time, and takes what it wrote; or one line that says why not. Its parent may kill it at any time.

Formats are told as the analysis does, by content. Compressed data is told by its first bytes, for a browser gives any
name. Standard output has one MessagePack document, `Parsed`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from beforehand.errors import BeforehandError, InputError
from beforehand.events import Event, EventId, Rejection
from beforehand.formats import LIMITS_DEFAULT, detect, read_events
from beforehand.formats.detection import FORMATS
from beforehand.formats.spans import (
    SPAN_LIMITS,
    LogRecord,
    Note,
    Span,
    executions,
    read_jaeger,
    read_otlp,
    read_zipkin,
    spans_to_events,
)
from beforehand.formats.vector_logs import TEXT_LIMITS_DEFAULT, read_govector, read_shiviz, read_tracing

__all__ = ["REJECTIONS_MAX", "Parsed", "parse", "suffix_of"]

REJECTIONS_MAX: Final = 1_000
"""Rejections that are kept; the others are counted."""
CONTENT_BYTES_MAX: Final = 256 << 20
MEMORY_BYTES_MAX: Final = 2 << 30
_TEXT_MAX: Final = 2_000
_FINDINGS_MAX: Final = 20

_LIMITS: Final = replace(LIMITS_DEFAULT, decompressed_bytes_max=CONTENT_BYTES_MAX)
_SPAN_LIMITS: Final = replace(SPAN_LIMITS, decompressed_bytes_max=CONTENT_BYTES_MAX)
_TEXT_LIMITS: Final = replace(TEXT_LIMITS_DEFAULT, text_bytes_max=64 << 20)
_MARKS: Final = ((b"\x1f\x8b", ".gz"), (b"\x28\xb5\x2f\xfd", ".zst"))


class Parsed(msgspec.Struct):
    """What a file holds; or `error`, one line."""

    error: str | None = None
    format: str = ""
    events: list[tuple[Any, ...]] = []  # The fields of `Event`, in the order of `_FIELDS`.
    rejections: list[tuple[Any, ...]] = []
    rejected: int = 0
    findings: list[str] = []

    def taken(self) -> list[Event]:
        """The events again."""
        return [
            Event(
                execution=execution,
                process=process,
                index=index,
                sends=tuple(sends),
                receives=tuple(receives),
                time=time,
                name=name,
                attributes=attributes,
                clock=clock,
            )
            for execution, process, index, sends, receives, time, name, attributes, clock in self.events
        ]

    def refused(self) -> list[Rejection]:
        return [
            Rejection(
                reason=reason,
                detail=detail,
                file=file,
                line=line,
                offset=offset,
                text=text,
                message=message,
                events=tuple(EventId(*event) for event in events),
            )
            for reason, detail, file, line, offset, text, message, events in self.rejections
        ]


def suffix_of(head: bytes) -> str:
    """How the name of a file must end that begins like this."""
    return next((suffix for mark, suffix in _MARKS if head.startswith(mark)), "")


def parse(path: Path, shown: str, *, chosen: str | None, events_max: int) -> Parsed:
    """All events of a file, or why there are none."""
    parsing = _Parsing(events_max, str(path), shown)
    try:
        found = chosen or detect(path, limits=_LIMITS)
        parsing.read(path, found)
    except BeforehandError as error:
        said = " ".join(str(error).split()).replace(str(path), shown)
        said = said.replace("--format NAME", "format=NAME").replace("--format shiviz", "format=shiviz")
        if "--map" in said or "--regex" in said:
            said += " (with beforehand analyze)"
        return Parsed(error=said[:500])
    except (MemoryError, RecursionError):
        return Parsed(error=f"{shown} takes too much memory: analyze it, and open the history directory")
    return parsing.result(found)


class _Parsing:
    def __init__(self, events_max: int, path: str, shown: str) -> None:
        self._events_max: Final = events_max
        self._path: Final = path  # Nobody but us knows this name:
        self._shown: Final = shown  # this is what the file is called.
        self._events: list[Event] = []
        self._rejections: list[Rejection] = []
        self._reasons: Counter[str] = Counter()
        self._firsts: dict[str, str] = {}
        self._notes: list[str] = []

    def read(self, path: Path, name: str) -> None:
        if name not in FORMATS:
            raise InputError(f"no format {name[:40]!r}: formats are {', '.join(FORMATS)}")
        if name == "parquet":
            self._take(_parquet(path, self._events_max))
        elif name in ("otlp", "jaeger", "zipkin"):
            self._spans(path, name)
        elif name == "native":
            self._take(read_events(path, limits=_LIMITS))
        elif name == "shiviz":
            self._take(read_shiviz(path, limits=_TEXT_LIMITS))
        elif name == "govector":
            self._take(read_govector(path, limits=_TEXT_LIMITS))
        else:
            self._take(read_tracing(path, limits=_TEXT_LIMITS))

    def _take(self, found: Iterable[Event | Rejection]) -> None:
        for one in found:
            if isinstance(one, Rejection):
                self._reject(one)
            elif not _is_text(one):
                detail = "a text has half of a character (a lone surrogate): it cannot be written as UTF-8"
                self._reject(Rejection(reason="not-utf8", detail=detail, events=()))
            else:
                self._events.append(one)
                self._refuse_if_many(len(self._events), "events")

    def _reject(self, one: Rejection) -> None:
        named = self._shown if one.file == self._path else one.file
        one = replace(one, file=named, detail=one.detail.replace(self._path, self._shown))
        self._reasons[one.reason] += 1
        self._firsts.setdefault(one.reason, one.detail)
        if len(self._rejections) < REJECTIONS_MAX:
            self._rejections.append(one)

    def _refuse_if_many(self, count: int, what: str) -> None:
        if count > self._events_max:
            raise InputError(
                f"the file has more than {self._events_max} {what}: analyze it (beforehand analyze), and open the "
                "history directory (beforehand serve --open)"
            )

    def _spans(self, path: Path, name: str) -> None:
        readers: dict[str, Callable[..., Iterator[Any]]] = {
            "otlp": read_otlp,
            "jaeger": read_jaeger,
            "zipkin": read_zipkin,
        }
        spans: list[Span] = []
        logs: list[LogRecord] = []
        for one in readers[name](path, limits=_SPAN_LIMITS, document_bytes_max=CONTENT_BYTES_MAX):
            if isinstance(one, Rejection):
                self._reject(one)
            elif isinstance(one, Note):
                self._notes.append(f"{one.count} × {one.reason}: {one.detail}")
            elif isinstance(one, Span):
                spans.append(one)
            else:
                logs.append(one)
            self._refuse_if_many(2 * len(spans) + len(logs), "events")
        names = executions(spans, logs)
        by: dict[str, tuple[list[Span], list[LogRecord]]] = {}
        for span in spans:
            by.setdefault(names[span.trace_id], ([], []))[0].append(span)
        for log in logs:
            by.setdefault(names.get(log.trace_id, log.trace_id), ([], []))[1].append(log)
        for execution, (mine, theirs) in by.items():
            laned = spans_to_events(mine, theirs, execution=execution)
            self._take([*laned.events, *laned.rejections])
            self._notes += [f"{note.count} × {note.reason}: {note.detail}" for note in laned.notes]

    def result(self, name: str) -> Parsed:
        findings = [
            f"{count} × {reason}: {self._firsts[reason]}"[:_TEXT_MAX] for reason, count in self._reasons.most_common()
        ]
        return Parsed(
            format=name,
            events=[
                (e.execution, e.process, e.index, e.sends, e.receives, e.time, e.name, dict(e.attributes), e.clock)
                for e in self._events
            ],
            rejections=[
                (
                    one.reason,
                    one.detail[:_TEXT_MAX],
                    one.file,
                    one.line,
                    one.offset,
                    one.text[:_TEXT_MAX],
                    one.message,
                    [(event.execution, event.process, event.index) for event in one.events[:_FINDINGS_MAX]],
                )
                for one in self._rejections
            ],
            rejected=self._reasons.total(),
            findings=[*findings, *self._notes][:_FINDINGS_MAX],
        )


def _is_text(event: Event) -> bool:
    texts = [event.execution, event.process, event.name, *event.sends, *event.receives]
    texts += [*event.attributes, *event.attributes.values(), *(event.clock or ())]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _parquet(path: Path, events_max: int) -> Iterator[Event]:
    """Native events in columns; only whole files of events, as the analysis reads them."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"{path} is Parquet, which needs pyarrow: pip install 'beforehand[pipeline]'") from None
    names = ("execution", "process", "index", "sends", "receives", "time", "name", "attributes", "clock")
    try:
        with pq.ParquetFile(path) as file:
            here = [name for name in names if name in file.schema_arrow.names]
            if not {"process", "index"} <= set(here):
                raise InputError(f"{path} has no columns process and index: see the columns of native events")
            size = sum(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))
            if file.metadata.num_rows > events_max or size > CONTENT_BYTES_MAX:
                raise InputError(f"{path} has {file.metadata.num_rows} rows in {size} bytes: analyze it instead")
            rows = file.read(columns=here, use_threads=False).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is not a whole Parquet file: {' '.join(str(error).split())[:200]}") from None
    for number, row in enumerate(rows):
        try:
            yield Event(
                execution=row.get("execution") or "",
                process=row["process"],
                index=row["index"],
                sends=tuple(row.get("sends") or ()),
                receives=tuple(row.get("receives") or ()),
                time=row.get("time"),
                name=row.get("name") or "",
                attributes=_attributes(row),
                clock=None if row.get("clock") is None else dict(row["clock"]),
            )
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}: row {number} is no event ({error}): write it again") from None


def _attributes(row: Mapping[str, Any]) -> dict[str, str]:
    found = dict(row.get("attributes") or ())
    if not all(isinstance(text, str) for item in found.items() for text in item):
        raise ValueError("attributes are texts")
    return found


def _bounded() -> None:
    """Limits of this process, where the system has them. The parent watches the time."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main(arguments: list[str]) -> None:
    """Path, name to show, format or nothing, events at most."""
    _bounded()
    path, shown, chosen, events_max = arguments
    try:
        found = parse(Path(path), shown, chosen=chosen or None, events_max=int(events_max))
        data = msgspec.msgpack.encode(found)
    except MemoryError:
        data = msgspec.msgpack.encode(Parsed(error=f"{shown} takes too much memory: analyze it instead"))
    sys.stdout.buffer.write(data)


if __name__ == "__main__":
    main(sys.argv[1:])
