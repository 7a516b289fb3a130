"""OTLP in protobuf: messages of a file as the OTLP/JSON objects that stand for them.

Three layouts are told apart by their first bytes:

- plain: one message (or several, which protobuf reads as one). It begins with 0x0A, the tag of its only field;
- framed by the collector's file exporter: four bytes of length, big endian, before each message;
- framed by a varint of length before each message, as protobuf's `writeDelimitedTo` does.

Traces and logs have the same outline (resource, scope, record) and no field that says which is which; a record's
own fields do: a span begins with its trace id, a log record with its time. Plain files are read one resource at a
time, framed ones one message at a time; neither may be larger than the limit.

Reasons of rejections: `not-protobuf` (one message, or all from here on where lengths make no sense), `unreadable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.json_text import Json, RefusedError
from beforehand.formats.native import UNREADABLE
from beforehand.formats.opening import Limits, Readable
from beforehand.formats.spans.documents import Document, rejection
from beforehand.formats.spans.protobuf import (
    FIXED64,
    LENGTH,
    VARINT,
    Field,
    WireError,
    base64_field,
    boolean_field,
    fields,
    fixed_field,
    hex_field,
    message,
    message_field,
    signed_field,
    text_field,
    varint_field,
)

__all__ = ["NOT_PROTOBUF", "Peeked", "is_binary", "read_messages"]

NOT_PROTOBUF: Final = "not-protobuf"

_HEAD_BYTES: Final = 512
# JSON never holds these; a protobuf message of any use soon has a short length or a small tag among them.
_BINARY: Final = frozenset(range(32)) - frozenset(b"\t\n\r")
_TAG: Final = 0x0A  # Field 1, with a length: `resource_spans`, `resource_logs` and `resource` alike.


class Peeked:
    """A stream whose first bytes were looked at."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self.head = b""
        self.given = 0  # Bytes that were read from here so far.
        self._problem: InputError | None = None  # Raised again where reading arrives.
        self._left = b""
        try:
            while len(self.head) < _HEAD_BYTES:
                piece = stream.read(_HEAD_BYTES)
                if not piece:
                    break
                self.head += piece
        except InputError as error:
            self._problem = error
        self._left = self.head

    def read(self, size: int, /) -> bytes:
        if self._left:
            piece, self._left = self._left[:size], self._left[size:]
        elif self._problem is not None:
            raise self._problem
        else:
            piece = self._stream.read(size)
        self.given += len(piece)
        return piece

    def exactly(self, size: int) -> bytes:
        """`size` bytes, or as many as there are. Grows as bytes come: a false length allocates nothing."""
        pieces: list[bytes] = []
        while size > 0:
            piece = self.read(min(size, 1 << 18))
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so can not be JSON."""
    return not _BINARY.isdisjoint(head[:_HEAD_BYTES])


def read_messages(
    stream: Peeked, *, file: str | None, limits: Limits, message_bytes_max: int
) -> Iterator[Document | Rejection]:
    """OTLP envelopes, one per resource or per framed message."""
    end = 0  # Of the last whole message.
    try:
        for start, data in _messages(stream, message_bytes_max):
            end = stream.given
            try:
                yield Document(_envelope(data, limits.depth_max), start, None)
            except WireError as error:
                refused = RefusedError(NOT_PROTOBUF, f"this message is not OTLP in protobuf: {error}")
                yield rejection(refused, file, limits, offset=start)
    except WireError as error:
        refused = RefusedError(NOT_PROTOBUF, f"from here on this is not OTLP in protobuf: {error}")
        yield rejection(refused, file, limits, offset=end)
    except InputError as error:
        yield rejection(RefusedError(UNREADABLE, f"reading stopped: {error}"), file, limits, offset=end)


def _messages(stream: Peeked, size_max: int) -> Iterator[tuple[int, bytes]]:
    """Messages with their offsets; of a plain file, one message per resource."""
    layout = _layout(stream.head, size_max)
    while True:
        start = stream.given
        prefix = stream.exactly(4 if layout == "fixed" else 1)
        if not prefix:
            return
        if layout == "fixed":
            if len(prefix) < 4:
                raise WireError("a length is cut off")
            length = int.from_bytes(prefix, "big")
        elif layout == "varint":
            length = _stream_varint(stream, prefix)
        elif prefix[0] == _TAG:
            length = _stream_varint(stream, stream.exactly(1))
        else:
            raise WireError(f"tag {prefix[0]} stands where a resource should begin")
        if length > size_max:
            raise WireError(f"a message of {length} bytes is announced, the limit is {size_max}")
        data = stream.exactly(length)
        if len(data) < length:
            raise WireError(f"a message of {length} bytes is announced, {len(data)} are left")
        yield start, data if layout != "plain" else bytes([_TAG]) + _varint_bytes(length) + data


def _layout(head: bytes, size_max: int) -> str:
    if head[:1] == bytes([_TAG]):
        return "plain"  # Or a varint of 10, but no message with a span in it is so short.
    fixed = head[4:5] == bytes([_TAG]) and int.from_bytes(head[:4], "big") <= size_max
    return "fixed" if fixed else "varint"


def _stream_varint(stream: Peeked, first: bytes) -> int:
    value = shift = size = 0
    byte = first
    while byte and size < 10:
        size += 1
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
        shift += 7
        byte = stream.exactly(1)
    raise WireError("a length is cut off or longer than ten bytes")


def _varint_bytes(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _envelope(data: bytes, depth_max: int) -> dict[str, Json]:
    """One TracesData or LogsData message."""
    depth = min(depth_max, _DEPTH_MAX)
    spans: list[Json] = []
    logs: list[Json] = []
    for number, wire, raw in fields(memoryview(data)):
        if number != 1 or not isinstance(raw, memoryview):
            raise WireError(f"field {number} (wire type {wire}) stands where only resources should")
        resource: Json = {}
        scopes: list[memoryview] = []
        for part, _, inside in fields(raw):
            if part == 1 and isinstance(inside, memoryview):
                resource = message(inside, _RESOURCE, depth_max=depth)
            elif part in (2, 1000) and isinstance(inside, memoryview):  # 1000: scopes before 2022.
                scopes.append(inside)
        for records in (_records(scope, depth) for scope in scopes):
            spans.append({"resource": resource, "scopeSpans": [{"spans": records[0]}]})
            logs.append({"resource": resource, "scopeLogs": [{"logRecords": records[1]}]})
    return {"resourceSpans": spans, "resourceLogs": logs}


def _records(scope: memoryview, depth: int) -> tuple[list[Json], list[Json]]:
    """The spans and the log records of a scope. What is neither, such as a metric, is passed over, as in JSON."""
    spans: list[Json] = []
    logs: list[Json] = []
    for number, wire, raw in fields(scope):
        if number != 2 or wire != LENGTH or not isinstance(raw, memoryview):
            continue
        outline = {(part, part_wire): inside for part, part_wire, inside in fields(raw)}
        trace_id = outline.get((1, LENGTH))
        if isinstance(trace_id, memoryview) and len(trace_id) in (0, 16):
            spans.append(message(raw, _SPAN, depth_max=depth))
        elif not _OF_LOGS.isdisjoint(outline):
            logs.append(message(raw, _LOG, depth_max=depth))
        elif (7, FIXED64) in outline:
            spans.append(message(raw, _SPAN, depth_max=depth))
    return spans, logs


_DEPTH_MAX: Final = 100  # What protobuf's own decoders allow.
_OF_LOGS: Final = frozenset({(1, FIXED64), (2, VARINT), (11, FIXED64)})  # Times and the severity.

# The tables: opentelemetry-proto, common.proto, resource.proto, trace.proto, logs.proto; only what is needed.
_ANY_VALUE: Final[dict[int, Field]] = {}
_KEY_VALUE: Final = {1: text_field("key"), 2: message_field("value", _ANY_VALUE)}
_ANY_VALUE.update(
    {
        1: text_field("stringValue"),
        2: boolean_field("boolValue"),
        3: signed_field("intValue"),
        4: fixed_field("doubleValue", "<d"),
        5: message_field("arrayValue", {1: message_field("values", _ANY_VALUE, repeated=True)}),
        6: message_field("kvlistValue", {1: message_field("values", _KEY_VALUE, repeated=True)}),
        7: base64_field("bytesValue"),
    }
)
_RESOURCE: Final = {1: message_field("attributes", _KEY_VALUE, repeated=True)}
_EVENT: Final = {
    1: fixed_field("timeUnixNano", "<Q"),
    2: text_field("name"),
    3: message_field("attributes", _KEY_VALUE, repeated=True),
}
_LINK: Final = {
    1: hex_field("traceId"),
    2: hex_field("spanId"),
    4: message_field("attributes", _KEY_VALUE, repeated=True),
}
_SPAN: Final = {
    1: hex_field("traceId"),
    2: hex_field("spanId"),
    4: hex_field("parentSpanId"),
    5: text_field("name"),
    6: varint_field("kind"),
    7: fixed_field("startTimeUnixNano", "<Q"),
    8: fixed_field("endTimeUnixNano", "<Q"),
    9: message_field("attributes", _KEY_VALUE, repeated=True),
    11: message_field("events", _EVENT, repeated=True),
    13: message_field("links", _LINK, repeated=True),
    15: message_field("status", {2: text_field("message"), 3: varint_field("code")}),
    16: fixed_field("flags", "<I"),
}
_LOG: Final = {
    1: fixed_field("timeUnixNano", "<Q"),
    2: varint_field("severityNumber"),
    3: text_field("severityText"),
    5: message_field("body", _ANY_VALUE),
    6: message_field("attributes", _KEY_VALUE, repeated=True),
    9: hex_field("traceId"),
    10: hex_field("spanId"),
    11: fixed_field("observedTimeUnixNano", "<Q"),
    12: text_field("eventName"),
}
