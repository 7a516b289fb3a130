"""OTLP in protobuf: which records are spans and which are logs, framing, zeros, memory; and fields of records."""

from __future__ import annotations

import io
import json
import struct

import pytest

from beforehand.events import Rejection
from beforehand.formats.json_text import Json
from beforehand.formats.spans import LogRecord, Note, Parsed, Span, read_otlp
from beforehand.formats.spans.documents import SPAN_LIMITS, Document, Tolerated
from beforehand.formats.spans.otlp_protobuf import read_messages
from beforehand.formats.spans.otlp_records import Resource, resource_of, span_of
from beforehand.formats.spans.peeking import Peeked
from beforehand.formats.spans.records import made_up_id
from span_worlds import block, fixed64, number, varint

TRACE_ID, SPAN_ID = b"\x01" * 16, b"\x02" * 8
SPAN = block(1, TRACE_ID) + block(2, SPAN_ID) + block(5, "op") + fixed64(7, 5) + fixed64(8, 9)
BODY = block(5, block(1, "hello"))


def one(record: bytes, *, scopes: int = 2) -> bytes:
    """A message with one record."""
    return block(1, block(scopes, block(2, record)))


def read(data: bytes, *, document_bytes_max: int = 1 << 20) -> list[Parsed]:
    return list(read_otlp(io.BytesIO(data), document_bytes_max=document_bytes_max))


@pytest.mark.parametrize(
    "record",
    [
        BODY,  # A log record without any time.
        BODY + block(9, TRACE_ID) + block(10, SPAN_ID),
        BODY + fixed64(1, 3),
        BODY + fixed64(11, 7),  # Only the time when it was observed.
        BODY + number(2, 9),
        BODY + block(6, block(1, "k")),
        BODY + number(7, 3),
        BODY + varint(8 << 3 | 5) + bytes(4),
        BODY + block(3, "INFO"),
        BODY + block(12, "an event"),
    ],
)
def test_log_record_is_known_by_its_fields(record: bytes) -> None:
    [log] = read(one(record))

    assert isinstance(log, LogRecord)
    assert log.attributes.get("body", log.name) == "hello"
    assert log.time_ns == (7 if fixed64(11, 7) in record else 3 if fixed64(1, 3) in record else None)


@pytest.mark.parametrize(
    ("record", "trace_id"),
    [
        (SPAN, "01" * 16),
        (block(1, TRACE_ID) + block(2, SPAN_ID), "01" * 16),  # Ids are enough.
        (block(1, b"") + block(5, "op") + fixed64(7, 5), ""),
        (block(5, "op") + fixed64(7, 5), ""),
        (block(5, "op") + fixed64(8, 5), ""),
        (block(1, b"\x01" * 8) + block(5, "op") + number(6, 2), "01" * 8),
        (block(1, TRACE_ID) + block(5, "op") + number(10, 1), "01" * 16),
        (block(1, TRACE_ID) + block(5, "op") + varint(16 << 3 | 5) + bytes(4), "01" * 16),
    ],
)
def test_span_is_known_by_its_fields(record: bytes, trace_id: str) -> None:
    span, *notes = read(one(record))

    assert isinstance(span, Span)
    assert span.trace_id == trace_id
    assert bool(notes) == (not trace_id or b"\x02" * 8 not in record)


def test_metrics_and_empty_records_are_counted() -> None:
    metric = block(1, "sixteen letters!") + block(2, "requests") + block(3, "1") + block(7, b"")
    gauge = block(1, "sixteen letters!") + block(5, b"")

    found = read(one(gauge) + one(b"") + one(metric) + one(SPAN))

    assert isinstance(found[0], Span)
    assert [(note.reason, note.count) for note in found if isinstance(note, Note)] == [("other-signals", 3)]
    assert len(found) == 2


def test_scopes_of_before_2022_are_read() -> None:
    [span] = read(one(SPAN, scopes=1000))

    assert isinstance(span, Span)
    assert span.name == "op"


def test_bad_record_costs_that_record_only() -> None:
    cut = SPAN + b"\x4a\x7f"  # Attributes of 127 bytes, of which there is none.
    data = block(1, block(2, block(2, SPAN) + block(2, cut) + block(2, SPAN)))

    found = read(data)

    assert sorted(type(item).__name__ for item in found) == ["Rejection", "Span", "Span"]
    [rejection] = [item for item in found if isinstance(item, Rejection)]
    assert (rejection.reason, rejection.offset) == ("not-protobuf", 0)
    assert "a record of this message" in rejection.detail


