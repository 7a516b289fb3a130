"""The two layouts of two-line records, told apart; formats guessed from the head of a file."""

from __future__ import annotations

import io

import pytest

from beforehand.events import Event, Rejection
from beforehand.formats.vector_logs.layouts import guess_format
from beforehand.formats.vector_logs.shiviz import read_shiviz
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
