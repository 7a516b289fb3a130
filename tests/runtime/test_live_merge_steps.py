"""The live merger step by step, with fetched messages made by hand: time, arrivals and what a restart reads again."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any, cast

from live_streams import MS, SETTINGS, headers_of

from beforehand.clocks import BoundedStamp
from beforehand.runtime import Fetched, LineOutput, LiveMerger, Stored, StreamAddress

START = 1_790_000_000_000  # In ticks of a millisecond.
WIDTH = SETTINGS.bounds.width
SOURCE = StreamAddress(server="nats://nowhere", stream="S")
WAIT = 160  # δ + ε


def stored(sequence: int, *, r: int, arrival: int, publisher: str = "p") -> Stored:
    """A message with a clock that read START + r, stored at START + arrival."""
    stamp = BoundedStamp(START + r, 0, (0,) * WIDTH + (1,) + (0,) * (WIDTH - 1), SETTINGS.bounds.modulus)
    headers = headers_of(publisher, sequence, stamp)
    return Stored(sequence, (START + arrival) * MS, "S.a", headers, str(sequence).encode())


class Steps:
    """A merger whose output is lines in memory."""

    def __init__(self, grace_ms: int = 10) -> None:
        self.lines, self.aside = io.BytesIO(), io.BytesIO()
        output = LineOutput(self.lines, self.aside)
        self.merger = LiveMerger(cast(Any, None), SOURCE, output, SETTINGS, grace_ns=grace_ms * MS)

    def step(self, *messages: Stored, drained_at: int | None = None) -> list[int]:
        """What it released, as sequences, in this step."""
        before = len(self.lines.getvalue().splitlines())
        asked = 0 if drained_at is None else (START + drained_at) * MS
        asyncio.run(self.merger._step(Fetched(list(messages), drained_at is not None, asked)))
        return [json.loads(line)["sequence"] for line in self.lines.getvalue().splitlines()[before:]]

    def reasons(self) -> list[str]:
        return [json.loads(line)["reason"] for line in self.aside.getvalue().splitlines()]


def test_while_there_is_more_to_read_time_is_the_last_arrival() -> None:
    steps = Steps()

    assert steps.step(stored(1, r=0, arrival=5)) == []
    assert steps.step(stored(2, r=100, arrival=WAIT - 1)) == []
    assert steps.step(stored(3, r=100, arrival=WAIT)) == [1]


def test_once_drained_time_is_when_we_asked_less_the_grace() -> None:
    steps = Steps(grace_ms=10)
    steps.step(stored(1, r=0, arrival=5))

    assert steps.step(drained_at=WAIT + 9) == []
    assert steps.step(drained_at=WAIT + 10) == [1]


def test_a_message_that_was_stored_as_we_asked_still_finds_its_place() -> None:
    steps = Steps(grace_ms=10)
    steps.step(stored(1, r=5, arrival=6))
    steps.step(drained_at=WAIT + 4)

    # Stored just after, on a clock that is 10 ms behind ours, at the last moment that is not late.
    assert steps.step(stored(2, r=4, arrival=154)) == []
    assert steps.step(drained_at=WAIT + 20) == [2, 1]
    assert steps.reasons() == []


def test_arrivals_never_go_back_though_the_clock_of_the_broker_does() -> None:
    steps = Steps()
    steps.step(stored(1, r=100, arrival=100))

    steps.step(stored(2, r=-60, arrival=80))  # At 80 it would be in time; it came after what arrived at 100.

    assert steps.reasons() == ["late"]


def test_time_never_goes_back() -> None:
    steps = Steps()
    steps.step(stored(1, r=0, arrival=5))
    steps.step(drained_at=WAIT + 10)

    assert steps.step(stored(2, r=50, arrival=60), drained_at=100) == []
    assert steps.step(drained_at=WAIT + 60) == [2]


def test_reading_begins_again_at_the_first_that_waits() -> None:
    steps = Steps()
    steps.step(stored(1, r=0, arrival=5), stored(2, r=30, arrival=31), stored(3, r=10, arrival=32))

    first = steps.merger._checkpoint()
    steps.step(drained_at=WAIT + 10)
    second = steps.merger._checkpoint()
    steps.step(drained_at=WAIT + 20)
    third = steps.merger._checkpoint()
    steps.step(drained_at=WAIT + 40)
    last = steps.merger._checkpoint()

    assert (first.start, first.arrival) == (1, (START + 5) * MS)
    assert (second.start, second.arrival) == (2, (START + 31) * MS)
    assert third == second  # 3 has left before 2.
    assert (last.start, last.arrival) == (4, (START + 32) * MS)
