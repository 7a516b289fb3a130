"""The two layouts of two-line records, told apart; formats guessed from the head of a file."""

from __future__ import annotations

import io

import pytest

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats.vector_logs.layouts import choose_layout, guess_format
from beforehand.formats.vector_logs.shiviz import TimeUnit, read_shiviz
from vector_logs import split


def read(text: str) -> tuple[list[Event], list[Rejection]]:
    return split(read_shiviz(io.BytesIO(text.encode()), file="f"))


def test_default_layout_is_event_line_then_clock_line() -> None:
    events, rejections = read('start\na {"a":1}\n  go "on" ü\nb {"a": 1, "b":1, "c":0} \n')

    assert not rejections
    assert events == [
        Event(process="a", index=1, name="start", clock={"a": 1}, sends=("~a:1",)),
        Event(process="b", index=1, name='  go "on" ü', clock={"a": 1, "b": 1}, receives=("~a:1",)),
    ]


def test_clock_line_straight_after_another_has_an_empty_name() -> None:
    events, rejections = read('x\na {"a":1}\na {"a":2}\ny\na {"a":3}\n')

    assert not rejections
    assert [e.name for e in events] == ["x", "", "y"]


def test_event_text_that_looks_like_a_clock_line_is_read_as_text() -> None:
    events, rejections = read('Received {"id":5}\na {"a":1}\nSent {"a":1}\na {"a":2}\n')

    assert not rejections
    assert [e.name for e in events] == ['Received {"id":5}', 'Sent {"a":1}']


def test_unclear_layout_is_told() -> None:
    # Cut at both ends: nobody can tell whether "y" belongs to the clock before or after it.
    _, rejections = read('x\na {"a":1}\ny\na {"a":2}\nz\n')

    assert [(r.reason, r.line) for r in rejections] == [("layout-unclear", 1), ("unmatched", 5)]
    assert "covers 4 line(s), with 0 hole(s)" in rejections[0].detail


def test_log_that_stops_after_a_clock_line_starts_where_its_processes_start() -> None:
    # Equally many lines fit both layouts, but with event line first process a would start at 2.
    events, rejections = read('a {"a":1}\nx\na {"a":2}\ny\na {"a":3}\n')

    assert [(e.index, e.name) for e in events] == [(1, "x"), (2, "y")]
    assert [(r.reason, r.line) for r in rejections] == [("unmatched", 5)]


def test_clock_line_first_is_recognized() -> None:
    events, rejections = read('a {"a":1}\nx\na {"a":2}\ny\n')

    assert not rejections
    assert [(e.index, e.name) for e in events] == [(1, "x"), (2, "y")]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'x\na {"a":1}\ny\na {"a":2}\n', "shiviz"),
        (b'a {"a":1}\nx\na {"a":2}\ny\n', "govector"),
        (b'12 a {"a":1}\nx\n', "govector"),
        (b"(?<host>)(?<clock>)(?<event>)\n\n", "shiviz"),
        (b'\n{"TracerIdentity":"a","VectorClock":{"a":1}}\n{"Trac', "tracing"),
        (b'{"process":"a"}\n', None),
        (b"hello\nworld\n", None),
        (b"", None),
        (bytes(range(256)), None),
    ],
)
def test_format_is_guessed_from_the_head_of_a_file(head: bytes, expected: str | None) -> None:
    assert guess_format(head) == expected


def test_covered_lines_decide_before_holes_and_what_speaks_against_it_is_told() -> None:
    # Clock line first covers four lines and misses the last clock; event line first has all clocks and no text.
    choice = choose_layout('\na {"a":1}\nx\n\na {"a":2}\ny\n\na {"a":3}')

    assert (choice.layout.name, choice.clear) == ("govector", False)
    assert "event line first covers 3 line(s), with 0 hole(s)" in choice.why
    assert "clock line first 4, 1 and 0" in choice.why


# What a header with only a regex leaves open: whether the second line delimits executions.

ONE_LINE = r"^(?<host>\S+) (?<clock>\{.*?\}) (?<event>.*)$"
TWO_LINES = r"(?<event>.*)\n(?<host>\S*) (?<clock>\{.*\})"


