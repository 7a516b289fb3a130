"""A scenario from what a person asks for: so many processes and messages, such a network, so many faults."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from beforehand.errors import InputError
from beforehand.ordering import PROTOCOLS, Channels, Destinations, Traits
from beforehand.sim.scenario import (
    MILLISECOND,
    ClockFault,
    Crash,
    Delay,
    Departure,
    Join,
    Operation,
    Partition,
    Point,
    Scenario,
)

__all__ = ["Load", "Wishes", "compose", "process_names"]

_TIME_PER_MESSAGE: Final = 2 * MILLISECOND


class Load(StrEnum):
    """When who sends."""

    EVEN = "even"  # Everybody in turn, at random times.
    BURST = "burst"  # All at once, a few times.
    SINGLE = "single"  # One process only.
    ANSWERS = "answers"  # Each message after the first few answers one that was delivered.
    SKEWED = "skewed"  # A few processes send most.


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What can be asked for. All faults default to none."""

    processes: int = 5
    messages: int = 50
    seed: int = 0
    load: Load = Load.EVEN
    delay: Delay = field(default_factory=Delay)
    loss: float = 0.0
    repeat: float = 0.0
    partitions: int = 0
    crashes: int = 0
    skew: int = 0  # Clocks are off by up to this many nanoseconds.
    leave: int = 0  # How many members leave.
    evict: int = 0  # How many members stop for good and are evicted.
    join: int = 0  # How many processes join; those who left or were evicted return first, under a new name.
    link: bool | None = None  # None: if something can be lost.


