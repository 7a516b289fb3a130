"""The lecture on order ("Logic Clocks"), after Lamport 1978."""

from __future__ import annotations

from random import Random

import pytest

from beforehand.clocks import LamportClock, LamportStamp, Relation
from beforehand.errors import ClockExhaustedError, FutureStampError
from random_histories import pasts, random_steps


def test_the_update_rule_takes_the_maximum_and_adds_one() -> None:
    clock = LamportClock("p")
    assert clock.tick().time == 1  # A local event or a send.
    assert clock.receive(LamportStamp(7, "q")).time == 8  # The message is ahead.
    assert clock.receive(LamportStamp(3, "q")).time == 9  # The message is behind.
    assert clock.receive(LamportStamp(9, "q")).time == 10  # They are equal.


def test_the_weak_clock_condition_holds_and_its_converse_does_not() -> None:
    steps = random_steps(Random(3), steps=200)
    past = pasts(steps)
    clocks: dict[str, LamportClock] = {}
    sent: dict[str, LamportStamp] = {}
    stamps: list[LamportStamp] = []
    for step in steps:
        clock = clocks.setdefault(step.process, LamportClock(step.process))
        stamp = clock.stamp()
        for message in step.receives:
            stamp = clock.receive(sent[message])
        if not step.receives:
            stamp = clock.tick()
        sent.update(dict.fromkeys(step.sends, stamp))
        stamps.append(stamp)
    converse_fails = 0
    for f in range(len(steps)):
        for e in range(f):
            if past[f] >> e & 1:
                assert stamps[e].time < stamps[f].time
            else:
                converse_fails += stamps[e].time < stamps[f].time
    assert converse_fails > 100


def test_ties_go_by_process_and_are_concurrent() -> None:
    a, b = LamportStamp(4, "a"), LamportStamp(4, "b")
    assert a < b
    assert a.compare(b) is Relation.CONCURRENT
    assert a.compare(a) is Relation.EQUAL


def test_one_forged_stamp_cannot_use_up_the_range() -> None:
    clock = LamportClock("p")
    with pytest.raises(FutureStampError):
        clock.receive(LamportStamp(2**63 - 1, "q"))
    assert clock.tick().time == 1


def test_the_end_of_the_range_is_an_error_not_a_wrap() -> None:
    clock = LamportClock("p", start=2**63 - 2)
    assert clock.tick().time == 2**63 - 1
    with pytest.raises(ClockExhaustedError):
        clock.tick()
