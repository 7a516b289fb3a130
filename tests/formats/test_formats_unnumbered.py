"""Lines to events that may lack an index: the quick way and the careful way agree on everything."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beforehand.events import INDEX_MAX, Event
from beforehand.formats import Limits, Line, Unnumbered, parse_native, to_json, unnumbered
from beforehand.formats.json_text import RefusedError

KEYS = [
    "process", "index", "execution", "sends", "receives", "time", "name", "attributes", "clock", "kind", "message",
    "id", "recieves", "",
]  # fmt: skip
ESCAPED = {"process": '"\\u0070rocess"', "index": '"ind\\u0065x"', "name": '"n\\u0061me"'}
SCALARS = [
    "null", "true", "false", "0", "1", "-0", "-1", "3.0", "1e2", "1e999", "-1.5e-7", "9223372036854775807",
    "9223372036854775808", "18446744073709551616", "-9223372036854775808", "9" * 400, "9" * 5000, "01", "nan",
    '""', '"a"', '"send"', '"receive"', '"local"', '"a:1"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\u0000"', '"\x00"',
    '"é"', '"\\""', '"\\":"', '"x\\" :"', '"a\\\\"', '"{\\"process\\": 1}"', '": "', '" :"', '"[[[["',
    '"2026-01-31T12:00:00.123Z"', '"2026-01-31T12:00:00Z"', '"2026-01-31T12:00:60.5Z"', '"2026-02-30T12:00:00.5Z"',
    '"2026-01-31T12:00:00.1234567891Z"', '"2026-01-31T12:00:00.1+01:00"', '"2262-04-11T23:47:16.854775808Z"',
    '"2026-01-31 12:00:00.5Z"', '"2026-01-31T12:00:6.5Z"', '"2026-01-31T12:00:٣٣.5Z"', '"2026-01-31T12:00:00.5z"',
]  # fmt: skip
BLANKS = st.sampled_from(["", "", "", " ", "\t", " \r\n "])
# Any characters that UTF-8 holds, as JSON texts with and without escapes.
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
WRITTEN = st.builds(json.dumps, TEXTS, ensure_ascii=st.booleans())


@st.composite
def objects(draw: st.DrawFn, keys: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> str:
    """An object as text, keys twice included."""
    parts = []
    for _ in range(draw(st.integers(0, 5))):
        key, value = draw(keys), draw(values)
        parts.append(f"{draw(BLANKS)}{key}{draw(BLANKS)}:{draw(BLANKS)}{value}{draw(BLANKS)}")
    return "{" + ",".join(parts) + "}"


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=3).map(lambda items: "[" + ",".join(items) + "]")


SIMPLE = st.sampled_from(SCALARS) | WRITTEN
NAMES = st.sampled_from(['"a"', '"b"', '"\\u0061"']) | WRITTEN
VALUES = SIMPLE | arrays(SIMPLE) | objects(NAMES, SIMPLE) | objects(NAMES, arrays(SIMPLE))
ODD_KEYS = st.sampled_from([json.dumps(key) for key in KEYS] + list(ESCAPED.values()))
ODD_LINES = st.builds(
    lambda start, text, end: f"{start}{text}{end}".encode(),
    st.sampled_from(["", "", "", " ", "\ufeff", "x"]),
    objects(ODD_KEYS, VALUES),
    st.sampled_from(["", "", "", " \r", ",", "{}"]),
)
# Lines that are nearly right, so that the quick way is often taken.
TYPED = {
    "process": st.sampled_from(['"a"', '"b c"', '""', '"\\u0061"', "null"]) | WRITTEN,
    "index": st.sampled_from(["1", "0", "-1", "null", "7", "9223372036854775807", "9223372036854775808", "1.0"]),
    "execution": st.sampled_from(['""', '"run"', "null"]),
    "sends": arrays(st.sampled_from(['"m"', '"n"', '""', "1"])) | st.just("null"),
    "receives": arrays(st.sampled_from(['"m"', '"n"', '""', "null"])) | st.just("null"),
    "time": st.sampled_from(SCALARS),
    "name": SIMPLE,
    "attributes": objects(NAMES, SIMPLE),
    "clock": objects(NAMES, st.sampled_from(["0", "5", "-1", "9223372036854775808", "true", "1.0"])),
    "kind": st.sampled_from(['"send"', '"receive"', '"local"', '""', "null", '"x"']),
    "message": st.sampled_from(['"m"', '""', "null", "5"]),
    "id": st.sampled_from(['"a:1"', '"a:7"', "null", '""']),
}


RIGHT = {
    "process": '"a"',
    "index": "7",
    "execution": '"run"',
    "sends": '["m"]',
    "receives": '["n","o"]',
    "time": "-5",
    "name": '"hello: you"',
    "attributes": '{"k": "v", "n": 5}',
    "clock": '{"a": 1}',
}


@st.composite
def nearly_right(draw: st.DrawFn) -> bytes:
    """A line with at most two keys whose values, or whose presence, may be wrong."""
    odd = draw(st.lists(st.sampled_from(list(TYPED)), max_size=2))
    usual = draw(st.lists(st.sampled_from(list(RIGHT)), max_size=3, unique=True))
    keys = [*(key for key in dict.fromkeys(["process", *usual]) if key not in odd), *odd]
    values = {key: draw(TYPED[key]) if key in odd else RIGHT[key] for key in keys}
    parts = [f"{json.dumps(key)}{draw(BLANKS)}:{draw(BLANKS)}{values[key]}" for key in keys]
    return ("{" + ",".join(parts) + "}").encode()


def parse(data: bytes, *, limits: Limits | None = None) -> Unnumbered | None:
    return parse_native(Line(1, data), limits=limits or Limits())


def quickly(data: bytes) -> Unnumbered | None:
    return unnumbered._quickly(data)


def carefully(data: bytes) -> Unnumbered | str:
    try:
        return unnumbered._carefully(data, depth_max=32)
    except RefusedError as refused:
        return refused.reason


@settings(max_examples=2_000)
@given(nearly_right() | ODD_LINES)
@example(b'{"process":"a","process" :"b"}')
@example(b'{"process":"a","\\u0070rocess":"b"}')
@example(b'{"process":"a","attributes":{"k":"1","k":"2"}}')
@example(b'{"process":"a","message":""}')
@example(b'{"process":"a","clock":{"a":1,"a":2},"name":"\\":"}')
def test_what_the_quick_way_takes_the_careful_way_reads_alike(data: bytes) -> None:
    found = quickly(data)

    if found is not None:
        assert found == carefully(data)
        assert repr(found) == repr(carefully(data))  # Types too: 1 equals True.
        Unnumbered.__post_init__(found)  # It went past the constructor.


@pytest.mark.parametrize(
    "line",
    [
        b'{"process":"cart","index":7,"sends":["m1"],"name":"reserve"}',
        b'{"process": "cart", "receives": ["m1", "m2"], "time": 1700000000000000000}',
        b'{"process":"cart","time":"2026-01-31T12:00:00.123456Z","name":"12:00 \xc3\xa9"}',
        b'{"process":"cart","attributes":{"n":5,"f":1.5,"b":true,"z":null,"t":"x"},"clock":{"cart":1,"b":0}}',
        b'{"process":"cart","kind":"send","message":"m1"}',
        b'{"process":"cart","index":null,"sends":null,"clock":null,"attributes":null,"kind":null}',
    ],
)
def test_ordinary_lines_are_taken_by_the_quick_way(line: bytes) -> None:
    assert quickly(line) is not None
    assert quickly(line) == carefully(line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"process":"a","process":"b"}', "key-twice"),
        (b'{"process":"a","process" \t :"b"}', "key-twice"),
        (b'{"process":"a","\\u0070rocess":"b"}', "key-twice"),
        (b'{"process":"a","clock":{"x":1,"x":2}}', "key-twice"),
        (b'{"process":"a","recieves":["m"]}', "unknown-key"),
        (b'{"process":"a","sends":["m","m"]}', "not-an-event"),
        (b'{"process":"a","sends":[""]}', "not-an-event"),
        (b'{"process":"a","index":0}', "not-an-event"),
        (b'{"process":"a","message":""}', "not-an-event"),
        (b'{"process":"a","index":1,"id":"a:2"}', "not-an-event"),
        (b'{"process":"a","time":"yesterday"}', "not-an-event"),
        (b'{"process":"\xff"}', "not-json"),
        (b"\xef\xbb\xbf" + b'{"process":"a"}', "not-json"),  # A byte order mark that is not at the start.
        (b'{"process":"a","attributes":{"x":' + b"[" * 40 + b"]" * 40 + b"}}", "too-deep"),
    ],
)
def test_no_check_is_given_up_for_speed(line: bytes, reason: str) -> None:
    with pytest.raises(RefusedError) as refused:
        parse(line)
    assert refused.value.reason == reason


def test_a_line_that_is_too_deep_for_a_small_limit_is_refused_by_either_way() -> None:
    assert parse(b'{"process":"a"}', limits=Limits(depth_max=1)) == Unnumbered(process="a")
    with pytest.raises(RefusedError, match="deeper than 1"):
        parse(b'{"process":"a","sends":["m"]}', limits=Limits(depth_max=1))


@pytest.mark.parametrize("line", [b"", b" \t\r"])
def test_a_blank_line_is_none(line: bytes) -> None:
    assert parse(line) is None


def test_a_byte_order_mark_counts_for_nothing_at_the_start_of_a_file_only() -> None:
    assert parse_native(Line(0, b'\xef\xbb\xbf{"process":"a"}')) == Unnumbered(process="a")
    assert parse_native(Line(0, b"\xef\xbb\xbf")) is None


def test_a_line_that_was_cut_or_not_read_is_refused() -> None:
    with pytest.raises(RefusedError, match="the line has 99 bytes, the limit is 20") as refused:
        parse_native(Line(0, b'{"process":"a"}', 1, 99), limits=Limits(line_bytes_max=20))
    assert refused.value.reason == "line-too-long"
    with pytest.raises(RefusedError, match="reading stopped: disk") as refused:
        parse_native(Line(0, b'{"proc', 1, 6, "disk"))
    assert refused.value.reason == "unreadable"


def test_an_index_is_given_later_and_only_then() -> None:
    found = parse(b'{"process":"a","execution":"x","name":"hi","clock":{"a":3}}')

    assert found is not None
    assert found.index is None
    assert found.numbered(4) == Event(process="a", index=4, execution="x", name="hi", clock={"a": 3})
    with pytest.raises(ValueError, match="index 0"):
        found.numbered(0)


def test_an_invalid_one_cannot_exist() -> None:
    with pytest.raises(ValueError, match="process is empty"):
        Unnumbered(process="")
    with pytest.raises(ValueError, match="index 0"):
        Unnumbered(process="a", index=0)


@given(
    st.builds(
        Event,
        process=st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6),
        index=st.integers(1, INDEX_MAX),
        name=TEXTS,
        time=st.none() | st.integers(-INDEX_MAX, INDEX_MAX),
        attributes=st.dictionaries(TEXTS, TEXTS, max_size=3),
    )
)
def test_what_was_written_comes_back_with_its_index(event: Event) -> None:
    found = parse(to_json(event))

    assert found is not None
    assert found.index is not None
    assert found.numbered(found.index) == event
