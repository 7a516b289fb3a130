"""Scenarios drawn at random: one seed and a protocol's name decide everything.

Half of what makes a simulator find bugs is here: short runs with much going on, all kinds of load, and each fault
present in some runs and absent in others, so that no fault hides what another one shows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from beforehand.ordering import PROTOCOLS, Channels, Destinations, Traits
from beforehand.ordering.message import NUMBER_MAX
from beforehand.sim.scenario import (
    MILLISECOND,
    ClockFault,
    Clog,
    Crash,
    Delay,
    DelayKind,
    Departure,
    Operation,
    Partition,
    Pause,
    Point,
    Scenario,
)

__all__ = ["draw"]

Choice = int | str | bool

LOAD_UNTIL: Final = 60 * MILLISECOND
HEAL_AT: Final = 150 * MILLISECOND

OPTIONS: Final[Mapping[str, Mapping[str, Sequence[Choice]]]] = {
    "skeen": {"start": (0, 7)},
    "rotating-token": {"burst_max": (1, 3)},
    "lamport-total": {"acknowledge": (True, True, False), "null_interval": (MILLISECOND, 20 * MILLISECOND)},
    "single-phase": {
        "acknowledge": ("suppressed", "suppressed", "always", "point-to-point"),
        "identifiers": ("static", "rotating"),
    },
}
"""What varies about a protocol from seed to seed."""

ROOM: Final[Mapping[str, str]] = {"rendezvous": "queue_max"}
"""The option that bounds a protocol's buffer, where it is not `pending_max`."""

NO_ROOM: Final = ("skeen",)
"""Where full buffers can hold each other up: a message needs room at all its destinations before it leaves any."""

START: Final = ("skeen", "single-phase", "rendezvous")
"""Protocols whose logical clock can start near the end of its range, where they say that it has come."""


