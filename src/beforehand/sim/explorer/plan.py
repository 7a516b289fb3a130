"""What there is to explore of a protocol: its stacks, from small to large, each with all its configurations.

  bare          without a link, as the network must be for it: in FIFO order, or in any order with one repetition;
                every choice of initial clocks and of the options that change what it does
  link          over a `ReliableLink`, in any order, with one loss, one repetition and one crash
  departures    with a `Membership`: c is evicted by a, which may crash and come back at any step; a stops for good
                while it evicts c, and b evicts both; a and b both evict c; c leaves
  joins         with a `Membership` of a and b: a admits c, and a or c may crash and come back at any step; a stops
                for good while it admits c, and b evicts it

A part is one stack with so many messages.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from beforehand.ordering import Channels
from beforehand.sim.explorer.configuration import (
    PROCESSES,
    Configuration,
    Faults,
    Stack,
    admissions,
    departures,
    duels,
    leavings,
    sendings,
    successions,
)

__all__ = ["OPTIONS", "Part", "explorable", "faults_of", "parts", "stacks", "unexplored"]

MESSAGES_MAX: Final = 4
STARTS: Final = (0, 2)
"""Initial clocks: equal, or so far apart that a message does not make up for it."""

SYMMETRIC: Final = frozenset({"unordered", "fifo", "causal-broadcast", "causal-unicast", "schiper-causal"})
"""Protocols that treat all processes alike: of configurations that differ in names only, one is explored.

Positions decide nothing in them but the order in which messages that are free at once are looked at. Protocols with a
total order break ties by position, and others have leaders: for these, names matter.
"""

TO_ALL: Final = frozenset({"lamport-total"})
"""Protocols to which it is all one whom a message is for: from `TO_ALL_FROM` messages on, each goes to all.

`LamportTotal` sends every message to all members. Its clock, what it has heard and what it sends never depend on
`message.to`, which only decides whether a member puts the message into its queue; and of its queue it delivers
whatever lies below a bound that comes from what it has heard. So a run in which messages are for some differs from
the same run with messages for all in nothing but the deliveries that are not there, and what those that remain break
is broken with messages for all as well. `tests/ordering/test_lamport_total.py` runs both in step.
"""
TO_ALL_FROM: Final = 3

OPTIONS: Final[dict[str, tuple[tuple[tuple[str, Any], ...], ...]]] = {
    "lamport-total": ((), (("acknowledge", False),)),
    "single-phase": tuple(
        (("acknowledge", acknowledge), ("identifiers", identifiers))
        for acknowledge in ("suppressed", "always", "point-to-point")
        for identifiers in ("static", "rotating")
    ),
}
"""Options that change what a protocol does; the first choice is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stack and what is tried with it; `name` is for reports and for going on where a run was cut."""

    name: str
    stack: Stack
    messages: int
    kind: str  # `bare`, `link`, `departures` or `joins`.

    def configurations(self) -> Iterator[Configuration]:
        symmetric = self.stack.traits.name in SYMMETRIC and not self.stack.starts
        match self.kind:
            case "departures":
                for lines in sendings(self.stack.traits, self.messages):
                    yield from departures(lines, victim=2, by=0, crashes=1, crashing=1)
                    yield from successions(lines, victim=2, by=0)
                    yield from duels(lines, victim=2)
                    yield from leavings(lines, leaver=2)
            case "joins":
                for lines in sendings(self.stack.traits, self.messages):
                    yield from admissions(lines, newcomer=2, by=0)
            case _:
                to_all = self.stack.traits.name in TO_ALL and self.messages >= TO_ALL_FROM
                for lines in sendings(self.stack.traits, self.messages, symmetric=symmetric, to_all=to_all):
                    yield Configuration(operations=lines, faults=faults_of(self.stack))


def explorable(protocol: Any) -> bool:
    """Whether time plays no part in its order.

    `TimedDelivery` and `CausalMerge` go by clocks, which stand still here.
    """
    return not {"delay_max", "delta"} & set(inspect.signature(protocol).parameters)


def unexplored(protocol: Any, kinds: Collection[str]) -> str:
    """Why none of these kinds of parts of a protocol can be explored; empty if some can."""
    name = protocol.traits.name
    if not explorable(protocol):
        return f"{name} goes by clocks, and here they stand still (timed-delivery: use beforehand.sim.explorer.timed)"
    if not protocol.traits.views and set(kinds) <= {"departures", "joins"}:
        return f"{name} has no views: its members stay; explore it with --kind bare or link"
    return ""


def faults_of(stack: Stack) -> Faults:
    """What may go wrong under a stack."""
    if stack.link is not None:
        return Faults(losses=1, repeats=1, crashes=1)
    return Faults(repeats=0 if stack.traits.channels is Channels.FIFO else 1)


def stacks(protocol: Any) -> Iterator[Stack]:
    """The protocol with each choice of options and of initial clocks."""
    takes_start = "start" in inspect.signature(protocol).parameters
    clocks = [s for s in product(STARTS, repeat=len(PROCESSES)) if min(s) == 0] if takes_start else [()]
    for options in OPTIONS.get(protocol.traits.name, ((),)):
        for starts in clocks:
            yield Stack(protocol=protocol, options=options, starts=starts)


def parts(protocol: Any, *, messages_max: int = MESSAGES_MAX) -> Iterator[Part]:
    """All of it, from small to large."""
    name = protocol.traits.name
    for messages in range(messages_max + 1):
        for stack in stacks(protocol):
            label = ",".join([*(f"{key}={value}" for key, value in stack.options), *map(str, stack.starts)])
            label = f"{name}[{label}]" if label else name
            if messages:
                yield Part(name=f"{label} bare {messages}", stack=stack, messages=messages, kind="bare")
            if not any(stack.starts):
                if messages:
                    yield Part(name=f"{label} link {messages}", stack=stack.linked(), messages=messages, kind="link")
                if stack.traits.views:
                    yield Part(
                        name=f"{label} departures {messages}",
                        stack=stack.linked(membership=True),
                        messages=messages,
                        kind="departures",
                    )
                    yield Part(
                        name=f"{label} joins {messages}",
                        stack=stack.linked(membership=True, newcomer=2),
                        messages=messages,
                        kind="joins",
                    )
