"""GoVector logs: clock line first, priorities, timestamps, appended executions, files per process."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats.vector_logs.govector import read_govector
from beforehand.formats.vector_logs.whole_text import TextLimits
from beforehand.history import History
from real_data import real_file
from vector_logs import check_order, clocks, random_history, split


def read(text: str | bytes) -> tuple[list[Event], list[Rejection]]:
    return split(read_govector(io.BytesIO(text if isinstance(text, bytes) else text.encode()), file="f"))


def written(process: str, clock: dict[str, int]) -> str:
    """As GoVector writes it: sorted, a blank after each comma, nothing escaped."""
    entries = ", ".join(f'"{name}":{count}' for name, count in sorted(clock.items()))
    return f"{process} {{{entries}}}"


def test_clock_line_first_then_the_message() -> None:
    events, rejections = read(
        'a {"a":1}\nInitialization Complete\na {"a":2}\nINFO Sending "ping"\nb {"a":2, "b":1}\nERROR no ü\n'
    )

    assert not rejections
    assert events == [
        Event(process="a", index=1, name="Initialization Complete", clock={"a": 1}),
        Event(
            process="a",
            index=2,
            name='Sending "ping"',
            attributes={"priority": "INFO"},
            clock={"a": 2},
            sends=("~a:2",),
        ),
        Event(
            process="b",
            index=1,
            name="no ü",
            attributes={"priority": "ERROR"},
            clock={"a": 2, "b": 1},
            receives=("~a:2",),
        ),
    ]


@pytest.mark.parametrize("message", ["INFORMATION", "INFO", "info x", "TRACE x", "An INFO x"])
def test_what_is_no_priority_stays_in_the_name(message: str) -> None:
    [event], _ = read(f'a {{"a":1}}\n{message}\n')

    assert (event.name, event.attributes) == (message, {})


def test_timestamps_in_nanoseconds_become_times_and_numeric_names_stay_names() -> None:
    events, rejections = read('1544050431000000001 a {"a":1}\nx\n24464 {"24464":1}\ny\n')

    assert not rejections
    assert [(e.process, e.time, e.attributes) for e in events] == [
        ("a", 1544050431000000001, {}),
        ("24464", None, {}),
    ]


def test_appended_executions_are_divided() -> None:
    events, rejections = read(
        'a {"a":1}\nInitialization Complete\na {"a":2}\n=== no label ===\n'
        ' \n=== Execution #Thu Dec  6 10:53:51 PST 2018  ===\na {"a":1}\nINFO one\n'
        ' \n=== Execution #Thu Dec  6 10:54:00 PST 2018  ===\na {"a":1}\nINFO two\n'
    )

    assert not rejections
    assert [(e.execution, e.name) for e in events] == [
        ("", "Initialization Complete"),
        ("", "=== no label ==="),
        ("Execution #Thu Dec  6 10:53:51 PST 2018", "one"),
        ("Execution #Thu Dec  6 10:54:00 PST 2018", "two"),
    ]


def test_file_that_begins_with_an_execution_has_no_other() -> None:
    events, rejections = read(' \n=== Execution #1  ===\na {"a":1}\none\n')

    assert not rejections
    assert [e.execution for e in events] == ["Execution #1"]


def test_further_lines_of_a_message_are_told() -> None:
    events, [rejection] = read('a {"a":1}\nfirst\nsecond\nthird\na {"a":2}\nnext\n')

    assert [e.name for e in events] == ["first", "next"]
    assert (rejection.reason, rejection.line, rejection.text) == ("unmatched", 3, "second\nthird")


def test_quote_in_a_process_name_is_refused_with_its_line() -> None:
    events, rejections = read('a {"a":1}\nx\nb"c {"b"c":1}\ny\n')

    assert len(events) == 1
    assert [(r.reason, r.line) for r in rejections] == [("not-a-clock", 3)]


def test_log_cut_inside_its_last_record_tells_it() -> None:
    events, rejections = read('a {"a":1}\nx\na {"a":2}\ny\na {"a":')

    assert len(events) == 2
    assert [(r.reason, r.line) for r in rejections] == [("unmatched", 5)]


def test_header_of_the_merge_tool_is_passed_over() -> None:
    events, rejections = read('(?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)\n\na {"a":1}\nx\n')

    assert not rejections
    assert [e.name for e in events] == ["x"]


def test_other_layout_is_told() -> None:
    _, rejections = read('x\na {"a":1}\ny\na {"a":2}\n')

    assert rejections[0].reason == "layout-unclear"
    assert "shiviz fits better" in rejections[0].detail


def test_files_of_processes_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "b-Log.txt").write_text('b {"a":1, "b":1}\nreceived\n')
    (tmp_path / "a-Log.txt").write_text('a {"a":1}\nsent\n')

    events, rejections = split(read_govector(tmp_path.iterdir()))

    assert not rejections
    assert [(e.name, e.sends, e.receives) for e in events] == [("sent", ("~a:1",), ()), ("received", (), ("~a:1",))]


def test_files_together_must_keep_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 300)
    (tmp_path / "b.txt").write_text("x\n" * 300)

    with pytest.raises(InputError, match=r"b\.txt: more than 1000 bytes"):
        list(read_govector(tmp_path.iterdir(), limits=TextLimits(text_bytes_max=1_000)))


@given(st.integers(0, 10**9), st.booleans())
def test_log_gives_back_the_order_that_it_was_written_from(seed: int, stamped: bool) -> None:
    random, steps = random_history(seed)
    records = [
        (f"{1_000_000 + at} " if stamped else "") + f"{written(step.process, clock)}\nevent {at} of {step.process}\n"
        for at, (step, clock) in enumerate(zip(steps, clocks(steps), strict=True))
    ]
    random.shuffle(records)

    events, rejections = read("".join(records))

    assert not rejections
    assert all((e.time is not None) == stamped for e in events)
    history = check_order(events, steps)
    assert history.check().counts["clock"] == 0


@given(st.binary(max_size=200) | st.text(st.sampled_from('ab {}":12,\n\r=x\\'), max_size=80).map(str.encode))
def test_any_bytes_give_findings(data: bytes) -> None:
    events, rejections = read(data)

    History.by_execution(events)
    if data.decode("utf-8", "replace").removeprefix("\ufeff").strip():
        assert events or rejections


def test_real_log_of_chord() -> None:
    events, rejections = split(read_govector(real_file("shiviz/chord.log")))
    history = History(events)

    assert not rejections
    assert (len(history), len(history.processes), sum(bool(e.receives) for e in events)) == (1235, 8, 541)
    assert history.check().counts["clock"] == 0
    assert events[1].name == "Sending Put request for '90'"