def draw(protocol: str, seed: int, *, processes_max: int = 6, messages_max: int = 40) -> Scenario:
    """The scenario of this protocol and seed."""
    traits = PROTOCOLS[protocol].traits
    rng = random.Random(f"{seed}/{protocol}")
    names = tuple("abcdefghijklmnopqrstuvwxyz"[: rng.randint(2, processes_max)])
    link = rng.random() < 0.7
    delay = Delay(
        kind=rng.choice(list(DelayKind)),
        shortest=rng.choice((0, MILLISECOND // 10)),
        longest=rng.choice((MILLISECOND, 3 * MILLISECOND, 10 * MILLISECOND)),
    )
    operations = _operations(rng, traits, names, rng.randint(2, messages_max))
    options = tuple((name, rng.choice(list(values))) for name, values in OPTIONS.get(protocol, {}).items())
    faulty = link and rng.random() < 0.8
    # The dependencies that IndependentSends declares do not outlive a view.
    membership = link and len(names) >= 3 and protocol != "independent-sends" and rng.random() < 0.5
    fifo = traits.channels is Channels.FIFO and not link
    if protocol == "timed-delivery":
        return _timed(rng, seed, names, operations, delay)
    if protocol == "causal-merge":
        return _merged(rng, seed, names, operations, delay)
    return _hardened(
        Scenario(
            protocol=protocol,
            seed=seed,
            processes=names,
            operations=operations,
            options=options,
            link=link,
            membership=membership,
            delay=delay,
            fifo=fifo,
            loss=rng.choice((0.0, 0.05, 0.3)) if faulty else 0.0,
            repeat=rng.choice((0.0, 0.1, 0.5)) if not fifo else 0.0,
            clogs=_clogs(rng, names),
            partitions=_partitions(rng, names) if faulty else (),
            pauses=_pauses(rng, names),
            crashes=_crashes(rng, names) if faulty else (),
            clocks=_clocks(rng, names),
            departures=_departures(rng, names) if membership else (),
            heal_at=HEAL_AT,
            settle=20_000 * MILLISECOND,
        ),
        traits,
    )


def _hardened(scenario: Scenario, traits: Traits) -> Scenario:
    """Some scenarios with one thing more: mixed levels, little room, a clock near its end, another coordinator.

    Each has random numbers of its own, so that what else happens in a scenario does not depend on it.
    """
    protocol, names = scenario.protocol, scenario.processes

    def chance(what: str, probability: float) -> random.Random | None:
        rng = random.Random(f"{scenario.seed}/{protocol}/{what}")
        return rng if rng.random() < probability else None

    if len(traits.levels) > 1 and (rng := chance("levels", 0.4)):
        levels = [rng.choice(traits.levels) for _ in scenario.operations]
        mixed = [replace(o, level=level) for o, level in zip(scenario.operations, levels, strict=True)]
        scenario = replace(scenario, operations=tuple(mixed))
    if protocol in START and not scenario.membership and (rng := chance("end", 0.1)):
        scenario = _with_option(scenario, "start", NUMBER_MAX - rng.randint(0, 2 * len(scenario.operations)))
    if scenario.departures and (rng := chance("change", 0.6)):
        scenario = _with_hard_change(rng, scenario)
    # Without a link, a full buffer at a receiver loses the packet. And where a member stops for good, what waits for
    # it can fill the room, and the flush that would free it comes behind what finds none.
    evicted = any(departure.process != departure.by for departure in scenario.departures)
    if scenario.link and not evicted and protocol not in NO_ROOM and (rng := chance("room", 0.25)):
        scenario = _with_option(scenario, ROOM.get(protocol, "pending_max"), rng.choice((1, 2, 4)))
    if protocol == "coordinator" and not scenario.membership and (rng := chance("coordinator", 0.5)):
        scenario = _with_option(scenario, "coordinator", rng.choice(names))
    return scenario


def _with_hard_change(rng: random.Random, scenario: Scenario) -> Scenario:
    """Members stop, leave and are evicted at one time, by several others, some of which crash; links are clogged."""
    names, step = scenario.processes, 2 * scenario.delay.longest
    start = rng.randrange(LOAD_UNTIL)
    go = rng.sample(names, rng.randint(1, (len(names) - 1) // 2))
    stay = [name for name in names if name not in go]
    if len(names) >= 5 and rng.random() < 0.6:
        go = rng.sample(names, 2)
        stay = [name for name in names if name not in go]
        return _with_lost_leader(rng, scenario, go, stay, start)
    departures, crashes, clogs = [], [], []
    for process in go:
        leaders = [process] if rng.random() < 0.2 else rng.sample(stay, min(len(stay), rng.choice((1, 2, 2))))
        departures += [Departure(process=process, at=start + rng.randrange(step), by=leader) for leader in leaders]
    for process in rng.sample(stay, rng.choice((0, 1, 1, 2))):
        at, down = start + rng.randrange(3 * step), rng.randrange(1, 40 * MILLISECOND)
        crashes.append(Crash(process=process, call=1, at=at, point=rng.choice(list(Point)), down=down))
    for _ in range(rng.choice((0, 2, 4))):
        sender, to = rng.sample(names, 2)
        at = max(0, start + rng.randrange(-4 * step, 2 * step))
        clogs.append(Clog(sender=sender, to=to, at=at, until=at + rng.randrange(1, HEAL_AT - LOAD_UNTIL)))
    return replace(scenario, departures=tuple(departures), crashes=tuple(crashes), clogs=tuple(clogs))


def _with_lost_leader(
    rng: random.Random, scenario: Scenario, go: Sequence[str], stay: Sequence[str], start: int
) -> Scenario:
    """The leader of a flush stops while its packets are under way, to come late or to one member only.

    Both are evicted then, by one or by two: the others may never have heard of the first flush.
    """
    (leader, process, *_), longest = go, scenario.delay.longest
    stop = start + 1 + rng.randrange(rng.choice((longest, 5 * longest, 5 * longest)))
    departures = [Departure(process=process, at=start, by=leader)]
    departures += [Departure(process=one, at=stop, by=rng.choice(stay)) for one in (leader, process)]
    # Only what goes out late in the flush is held up, and nothing else goes wrong: that is rare enough by itself.
    scenario = replace(
        scenario, departures=tuple(departures), loss=0.0, clogs=(), partitions=(), pauses=(), crashes=()
    )
    at, until = start + longest + 1, stop + rng.randrange(1, 6 * longest)
    if rng.random() < 0.5:
        return replace(scenario, clogs=tuple(Clog(sender=leader, to=to, at=at, until=until) for to in stay))
    side = tuple(sorted((leader, rng.choice(stay))))
    return replace(scenario, partitions=(Partition(side=side, at=at, until=until, symmetric=rng.random() < 0.3),))


def _with_option(scenario: Scenario, name: str, value: Choice) -> Scenario:
    rest = tuple((key, kept) for key, kept in scenario.options if key != name)
    return replace(scenario, options=(*rest, (name, value)))


def _timed(
    rng: random.Random, seed: int, names: tuple[str, ...], operations: tuple[Operation, ...], delay: Delay
) -> Scenario:
    """TimedDelivery: in half of the runs its assumptions hold; in the others messages come late and are set aside.

    Clocks are always within the bound: a message that is refused because its clock is ahead would be lost.
    """
    uncertainty = rng.choice((0, MILLISECOND))
    clocks = [ClockFault(process=name, offset=rng.randint(0, uncertainty)) for name in names]
    scenario = Scenario(
        protocol="timed-delivery",
        seed=seed,
        processes=names,
        operations=operations,
        options=(("delay_max", delay.longest), ("uncertainty", uncertainty)),
        delay=delay,
        clocks=tuple(clocks),
        repeat=rng.choice((0.0, 0.1, 0.5)),
        heal_at=HEAL_AT,
    )
    if rng.random() < 0.5:
        return scenario
    return replace(
        scenario,
        options=(("delay_max", rng.choice((delay.longest, delay.longest // 4))), ("uncertainty", uncertainty)),
        link=True,
        clocks=tuple(replace(clock, steps=_steps_back(rng)) for clock in clocks),
        loss=rng.choice((0.0, 0.05, 0.3)),
        clogs=_clogs(rng, names),
        partitions=_partitions(rng, names),
        pauses=_pauses(rng, names),
        crashes=_crashes(rng, names),
    )


def _merged(
    rng: random.Random, seed: int, names: tuple[str, ...], operations: tuple[Operation, ...], delay: Delay
) -> Scenario:
    """CausalMerge: in half of the runs G1 and G2 hold; in the others messages come late or from wrong clocks.

    Order is kept in both. So clocks go back by no more than what counts as standing still: further is a fault after
    which the order is mended, not kept.
    """
    epsilon = rng.choice((0, MILLISECOND, 2 * MILLISECOND))
    tick = rng.choice((MILLISECOND // 5, MILLISECOND, 3 * MILLISECOND))
    options: dict[str, Choice] = {
        "epsilon": epsilon,
        "delta": delay.longest + epsilon,
        "tick": tick,
        "events_per_tick": rng.choice((1, 2, 1_000)),
    }
    if rng.random() < 0.4:
        options["c_max"] = rng.choice((2, 20)) * tick
        if rng.random() < 0.5:
            options["quiet_period"] = (2 * -(-epsilon // tick) + rng.choice((2, 30))) * tick
    clocks = [ClockFault(process=name, offset=rng.randint(0, epsilon)) for name in names]
    scenario = Scenario(
        protocol="causal-merge",
        seed=seed,
        processes=names,
        operations=operations,
        options=tuple(options.items()),
        delay=delay,
        clocks=tuple(clocks),
        repeat=rng.choice((0.0, 0.1, 0.5)),
        heal_at=HEAL_AT,
    )
    if rng.random() < 0.5:
        return scenario
    late = rng.choice((delay.longest + epsilon, delay.longest, delay.longest // 4))
    options["delta"] = late
    if rng.random() < 0.3:
        options["pending_max"] = rng.choice((1, 2, 4))
    wrong = rng.random() < 0.5
    faults = [
        replace(
            clock,
            offset=clock.offset + (rng.randrange(5 * MILLISECOND) if wrong else 0),
            drift_ppm=rng.choice((0, 200, -50_000, 100_000)) if wrong else 0,
            steps=((rng.randrange(LOAD_UNTIL), -rng.randrange(late)),) if rng.random() < 0.5 else (),
        )
        for clock in clocks
    ]
    return replace(
        scenario,
        options=tuple(options.items()),
        link=True,
        clocks=tuple(faults),
        loss=rng.choice((0.0, 0.05, 0.3)),
        clogs=_clogs(rng, names),
        partitions=_partitions(rng, names),
        pauses=_pauses(rng, names),
        crashes=_crashes(rng, names),
    )


def _steps_back(rng: random.Random) -> tuple[tuple[int, int], ...]:
    return ((rng.randrange(LOAD_UNTIL), -rng.randrange(20 * MILLISECOND)),) if rng.random() < 0.3 else ()


def _operations(rng: random.Random, traits: Traits, names: tuple[str, ...], count: int) -> tuple[Operation, ...]:
    """A load: even or with favourites, spread or in bursts, sometimes answers to what was delivered."""
    weights = [1.0] * len(names) if rng.random() < 0.5 else [rng.random() ** 3 + 0.02 for _ in names]
    bursts = [rng.randrange(LOAD_UNTIL) for _ in range(rng.randint(1, 4))] if rng.random() < 0.4 else []
    answers = rng.choice((0.0, 0.3, 0.8))
    until = rng.choice((LOAD_UNTIL // 20, LOAD_UNTIL))
    operations: list[Operation] = []
    for _ in range(count):
        process = rng.choices(names, weights)[0]
        at = rng.choice(bursts) if bursts else rng.randrange(until)
        operations.append(
            Operation(
                process=process,
                at=at,
                to=_destinations(rng, traits, names, process),
                after=rng.randint(1, 3) if rng.random() < answers else 0,
            )
        )
    operations.sort(key=lambda operation: operation.at)
    return tuple(replace(o, depends=_depends(rng, position)) for position, o in enumerate(operations))


def _depends(rng: random.Random, position: int) -> tuple[int, ...]:
    """Up to two earlier operations."""
    return tuple(sorted(rng.sample(range(position), min(position, rng.choice((0, 0, 1, 2))))))


def _destinations(rng: random.Random, traits: Traits, names: tuple[str, ...], sender: str) -> tuple[str, ...]:
    others = tuple(name for name in names if name != sender)
    match traits.destinations:
        case Destinations.ONE:
            return (rng.choice(others),)
        case Destinations.ALL:
            return names if rng.random() < 0.5 else others
        case Destinations.SOME:
            if rng.random() < 0.3:
                return names
            return tuple(sorted(rng.sample(names, rng.randint(1, len(names)))))


def _span(rng: random.Random) -> tuple[int, int]:
    at = rng.randrange(LOAD_UNTIL)
    return at, at + rng.randrange(1, HEAL_AT - at)


def _clogs(rng: random.Random, names: tuple[str, ...]) -> tuple[Clog, ...]:
    clogs = []
    for _ in range(rng.choice((0, 0, 1, 3))):
        sender, to = rng.sample(names, 2)
        at, until = _span(rng)
        clogs.append(Clog(sender=sender, to=to, at=at, until=until))
    return tuple(clogs)


def _partitions(rng: random.Random, names: tuple[str, ...]) -> tuple[Partition, ...]:
    partitions = []
    for _ in range(rng.choice((0, 0, 1, 2))):
        side = tuple(sorted(rng.sample(names, rng.randint(1, len(names) - 1))))
        at, until = _span(rng)
        partitions.append(Partition(side=side, at=at, until=until, symmetric=rng.random() < 0.6))
    return tuple(partitions)


def _pauses(rng: random.Random, names: tuple[str, ...]) -> tuple[Pause, ...]:
    if rng.random() < 0.7:
        return ()
    at, until = _span(rng)
    return (Pause(process=rng.choice(names), at=at, until=until),)


def _crashes(rng: random.Random, names: tuple[str, ...]) -> tuple[Crash, ...]:
    return tuple(
        Crash(
            process=rng.choice(names),
            call=rng.randint(1, 60),
            point=rng.choice(list(Point)),
            down=rng.randrange(1, 40 * MILLISECOND),
        )
        for _ in range(rng.choice((0, 1, 1, 3)))
    )


def _departures(rng: random.Random, names: tuple[str, ...]) -> tuple[Departure, ...]:
    """One member leaves or is evicted, by one other or by two at once; of five or more, a second one may follow."""
    departures = []
    leavers = rng.sample(names, 1 if len(names) < 5 else rng.choice((1, 2)))
    stay = [name for name in names if name not in leavers]
    for process in leavers:
        at = rng.randrange(LOAD_UNTIL)
        if rng.random() < 0.4:
            departures.append(Departure(process=process, at=at, by=process))
        else:
            departures += [
                Departure(process=process, at=at + rng.randrange(3 * MILLISECOND), by=by)
                for by in rng.sample(stay, rng.choice((1, 1, 2)))
            ]
    return tuple(departures)


def _clocks(rng: random.Random, names: tuple[str, ...]) -> tuple[ClockFault, ...]:
    if rng.random() < 0.5:
        return ()
    return tuple(
        ClockFault(
            process=name,
            offset=rng.randrange(-50, 50) * MILLISECOND,
            drift_ppm=rng.choice((0, 200, -50_000, 100_000)),
            steps=((rng.randrange(LOAD_UNTIL), rng.randrange(-80, 80) * MILLISECOND),) if rng.random() < 0.3 else (),
        )
        for name in names
        if rng.random() < 0.7
    )
