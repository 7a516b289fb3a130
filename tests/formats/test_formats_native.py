"""The native format: reading, refusing, numbering, writing."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beforehand.errors import InputError
from beforehand.events import INDEX_MAX, Event, Rejection
from beforehand.formats import Limits, NativeReader, read_events, read_lines, to_json, write_events

# Everything that UTF-8 can hold.
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
IDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
EVENTS = st.builds(
    Event,
    process=IDS,
    index=st.integers(1, INDEX_MAX),
    execution=TEXTS,
    sends=st.lists(IDS, unique=True, max_size=3).map(tuple),
    receives=st.lists(IDS, unique=True, max_size=3).map(tuple),
    time=st.none() | st.integers(-INDEX_MAX, INDEX_MAX),
    name=TEXTS,
    attributes=st.dictionaries(TEXTS, TEXTS, max_size=3),
    clock=st.none() | st.dictionaries(TEXTS, st.integers(0, INDEX_MAX), max_size=3),
)


def read(*lines: bytes, limits: Limits | None = None) -> list[Event | Rejection]:
    stream = io.BytesIO(b"\n".join(lines))
    return list(NativeReader(limits=limits or Limits()).read_stream(stream, file="f"))


def only_event(line: bytes) -> Event:
    [event] = read(line)
    assert isinstance(event, Event), event
    return event


def only_rejection(line: bytes, *, limits: Limits | None = None) -> Rejection:
    [rejection] = read(line, limits=limits)
    assert isinstance(rejection, Rejection), rejection
    return rejection


@given(EVENTS)
def test_written_event_reads_back_equal(event: Event) -> None:
    assert only_event(to_json(event)) == event


def test_defaults_are_left_out_and_keys_keep_their_order() -> None:
    small = Event(process="a", index=1)
    full = Event(
        process="a",
        index=1,
        execution="x",
        sends=("m",),
        receives=("n",),
        time=5,
        name="hi",
        attributes={"k": "v"},
        clock={"a": 1},
    )

    assert to_json(small) == b'{"process":"a","index":1}'
    assert list(json.loads(to_json(full))) == [
        "execution", "process", "index", "sends", "receives", "time", "name", "attributes", "clock",
    ]  # fmt: skip


def test_text_that_utf8_cannot_hold_is_refused_on_writing() -> None:
    with pytest.raises(InputError, match="UTF-8"):
        to_json(Event(process="\ud800", index=1))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # kind and message are short for one of the lists.
        (b'{"process":"a","kind":"send","message":"m"}', Event(process="a", index=1, sends=("m",))),
        (b'{"process":"a","kind":"receive","message":"m"}', Event(process="a", index=1, receives=("m",))),
        # kind alone may stand if it agrees.
        (b'{"process":"a","kind":"send","sends":["m"]}', Event(process="a", index=1, sends=("m",))),
        (b'{"process":"a","kind":"local"}', Event(process="a", index=1)),
        # id is what `order` adds; both of its forms agree.
        (b'{"execution":"x","process":"a","index":3,"id":"x/a:3"}', Event(execution="x", process="a", index=3)),
        (b'{"execution":"x","process":"a","index":3,"id":"a:3"}', Event(execution="x", process="a", index=3)),
        # Both forms of time.
        (b'{"process":"a","time":"1970-01-01T00:00:01.5Z"}', Event(process="a", index=1, time=1_500_000_000)),
        (b'{"process":"a","time":-7}', Event(process="a", index=1, time=-7)),
        # null is the same as absent.
        (
            (
                b'{"process":"a","execution":null,"index":null,"sends":null,"receives":null,"time":null,"name":null,'
                b'"attributes":null,"clock":null,"kind":null,"message":null,"id":null}'
            ),
            Event(process="a", index=1),
        ),
        # An empty clock is a clock.
        (b'{"process":"a","clock":{}}', Event(process="a", index=1, clock={})),
        # Byte order mark, CRLF, blanks, an astral character as an escaped pair.
        (b'\xef\xbb\xbf {"process": "\\ud83d\\ude00"} \r', Event(process="\U0001f600", index=1)),
        # What looks like a key inside a text is none.
        (b'{"process":"a","name":"\\"process\\": \\"b\\""}', Event(process="a", index=1, name='"process": "b"')),
    ],
)
def test_line_is_read_as(line: bytes, expected: Event) -> None:
    assert only_event(line) == expected


def test_attributes_that_are_not_text_are_kept_as_compact_json() -> None:
    event = only_event(
        b'{"process":"a","attributes":{"s":"t","n":12,"big":123456789012345678901234567890,"f":1.5,'
        b'"b":true,"z":null,"l":[1, {"x": "\xc3\xa9"}]}}'
    )

    assert event.attributes == {
        "s": "t",
        "n": "12",
        "big": "123456789012345678901234567890",
        "f": "1.5",
        "b": "true",
        "z": "null",
        "l": '[1,{"x":"é"}]',
    }


@pytest.mark.parametrize(
    ("line", "reason", "says"),
    [
        (b"{", "not-json", "not JSON"),
        (b'{"process":"a"} {}', "not-json", "trailing"),
        (b'{"process":"\xff"}', "not-json", "utf-8"),
        (b'{"process":"\\ud800"}', "not-json", "not JSON"),
        (b'{"process":"a\x00"}', "not-json", "not JSON"),
        (b'{"process":"a","time":1e999}', "not-json", "range"),
        (b'{"process":"a","attributes":{"n":%s}}' % (b"9" * 5000), "not-json", "range"),
        (b"[]", "not-an-event", "object"),
        (b"{}", "not-an-event", "process is empty"),
        (b'{"process":7}', "not-an-event", "process is 7"),
        (b'{"process":"a","index":0}', "not-an-event", "index 0"),
        (b'{"process":"a","index":true}', "not-an-event", "index is true"),
        (b'{"process":"a","index":3.0}', "not-an-event", "index is 3.0"),
        (b'{"process":"a","index":99999999999999999999}', "not-an-event", "index 9999"),
        (b'{"process":"a","sends":"m"}', "not-an-event", "list"),
        (b'{"process":"a","sends":[1]}', "not-an-event", "not a text"),
        (b'{"process":"a","sends":["m","m"]}', "not-an-event", "twice"),
        (b'{"process":"a","time":"yesterday"}', "not-an-event", "RFC 3339"),
        (b'{"process":"a","time":1.5}', "not-an-event", "nanoseconds"),
        (b'{"process":"a","time":false}', "not-an-event", "nanoseconds"),
        (b'{"process":"a","attributes":[]}', "not-an-event", "attributes"),
        (b'{"process":"a","clock":{"a":true}}', "not-an-event", "clock entry"),
        (b'{"process":"a","clock":{"a":-1}}', "not-an-event", "clock entry"),
        (b'{"process":"a","clock":5}', "not-an-event", "clock"),
        (b'{"process":"a","kind":"sends"}', "not-an-event", "local, send, receive"),
        (b'{"process":"a","kind":["send"]}', "not-an-event", "local, send, receive"),
        (b'{"process":"a","kind":"send"}', "not-an-event", "the event is local"),
        (b'{"process":"a","kind":"local","message":"m"}', "not-an-event", "message needs"),
        (b'{"process":"a","message":"m"}', "not-an-event", "message needs"),
        (b'{"process":"a","kind":"send","message":"m","sends":["n"]}', "not-an-event", "beside"),
        (b'{"process":"a","kind":"send","message":5}', "not-an-event", "message is 5"),
        (b'{"process":"a","index":2,"id":"a:3"}', "not-an-event", "id"),
        (b'{"process":"a","index":2,"id":{}}', "not-an-event", "id"),
        (b'{"process":"a","recieves":["m"]}', "unknown-key", "recieves"),
        (b'{"process":"a","sends":["m"],"sends":["n"]}', "key-twice", "sends"),
        (b'{"process":"a","sends":["m"],"s\\u0065nds" :["n"]}', "key-twice", "sends"),
        (b'{"process":"a","clock":{"a":1,"b":2,"a":3}}', "key-twice", '"a"'),
        (b'{"process":"a","attributes":{"l":[{"x":1,"x":2}]}}', "key-twice", '"x"'),
    ],
)
def test_line_is_refused_with_reason(line: bytes, reason: str, says: str) -> None:
    rejection = only_rejection(line)

    assert rejection.reason == reason
    assert says in rejection.detail
    assert "\n" not in rejection.detail


def test_unknown_key_is_sent_to_attributes() -> None:
    assert "under attributes" in only_rejection(b'{"process":"a","colour":"red"}').detail


def test_rejection_says_where_and_reading_goes_on() -> None:
    first, second, third = read(b'{"process":"a"}', b"", b"  \r", b"oops \xff", b'{"process":"a"}')

    assert first == Event(process="a", index=1)
    assert isinstance(second, Rejection)
    assert (second.file, second.line, second.offset, second.text) == ("f", 4, 21, "oops �")
    assert third == Event(process="a", index=2)  # A refused line takes no number.


def test_absent_index_is_counted_per_execution_and_process() -> None:
    events = read(
        b'{"process":"a"}',
        b'{"process":"b"}',
        b'{"process":"a","execution":"x"}',
        b'{"process":"a","time":"bad"}',
        b'{"process":"a"}',
    )

    assert [str(event.id) for event in events if isinstance(event, Event)] == ["a:1", "b:1", "x/a:1", "a:2"]


def test_process_either_carries_indexes_or_does_not() -> None:
    with_first = read(b'{"process":"a","index":5}', b'{"process":"a"}', b'{"process":"a","index":4}')
    without_first = read(b'{"process":"a"}', b'{"process":"a","index":2}', b'{"process":"a"}')

    assert [getattr(item, "reason", "") for item in with_first] == ["", "index-mixed", ""]
    assert [getattr(item, "reason", "") for item in without_first] == ["", "index-mixed", ""]
    assert isinstance(without_first[2], Event)
    assert without_first[2].index == 2


def test_refused_first_line_does_not_decide_about_indexes() -> None:
    _, second = read(b'{"process":"a","index":0}', b'{"process":"a"}')

    assert second == Event(process="a", index=1)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.booleans()), max_size=20))
def test_indexes_count_the_good_lines_of_each_process(rows: list[tuple[str, str, bool]]) -> None:
    lines = [
        json.dumps({"process": process, "execution": execution} | ({} if good else {"bad": 1})).encode()
        for process, execution, good in rows
    ]

    events = [item for item in read(*lines) if isinstance(item, Event)]

    assert len(events) == sum(good for _, _, good in rows)
    for key in {(event.execution, event.process) for event in events}:
        own = [event.index for event in events if (event.execution, event.process) == key]
        assert own == list(range(1, len(own) + 1))


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_random_bytes_give_rejections_and_nothing_else(lines: list[bytes]) -> None:
    for item in read(*lines):
        assert isinstance(item, Rejection)
        item.text.encode()
        item.detail.encode()


@given(EVENTS, st.data())
@example(Event(process="a", index=1), None)
def test_damaged_lines_never_raise(event: Event, data: st.DataObject | None) -> None:
    line = bytearray(to_json(event))
    if data is not None:
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(line)))
            line[at : at + data.draw(st.integers(0, 3))] = data.draw(
                st.binary(max_size=3) | st.sampled_from([b'"', b"\\", b"[", b"{", b"null", b"1e9", b'"sends":', b","])
            )

    for item in read(bytes(line)):
        if isinstance(item, Event):
            to_json(item)
        else:
            item.text.encode()
            item.detail.encode()


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "execution",
        "process",
        "index",
        "sends",
        "receives",
        "time",
        "name",
        "attributes",
        "clock",
        "kind",
        "message",
        "id",
    ]
)


@given(st.lists(st.dictionaries(KEYS, JSON_VALUES), max_size=4))
def test_records_of_any_values_never_raise(records: list[dict[str, object]]) -> None:
    items = read(*[json.dumps(record).encode() for record in records])

    assert len(items) == len(records)


def test_depth_is_limited_but_brackets_in_texts_are_free() -> None:
    deep = b'{"process":"a","attributes":{"k":' + b"[" * 31 + b"]" * 31 + b"}}"
    deep_enough = b'{"process":"a","attributes":{"k":' + b"[" * 30 + b"]" * 30 + b"}}"
    texts = b'{"process":"a","name":"' + b"[{" * 500 + b'\\""}'

    assert only_rejection(deep).reason == "too-deep"
    assert only_event(deep_enough).attributes["k"] == "[" * 30 + "]" * 30
    assert only_event(texts).name == "[{" * 500 + '"'


@pytest.mark.parametrize("line", [b"[" * 1_000_000, b'{"a":' * 200_000, b'"' + b'\\"[' * 300_000, b"[]" * 500_000])
def test_a_megabyte_of_brackets_is_refused(line: bytes) -> None:
    assert only_rejection(line).reason in {"too-deep", "not-json"}


def test_lines_may_be_given_as_offset_and_bytes() -> None:
    event, rejection = read_lines([(70, b'{"process":"a"}'), (90, b"?")], file="part")

    assert event == Event(process="a", index=1)
    assert isinstance(rejection, Rejection)
    assert (rejection.file, rejection.line, rejection.offset) == ("part", None, 90)


def test_too_long_line_is_one_rejection() -> None:
    limits = Limits(line_bytes_max=40, text_max=5)

    before, long, after = read(b'{"process":"a"}', b"x" * 1_000_000, b'{"process":"a"}', limits=limits)

    assert isinstance(before, Event)
    assert isinstance(long, Rejection)
    assert (long.reason, long.line, long.offset, long.text) == ("line-too-long", 2, 16, "xxxxx")
    assert "1000000 bytes" in long.detail
    assert after == Event(process="a", index=2)


def test_files_are_read_in_path_order_with_one_count(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(b'{"process":"p","name":"second"}\n')
    (tmp_path / "a.jsonl").write_bytes(b'{"process":"p","name":"first"}')
    paths = [tmp_path / "b.jsonl", tmp_path / "a.jsonl", tmp_path / "b.jsonl"]

    events = list(read_events(paths))

    assert events == [Event(process="p", index=1, name="first"), Event(process="p", index=2, name="second")]


def test_missing_file_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"process":"p"}')

    with pytest.raises(InputError, match="missing"):
        read_events([tmp_path / "a.jsonl", tmp_path / "missing"])
    with pytest.raises(InputError, match="directory"):
        read_events(tmp_path)


def test_cut_gzip_keeps_the_events_before_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    lines = b"".join(b'{"process":"p","name":"%d"}\n' % (number * 7919) for number in range(20_000))
    whole = gzip.compress(lines)
    path.write_bytes(whole[: len(whole) // 2])

    *events, last = read_events(path)

    assert len(events) > 5_000
    assert all(isinstance(event, Event) for event in events)
    assert isinstance(last, Rejection)
    assert last.reason == "unreadable"
    assert last.file == str(path)
    assert last.line == len(events) + 1


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@given(events=st.lists(EVENTS, max_size=5, unique_by=lambda event: event.id))
def test_file_round_trip(tmp_path_factory: pytest.TempPathFactory, suffix: str, events: list[Event]) -> None:
    path = tmp_path_factory.mktemp("round") / f"events.jsonl{suffix}"

    assert write_events(events, path) == len(events)

    assert list(read_events(path)) == events
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_events_are_written_to_a_stream_that_stays_open() -> None:
    stream = io.BytesIO()

    write_events([Event(process="a", index=1)], stream)

    assert stream.getvalue() == b'{"process":"a","index":1}\n'
