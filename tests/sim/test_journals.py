"""Journals of real members become a record, which the judge of simulated runs reads."""

from __future__ import annotations

import pytest

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.ordering import PROTOCOLS
from beforehand.sim.journals import record_of
from beforehand.sim.verdict import judge_record

SINGLE_PHASE = PROTOCOLS["single-phase"].traits
CAUSAL_MERGE = PROTOCOLS["causal-merge"].traits


def journal(process: str, *names: str) -> list[Event]:
    """As `read_journal` gives it."""
    return [
        Event(
            process=process,
            index=index,
            time=index,
            name=name,
            sends=(name.split()[1],) if name.startswith("send") else (),
            receives=(name.split()[1],) if name.startswith("deliver") else (),
        )
        for index, name in enumerate(names, start=1)
    ]


A = journal("a", "send a.1", "deliver a.1", "deliver b.1", "view 1: a b", "deliver b.2")
B = journal("b", "send b.1", "deliver a.1", "deliver b.1", "view 1: a b", "send b.2", "deliver b.2")
C = journal("c", "deliver a.1", "send c.1", "deliver c.1")


def failures(*journals: list[Event], **given: set[str]) -> tuple[str, ...]:
    record = record_of({one[0].process: one for one in journals}, "abc", SINGLE_PHASE, acknowledged=given)
    return judge_record(record, SINGLE_PHASE).failures


def test_members_that_kept_every_promise_pass() -> None:
    assert failures(A, B, C) == ()
    assert failures(A, B, C, a={"a.1"}) == ()


def test_what_goes_to_whom_follows_from_the_view_in_which_it_was_sent() -> None:
    record = record_of({"a": A, "b": B, "c": C}, "abc", SINGLE_PHASE)
    assert record.sent["b.1"][0].to == ("a", "b", "c")
    assert record.sent["b.2"][0].to == ("a", "b")
    assert list(record.departed) == ["c"]
    assert record.views["a"] == [(1, ("a", "b"), 2)]


def test_deliveries_that_are_swapped_are_found() -> None:
    swapped = journal("b", "send b.1", "deliver b.1", "deliver a.1", "view 1: a b", "send b.2", "deliver b.2")
    assert any("total order" in failure for failure in failures(A, swapped, C))


def test_a_view_at_another_place_is_found() -> None:
    early = journal("b", "send b.1", "deliver a.1", "view 1: a b", "deliver b.1", "send b.2", "deliver b.2")
    assert "b.1 was delivered before view 1 at one of a and b only" in failures(A, early, C)


def test_a_message_that_is_lost_or_repeated_is_found() -> None:
    assert "a never delivered b.2" in failures(A[:-1], B, C)
    assert "a delivered b.2 2 times" in failures([*A, *journal("a", *["x"] * 5, "deliver b.2")[5:]], B, C)


def test_what_one_that_was_evicted_was_told_is_stable_those_who_stay_must_have() -> None:
    assert "a never delivered c.1, which c was told is stable" in failures(A, B, C, c={"c.1"})
    assert "c was told that c.9 is stable, which nobody sent" in failures(A, B, C, c={"c.9"})


def test_up_to_what_it_knew_is_stable_one_that_was_evicted_delivered_as_the_others() -> None:
    late = journal("c", "send c.1", "deliver c.1", "deliver a.1")
    of_a = journal("a", "send a.1", "deliver a.1", "deliver c.1", "view 1: a b")
    of_b = journal("b", "deliver a.1", "deliver c.1", "view 1: a b")
    assert failures(of_a, of_b, late) == ()
    assert "c and a differ before c.1, which c knew is stable" in failures(of_a, of_b, late, c={"c.1"})


def test_what_was_set_aside_is_no_loss_and_what_one_that_stopped_sent_to_some_neither() -> None:
    a = journal("a", "send a.1", "deliver a.1", "deliver c.1")
    b = journal("b", "set aside a.1: late")
    c = journal("c", "send c.1", "deliver c.1", "deliver a.1")
    record = record_of({"a": a, "b": b, "c": c}, "abc", CAUSAL_MERGE, stopped="c")
    assert judge_record(record, CAUSAL_MERGE).failures == ()


def test_what_was_set_aside_and_never_sent_is_refused() -> None:
    with pytest.raises(InputError, match=r"b set aside a.1, which is in no journal as sent"):
        record_of({"b": journal("b", "set aside a.1: late")}, "ab", CAUSAL_MERGE)


def test_the_journal_of_a_long_run_is_judged_in_one_pass() -> None:
    # All pairs of so many messages would take tens of gigabytes: a soak of a quarter of an hour died of it.
    many = 30_000
    a = journal("a", *(f"{what} a.{at}" for at in range(1, many + 1) for what in ("send", "deliver")))
    b = journal("b", *(f"deliver a.{at}" for at in range(1, many)))

    record = record_of({"a": a, "b": b}, "ab", SINGLE_PHASE)

    assert judge_record(record, SINGLE_PHASE).failures == (f"b never delivered a.{many}",)
