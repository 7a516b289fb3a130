"""Every run of a protocol that goes by the clock: all sendings, all delays, all clocks, all orders within an instant.

    python -m beforehand.sim.explorer.timed [--messages 2] [--delay 3] [--uncertainty 1]

The explorer proper has no clocks: there a packet can take any time. `TimedDelivery` promises something only if
packets take at most `delay_max` and clocks lie at most `uncertainty` apart, so here time is counted, in instants:
each packet takes 1 to `delay_max` of them, each clock is ahead by 0 to `uncertainty`, messages are sent at all
instants that are near enough to meet, by all senders, to all sets of destinations. What is due at one process in one
instant (sendings, arrivals, its timer) is done in every order. Processes do not hear of each other within an instant,
so that is every run there is.

The judge shares no code with the protocol: it sees who sent and delivered what, in which order and when.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, combinations, permutations, product
from typing import Any, Final

from beforehand.clocks.view import View
from beforehand.errors import RemoteProtocolError
from beforehand.ordering.effects import Deliver, Effect, Sent, SetTimer, Transmit
from beforehand.ordering.protocol import DeliveryProtocol
from beforehand.ordering.timed_delivery import TimedDelivery

__all__ = ["TimedRun", "Timing", "explore_timed", "timed_runs"]

NAMES: Final = ("a", "b", "c")
WRONG_MAX: Final = 20

Make = Callable[[str, View], DeliveryProtocol]


@dataclass(frozen=True, slots=True)
class Timing:
    """What the protocol is told, and what is true."""

    delay_max: int = 3
    uncertainty: int = 1

    def make(self, name: str, view: View) -> DeliveryProtocol:
        return TimedDelivery(name, view, delay_max=self.delay_max, uncertainty=self.uncertainty)


@dataclass(frozen=True, slots=True)
class TimedRun:
    """What is chosen but for the order within an instant."""

    sends: tuple[tuple[str, int, tuple[str, ...]], ...]  # Sender, instant, destinations.
    delays: tuple[int, ...]  # Of the packets, in the order in which they are transmitted.
    ahead: tuple[int, ...]  # Per process, its clock.


@dataclass(slots=True)
class Seen:
    """What happened: per process its sendings (+) and deliveries (-) in order, with the instant."""

    steps: dict[str, list[tuple[str, str, int]]] = field(default_factory=lambda: {name: [] for name in NAMES})
    to: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sent_at: dict[str, int] = field(default_factory=dict)


def timed_runs(messages: int, timing: Timing, *, subsets: bool) -> Iterator[TimedRun]:
    """All of them; without `subsets` every message goes to all."""
    targets = [tuple(NAMES)]
    if subsets:
        targets = [t for size in (1, 2, 3) for t in combinations(NAMES, size)]
    reach = timing.delay_max + timing.uncertainty + 2  # Further apart, one is delivered before the other is sent.
    for senders in product(NAMES, repeat=messages):
        for gaps in product(range(reach + 1), repeat=messages - 1):
            instants = [sum(gaps[:at]) for at in range(messages)]
            for to in product(targets, repeat=messages):
                sends = tuple(zip(senders, instants, to, strict=True))
                packets = sum(len(set(t) - {s}) for s, t in zip(senders, to, strict=True))
                for ahead in product(range(timing.uncertainty + 1), repeat=len(NAMES)):
                    if min(ahead):
                        continue  # All ahead is as none ahead.
                    for delays in product(range(1, timing.delay_max + 1), repeat=packets):
                        yield TimedRun(sends, delays, ahead)


def explore_timed(
    runs: Iterable[TimedRun], timing: Timing, make: Make | None = None
) -> tuple[int, list[tuple[TimedRun, str]]]:
    """How many runs there were, with all orders within instants, and the first that went wrong, with what was."""
    count = 0
    wrong: list[tuple[TimedRun, str]] = []
    for run in runs:
        for why in _all_orders(run, timing, make or timing.make):
            count += 1
            if why and len(wrong) < WRONG_MAX:
                wrong.append((run, why))
    return count, wrong


def _all_orders(run: TimedRun, timing: Timing, make: Make) -> Iterator[str]:
    """Do the run once for every order within instants; what is wrong with each, or nothing."""
    taken: list[int] = []
    while True:
        sizes: list[int] = []

        def choose(options: int, sizes: list[int] = sizes) -> int:
            at = len(sizes)
            sizes.append(options)
            if at == len(taken):
                taken.append(0)
            return taken[at]

        yield _judge(run, timing, _do(run, timing, make, choose))
        del taken[len(sizes) :]
        while taken and taken[-1] + 1 == sizes[len(taken) - 1]:
            taken.pop()
        if not taken:
            return
        taken[-1] += 1


def _do(run: TimedRun, timing: Timing, make: Make, choose: Callable[[int], int]) -> Seen:
    view, seen = View(NAMES), Seen()
    members = {name: make(name, view) for name in NAMES}
    ahead = dict(zip(NAMES, run.ahead, strict=True))
    delays = iter(run.delays)
    post: dict[int, list[tuple[str, str, Any]]] = {}  # By instant: sender, receiver, packet.
    timers: dict[str, int | None] = dict.fromkeys(NAMES)
    end = run.sends[-1][1] + 2 * (timing.delay_max + timing.uncertainty) + 4

    def perform(name: str, effects: Sequence[Effect], instant: int) -> None:
        for effect in effects:
            match effect:
                case Sent():
                    seen.steps[name].append(("+", effect.message.id, instant))
                    seen.to[effect.message.id], seen.sent_at[effect.message.id] = effect.message.to, instant
                case Deliver():
                    seen.steps[name].append(("-", effect.message.id, instant))
                case Transmit():
                    for to in effect.to:
                        post.setdefault(instant + next(delays), []).append((name, to, effect.packet))
                case SetTimer():
                    timers[name] = effect.at

    for instant in range(end):
        arrivals = post.pop(instant, [])
        for name in NAMES:
            now = instant + ahead[name]
            due: list[tuple[Any, ...]] = [(s, p) for s, to, p in arrivals if to == name]
            due += [(to,) for sender, at, to in run.sends if sender == name and at == instant]
            timer = timers[name]
            if timer is not None and timer <= now:
                due.append(())
            orders = list(permutations(range(len(due))))
            for at in orders[choose(len(orders)) if len(orders) > 1 else 0]:
                match due[at]:
                    case (sender, packet):
                        with suppress(RemoteProtocolError):  # It is lost, and that is judged.
                            perform(name, members[name].receive(sender, packet, now=now), instant)
                    case (to,):
                        perform(name, members[name].send(b"", to, now=now), instant)
                    case _:
                        perform(name, members[name].tick(now=now), instant)
    return seen


def _judge(run: TimedRun, timing: Timing, seen: Seen) -> str:
    delivered = {name: [m for kind, m, _ in steps if kind == "-"] for name, steps in seen.steps.items()}
    for name, got in delivered.items():
        if sorted(got) != sorted(m for m, to in seen.to.items() if name in to):
            return f"{name} delivered {got}"
    if len(seen.to) != len(run.sends):
        return "a message was not sent"
    for at, m, instant in chain.from_iterable(seen.steps.values()):
        if at == "-" and instant - seen.sent_at[m] > timing.delay_max + 2 * timing.uncertainty + 1:
            return f"{m} was delivered {instant - seen.sent_at[m]} instants after it was sent"
    past: dict[str, set[str]] = {}
    for _ in seen.to:  # Often enough for chains of any length.
        for steps in seen.steps.values():
            known: set[str] = set()
            for kind, m, _ in steps:
                if kind == "+":
                    past.setdefault(m, set()).update(known)
                known |= {m} | past.get(m, set())
    for first, second in permutations(seen.to, 2):
        orders = {got.index(first) < got.index(second) for got in delivered.values() if {first, second} <= set(got)}
        if len(orders) > 1:
            return f"{first} and {second} were delivered in two orders"
        if False in orders and first in past[second]:
            return f"{first} was sent before {second} and delivered after it"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m beforehand.sim.explorer.timed", description=__doc__)
    parser.add_argument("--messages", type=int, default=2)
    parser.add_argument("--delay", type=int, default=3)
    parser.add_argument("--uncertainty", type=int, default=1)
    parser.add_argument(
        "--all", action="store_true", help="every message to all, instead of every set of destinations"
    )
    given = parser.parse_args()
    timing = Timing(given.delay, given.uncertainty)
    start = time.monotonic()
    count, wrong = explore_timed(timed_runs(given.messages, timing, subsets=not given.all), timing)
    for run, why in wrong:
        sys.stdout.write(f"{why}: {run}\n")
    sys.stdout.write(f"{count} runs, {len(wrong)} wrong, {time.monotonic() - start:.0f} s\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
