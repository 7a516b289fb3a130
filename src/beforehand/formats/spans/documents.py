"""JSON files of unknown layout: one document, pretty-printed or not, or one document a line.

Tracing tools write all of these under the same names, so the content decides:

1. If the first line that is not blank is a JSON text by itself, or the second one is and the first does not go on,
   the file is JSON Lines: one line is in memory at a time, and a bad line is one rejection.
2. Else the file is one document, read whole. It may have `DOCUMENT_BYTES_MAX` bytes after decompression; a larger
   one is an `InputError`. Decoded, a document takes up to fifteen times its size.
3. Keys that stand twice in one object are tolerated here and noted: the last one counts, as in every decoder of
   these formats, and refusing a document of a million spans for one of them would lose more than it saves.

Reasons of rejections: `not-json`, `too-deep`, `line-too-long` and `unreadable`, as in the native format, and

    other-format    it is JSON, but of another format; the detail names the format where it is known
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from typing import Final, NamedTuple

import msgspec

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.json_text import KEY_TWICE, Json, RefusedError, decode_json
from beforehand.formats.lines import Line, split_lines
from beforehand.formats.native import LINE_TOO_LONG, UNREADABLE
from beforehand.formats.opening import Limits, Path, Readable, open_bytes, shown_path
from beforehand.formats.spans.records import Note

__all__ = [
    "DOCUMENT_BYTES_MAX",
    "OTHER_FORMAT",
    "SPAN_LIMITS",
    "Document",
    "Source",
    "Tolerated",
    "file_name",
    "format_of",
    "opened",
    "other_format",
    "read_document_lines",
    "read_documents",
    "rejection",
]

Source = Path | Readable

DOCUMENT_BYTES_MAX: Final = 256 << 20
OTHER_FORMAT: Final = "other-format"
# Files saved by Jaeger's page embed each span's parent, with its parent, and so on: 3 brackets a generation.
SPAN_LIMITS: Final = Limits(depth_max=200, line_bytes_max=64 << 20)
_BOM: Final = b"\xef\xbb\xbf"


class Document(NamedTuple):
    """One JSON value and where it began."""

    value: Json
    offset: int
    line: int | None


class Tolerated:
    """Counts what a reader tolerated in one file."""

    def __init__(self, details: dict[str, str]) -> None:
        self._details = {KEY_TWICE: "a key stands twice in one object: the last one counts", **details}
        self._counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        self._counts[reason] += 1

    def notes(self, file: str | None) -> Iterator[Note]:
        for reason, count in sorted(self._counts.items()):
            yield Note(reason=reason, detail=self._details[reason], count=count, file=file)


def opened(source: Source, *, limits: Limits) -> AbstractContextManager[Readable]:
    """A path opened, or a stream as it is."""
    return open_bytes(source, limits=limits) if isinstance(source, str | PathLike) else nullcontext(source)


def file_name(source: Source, file: str | None) -> str | None:
    """The name of a source in rejections: as given, else its path."""
    return shown_path(source) if file is None and isinstance(source, str | PathLike) else file


def read_documents(
    stream: Readable,
    *,
    file: str | None,
    limits: Limits,
    document_bytes_max: int,
    tolerated: Tolerated,
) -> Iterator[Document | Rejection]:
    """The values of a file. Raises `InputError` only for a document that is too large."""
    recorded = _Recorded(stream, document_bytes_max)
    lines = split_lines(recorded, line_bytes_max=document_bytes_max)
    head: list[Line] = []  # Up to two lines that are not blank.
    for line in lines:
        if not line.data.strip(b" \t\r\n\xef\xbb\xbf") and line.problem is None:
            continue
        head.append(line)
        if _too_long(line, document_bytes_max) or line.problem is not None:
            break
        alone = _alone(head, limits, tolerated)
        if alone is not None:
            recorded.forget()
            yield from read_document_lines(head[:-1], file=file, limits=limits, tolerated=tolerated)
            yield alone
            yield from read_document_lines(lines, file=file, limits=limits, tolerated=tolerated)
            return
        if len(head) == 2:
            break
    if head:
        yield _whole(recorded, head[0], file, limits, tolerated)


def read_document_lines(
    lines: Iterable[Line | tuple[int, bytes]], *, file: str | None, limits: Limits, tolerated: Tolerated
) -> Iterator[Document | Rejection]:
    """The values of lines, one each; blank lines are passed over."""
    for given in lines:
        line = given if isinstance(given, Line) else Line(*given)
        try:
            if line.problem is not None:
                raise RefusedError(UNREADABLE, f"reading stopped: {line.problem}; what stands before this is kept")
            if _too_long(line, len(line.data)):
                raise RefusedError(LINE_TOO_LONG, f"the line has {line.length} bytes, more than may be read at once")
            data = line.data.removeprefix(_BOM) if line.offset == 0 else line.data
            if data and not data.isspace():
                yield Document(_decoded(data, limits, tolerated), line.offset, line.number)
        except RefusedError as refused:
            quoted = line.data[: 4 * limits.text_max].decode("utf-8", "replace")
            yield rejection(refused, file, limits, offset=line.offset, line=line.number, quoted=quoted)


def rejection(
    refused: RefusedError,
    file: str | None,
    limits: Limits,
    *,
    offset: int | None = None,
    line: int | None = None,
    quoted: Json = "",
) -> Rejection:
    """What was refused, as a row for people; the quotation is cut."""
    return Rejection(
        reason=refused.reason,
        detail=str(refused),
        file=file,
        line=line,
        offset=offset,
        text=_beginning(quoted, limits.text_max),
    )


def _beginning(value: Json, size: int) -> str:
    """The first characters of a value as JSON, without writing out all of what may be a large one."""
    if isinstance(value, str):
        return value[:size]
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).iterencode(value):
        text += piece
        if len(text) >= size:
            break
    return text[:size]


def format_of(value: Json) -> str | None:
    """Which format a value looks like, by its keys: otlp, jaeger, zipkin, otel-console, or None."""
    first = value
    for _ in range(3):  # A list of lists of records, at most.
        if isinstance(first, list):
            first = first[0] if first else None
    if not isinstance(first, dict):
        return None
    keys = first.keys()
    for name, marks in _MARKS:
        if any(mark <= keys for mark in marks):
            return name
    inner = first.get("data", first.get("result"))
    return format_of(inner) if inner is not None and inner is not value else None


def other_format(value: Json, expected: str) -> RefusedError:
    """What to say of a value that is not of the expected format."""
    found = format_of(value)
    if found == "otel-console":
        return _CONSOLE_EXPORTER
    if found is not None and found != expected:
        return RefusedError(OTHER_FORMAT, f"this is not {expected} but looks like {found}: read it with that format")
    return RefusedError(OTHER_FORMAT, f"this is JSON, but none of the layouts of {expected} that are known")


_MARKS: Final[tuple[tuple[str, tuple[frozenset[str], ...]], ...]] = (
    (
        "otlp",
        (
            frozenset({"resourceSpans"}),
            frozenset({"resourceLogs"}),
            frozenset({"batches"}),
            frozenset({"resource_spans"}),
            frozenset({"scopeSpans"}),
        ),
    ),
    ("jaeger", (frozenset({"traceID", "spans"}), frozenset({"spans", "processes"}), frozenset({"spanID"}))),
    ("zipkin", (frozenset({"traceId", "id"}),)),
    (
        "otel-console",
        (frozenset({"context", "start_time"}), frozenset({"SpanContext"}), frozenset({"context", "kind"})),
    ),
)
_CONSOLE_EXPORTER: Final = RefusedError(
    OTHER_FORMAT,
    "this is what an SDK's console exporter prints, which is for eyes and differs between languages: "
    "use an OTLP exporter, or the collector's file exporter",
)
# What it prints is often not one JSON text, so its marks are looked for in the bytes.
_CONSOLE: Final = re.compile(rb'"context"\s*:\s*\{\s*"trace_id"\s*:\s*"0x|"SpanContext"\s*:\s*\{|\btraceId: \'')


class _Recorded:
    """A stream that keeps what was read, so that a file that turns out to be one document is not read by lines."""

    def __init__(self, stream: Readable, size_max: int) -> None:
        self._stream = stream
        self._size_max = size_max
        self._pieces: list[bytes] | None = []  # None: forgotten.
        self._size = 0

    def read(self, size: int, /) -> bytes:
        piece = self._stream.read(size)
        if self._pieces is not None:
            self._size += len(piece)
            self._pieces.append(piece)
            if self._size > self._size_max + size:
                self._pieces = None  # Too large to be one document, whatever comes; the lines may go on.
        return piece

    def forget(self) -> None:
        self._pieces = None

    @property
    def is_too_large(self) -> bool:
        return self._size > self._size_max

    def whole(self, file: str | None) -> bytes:
        """All of the stream, from its start."""
        while self._pieces is not None and not self.is_too_large:
            if not self.read(1 << 18):
                return b"".join(self._pieces)
        raise InputError(
            f"{file or 'the input'} is one JSON document, or has a first line, of more than {self._size_max} bytes: "
            "split it, or write JSON Lines with shorter lines, which are read one by one"
        )


def _whole(
    recorded: _Recorded, start: Line, file: str | None, limits: Limits, tolerated: Tolerated
) -> Document | Rejection:
    text = b""
    try:
        if start.problem is not None:
            raise RefusedError(UNREADABLE, f"reading stopped: {start.problem}")
        try:
            text = recorded.whole(file).removeprefix(_BOM)
        except InputError as error:
            if recorded.is_too_large:
                raise
            raise RefusedError(UNREADABLE, f"reading stopped inside the document: {error}") from None
        return Document(_decoded(text, limits, tolerated), start.offset, start.number)
    except RefusedError as error:
        refused = _CONSOLE_EXPORTER if _CONSOLE.search(text[: 1 << 14]) else error
        quoted = (text or start.data)[: 4 * limits.text_max].decode("utf-8", "replace")
        return rejection(refused, file, limits, offset=start.offset, line=start.number, quoted=quoted)


def _decoded(data: bytes, limits: Limits, tolerated: Tolerated) -> Json:
    try:
        return decode_json(data, depth_max=limits.depth_max)
    except RefusedError as refused:
        if refused.reason != KEY_TWICE:
            raise
    tolerated.add(KEY_TWICE)
    value: Json = msgspec.json.decode(data)
    return value


def _alone(head: list[Line], limits: Limits, tolerated: Tolerated) -> Document | None:
    """The value of the last line, if it shows that each line is one; None if the file may be one document."""
    line = head[-1]
    data = line.data.removeprefix(_BOM) if line.offset == 0 else line.data
    # Only what begins and ends like a value is worth the attempt.
    if not (data.lstrip()[:1] in (b"{", b"[") and data.rstrip()[-1:] in (b"}", b"]")):
        return None
    if len(head) == 2:
        first = head[0].data.strip()
        if first[:1] == b"[" or first[-1:] in (b"[", b"{", b",", b":"):
            return None  # It goes on: this line may be an element of a list.
    try:
        return Document(_decoded(data, limits, tolerated), line.offset, line.number)
    except RefusedError:
        return None


def _too_long(line: Line, limit: int) -> bool:
    return line.length is not None and line.length > limit
