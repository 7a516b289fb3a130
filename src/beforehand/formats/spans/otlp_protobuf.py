"""OTLP in protobuf: messages of a file as the OTLP/JSON objects that stand for them.

Three layouts are told apart by their first bytes:

- plain: one message (or several, which protobuf reads as one). It begins with 0x0A, the tag of its only field;
- framed by the collector's file exporter: four bytes of length, big endian, before each message;
- framed by a varint of length before each message, as protobuf's `writeDelimitedTo` does.

Traces and logs have the same outline (resource, scope, record) and no field that says which is which; a record's
own fields do: a span has times, a kind or flags where nobody else has any, or at least its ids in front; a log record
has nothing of a length in front, where a metric has its name. Metrics are passed over and counted. Plain files are
read one resource at a time, framed ones one message at a time; neither may be larger than the limit, and of its
records a few are decoded at once.

Reasons of rejections: `unreadable`, and

    not-protobuf    one record or one message that is not OTLP in protobuf; or all from here on, where lengths make no
                    sense or there are only zeros
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.json_text import Json, RefusedError
from beforehand.formats.native import UNREADABLE
from beforehand.formats.opening import Limits
from beforehand.formats.spans.documents import Document, Tolerated, rejection
from beforehand.formats.spans.peeking import Peeked
from beforehand.formats.spans.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    Field,
    Raw,
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

__all__ = ["NOT_PROTOBUF", "is_binary", "read_messages"]

NOT_PROTOBUF: Final = "not-protobuf"

# JSON never holds these; a protobuf message of any use soon has a short length or a small tag among them.
_BINARY: Final = frozenset(range(32)) - frozenset(b"\t\n\r")
_ZEROS: Final = bytes(8)
# Messages without content in a row: more are zeros that nobody wrote, and so are a few of them at the end.
_EMPTY_MAX: Final = 1_000
_EMPTY_AT_END_MAX: Final = 3
_TOGETHER: Final = 100  # Records that are decoded at once.
_TAG: Final = 0x0A  # Field 1, with a length: `resource_spans`, `resource_logs` and `resource` alike.


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so can not be JSON."""
    # Zeros behind JSON were preallocated and never written: they do not make it binary.
    return not _BINARY.isdisjoint(head.split(_ZEROS, 1)[0] or head)


def read_messages(
    stream: Peeked, *, file: str | None, limits: Limits, message_bytes_max: int, tolerated: Tolerated
) -> Iterator[Document | Rejection]:
    """OTLP envelopes, each with some records of one resource."""
    depth = min(limits.depth_max, _DEPTH_MAX)
    end = 0  # Of the last whole message.
    try:
        for start, data in _messages(stream, message_bytes_max):
            end = stream.given
            try:
                groups = _groups(data, depth)
            except WireError as error:
                refused = RefusedError(NOT_PROTOBUF, f"this message is not OTLP in protobuf: {error}")
                yield rejection(refused, file, limits, offset=start)
                continue
            for found in _envelopes(groups, depth, tolerated):
                if isinstance(found, WireError):
                    refused = RefusedError(NOT_PROTOBUF, f"a record of this message is not OTLP: {found}")
                    yield rejection(refused, file, limits, offset=start)
                else:
                    yield Document(found, start, None)
    except WireError as error:
        refused = RefusedError(NOT_PROTOBUF, f"from here on this is not OTLP in protobuf: {error}")
        yield rejection(refused, file, limits, offset=end)
    except InputError as error:
        yield rejection(RefusedError(UNREADABLE, f"reading stopped: {error}"), file, limits, offset=end)


def _messages(stream: Peeked, size_max: int) -> Iterator[tuple[int, bytes]]:
    """Messages with their offsets; of a plain file, one message per resource."""
    layout = _layout(stream.head, size_max)
    empty, any_content = 0, False  # Messages in a row.
    while True:
        start = stream.given
        prefix = stream.exactly(4 if layout == "fixed" else 1)
        at_end_max = _EMPTY_AT_END_MAX if any_content else 0
        if empty > (_EMPTY_MAX if prefix else at_end_max):
            raise WireError(f"{empty} messages or more are empty, as zeros that nobody wrote are")
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
        if not length:
            empty += 1
            continue
        empty, any_content = 0, True
        if length > size_max:
            raise WireError(f"a message of {length} bytes is announced, the limit is {size_max}")
        data = stream.exactly(length)
        if len(data) < length:
            raise WireError(f"a message of {length} bytes is announced, {len(data)} are left")
        yield start, data if layout != "plain" else bytes([_TAG]) + _varint_bytes(length) + data