def test_second_line_that_is_a_record_is_no_delimiter_even_if_it_comes_again() -> None:
    events, rejections = read(f'{ONE_LINE}\na {{"a":1}} x\nb {{"b":1}} y\na {{"a":1}} x\n')

    assert [(e.execution, str(e.id)) for e in events] == [("", "a:1"), ("", "b:1"), ("", "a:1")]
    assert rejections == []


def test_second_line_that_begins_a_record_of_two_lines_is_no_delimiter() -> None:
    events, rejections = read(f'{TWO_LINES}\nstart\na {{"a":1}}\nrestart\na {{"a":2}}\nstart\nb {{"b":1}}\n')

    assert [(e.execution, e.name) for e in events] == [("", "start"), ("", "restart"), ("", "start")]
    assert rejections == []


def test_second_line_that_could_be_either_is_a_delimiter_and_told() -> None:
    events, [rejection] = read(f'{ONE_LINE}\n----\na {{"a":1}} x\n----\na {{"a":1}} y\n')

    assert [(e.execution, e.name) for e in events] == [("", "x"), ("1", "y")]
    assert (rejection.reason, rejection.line, rejection.text) == ("layout-unclear", 2, "----")
    assert "blank" in rejection.detail


@pytest.mark.parametrize("delimiter", ["^----", "----$", "^--+$", "-(?<trace>-)--"])
def test_second_line_that_can_only_be_a_delimiter_is_one(delimiter: str) -> None:
    events, rejections = read(f'{ONE_LINE}\n{delimiter}\na {{"a":1}} x\n----\na {{"a":1}} y\n')

    assert len({e.execution for e in events}) == 2
    assert rejections == []


def test_second_line_that_only_looks_like_a_record_may_delimit() -> None:
    lax = r"^(?<host>\S+) (?<clock>\S+) (?<event>.*)$"  # It matches "^== new run", whose clock is none.

    events, rejections = read(f'{lax}\n^== new run\na {{"a":1}} x\n== new run\na {{"a":1}} y\n')

    assert [(e.execution, e.name) for e in events] == [("", "x"), ("1", "y")]
    assert rejections == []


def test_label_that_takes_no_part_in_a_delimiter_is_empty() -> None:
    events, rejections = split(
        read_shiviz(
            io.BytesIO(b'--b\na {"a":1} x\n--\na {"a":1} y\n--\na {"a":1} z\n'),
            regex=ONE_LINE,
            delimiter=r"^--(?<trace>\w+)?$",
        )
    )

    assert [(e.execution, e.name) for e in events] == [("b", "x"), ("", "y"), ("(2)", "z")]
    assert [r.reason for r in rejections] == ["execution-twice"]


# Times.

TIMED = r"^(?<timestamp>\d+) (?<host>\S+) (?<clock>\{.*?\}) (?<event>.*)$"


def timed(stamp: int, unit: TimeUnit = "ns") -> Event:
    events, _ = split(read_shiviz(io.BytesIO(f'{stamp} a {{"a":1}} x\n'.encode()), regex=TIMED, time_unit=unit))
    return events[0]


@pytest.mark.parametrize(("unit", "time"), [("ns", 7), ("us", 7_000), ("ms", 7_000_000), ("s", 7_000_000_000)])
def test_unit_of_timestamps_may_be_given(unit: TimeUnit, time: int) -> None:
    assert timed(7, unit).time == time


@pytest.mark.parametrize(
    ("stamp", "unit", "time"),
    [
        (2**63 - 1, "ns", 2**63 - 1),
        (2**63, "ns", None),
        (9_223_372_036, "s", 9_223_372_036 * 10**9),
        (9_223_372_037, "s", None),
        (10**19, "ns", None),
    ],
)
def test_timestamp_beyond_64_bits_stays_an_attribute(stamp: int, unit: TimeUnit, time: int | None) -> None:
    event = timed(stamp, unit)

    assert event.time == time
    assert event.attributes == ({"timestamp": str(stamp)} if time is None else {})


def test_unknown_unit_is_an_error_at_once() -> None:
    with pytest.raises(InputError, match="time_unit 'h' is none of ns, us, ms, s"):
        read_shiviz(io.BytesIO(b""), time_unit="h")  # type: ignore[arg-type]