def test_message_whose_outline_is_broken_gives_nothing_of_itself() -> None:
    broken = block(1, block(2, block(2, SPAN) + b"\x12\x7f"))
    frames = b"".join(struct.pack(">I", len(data)) + data for data in (broken, one(SPAN)))

    rejection, span = read(frames)

    assert isinstance(rejection, Rejection)
    assert "this message is not OTLP" in rejection.detail
    assert isinstance(span, Span)


def test_frame_as_large_as_the_limit_is_read_and_a_larger_one_is_refused() -> None:
    data = one(SPAN + block(3, "x" * 200))  # A length below 128 reads alike in both framings.
    frame = struct.pack(">I", len(data)) + data

    assert [type(item) for item in read(frame, document_bytes_max=len(data))] == [Span]
    first, rejection = read(frame + struct.pack(">I", len(data) + 1) + data, document_bytes_max=len(data))
    assert isinstance(first, Span)
    assert isinstance(rejection, Rejection)
    assert f"a message of {len(data) + 1} bytes is announced, the limit is {len(data)}" in rejection.detail


def test_length_that_is_cut_off_is_told() -> None:
    data = one(SPAN)
    frame = struct.pack(">I", len(data)) + data

    first, rejection = read(frame + b"\0\0")

    assert isinstance(first, Span)
    assert isinstance(rejection, Rejection)
    assert "a length is cut off" in rejection.detail
    assert rejection.offset == len(frame)


def test_empty_first_message_does_not_hide_the_framing() -> None:
    data = one(SPAN + block(3, "x" * 200))

    [span] = read(bytes(4) + struct.pack(">I", len(data)) + data)

    assert isinstance(span, Span)


@pytest.mark.parametrize("size", [16, 100_000])
@pytest.mark.parametrize("framing", ["fixed", "varint", "plain"])
def test_zeros_behind_messages_are_one_rejection_at_their_place(framing: str, size: int) -> None:
    data = one(SPAN)
    prefix = {"fixed": struct.pack(">I", len(data)), "varint": varint(len(data)), "plain": b""}[framing]

    span, rejection = read(prefix + data + bytes(size))

    assert isinstance(span, Span)
    assert isinstance(rejection, Rejection)
    assert (rejection.reason, rejection.offset) == ("not-protobuf", len(prefix + data))


def test_records_of_a_large_message_are_not_all_decoded_at_once() -> None:
    stream = Peeked(io.BytesIO(block(1, block(2, block(2, SPAN) * 150 + block(2, BODY) * 100))))
    found = read_messages(stream, file=None, limits=SPAN_LIMITS, message_bytes_max=1 << 20, tolerated=Tolerated({}))

    sizes = [json.dumps(item.value).count("spanId") for item in found if isinstance(item, Document)]

    assert sizes == [100, 50, 0]


# Fields of OTLP records.


def resource(**attributes: str) -> dict[str, Json]:
    return {"attributes": [{"key": k.replace("_", "."), "value": {"stringValue": v}} for k, v in attributes.items()]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (resource(k8s_pod_name="p"), Resource("", "p", "")),
        (resource(service_instance_id="i", k8s_pod_name="p"), Resource("", "i", "")),
        (resource(host_id="7"), Resource("", "", "7")),
        (resource(host_id="7", host_name="h"), Resource("", "", "h")),
        (resource(service_name="s"), Resource("s", "", "")),
    ],
)
def test_resource_tells_the_process(given: Json, expected: Resource) -> None:
    assert resource_of(given, Tolerated({})) == expected


@pytest.mark.parametrize(
    ("flags", "remote"), [(0x300, True), (0x100, False), (0x200, None), (0, None), (0x3FF, True), (None, None)]
)
def test_flags_tell_whether_the_parent_is_remote(flags: int | None, remote: bool | None) -> None:
    span = span_of({"traceId": "a", "spanId": "b", "flags": flags}, Resource("", "", ""), Tolerated({}))

    assert span.remote_parent is remote


def test_made_up_ids_differ_in_whatever_their_spans_differ() -> None:
    span: dict[str, Json] = {"name": "n", "startTimeUnixNano": 5, "endTimeUnixNano": 6}
    cart = Resource("cart", "", "")
    tolerated = Tolerated({"no-ids": ""})
    given: list[tuple[Json, Resource]] = [
        (span, cart),
        (span, Resource("stock", "", "")),
        ({**span, "attributes": {"k": "v"}}, cart),
        ({**span, "traceId": "a"}, cart),
        ({**span, "name": "m"}, cart),
    ]
    others = [span_of(item, place, tolerated).span_id for item, place in given]

    assert len(set(others)) == 5
    assert span_of(dict(span), cart, tolerated).span_id == others[0]
    assert made_up_id("a", "b") != made_up_id("ab")
    assert made_up_id("a").startswith("?")
