"""Times of channels: safe, the same in a replay, and at rest when nothing can wait."""

from __future__ import annotations

import pytest

from beforehand.errors import InputError
from beforehand.pipeline.merging.file_source import FilesDataSource
from beforehand.pipeline.merging.times import TimeRules, arrival_after

RULES = TimeRules(span_ns=100, grace_ns=10)


def started(arrival: int, time: int) -> dict[str, int]:
    return {"arrival": arrival, "time": time}


def test_while_there_is_more_to_read_time_is_the_last_arrival() -> None:
    assert RULES.times({"s": started(0, 0)}, {"s": 500}, {"s": False}, now_ns=10_000) == {"s": 500}


def test_a_drained_partition_follows_the_wall_clock_less_the_grace() -> None:
    assert RULES.times({"s": started(500, 500)}, {"s": 500}, {"s": True}, now_ns=550) == {"s": 540}


def test_time_rests_when_nothing_can_wait_any_more() -> None:
    assert RULES.times({"s": started(500, 590)}, {"s": 500}, {"s": True}, now_ns=10_000) == {"s": 600}
    assert RULES.times({"s": started(500, 600)}, {"s": 500}, {"s": True}, now_ns=20_000) == {"s": 600}


def test_nothing_has_arrived_and_no_time_passes() -> None:
    assert RULES.times({"s": started(0, 0)}, {"s": 0}, {"s": True}, now_ns=10_000) == {"s": 0}


def test_time_does_not_go_back_when_the_wall_clock_does() -> None:
    assert RULES.times({"s": started(500, 580)}, {"s": 500}, {"s": True}, now_ns=520) == {"s": 580}


def test_an_empty_partition_does_not_hold_up_the_others() -> None:
    times = RULES.times(
        {"a": started(0, 0), "b": started(400, 400)}, {"a": 0, "b": 500}, {"a": True, "b": True}, now_ns=10_000
    )
    assert times == {"a": 600, "b": 600}


def test_a_partition_with_more_to_read_holds_up_the_others() -> None:
    times = RULES.times(
        {"a": started(100, 100), "b": started(400, 400)}, {"a": 200, "b": 500}, {"a": False, "b": True}, now_ns=10_000
    )
    assert times == {"a": 200, "b": 600}


def test_a_flush_ends_all_waiting_at_once() -> None:
    rules = TimeRules(span_ns=100, grace_ns=10, flush=True)
    assert rules.times({"s": started(0, 0)}, {"s": 500}, {"s": True}, now_ns=0) == {"s": 600}
    assert rules.times({"s": started(0, 0)}, {"s": 500}, {"s": False}, now_ns=0) == {"s": 500}


def test_after_a_clock_that_was_far_ahead_time_follows_the_arrivals_back() -> None:
    assert RULES.times({"s": started(9_000, 9_000)}, {"s": 500}, {"s": False}, now_ns=600) == {"s": 500}


def test_arrivals_do_not_go_back_unless_the_clock_was_far_ahead() -> None:
    assert arrival_after(500, 600, span_ns=100) == 600
    assert arrival_after(500, 400, span_ns=100) == 500
    assert arrival_after(500, 399, span_ns=100) == 399


def test_rules_come_from_the_options_of_a_source() -> None:
    assert TimeRules.read({}) is None
    assert TimeRules.read({"span_ns": "5"}) == TimeRules(span_ns=5, grace_ns=10**9)
    given = {"span_ns": "5", "grace_ns": "7", "flush": "true"}
    assert TimeRules.read(given) == TimeRules(span_ns=5, grace_ns=7, flush=True)


@pytest.mark.parametrize("name", ["span_ns", "grace_ns", "bytes_max"])
def test_an_option_that_is_no_number_is_one_clear_line(name: str) -> None:
    with pytest.raises(InputError, match=f"the option {name} is no whole number: 'soon'"):
        FilesDataSource({"path": ".", name: "soon"}).streamReader(None)  # type: ignore[arg-type]
