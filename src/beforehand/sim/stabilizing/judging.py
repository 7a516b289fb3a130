"""The judge: reads the events of a run, and nothing else. It shares no code with clocks and ordering.

What it asks of all messages that were sent in the time it is given:

  order        any two mergers delivered the messages that both delivered in the same order (theorem 4.4)
  causal       no merger delivered m after m' if send(m) → send(m') (theorem 4.5)
  missing      a merger that a message was for, and at which it arrived within δ, delivered it
  twice        no merger delivered a message twice
  stray        no merger delivered a message that was not for it
  waiting      no message waited for longer than δ + 3ε (lemma 4.2), nor was delivered later than when the merger's
               clock had come to r + δ + 2ε (lemma 4.1)
and of the time afterwards:
  invented     nothing was delivered that nobody sent
  blocked      no publisher had to wait that had had fewer than K events at this reading of its clock
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from beforehand.events import Event

__all__ = ["Violation", "judge_events"]

VIOLATIONS_MAX: Final = 200
"""Of each question, so many are told."""


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """`at`: when the first message that takes part in it was sent; of an invention, when it was delivered."""

    at: int
    question: str
    text: str


@dataclass(frozen=True, slots=True)
class _Sent:
    at: int
    reading: int
    to: frozenset[str]
    bit: int
    past: int  # The bits of all sends that happened before.


@dataclass(frozen=True, slots=True)
class _Seen:
    """What happened at one merger."""

    delivered: list[tuple[str, int, int]]  # Message, true time, the reading one tick before; in order.
    arrived: dict[str, int]  # Message: the reading at its first arrival.


def judge_events(
    events: Sequence[Event],
    *,
    epsilon: int,
    delta: int,
    events_per_tick: int,
    after: int,
    until: int,
    healthy_after: int,
) -> list[Violation]:
    """Violations among messages sent later than `after` and at most at `until`, the earliest first.

    After `healthy_after` no trace of a fault may be left.
    """
    sends, mergers = _read(events)
    chosen = {message: sent for message, sent in sends.items() if after < sent.at <= until}
    violations = [
        Violation(at, "invented", f"{merger} delivered {message}, which nobody sent")
        for merger, seen in mergers.items()
        for message, at, _ in seen.delivered
        if message not in sends and at > healthy_after
    ]
    violations += _judge_publishers(events, events_per_tick, healthy_after)
    for merger, seen in mergers.items():
        violations += _judge_merger(merger, seen, chosen, epsilon, delta)
    for (one, first), (other, second) in combinations(sorted(mergers.items()), 2):
        violations += _judge_pair(one, first, other, second, chosen)
    return sorted(violations)


def _read(events: Sequence[Event]) -> tuple[dict[str, _Sent], dict[str, _Seen]]:
    """The log is in the order in which things happened, so that causes come first."""
    sends: dict[str, _Sent] = {}
    known: dict[str, int] = defaultdict(int)  # Per process the bits of the sends in its past.
    mergers: dict[str, _Seen] = {}
    for event in events:
        process, at = event.process, int(event.attributes["at"])
        reading = event.time or 0
        if event.name == "send":
            bit = 1 << len(sends)
            to = frozenset(event.attributes["to"].split())
            sends[event.sends[0]] = _Sent(at, reading, to, bit, known[process])
            known[process] |= bit
        elif event.name == "receive":
            sent = sends.get(event.receives[0])
            if sent is not None:
                known[process] |= sent.past | sent.bit
        elif event.name != "blocked":
            seen = mergers.setdefault(process, _Seen([], {}))
            if event.name == "deliver":
                seen.delivered.append((event.receives[0], at, int(event.attributes["was"])))
            elif event.name == "arrive":
                seen.arrived.setdefault(event.attributes["message"], reading)
    return sends, mergers


def _judge_publishers(events: Sequence[Event], events_per_tick: int, healthy_after: int) -> list[Violation]:
    violations = []
    made = Counter[tuple[str, int | None]]()  # Events per publisher and reading.
    for event in events:
        at, tick = int(event.attributes["at"]), (event.process, event.time)
        if event.name in ("send", "receive"):
            made[tick] += 1
        elif event.name == "blocked" and at > healthy_after and made[tick] < events_per_tick:
            text = f"{event.process} had to wait after {made[tick]} events in a tick"
            violations.append(Violation(at, "blocked", text))
    return violations


def _judge_merger(merger: str, seen: _Seen, chosen: dict[str, _Sent], epsilon: int, delta: int) -> list[Violation]:
    violations: list[Violation] = []

    def say(sent: _Sent, question: str, text: str) -> None:
        if sum(one.question == question for one in violations) < VIOLATIONS_MAX:
            violations.append(Violation(sent.at, question, text))

    wait_max, clock_max = (delta + 3 * epsilon, delta + 2 * epsilon) if epsilon else (delta + 1, delta + 1)
    delivered: set[str] = set()
    pasts = 0  # The bits of all that happened before anything delivered so far.
    for message, _, was in seen.delivered:
        sent = chosen.get(message)
        if sent is None:
            continue
        if message in delivered:
            say(sent, "twice", f"{merger} delivered {message} twice")
        delivered.add(message)
        if merger not in sent.to:
            say(sent, "stray", f"{merger} delivered {message}, which was not for it")
        if pasts & sent.bit:
            say(sent, "causal", f"{merger} delivered {message} after one that it happened before")
        pasts |= sent.past
        # A clock may skip readings: what counts is whether it waited on although a reading had come.
        waited = was - seen.arrived.get(message, was)
        if waited >= wait_max or was >= sent.reading + clock_max:
            say(sent, "waiting", f"{message} waited at {merger} for over {waited}, to {was - sent.reading} after r")
    for message, sent in chosen.items():
        arrival = seen.arrived.get(message)
        in_time = arrival is not None and arrival <= sent.reading + delta
        if in_time and merger in sent.to and message not in delivered:
            say(sent, "missing", f"{message} arrived at {merger} in time and was not delivered")
    return violations


def _judge_pair(one: str, first: _Seen, other: str, second: _Seen, chosen: dict[str, _Sent]) -> list[Violation]:
    common = {message for message, _, _ in first.delivered} & {message for message, _, _ in second.delivered}
    first_order, second_order = (
        list(dict.fromkeys(message for message, _, _ in seen.delivered if message in common and message in chosen))
        for seen in (first, second)
    )
    if first_order == second_order:
        return []
    place = {message: at for at, message in enumerate(second_order)}
    inverted = [(a, b) for a, b in combinations(first_order, 2) if place[a] > place[b]]
    return [
        Violation(min(chosen[a].at, chosen[b].at), "order", f"{one} delivered {a} before {b}, {other} after it")
        for a, b in inverted[-VIOLATIONS_MAX:]
    ]
