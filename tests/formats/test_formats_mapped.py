"""Any JSON Lines by a map: what a row becomes, and what a wrong map is told."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats import FieldMap, Limits, Line, Unnumbered, read_map
from beforehand.formats.mapped import Mapped, read_mapped
from beforehand.formats.spans import LogRecord, Reference, ReferenceKind, Span, SpanKind

SPANS = FieldMap(
    process=("service",),
    time=("ts",),
    time_unit="ns",
    name=("op",),
    level=("level",),
    trace=("trace",),
    span=("span",),
    parent=("parent",),
    start=("start",),
    end=("end",),
    duration=("took",),
    duration_unit="us",
    kind=("kind",),
)


def written(folder: Path, text: str) -> Path:
    path = folder / "map.toml"
    path.write_text(text, encoding="utf-8")
    return path


def read(fields: FieldMap, *rows: object) -> list[Mapped | Rejection]:
    lines = [Line(at, json.dumps(row).encode(), at + 1) for at, row in enumerate(rows)]
    return list(fields.read_lines(lines, file="f"))


def only(fields: FieldMap, row: object) -> Mapped:
    [found] = read(fields, row)
    assert not isinstance(found, Rejection), found
    return found


def refused(fields: FieldMap, row: object) -> Rejection:
    [found] = read(fields, row)
    assert isinstance(found, Rejection), found
    return found


# The map file.


def test_a_map_file_says_what_fields_mean(tmp_path: Path) -> None:
    fields = read_map(
        written(
            tmp_path,
            """
            process = ["service", "pod"]
            time = "ts"
            time_unit = "ms"
            name = "msg"
            kind = "type"
            message = "id"
            attributes = ["user", "order.id"]
            [kinds]
            send = ["SEND", "tx"]
            receive = "rx"
            [defaults]
            execution = "run"
            """,
        )
    )

    row = {"service": "cart", "pod": 7, "ts": 1.5, "msg": "hi", "type": "tx", "id": 9, "order": {"id": 3}, "x": 1}
    assert only(fields, row) == Unnumbered(
        process="cart:7",
        execution="run",
        time=1_500_000,
        name="hi",
        sends=("9",),
        attributes={"order.id": "3"},
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "process is missing: name the field"),
        ('proces = "a"', 'key "proces" is unknown: correct it (keys are process,'),
        ("process = 3", "process is 3, not the name of a field or a list of names"),
        ('process = ["a", ""]', "not the name of a field"),
        ("process = []", "not the name of a field"),
        ('process = ["a", "a"]', "names a field twice"),
        ('process = "a"\nformat = "xml"', 'format is "xml", not jsonl or csv'),
        ('process = "a"\ndelimiter = ";"', 'delimiter and columns are for CSV: add format = "csv"'),
        ('process = "a"\nformat = "csv"\ndelimiter = ";;"', "not one character"),
        ('process = "a"\ntime = "t"\ntime_unit = "minutes"', 'time_unit "minutes" is not one of ns, us, ms, s'),
        ('process = "a"\ntime = "t"\ntime_unit = 3', "time_unit is 3, not a text"),
        ('process = "a"\nkind = "k"', "kind and message go together"),
        ('process = "a"\nkind = "k"\nmessage = "m"\nsends = "s"', "beside sends or receives: use one of the two"),
        ('process = "a"\ntrace = "t"', "trace and span go together"),
        ('process = "a"\nstart = "t"', "start is for spans: name the fields trace and span too"),
        ('process = "a"\ntrace = "t"\nspan = "s"\nsends = "m"', "sends is for events, and with trace and span"),
        ('process = "a"\ntrace = "t"\nspan = "s"\nduration = "d"', 'duration_unit is "rfc3339", not one of'),
        (
            'process = "a"\ntrace = "t"\nspan = "s"\nduration = "d"\nduration_unit = "s"',
            "duration needs start or end",
        ),
        ('process = "a"\n[kinds]\nsend = ["x"]', "no kind names the field"),
        (
            'process = "a"\nkind = "k"\nmessage = "m"\n[kinds]\nsend = ["x"]\nreceive = ["x"]',
            '"x" as send and as rec',
        ),
        ('process = "a"\nkind = "k"\nmessage = "m"\n[kinds]\nserver = ["x"]', "[kinds] has server: kinds of events"),
        ('process = "a"\n[kinds]\ntime = "t"', "other settings go above the tables"),
        ('kinds = 3\nprocess = "a"', "kinds is 3, not a table: write [kinds]"),
        ('process = "a"\n[defaults]\ntime = "x"', '[defaults] has "time": it may have process, execution, name'),
        ("process = ", "is not TOML: "),
    ],
)
def test_a_wrong_map_is_told_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(InputError) as error:
        read_map(path)

    assert str(error.value).startswith(str(path))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_map_that_is_missing_too_large_or_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open"):
        read_map(tmp_path / "none")
    with pytest.raises(InputError, match="larger than"):
        read_map(written(tmp_path, "#" * (2 << 20)))
    (tmp_path / "bytes").write_bytes(b"process = '\xff'")
    with pytest.raises(InputError, match="not UTF-8 at byte 11"):
        read_map(tmp_path / "bytes")


def test_a_map_travels_between_machines() -> None:
    assert pickle.loads(pickle.dumps(SPANS)) == SPANS
    assert only(pickle.loads(pickle.dumps(SPANS)), {"service": "a"}) == LogRecord(service="a")


# Fields.


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("a", {"a": "x"}),
        ("a.b.c", {"a": {"b": {"c": "x"}}}),
        ("a.b.c", {"a.b.c": "x"}),
        ("a.b.c", {"a": {"b.c": "x"}}),
        ("a.b.c", {"a.b": {"c": "x"}}),
        ("a.b.c", {"a.b": {"d": 1}, "a": {"b": {"c": "x"}}}),
        ("a.b.c", {"a.b.c": "x", "a": {"b": {"c": "y"}}}),  # The key as it is written goes first.
    ],
)
def test_a_path_reaches_into_objects_and_finds_keys_with_dots(path: str, row: object) -> None:
    found = only(FieldMap(process=(path,)), row)
    assert isinstance(found, Unnumbered)
    assert found.process == "x"


def test_of_several_fields_those_of_a_process_are_joined_and_of_others_the_first_counts() -> None:
    fields = FieldMap(process=("service", "pod"), name=("msg", "message"), attributes=())

    assert only(fields, {"service": "a", "pod": "1", "message": "hi"}) == Unnumbered(process="a:1", name="hi")
    assert only(fields, {"pod": "1", "msg": "hi", "message": "no"}) == Unnumbered(process="1", name="hi")


def test_an_id_of_several_fields_needs_all_of_them() -> None:
    fields = FieldMap(process=("p",), sends=("from", "seq"), attributes=())

    assert only(fields, {"p": "a", "from": "a", "seq": 0}) == Unnumbered(process="a", sends=("a:0",))
    assert only(fields, {"p": "a", "from": "a"}) == Unnumbered(process="a")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("m", ("m",)), (["m", 2], ("m", "2")), ([], ()), (None, ()), ("", ()), (17, ("17",)), ("m; n;", ("m", "n"))],
)
def test_message_ids_are_a_text_or_a_list(value: object, expected: tuple[str, ...]) -> None:
    fields = FieldMap(process=("p",), receives=("in",), separator=";")
    assert only(fields, {"p": "a", "in": value}) == Unnumbered(process="a", receives=expected)


def test_what_nothing_reads_is_kept_as_an_attribute() -> None:
    fields = FieldMap(process=("res.service",), name=("msg", "text"), level=("severity",))
    row = {
        "res": {"service": "a", "zone": 1},
        "msg": "hi",
        "text": "too",
        "severity": "WARNING",
        "level": 3,
        "on": True,
        "none": None,
    }

    assert only(fields, row) == Unnumbered(
        process="a",
        name="hi",
        attributes={
            "level": "warn",
            "res": '{"service":"a","zone":1}',  # Only a part of it was read.
            "text": "too",
            "field.level": "3",
            "on": "true",
        },
    )


def test_a_kind_that_is_neither_send_nor_receive_makes_a_local_event_and_loses_nothing() -> None:
    fields = FieldMap(process=("p",), kind=("type",), message=("id",))

    assert only(fields, {"p": "a", "type": "send", "id": "m"}) == Unnumbered(process="a", sends=("m",))
    assert only(fields, {"p": "a", "type": "RECEIVE", "id": "m"}) == Unnumbered(process="a", receives=("m",))
    assert only(fields, {"p": "a", "type": "tick", "id": "m"}) == Unnumbered(
        process="a", attributes={"type": "tick", "id": "m"}
    )
    assert 'says send, but field "id" names no message' in refused(fields, {"p": "a", "type": "send"}).detail


def test_indexes_and_clocks_are_read_from_numbers_and_texts() -> None:
    fields = FieldMap(process=("p",), index=("seq",), clock=("vc",))
    expected = Unnumbered(process="a", index=7, clock={"a": 7, "b": 2})

    assert only(fields, {"p": "a", "seq": 7, "vc": {"a": 7, "b": 2}}) == expected
    assert only(fields, {"p": "a", "seq": "7", "vc": '{"a": 7, "b": 2}'}) == expected


@pytest.mark.parametrize(
    ("row", "reason", "says"),
    [
        ([], "not-an-event", "not an object of fields"),
        ({}, "not-an-event", 'there is no field "p", so no process'),
        ({"p": ["a"]}, "not-an-event", 'field "p" is ["a"], not a text'),
        ({"p": "a", "seq": 1.5}, "not-an-event", 'field "seq" is "1.5", not an integer'),
        ({"p": "a", "seq": 0}, "not-an-event", "index 0"),
        ({"p": "a", "out": ["m", "m"]}, "not-an-event", "names a message twice"),
        ({"p": "a", "out": [{"id": 1}]}, "not-an-event", 'field "out" is {"id": 1}, not a text'),
        ({"p": "a", "vc": 5}, "not-an-event", 'field "vc" is 5, not an object like'),
        ({"p": "a", "vc": '{"a":1,"a":2}'}, "not-an-event", "written twice"),
        ({"p": "a", "vc": {"a": "x"}}, "not-an-event", 'field "vc" of "a" is "x", not an integer'),
        ({"p": "a", "t": "noon"}, "not-an-event", "field \"t\": time 'noon' is not RFC 3339"),
        ({"p": "a", "t": 5}, "not-an-event", "say its unit with time_unit"),
    ],
)
def test_a_row_that_makes_no_event_is_refused_with_the_field(row: object, reason: str, says: str) -> None:
    fields = FieldMap(process=("p",), index=("seq",), sends=("out",), clock=("vc",), time=("t",))
    found = refused(fields, row)

    assert found.reason == reason
    assert says in found.detail
    assert (found.file, found.line, found.offset, found.text) == ("f", 1, 0, json.dumps(row))


def test_lines_are_refused_as_in_the_native_format() -> None:
    fields = FieldMap(process=("p",))
    lines = [
        (0, b"{"),
        (1, b" "),
        (2, b'{"p":"a","p":"b"}'),
        (3, b'{"p":"' + b"a" * 90 + b'"}'),
        (4, b'{"p":[[[]]]}'),
    ]
    found = list(fields.read_lines(lines, limits=Limits(line_bytes_max=80, depth_max=3)))

    assert [item.reason for item in found if isinstance(item, Rejection)] == [
        "not-json", "key-twice", "line-too-long", "too-deep",
    ]  # fmt: skip


# Spans.


def test_a_row_with_a_start_is_a_span() -> None:
    row = {
        "service": "cart", "trace": "AB", "span": "1", "parent": "2", "start": 1_000, "took": 3, "op": "get",
        "kind": "SERVER", "level": "ERROR", "user": 5,
    }  # fmt: skip
    assert only(SPANS, row) == Span(
        trace_id="00000000000000ab",
        span_id="0000000000000001",
        references=(Reference("00000000000000ab", "0000000000000002", ReferenceKind.CHILD_OF),),
        service="cart",
        name="get",
        kind=SpanKind.SERVER,
        start_ns=1_000,
        end_ns=4_000,
        error=True,
        attributes={"level": "error", "user": "5"},
    )


@pytest.mark.parametrize(
    ("times", "start", "end", "kept"),
    [
        ({"start": 5_000}, 5_000, None, {}),
        ({"start": 5_000, "end": 9_000}, 5_000, 9_000, {}),
        ({"end": 9_000, "took": 4}, 5_000, 9_000, {}),
        ({"end": 9_000}, None, 9_000, {}),
        ({"start": 5_000, "end": 9_000, "took": 1}, 5_000, 9_000, {"took": "1"}),  # It was not needed.
    ],
)
def test_of_start_end_and_duration_two_are_enough(
    times: dict[str, int], start: int | None, end: int | None, kept: dict[str, str]
) -> None:
    found = only(SPANS, {"service": "a", "trace": "1", "span": "2", **times})

    assert isinstance(found, Span)
    assert (found.start_ns, found.end_ns, found.attributes) == (start, end, kept)


def test_a_row_without_start_and_end_is_a_log_record() -> None:
    row = {"service": "a", "trace": "1", "span": "2", "ts": 7, "op": "hi", "level": "Warning", "parent": "9"}
    assert only(SPANS, row) == LogRecord(
        trace_id="0000000000000001",
        span_id="0000000000000002",
        service="a",
        time_ns=7,
        level="warn",
        name="hi",
        attributes={"level": "warn", "parent": "9"},
    )


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"service": "a", "start": 1}, 'a span needs both field "trace" and field "span"'),
        ({"service": "a", "trace": "1", "span": "2", "start": -1}, "not between 1970 and 2262"),
        ({"service": "a", "trace": "1", "span": "2", "start": 1, "took": "long"}, '"long" is not a number of us'),
        ({"trace": "1", "span": "2", "start": 1}, "so no process"),
    ],
)
def test_a_row_that_makes_no_span_is_refused(row: object, says: str) -> None:
    found = refused(SPANS, row)
    assert found.reason == "not-a-span"
    assert says in found.detail


# Files.


def test_events_without_an_index_are_numbered_by_path_and_line(tmp_path: Path) -> None:
    (tmp_path / "b").write_text('{"p":"x"}\n{"p":"y","n":1}\n')
    (tmp_path / "a").write_text('{"p":"x"}\n')
    found = list(read_mapped([tmp_path / "b", tmp_path / "a"], FieldMap(process=("p",), index=("n",))))

    assert found == [
        Event(process="x", index=1), Event(process="x", index=2), Event(process="y", index=1),
    ]  # fmt: skip


def test_a_process_with_and_without_indexes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"p":"x"}\n{"p":"x","n":1}\n')
    [_, found] = read_mapped(tmp_path / "a", FieldMap(process=("p",), index=("n",)))

    assert isinstance(found, Rejection)
    assert (found.reason, found.offset) == ("index-mixed", 10)


def test_a_missing_file_is_told_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot open"):
        read_mapped(tmp_path / "none", FieldMap(process=("p",)))


def test_csv_is_not_read_by_lines() -> None:
    with pytest.raises(InputError, match="cannot be read by lines"):
        FieldMap(format="csv", process=("p",)).read_lines([])


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc.d"), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["a", "b", "c", "a.b", "a.b.c", "b.d"])


@given(
    st.builds(
        lambda **settings: FieldMap(**{key: (value,) for key, value in settings.items()}),
        process=NAMES, time=NAMES, name=NAMES, index=NAMES, sends=NAMES, clock=NAMES, execution=NAMES, level=NAMES,
    ),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d", "a.b"]), VALUES, max_size=4),
)  # fmt: skip
def test_every_row_gives_a_record_or_a_rejection(fields: FieldMap, row: dict[str, object]) -> None:
    [found] = read(fields, row)
    assert isinstance(found, Unnumbered) or found.reason in ("not-an-event", "not-json")
