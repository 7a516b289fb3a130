r"""Which reader a file needs, by how it begins.

1. The content decides, not the name. Only `.gz` and `.zst` count, because they decide how a file is opened.
2. At most `HEAD_BYTES` bytes, decompressed, are read. A JSON document that goes on behind them is closed where they
   end and looked at as if it were whole, and so is one that breaks off; a cut last line is no evidence.
3. A byte order mark, blank lines and a few lines that are broken or of no known kind do no harm.
4. What cannot be told is an `InputError` in one line: what the file looks like and what to do. Nothing is guessed
   where the reader would then refuse most of the file.

    native      JSON Lines, objects with `process` and mostly keys of events
    tracing     JSON Lines, objects with `TracerIdentity` and `VectorClock`
    otlp        JSON or JSON Lines with `resourceSpans`, `resourceLogs` or the like; or the same in protobuf
    jaeger      JSON or JSON Lines: `data` with traces, a trace, or spans with `spanID`
    zipkin      JSON or JSON Lines: spans with `traceId` and `id`, alone or in lists
    shiviz      text with a ShiViz regex in its first line, or records of an event line and a clock line
    govector    text of records of a clock line and an event line
    parquet     begins with `PAR1`
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from beforehand.errors import InputError
from beforehand.formats.json_text import Json, shown
from beforehand.formats.opening import LIMITS_DEFAULT, Limits, Path, open_bytes, shown_path
from beforehand.formats.spans import SPAN_LIMITS, LogRecord, Span, format_of, read_otlp
from beforehand.formats.unnumbered import NATIVE_KEYS
from beforehand.formats.vector_logs import guess_format

__all__ = ["FORMATS", "HEAD_BYTES", "detect"]

FORMATS: Final = ("native", "parquet", "shiviz", "govector", "tracing", "otlp", "jaeger", "zipkin")
HEAD_BYTES: Final = 256 << 10
_LINES_MAX: Final = 100  # Lines that are decoded one by one, to find one that tells.
_BINARY: Final = frozenset(range(32)) - frozenset(b"\t\n\r")
_BLANKS: Final = " \t\r\n"
_BY_NAME: Final = "name its format with --format NAME"
_BY_MAP: Final = f"say what its fields mean with --map FILE, or {_BY_NAME}"


def detect(path: Path, *, limits: Limits = LIMITS_DEFAULT) -> str:
    """One of `FORMATS`. `InputError` if the file cannot be opened, or if it cannot be told."""
    head, is_whole = _head(path, limits)
    name = shown_path(path)
    if head[:4] == b"PAR1":
        return "parquet"
    if not head:
        raise InputError(f"{name} is empty: leave it out, or {_BY_NAME}")
    if not _BINARY.isdisjoint(head):
        if _is_otlp_protobuf(head, is_whole):
            return "otlp"
        if (problem := _encoding_problem(head)) is not None:
            raise InputError(f"{name} {problem}")
    # A character may be cut at the end; anything else that is no UTF-8 is left to the reader to tell.
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").strip(_BLANKS)
    if not text:
        raise InputError(f"{name} has nothing but blanks: leave it out, or {_BY_NAME}")
    json_first = text[0] in "{["
    found = None if json_first else guess_format(head)
    values = list(_values(text, is_whole)) if found is None else []
    found = found or next(filter(None, map(_format, values)), None)
    if found is None and json_first:
        found = guess_format(head)
    if found is None and json_first and is_whole:
        # A document of spans that breaks off: its reader says where. In a list, no line is taken for an event.
        found = _format([_decoded(_closed(text))])
    if found is None and b"\0" in head:
        # Only now: a log that a crash cut off may hold zeros and is a log all the same.
        raise InputError(f"{name} looks like binary data of no known format: {_BY_NAME}")
    if found is None or found not in FORMATS:
        raise InputError(f"{name} {_looks(text, values, found)}")
    return found


def _head(path: Path, limits: Limits) -> tuple[bytes, bool]:
    """The first bytes of a file and whether they are all. What is broken further on is left to its reader."""
    head = b""
    with open_bytes(path, limits=limits) as stream:
        while len(head) < HEAD_BYTES:
            try:
                piece = stream.read(HEAD_BYTES - len(head))
            except InputError:
                if not head:
                    raise
                return head, False
            if not piece:
                return head, True
            head += piece
    return head, False


# What is no text.


def _encoding_problem(head: bytes) -> str | None:
    """What is wrong with bytes that hold control characters; None if they may be text all the same."""
    if head[:2] == b"\x1f\x8b":
        return "holds gzip data, but its name does not end in .gz: rename it"
    if head[:4] == b"\x28\xb5\x2f\xfd":
        return "holds zstd data, but its name does not end in .zst: rename it"
    # Half of the bytes of Latin text in UTF-16 are zero, on one side.
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or head[0:4:2] == b"\0\0" or head[1:4:2] == b"\0\0":
        return "looks like text in UTF-16: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"
    return None


def _is_otlp_protobuf(head: bytes, is_whole: bool) -> bool:
    if isinstance(next(read_otlp(io.BytesIO(head)), None), Span | LogRecord):
        return True
    if is_whole:
        return False
    # The first message is longer than what we have: its outline must do, with or without a length before it.
    starts = [0] if head[0] == 0x0A else [4] if head[:1] == b"\x00" else [_varint(head, 0)[1]]
    return any(_outlines_otlp(head, start) for start in starts)


def _outlines_otlp(data: bytes, start: int) -> bool:
    """Whether here begin `resource_spans` or `resource_logs` with, inside, a resource or a scope that fits."""
    if data[start : start + 1] != b"\x0a":
        return False
    length, inside = _varint(data, start + 1)
    if data[inside : inside + 1] not in (b"\x0a", b"\x12"):
        return False
    inner_length, inner = _varint(data, inside + 1)
    return inner - inside + inner_length <= length


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """The number that begins here and where it ends; a cut one is 0."""
    number = 0
    for at, byte in enumerate(data[start : start + 5]):
        number |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return number, start + at + 1
    return 0, start + 5


# JSON.


def _values(text: str, is_whole: bool) -> Iterator[Json]:
    """The values of a text that may be JSON, or JSON Lines, or begin so."""
    lines = text.split("\n")
    cut = None if is_whole else lines.pop()
    first = _decoded(lines[0]) if lines else None
    if first is None and text[0] in "{[":
        # One document, perhaps cut; or one line that is longer than what we have.
        document = _decoded(text) if is_whole else _decoded(_closed(text))
        if document is not None:
            yield document if cut == text else [document]
            return
    for line in lines[:_LINES_MAX]:
        stripped = line.strip(_BLANKS)
        if stripped[:1] in ("{", "["):
            value = _decoded(stripped)
            if value is not None:
                yield value


def _decoded(text: str) -> Json:
    """The value of a text, None if it is none. Keys may stand twice here: their values are not used."""
    try:
        value: Json = msgspec.json.decode(text.encode())
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return value


# A closing quote is optional, so that no byte is looked at twice whatever comes.
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[][{},]', re.DOTALL)


def _closed(text: str) -> str:
    """The beginning of a JSON text made whole: cut at its last comma or bracket, and all brackets closed."""
    closing: list[str] = []  # What the brackets that are open need, outermost first.
    end, open_at_end = 0, ""
    for token in _TOKEN.finditer(text):
        sign = token.group()
        if sign[0] == '"':
            continue
        if sign in "{[":
            closing.append("}" if sign == "{" else "]")
            if len(closing) > SPAN_LIMITS.depth_max:
                break
        elif sign != "," and (not closing or closing.pop() != sign):
            break  # It is not JSON.
        end = token.start() if sign == "," else token.end()
        open_at_end = "".join(reversed(closing))
    return text[:end] + open_at_end


def _format(value: Json) -> str | None:
    """The format of a value. In a list, and so in a document of several lines, the formats of lines do not count."""
    if isinstance(value, dict):
        if "TracerIdentity" in value and "VectorClock" in value:
            return "tracing"
        if _is_native(value):
            return "native"
    for wrapper in ("hits", "hits", "_source", "trace"):  # Elasticsearch's answers, its documents; Tempo's.
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, dict) and isinstance(first.get(wrapper), dict | list):
            value = first[wrapper]
    found = format_of(value)
    first = value[0] if isinstance(value, list) and value else value
    if found is None and isinstance(first, dict) and {"data", "total", "errors"} <= first.keys():
        return "jaeger"  # A search that found nothing.
    return found


def _is_native(value: dict[str, Json]) -> bool:
    known = len(value.keys() & NATIVE_KEYS)
    return "process" in value and 2 * known > len(value)


# What to say of the rest.


def _looks(text: str, values: list[Json], found: str | None) -> str:
    if found == "otel-console":
        return (
            "is what an SDK's console exporter prints, which differs between languages: "
            "use an OTLP exporter or the collector's file exporter"
        )
    if values:
        return _looks_json(values)
    if _VECTOR_CLOCK.search(text):
        return (
            "looks like a log with vector clocks in a layout of its own: "
            "say how to read it with --format shiviz --regex REGEX"
        )
    if (columns := _columns(text)) is not None:
        return f"looks like CSV with columns {_listed(columns)}: {_BY_MAP}"
    kind = "broken JSON" if text[0] in "{[" and _KEY.search(text) else "text of no known format"
    return f"looks like {kind}: {_BY_NAME}, or --map FILE for JSON Lines and CSV, or --regex REGEX for a log"


def _looks_json(values: list[Json]) -> str:
    first = values[0]
    several_lines = isinstance(first, list) and len(first) > 0 and isinstance(first[0], dict | list)
    for _ in range(3):
        first = first[0] if isinstance(first, list) and first else first
    if not isinstance(first, dict) or not first:
        return f"looks like JSON without any keys that tell: {_BY_NAME}"
    if several_lines and (_is_native(first) or "TracerIdentity" in first):
        return "looks like events in one JSON document: write one event a line (jq -c '.[]' does)"
    advice = f"put one record a line, then {_BY_MAP}" if several_lines else _BY_MAP
    return f"looks like JSON with keys {_listed(list(first))}: {advice}"


_KEY: Final = re.compile(r'"[^"\n]{1,80}"\s*:')
_VECTOR_CLOCK: Final = re.compile(r'\{\s*"[^"\n]{1,200}"\s*:\s*\d+\s*[,}]')


def _columns(text: str) -> list[str] | None:
    """The fields of the first line, if the lines look like CSV."""
    lines = [line for line in text.split("\n")[:10] if line.strip()]
    for delimiter in (",", ";", "\t"):
        counts = {line.count(delimiter) for line in lines[:3]}
        if len(lines) > 1 and len(counts) == 1 and counts != {0}:
            return [field.strip(' "\r') for field in lines[0].split(delimiter)]
    return None


def _listed(names: list[str]) -> str:
    named = [shown(name).strip('"') if name.isidentifier() else shown(name) for name in names[:5]]
    return ", ".join(named) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