def _layout(head: bytes, size_max: int) -> str:
    if head[:1] == bytes([_TAG]):
        return "plain"  # Or a varint of 10, but no message with a span in it is so short.
    # Where the first message is empty, the first four bytes are zeros.
    fixed = head[4:5] == bytes([_TAG]) and int.from_bytes(head[:4], "big") <= size_max
    return "fixed" if fixed or head[:4] == bytes(4) else "varint"


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


class _Group(NamedTuple):
    """The records of one resource."""

    resource: Json
    scopes: list[memoryview]


def _groups(data: bytes, depth: int) -> list[_Group]:
    """The resources of one TracesData or LogsData message, whose outline is sound. Raises `WireError`."""
    groups: list[_Group] = []
    for number, wire, raw in fields(memoryview(data)):
        if number != 1 or not isinstance(raw, memoryview):
            raise WireError(f"field {number} (wire type {wire}) stands where only resources should")
        resource: Json = {}
        scopes: list[memoryview] = []
        for part, _, inside in fields(raw):
            if part == 1 and isinstance(inside, memoryview):
                resource = message(inside, _RESOURCE, depth_max=depth)
            elif part in (2, 1000) and isinstance(inside, memoryview):  # 1000: scopes before 2022.
                for _ in fields(inside):
                    pass  # Looks for a field that is cut off.
                scopes.append(inside)
        groups.append(_Group(resource, scopes))
    return groups


def _envelopes(groups: list[_Group], depth: int, tolerated: Tolerated) -> Iterator[dict[str, Json] | WireError]:
    """The records of some resources, a few at a time, and what is wrong with one."""
    for resource, scopes in groups:
        for scope in scopes:
            spans: list[Json] = []
            logs: list[Json] = []
            for number, wire, raw in fields(scope):
                if number != 2 or wire != LENGTH or not isinstance(raw, memoryview):
                    continue
                try:
                    signal = _signal({(part, kind): inside for part, kind, inside in fields(raw)})
                    if signal == "span":
                        spans.append(message(raw, _SPAN, depth_max=depth))
                    elif signal == "log":
                        logs.append(message(raw, _LOG, depth_max=depth))
                    else:
                        tolerated.add("other-signals")
                except WireError as error:
                    yield error
                if len(spans) + len(logs) >= _TOGETHER:
                    yield _envelope(resource, spans, logs)
                    spans, logs = [], []
            if spans or logs:
                yield _envelope(resource, spans, logs)


def _envelope(resource: Json, spans: list[Json], logs: list[Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    if spans:
        found["resourceSpans"] = [{"resource": resource, "scopeSpans": [{"spans": spans}]}]
    if logs:
        found["resourceLogs"] = [{"resource": resource, "scopeLogs": [{"logRecords": logs}]}]
    return found


def _signal(outline: dict[tuple[int, int], Raw]) -> str | None:
    """Whether a record is a span or a log record, by its fields; None if it is neither, such as a metric."""
    if not _OF_SPANS.isdisjoint(outline):
        return "span"
    first, second = outline.get((1, LENGTH)), outline.get((2, LENGTH))
    if not isinstance(first, memoryview):
        return "log" if outline else None  # It may have as little as a body.
    # A metric has its name and description where a span has its ids, and may have them as long.
    is_name = all(32 <= byte < 127 for byte in first)
    sizes = (len(first), len(second) if isinstance(second, memoryview) else 0)
    return "span" if sizes == (16, 8) and not is_name else None


_DEPTH_MAX: Final = 100  # What protobuf's own decoders allow.
# A span's kind, times, counts and flags: log records have these elsewhere, and fields of metrics all have a length.
_OF_SPANS: Final = frozenset(
    {(6, VARINT), (7, FIXED64), (8, FIXED64), (10, VARINT), (12, VARINT), (14, VARINT), (16, FIXED32)}
)

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
