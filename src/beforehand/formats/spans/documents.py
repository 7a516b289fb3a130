"""JSON files of unknown layout: one document, pretty-printed or not, or one document a line.

Tracing tools write all of these under the same names, so the content decides:

1. A line is a JSON text by itself, in a place where no document could have one, if the line before it does not end
   in an opening bracket, a comma or a colon: then the file is JSON Lines, however many lines before it are bad. One
   line is in memory at a time, and a bad line is one rejection.
2. Else the file is one document, read whole. It may have `DOCUMENT_BYTES_MAX` bytes after decompression; a larger
   one is an `InputError`. Decoded, a document takes up to fifteen times its size. If it is no JSON, and (1) holds
   for a later line, it was JSON Lines after all.
3. The first value may be as large as a document; each further line may have `Limits.line_bytes_max`.
4. Keys that stand twice in one object are tolerated here and noted: the last one counts, as in every decoder of
   these formats, and refusing a document of a million spans for one of them would lose more than it saves.
5. An endless source ends: where the first bytes are zeros, at once; in a first value beyond the limit, with an
   `InputError`; in a later line, after sixteen times the limit of a document, as `unreadable`.

Reasons of rejections: `not-json`, `too-deep`, `line-too-long` and `unreadable`, as in the native format, and

    other-format    it is JSON, but of another format; the detail names the format where it is known
    odd-field       something has the wrong type and was left out; what stands around it is kept
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Final, NamedTuple

import msgspec

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.json_text import KEY_TWICE, NOT_JSON, Json, RefusedError, decode_json
from beforehand.formats.lines import Line, split_lines
from beforehand.formats.native import LINE_TOO_LONG, UNREADABLE
from beforehand.formats.opening import Limits, Readable
from beforehand.formats.spans.peeking import Peeked
from beforehand.formats.spans.records import Note

__all__ = [
    "DOCUMENT_BYTES_MAX",
    "ODD_FIELD",
    "OTHER_FORMAT",
    "SPAN_LIMITS",
    "Document",
    "Tolerated",
    "format_of",
    "odd_field",
    "other_format",
    "read_document_lines",
    "read_documents",
    "rejection",
    "shown_shortly",
]

DOCUMENT_BYTES_MAX: Final = 256 << 20
OTHER_FORMAT: Final = "other-format"
ODD_FIELD: Final = "odd-field"
# Files saved by Jaeger's page embed each span's parent, with its parent, and so on: 3 brackets a generation.
SPAN_LIMITS: Final = Limits(depth_max=200, line_bytes_max=64 << 20)
_BOM: Final = b"\xef\xbb\xbf"
# Zeros where text should begin: a file that was preallocated and never written, a device, or UTF-16.
_NO_TEXT: Final = re.compile(rb"\s*+(?:\xef\xbb\xbf)?(?:\0|\xff\xfe|\xfe\xff|.\0)", re.DOTALL)
# Lines that are no values before it is given up to look for one that is, until the whole text is known.
_HEAD_LINES: Final = 1_000
# A line that is this many times longer than a document may be is taken for endless.
_LINES_LONG: Final = 16


class Document(NamedTuple):
    """One JSON value and where it began."""

    value: Json
    offset: int
    line: int | None


_DETAILS: Final = {
    KEY_TWICE: "a key stands twice in one object: the last one counts",
    "attribute-twice": "an attribute or tag stands twice in one list: the last one counts",
}


class Tolerated:
    """Counts what a reader tolerated in one file, and gathers what the record at hand lost."""

    def __init__(self, details: dict[str, str]) -> None:
        self._details = {**_DETAILS, **details}
        self._counts: Counter[str] = Counter()
        self._lost: list[tuple[RefusedError, Json]] = []  # At most one a field of a record; taken after each.
        self.quoted: Json = None  # The record at hand, or what stands around several.

    def add(self, reason: str, count: int = 1) -> None:
        if count:
            self._counts[reason] += count

    def lose(self, lost: RefusedError) -> None:
        """Something is left out of what is quoted now."""
        self._lost.append((lost, self.quoted))

    def lost(self) -> list[tuple[RefusedError, Json]]:
        """What was lost since this was last asked."""
        if not self._lost:
            return []
        lost, self._lost = self._lost, []
        return lost

    def notes(self, file: str | None) -> Iterator[Note]:
        for reason, count in sorted(self._counts.items()):
            yield Note(reason=reason, detail=self._details[reason], count=count, file=file)


def odd_field(what: str, value: Json, expected: str) -> RefusedError:
    """What to say of a field that has the wrong type."""
    return RefusedError(ODD_FIELD, f"{what} is {shown_shortly(value)}, not {expected}: left out")


def shown_shortly(value: Json) -> str:
    """A value for a sentence, as JSON in ASCII and cut, without writing out all of what may be a large one."""
    text = ""
    for piece in json.JSONEncoder().iterencode(value[:100] if isinstance(value, str) else value):
        text += piece
        if len(text) > 60:
            return f"{text[:57]}..."
    return text


def read_documents(
    stream: Readable,
    *,
    file: str | None,
    limits: Limits,
    document_bytes_max: int,
    tolerated: Tolerated,
) -> Iterator[Document | Rejection]:
    """The values of a file. Raises `InputError` only for a document that is too large."""
    peeked = stream if isinstance(stream, Peeked) else Peeked(stream)
    if _NO_TEXT.match(peeked.head):
        refused = RefusedError(NOT_JSON, "the file begins with zero bytes or is UTF-16: no JSON in UTF-8 begins so")
        yield rejection(refused, file, limits, offset=0, line=1)
        return
    recorded = _Recorded(peeked, document_bytes_max)
    lines = split_lines(recorded, line_bytes_max=document_bytes_max)
    head: list[Line] = []  # Lines that are not blank and no values, at most `_HEAD_LINES`.
    for line in lines:
        if not line.data.strip(b" \t\r\n\xef\xbb\xbf") and line.problem is None:
            continue
        alone = None if recorded.is_cut or line.problem is not None else _alone(line, limits, tolerated)
        if alone is not None:
            recorded.forget()
            yield from read_document_lines(head, file=file, limits=limits, tolerated=tolerated)
            yield alone
            yield from read_document_lines(lines, file=file, limits=limits, tolerated=tolerated)
            return
        head.append(line)
        if recorded.is_cut or line.problem is not None or _goes_on(line.data) or len(head) == _HEAD_LINES:
            break
    if head or recorded.is_cut:
        yield from _whole(recorded, head[0] if head else Line(0, b"", 1), file, limits, tolerated)


def read_document_lines(
    lines: Iterable[Line | tuple[int, bytes]], *, file: str | None, limits: Limits, tolerated: Tolerated
) -> Iterator[Document | Rejection]:
    """The values of lines, one each; blank lines are passed over."""
    for given in lines:
        line = given if isinstance(given, Line) else Line(*given)
        try:
            if line.problem is not None:
                raise RefusedError(UNREADABLE, f"reading stopped: {line.problem}; what stands before this is kept")
            length = len(line.data) if line.length is None else line.length
            if length > min(limits.line_bytes_max, len(line.data)):
                raise RefusedError(
                    LINE_TOO_LONG,
                    f"the line has {length} bytes, the limit is {min(limits.line_bytes_max, len(line.data))}: "
                    "shorten it or raise line_bytes_max",
                )
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
        self._line_size = 0  # Bytes since the last newline, as far as pieces show it.
        self.is_cut = False  # Too large to be one document: what came so far is all that is given.

    def read(self, size: int, /) -> bytes:
        if self._pieces is not None and self._size > self._size_max:
            self.is_cut = True
            return b""
        piece = self._stream.read(size)
        if self._pieces is not None:
            self._size += len(piece)
            self._pieces.append(piece)
        self._line_size = 0 if b"\n" in piece else self._line_size + len(piece)
        if self._line_size > _LINES_LONG * self._size_max:
            raise InputError(f"a line has more than {self._line_size} bytes and does not end")
        return piece

    def forget(self) -> None:
        self._pieces = None

    def whole(self, file: str | None) -> bytes:
        """All of the stream, from its start."""
        assert self._pieces is not None
        while self.read(1 << 18):
            pass
        if self._size <= self._size_max:
            return b"".join(self._pieces)
        raise InputError(
            f"{file or 'the input'} is one JSON document, or has a first line, of more than {self._size_max} bytes: "
            "split it, or write JSON Lines with shorter lines, which are read one by one"
        )

    @property
    def is_too_large(self) -> bool:
        return self._size > self._size_max


def _whole(
    recorded: _Recorded, start: Line, file: str | None, limits: Limits, tolerated: Tolerated
) -> Iterator[Document | Rejection]:
    text = b""
    try:
        if start.problem is not None:
            raise RefusedError(UNREADABLE, f"reading stopped: {start.problem}")
        try:
            text = recorded.whole(file)
        except InputError as error:
            if recorded.is_too_large:
                raise
            raise RefusedError(UNREADABLE, f"reading stopped inside the document: {error}") from None
        value = _decoded(text.removeprefix(_BOM), limits, tolerated)
    except RefusedError as error:
        console = _CONSOLE.search(text[: 1 << 14]) is not None
        if error.reason == NOT_JSON and not console and _has_line(text, limits):
            lines = split_lines(BytesIO(text), line_bytes_max=len(text))
            yield from read_document_lines(lines, file=file, limits=limits, tolerated=tolerated)
            return
        quoted = (text or start.data)[: 4 * limits.text_max].decode("utf-8", "replace")
        refused = _CONSOLE_EXPORTER if console else error
        yield rejection(refused, file, limits, offset=start.offset, line=start.number, quoted=quoted)
    else:
        yield Document(value, start.offset, start.number)


def _decoded(data: bytes, limits: Limits, tolerated: Tolerated) -> Json:
    try:
        return decode_json(data, depth_max=limits.depth_max)
    except RefusedError as refused:
        if refused.reason != KEY_TWICE:
            raise
    tolerated.add(KEY_TWICE)
    value: Json = msgspec.json.decode(data)
    return value


def _alone(line: Line, limits: Limits, tolerated: Tolerated) -> Document | None:
    """The value of a line, if it is an object or a list by itself."""
    data = line.data.removeprefix(_BOM) if line.offset == 0 else line.data
    # Only what begins and ends like one is worth the attempt.
    if not (data.lstrip()[:1] in (b"{", b"[") and data.rstrip()[-1:] in (b"}", b"]")):
        return None
    try:
        return Document(_decoded(data, limits, tolerated), line.offset, line.number)
    except RefusedError:
        return None


def _has_line(text: bytes, limits: Limits) -> bool:
    """Whether a line is a value where no document could have one."""
    for match in _VALUE_LINE.finditer(text):
        before = text[max(0, match.start() - _BEFORE_BYTES) : match.start()]
        line = Line(match.start(), match.group())
        if not _goes_on(before) and _alone(line, limits, Tolerated({})) is not None:
            return True
    return False


_VALUE_LINE: Final = re.compile(rb"^[ \t]*[{\[].*[}\]][ \t\r]*$", re.MULTILINE)
_BEFORE_BYTES: Final = 256  # Where more blanks than that stand before a line, nothing goes on there.


def _goes_on(data: bytes) -> bool:
    """Whether what stands on the next line may belong to a value that this line began."""
    return data.rstrip()[-1:] in (b"[", b"{", b",", b":")