def compose(protocol: str, wishes: Wishes, options: Mapping[str, int | str | bool] | None = None) -> Scenario:
    """The scenario; InputError if it cannot be."""
    if protocol not in PROTOCOLS:
        raise InputError(f"there is no protocol {protocol!r}; there are: {', '.join(PROTOCOLS)}")
    traits: Traits = PROTOCOLS[protocol].traits
    chosen = dict(options or {})
    if protocol == "timed-delivery":  # Its assumptions, as they are in the network that was asked for.
        chosen.setdefault("delay_max", wishes.delay.longest)
        chosen.setdefault("uncertainty", 2 * wishes.skew)
    if protocol == "causal-merge":  # The same; δ is on the receiver's clock, and ε at most ten ticks.
        chosen.setdefault("epsilon", 2 * wishes.skew)
        chosen.setdefault("delta", wishes.delay.longest + 2 * wishes.skew)
        chosen.setdefault("tick", max(1, max(wishes.delay.longest, 2 * wishes.skew) // 10))
    rng = random.Random(f"compose/{wishes.seed}/{protocol}")
    names = process_names(wishes.processes)
    until = max(wishes.messages * _TIME_PER_MESSAGE, 10 * wishes.delay.longest)
    membership = bool(wishes.leave or wishes.evict or wishes.join)
    if membership and not traits.views:
        raise InputError(f"{protocol} has no views: its members stay; nobody can leave, be evicted or join")
    lossy = bool(wishes.loss or wishes.partitions or wishes.crashes or membership)
    link = lossy if wishes.link is None else wishes.link
    try:
        scenario = Scenario(
            protocol=protocol,
            seed=wishes.seed,
            processes=names,
            operations=_operations(rng, traits, names, wishes, until),
            options=tuple(sorted(chosen.items())),
            link=link,
            membership=membership,
            delay=wishes.delay,
            loss=wishes.loss,
            repeat=wishes.repeat,
            fifo=traits.channels is Channels.FIFO and not link,
            partitions=_partitions(rng, names, wishes, until),
            crashes=_crashes(rng, names, wishes),
            clocks=_clocks(rng, names, wishes),
            departures=_departures(rng, names, wishes, until),
            heal_at=until + 20 * wishes.delay.longest,
            settle=20_000 * max(MILLISECOND, wishes.delay.longest),
        )
        return _with_joins(rng, traits, scenario, wishes, until) if wishes.join else scenario
    except ValueError as error:
        raise InputError(f"this cannot be simulated: {error}") from None


def _with_joins(rng: random.Random, traits: Traits, scenario: Scenario, wishes: Wishes, until: int) -> Scenario:
    """What goes to everybody goes to newcomers, too, and they send as much as the others."""
    gone = [departure.process for departure in scenario.departures]
    stay = [name for name in scenario.processes if name not in gone]
    names = [f"{name}.2" for name in gone] + [f"new{at}" for at in range(1, wishes.join + 1)]
    joins = []
    for at, name in enumerate(names[: wishes.join]):
        when = rng.randrange(until // 4, until // 2) if at >= len(gone) else scenario.departures[at].at + 1
        joins.append(Join(process=name, at=when, by=rng.choice(stay), starts=when))
    new = tuple(join.process for join in joins)
    everybody = (*scenario.processes, *new)
    one = traits.destinations is Destinations.ONE
    operations = [o if one else replace(o, to=everybody) for o in scenario.operations]
    for join in joins:
        for _ in range(-(-wishes.messages // len(scenario.processes))):
            to = (rng.choice([name for name in everybody if name != join.process]),) if one else everybody
            operations.append(Operation(process=join.process, at=join.at + rng.randrange(until), to=to))
    operations.sort(key=lambda operation: operation.at)
    return replace(scenario, joins=tuple(joins), operations=tuple(operations))


def process_names(count: int) -> tuple[str, ...]:
    """a, b, c, … and from the 27th on p27, p28, …"""
    return tuple(chr(ord("a") + at) if at < 26 else f"p{at + 1}" for at in range(count))


def _operations(
    rng: random.Random, traits: Traits, names: tuple[str, ...], wishes: Wishes, until: int
) -> tuple[Operation, ...]:
    weights = [1.0] * len(names)
    if wishes.load is Load.SKEWED:
        weights = [2.0**-at for at in range(len(names))]
    elif wishes.load is Load.SINGLE:
        weights = [1.0] + [0.0] * (len(names) - 1)
    bursts = [until * at // 4 for at in range(4)]
    operations: list[dict[str, Any]] = []
    for position in range(wishes.messages):
        process = rng.choices(names, weights)[0]
        others = tuple(name for name in names if name != process)
        answer = wishes.load is Load.ANSWERS and position >= len(names)
        operations.append(
            {
                "process": process,
                "at": rng.choice(bursts) if wishes.load is Load.BURST else rng.randrange(until),
                "to": (rng.choice(others),) if traits.destinations is Destinations.ONE else names,
                "after": 1 if answer else 0,
            }
        )
    operations.sort(key=lambda operation: operation["at"])
    counts: dict[str, int] = {}
    for operation in operations:  # Each answer of a process waits for one delivery more.
        if operation["after"]:
            counts[operation["process"]] = counts.get(operation["process"], 0) + 1
            operation["after"] = counts[operation["process"]]
    return tuple(Operation(**operation) for operation in operations)


def _partitions(rng: random.Random, names: tuple[str, ...], wishes: Wishes, until: int) -> tuple[Partition, ...]:
    partitions = []
    for _ in range(wishes.partitions):
        at = rng.randrange(until)
        side = tuple(sorted(rng.sample(names, rng.randint(1, len(names) - 1))))
        partitions.append(Partition(side=side, at=at, until=at + until // 4, symmetric=rng.random() < 0.5))
    return tuple(partitions)


def _crashes(rng: random.Random, names: tuple[str, ...], wishes: Wishes) -> tuple[Crash, ...]:
    calls = max(2, 2 * wishes.messages)
    return tuple(
        Crash(
            process=rng.choice(names),
            call=rng.randint(1, calls),
            point=rng.choice(list(Point)),
            down=rng.randint(1, 20) * wishes.delay.longest,
        )
        for _ in range(wishes.crashes)
    )


def _clocks(rng: random.Random, names: tuple[str, ...], wishes: Wishes) -> tuple[ClockFault, ...]:
    if not wishes.skew:
        return ()
    return tuple(ClockFault(process=name, offset=rng.randint(-wishes.skew, wishes.skew)) for name in names)


def _departures(rng: random.Random, names: tuple[str, ...], wishes: Wishes, until: int) -> tuple[Departure, ...]:
    gone = wishes.leave + wishes.evict
    if not gone:
        return ()
    if 2 * (len(names) - gone) <= len(names):
        raise InputError(f"{gone} of {len(names)} members cannot go: a majority must stay")
    chosen = rng.sample(names, gone)
    stay = [name for name in names if name not in chosen]
    return tuple(
        Departure(
            process=name,
            at=rng.randrange(until // 4, until),
            by=name if at < wishes.leave else rng.choice(stay),
        )
        for at, name in enumerate(chosen)
    )
