"""Records of published messages: what is written reads back, and whatever else comes is set aside with a reason."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.clocks import BoundedClock, LamportStamp, OffsetStamp, VectorStamp
from beforehand.errors import InputError
from beforehand.formats.published import (
    ARRIVAL_MAX,
    POSITION_HEADER,
    PUBLISHER_HEADER,
    SEQUENCE_HEADER,
    STAMP_HEADER,
    Arrived,
    MergedRecord,
    RecordLimits,
    RecordReader,
    SetAsideRecord,
    stamp_bytes_max,
)
from beforehand.ordering.merging import MergeSettings, Published, SetAside

MS = 1_000_000
SETTINGS = MergeSettings(epsilon_ns=4 * MS, delta_ns=50 * MS)
NOW = 1_790_000_000_000 * MS
READER = RecordReader(SETTINGS)


def stamp_at(time_ns: int) -> str:
    tick = SETTINGS.reading(time_ns)
    return BoundedClock("p", SETTINGS.bounds, now=tick - 1).tick(tick).to_text()


def arrived(payload: bytes = b"hello", sequence: int = 7, channel: str = "orders") -> Arrived:
    text = stamp_at(NOW - 3 * MS)
    read = READER.fields(
        channel=channel, publisher="shop", sequence=sequence, stamp=text, arrival=NOW, payload=payload
    )
    assert isinstance(read, Arrived)
    return read


def refused(read: Arrived | SetAsideRecord) -> SetAsideRecord:
    assert isinstance(read, SetAsideRecord)
    assert read.detail
    assert "\n" not in read.detail
    assert len(read.detail) <= 300
    return read


def line(**changes: object) -> bytes:
    fields = json.loads(arrived().line())
    fields.update(changes)
    return json.dumps({key: value for key, value in fields.items() if value is not ...}).encode()


@given(st.binary(max_size=50), st.integers(1, 2**63 - 1))
def test_a_line_reads_back_as_the_same_message(payload: bytes, sequence: int) -> None:
    one = arrived(payload, sequence)

    assert READER.line(one.line()) == one


@given(st.binary(max_size=50))
def test_headers_read_back_as_the_same_message(payload: bytes) -> None:
    one = arrived(payload)

    assert READER.headers("orders", one.headers(), payload, arrival=NOW) == one


@given(st.binary(max_size=50), st.integers(1, 2**63 - 1))
def test_merged_records_read_back_from_a_line_and_from_headers(payload: bytes, position: int) -> None:
    record = arrived(payload).merged(position)

    assert MergedRecord.from_line(record.line()) == record
    assert MergedRecord.from_headers("orders", record.headers(), payload) == record
    assert arrived(payload).merged_headers(position) == record.headers()


def test_r_is_unwrapped_against_the_arrival() -> None:
    old = NOW - 2**33 * MS  # Some wraps of the modulus earlier.
    read = READER.fields(channel="", publisher="p", sequence=1, stamp=stamp_at(old), arrival=old, payload=None)

    assert isinstance(read, Arrived)
    assert read.message.stamp.r == old // MS


def test_the_clock_of_a_publisher_may_be_ahead_by_epsilon() -> None:
    # If r were unwrapped without it, it would come out a whole modulus too early.
    text = stamp_at(NOW + 4 * MS)
    read = READER.fields(channel="", publisher="p", sequence=1, stamp=text, arrival=NOW, payload=b"")

    assert isinstance(read, Arrived)
    assert read.message.stamp.r == NOW // MS + 4


def test_an_arrival_may_be_rfc_3339() -> None:
    read = READER.line(line(arrival="2026-09-21T14:13:20Z", stamp=stamp_at(NOW)))

    assert isinstance(read, Arrived)
    assert read.arrival == NOW


def test_a_line_may_leave_out_channel_and_payload() -> None:
    read = READER.line(line(channel=..., payload=...))

    assert isinstance(read, Arrived)
    assert (read.channel, read.message.payload) == ("", b"")


@pytest.mark.parametrize(
    ("data", "detail"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "no JSON object"),
        (b"null", "no JSON object"),
        (b"[" * 100_000, "nested deeper"),
        (line(stamps="x"), "unknown"),
        (b'{"publisher": "a", "publisher": "b"}', "twice"),
        (line(publisher=...), "no publisher"),
        (line(publisher=""), "no publisher"),
        (line(publisher=5), "publisher is no text"),
        (line(publisher="a\0b"), "control character"),
        (line(publisher="a\nb"), "control character"),
        (line(publisher=" a"), "blank"),
        (line(channel=None), "channel is no text"),
        (line(sequence=...), "no sequence"),
        (line(sequence=0), "sequence number"),
        (line(sequence=-1), "sequence number"),
        (line(sequence=True), "sequence number"),
        (line(sequence=1.0), "sequence number"),
        (line(sequence="1"), "sequence number"),
        (line(sequence=2**63), "sequence number"),
        (line(stamp=...), "no stamp"),
        (line(stamp=17), "stamp is no text"),
        (line(stamp=""), "not a stamp"),
        (line(stamp="!!!"), "not a stamp"),
        (line(stamp="é"), "not a stamp"),
        (line(stamp=arrived().stamp[:-1]), "not a stamp"),
        (line(stamp=arrived().stamp + "A"), "not a stamp"),
        (line(stamp=LamportStamp(3, "a").to_text()), "lamport"),
        (line(stamp=VectorStamp({"a": 1}).to_text()), "vector"),
        (line(arrival=...), "no arrival"),
        (line(arrival=-1), "arrival"),
        (line(arrival=ARRIVAL_MAX + 1), "arrival"),
        (line(arrival=1.5), "arrival"),
        (line(arrival="yesterday"), "RFC 3339"),
        (line(payload=5), "payload is no text"),
        (line(payload_base64="aGk="), "twice"),
        (line(payload=..., payload_base64="%"), "not base64"),
        (line(payload=..., payload_base64=5), "payload_base64 is no text"),
    ],
)
def test_what_is_no_record_is_malformed_and_says_why(data: bytes, detail: str) -> None:
    record = refused(READER.line(data))

    assert record.reason is SetAside.MALFORMED
    assert detail in record.detail


@pytest.mark.parametrize(
    "data",
    [
        line(payload="x" * (1024 * 1024 + 1)),
        line(payload="x" * (2 * 1024 * 1024)),
        line(publisher="x" * 256),
        line(channel="x" * 256),
        line(stamp="A" * 1025),
    ],
    ids=["payload", "line", "publisher", "channel", "stamp"],
)
def test_what_is_above_its_limit_is_oversize_and_is_cut(data: bytes) -> None:
    record = refused(READER.line(data))

    assert record.reason is SetAside.OVERSIZE
    assert len(record.payload) <= 1024
    assert len(record.line()) < 4096


def test_a_set_aside_record_keeps_what_could_be_read() -> None:
    record = refused(READER.line(line(stamp="no")))

    assert (record.channel, record.publisher, record.sequence, record.stamp) == ("orders", "shop", 7, None)
    assert (record.arrival, record.payload, record.payload_bytes) == (NOW, b"hello", 5)


@pytest.mark.parametrize("sequence", ["+1", "01", "1 ", "", "١", "1_0", "1.0", "9" * 20, "-1", "0"])
def test_a_number_in_a_header_has_one_form_only(sequence: str) -> None:
    headers = {**arrived().headers(), SEQUENCE_HEADER: sequence}

    assert refused(READER.headers("c", headers, b"", arrival=NOW)).reason is SetAside.MALFORMED


def test_foreign_headers_are_left_alone() -> None:
    headers = {**arrived().headers(), "traceparent": "00-1", POSITION_HEADER: "x"}

    assert isinstance(READER.headers("c", headers, b"", arrival=NOW), Arrived)


def test_a_message_without_headers_is_malformed() -> None:
    assert refused(READER.headers("c", None, b"x", arrival=NOW)).reason is SetAside.MALFORMED


def test_late_and_future_say_by_how_much() -> None:
    late = arrived().set_aside(SetAside.LATE, MergeSettings(epsilon_ns=0, delta_ns=1 * MS), limits=RecordLimits())
    every = [arrived().set_aside(reason, SETTINGS, limits=RecordLimits()).detail for reason in SetAside]

    assert late.detail == "it arrived 2 ticks after r + delta"
    assert all(every)
    assert json.loads(late.line())["reason"] == "late"


def test_the_limit_for_stamps_has_room_for_the_largest_that_a_clock_can_issue() -> None:
    settings = MergeSettings(epsilon_ns=900 * MS, delta_ns=MS, publishers=1000, events_per_tick=1000)
    bounds = settings.bounds
    clock = BoundedClock("p", bounds)
    stamp = clock.tick(2**31)
    largest = type(stamp)(2**31, 899, (bounds.count_max,) * 1799 + (1,), bounds.modulus)

    assert len(largest.to_text(limit=10**6)) <= stamp_bytes_max(settings)


def test_offset_stamps_are_read_as_well() -> None:
    settings = MergeSettings(epsilon_ns=MS, delta_ns=MS, c_max_ns=MS)
    text = OffsetStamp(NOW // MS, 1).to_text()
    read = RecordReader(settings).fields(channel="", publisher="p", sequence=1, stamp=text, arrival=NOW, payload=b"")

    assert isinstance(read, Arrived)
    assert read.message == Published(publisher="p", sequence=1, stamp=OffsetStamp(NOW // MS, 1))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
KEYS = ["channel", "publisher", "sequence", "stamp", "arrival", "payload", "payload_base64", "position"]
STAMP_BYTES = st.binary(max_size=40).map(lambda data: urlsafe_b64encode(data).rstrip(b"=").decode())
KINDS = st.sampled_from([0x17, 0x18])
ALMOST_STAMPS = st.tuples(KINDS, st.binary(max_size=60)).map(
    lambda parts: urlsafe_b64encode(bytes([parts[0]]) + parts[1]).rstrip(b"=").decode()
)


def check_reading(read: Arrived | SetAsideRecord) -> None:
    if isinstance(read, Arrived):
        assert READER.line(read.line()) == read
        reason = SETTINGS.rules.judge(read.message.stamp, arrival=SETTINGS.reading(read.arrival))
        if reason is None:
            SETTINGS.rules.key(read.message)  # Cannot overflow.
        else:
            refused(read.set_aside(reason, SETTINGS, limits=READER.limits)).line()
    else:
        refused(read)
        assert json.loads(read.line())["reason"] in ("malformed", "oversize")


@given(st.binary(max_size=200))
def test_any_bytes_give_one_result(data: bytes) -> None:
    check_reading(READER.line(data))


@given(st.dictionaries(st.sampled_from(KEYS), JSON_VALUES | STAMP_BYTES | ALMOST_STAMPS))
def test_any_object_gives_one_result(fields: dict[str, object]) -> None:
    check_reading(READER.line(json.dumps(fields).encode("utf-8", "surrogatepass")))


@given(st.data())
def test_a_flipped_byte_gives_one_result(data: st.DataObject) -> None:
    whole = bytearray(arrived().line())
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))

    check_reading(READER.line(bytes(whole)))


@given(ALMOST_STAMPS | STAMP_BYTES | st.text(), st.text(), st.text(), st.integers(0, ARRIVAL_MAX))
def test_any_headers_give_one_result(stamp: str, publisher: str, sequence: str, arrival: int) -> None:
    headers = {STAMP_HEADER: stamp, PUBLISHER_HEADER: publisher, SEQUENCE_HEADER: sequence}
    check_reading(READER.headers("c", headers, b"\xff", arrival=arrival))
    check_reading(READER.headers("c", {**headers, SEQUENCE_HEADER: "1", PUBLISHER_HEADER: "p"}, b"", arrival=arrival))


@given(st.binary(max_size=100) | st.dictionaries(st.sampled_from(KEYS), JSON_VALUES).map(json.dumps).map(str.encode))
def test_any_other_line_is_no_merged_record(data: bytes) -> None:
    with pytest.raises(InputError):
        MergedRecord.from_line(data)


def test_a_merged_record_has_a_position_from_1() -> None:
    with pytest.raises(InputError, match="from 1"):
        MergedRecord.from_line(arrived().merged(0).line())
    with pytest.raises(InputError, match="position"):
        MergedRecord.from_headers("c", arrived().headers(), b"")


def test_a_merged_record_from_strangers_can_be_written_again() -> None:
    good = arrived().merged(1).headers()
    with pytest.raises(InputError, match="publisher is not UTF-8"):
        MergedRecord.from_headers("c", {**good, PUBLISHER_HEADER: "\udcff"}, b"")
    with pytest.raises(InputError, match="sequence does not fit into 64 bits"):
        MergedRecord.from_headers("c", {**good, SEQUENCE_HEADER: "9999999999999999999"}, b"")
