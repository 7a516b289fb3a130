"""Joins for drawn scenarios: the same scenario, and processes that join while all else happens.

They are drawn from random numbers of their own, and only if they are asked for: what a seed does without them stays
as it was.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from beforehand.ordering import PROTOCOLS, Destinations, Traits
from beforehand.sim.drawing import HEAL_AT, LOAD_UNTIL, ROOM, draw
from beforehand.sim.scenario import MILLISECOND, Clog, Crash, Departure, Join, Operation, Point, Scenario

__all__ = ["can_join", "draw_with_joins"]

UNFIT: Final = ("start", "coordinator")
"""Options that drawn scenarios have only where members stay."""

ROOMS: Final = frozenset({"pending_max", *ROOM.values()})


def can_join(protocol: str) -> bool:
    """Whether this protocol has views: then somebody can join in its drawn scenarios."""
    views: bool = PROTOCOLS[protocol].traits.views
    return views


def draw_with_joins(protocol: str, seed: int) -> Scenario:
    """The drawn scenario of this seed with a membership and joins; as it is if nobody can join."""
    scenario = draw(protocol, seed)
    if not can_join(protocol):
        return scenario
    rng = random.Random(f"{seed}/{protocol}/joins")
    if not scenario.membership:
        options = tuple((name, value) for name, value in scenario.options if name not in UNFIT)
        scenario = replace(scenario, membership=True, link=True, fifo=False, options=options)
    if len(scenario.processes) >= 3 and rng.random() < 0.25:
        return _with_lost_leader(rng, PROTOCOLS[protocol].traits, scenario)
    joins = _joins(rng, scenario)
    scenario = replace(scenario, joins=joins)
    scenario = replace(scenario, operations=_operations(rng, PROTOCOLS[protocol].traits, scenario))
    scenario = replace(scenario, crashes=scenario.crashes + _crashes(rng, scenario))
    if not scenario.departures and not ROOMS & {name for name, _ in scenario.options} and rng.random() < 0.25:
        gone = joins[0]
        at = gone.at + rng.randrange(40 * MILLISECOND)
        departure = Departure(process=gone.process, at=at, by=rng.choice(scenario.processes))
        scenario = replace(scenario, departures=(departure,))
    return scenario


def _with_lost_leader(rng: random.Random, traits: Traits, scenario: Scenario) -> Scenario:
    """Who admits stops for good in the middle of it and is evicted; its last words may reach the newcomer alone."""
    longest = scenario.delay.longest
    leader, other, *_ = rng.sample(scenario.processes, len(scenario.processes))
    at = rng.randrange(LOAD_UNTIL)
    stop = at + 1 + rng.randrange(6 * longest)
    clog_at = at + rng.randrange(1, 5 * longest)
    others = [name for name in scenario.processes if name != leader]
    rest = others if rng.random() < 0.7 else rng.sample(others, rng.randint(1, len(others)))
    until = max(stop, clog_at) + rng.randrange(1, 10 * longest)
    # Nothing else goes wrong: that is rare enough by itself.
    scenario = replace(
        scenario,
        joins=(Join(process="x0", at=at, by=leader),),
        departures=(Departure(process=leader, at=stop, by=other),),
        clogs=tuple(Clog(sender=leader, to=name, at=clog_at, until=until) for name in rest),
        options=tuple((name, value) for name, value in scenario.options if name not in ROOMS),
        loss=0.0,
        partitions=(),
        pauses=(),
        crashes=(),
    )
    return replace(scenario, operations=_operations(rng, traits, scenario))


def _joins(rng: random.Random, scenario: Scenario) -> tuple[Join, ...]:
    """One or two newcomers; some return under a new name, most while something else changes, too."""
    gone = [departure.process for departure in scenario.departures]
    stay = [name for name in scenario.processes if name not in gone]
    joins: list[Join] = []
    for at in range(rng.choice((1, 1, 2))):
        departure = scenario.departures[at] if at < len(scenario.departures) else None
        returns = departure is not None and f"{departure.process}.2" not in {join.process for join in joins}
        name = f"{departure.process}.2" if departure is not None and returns else f"x{at}"
        when = rng.randrange(LOAD_UNTIL)
        if departure is not None and rng.random() < 0.6:
            when = departure.at + rng.randrange(4 * scenario.delay.longest)
        elif joins and rng.random() < 0.6:
            when = joins[-1].at + rng.randrange(2 * scenario.delay.longest)
        by = rng.choice(gone) if gone and rng.random() < 0.15 else rng.choice(stay)
        starts = rng.choice((0, when, when + rng.randrange(1, HEAL_AT - LOAD_UNTIL)))
        joins.append(Join(process=name, at=when, by=by, starts=starts))
    return tuple(joins)


def _operations(rng: random.Random, traits: Traits, scenario: Scenario) -> tuple[Operation, ...]:
    """What goes to everybody goes to newcomers, too, and they send as well."""
    new = scenario.newcomers
    everybody = (*scenario.processes, *new)
    levels = [operation.level for operation in scenario.operations]
    changed = []
    for operation in scenario.operations:
        wide = set(operation.to) >= set(scenario.processes) - {operation.process}
        if traits.destinations is Destinations.ONE:
            to = (rng.choice(new),) if rng.random() < 0.3 else operation.to
        else:
            to = (*operation.to, *new) if wide or rng.random() < 0.3 else operation.to
        changed.append(replace(operation, to=to))
    for join in scenario.joins:
        for _ in range(rng.randint(1, 6)):
            others = [name for name in everybody if name != join.process]
            to = (rng.choice(others),) if traits.destinations is Destinations.ONE else everybody
            level = rng.choice(levels) if levels else None
            at = join.at + rng.randrange(HEAL_AT - LOAD_UNTIL)
            changed.append(Operation(process=join.process, at=at, to=to, level=level))
    return tuple(sorted(changed, key=lambda operation: operation.at))


def _crashes(rng: random.Random, scenario: Scenario) -> tuple[Crash, ...]:
    """Of those who admit and of newcomers, while they do."""
    crashes = []
    for join in scenario.joins:
        for process, chance in ((join.by, 0.3), (join.process, 0.3)):
            if rng.random() < chance:
                at = join.at + rng.randrange(6 * scenario.delay.longest)
                down = rng.randrange(1, 40 * MILLISECOND)
                crashes.append(Crash(process=process, call=1, at=at, point=rng.choice(list(Point)), down=down))
    return tuple(crashes)
