"""From a scenario that fails to a small one that fails: leave things out as long as it still does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from beforehand.sim.scenario import Delay, DelayKind, Join, Scenario

__all__ = ["shrink"]

RUNS_MAX: Final = 400
"""How many runs a shrinking may take."""


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], *, runs_max: int = RUNS_MAX) -> Scenario:
    """The smallest scenario found that still fails. `fails(scenario)` must be true."""
    runs = 0
    smaller = True
    while smaller and runs < runs_max:
        smaller = False
        for candidate in _smaller(scenario):
            runs += 1
            if fails(candidate):
                scenario, smaller = candidate, True
                break
            if runs >= runs_max:
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Simpler scenarios, the boldest first."""
    operations = len(scenario.operations)
    size = operations // 2
    while size:
        for start in range(0, operations, size):
            yield without_operations(scenario, set(range(start, min(start + size, operations))))
        size //= 2
    for name in ("joins", "departures", "crashes", "partitions", "clogs", "pauses", "clocks"):
        entries: Any = getattr(scenario, name)
        if len(entries) > 1:
            yield _with(scenario, name, ())
        for at in range(len(entries)):
            yield _with(scenario, name, entries[:at] + entries[at + 1 :])
    yield from _without_a_process(scenario)
    if scenario.loss:
        yield replace(scenario, loss=0.0)
    if scenario.repeat:
        yield replace(scenario, repeat=0.0)
    if scenario.delay != Delay(kind=DelayKind.CONSTANT):
        yield replace(scenario, delay=Delay(kind=DelayKind.CONSTANT))
    if scenario.membership and not scenario.departures and not scenario.joins:
        yield replace(scenario, membership=False)
    if scenario.link and not (scenario.loss or scenario.crashes or scenario.partitions or scenario.membership):
        yield replace(scenario, link=False, repeat=0.0, fifo=True)
    for at, operation in enumerate(scenario.operations):
        if operation.after or operation.depends:
            plain = replace(operation, after=0, depends=())
            yield replace(scenario, operations=(*scenario.operations[:at], plain, *scenario.operations[at + 1 :]))


def without_operations(scenario: Scenario, gone: set[int]) -> Scenario:
    """The scenario without some operations; those that build on them no longer do."""
    places: dict[int, int] = {}
    for at in range(len(scenario.operations)):
        if at not in gone:
            places[at] = len(places)
    kept = tuple(
        replace(o, depends=tuple(places[d] for d in o.depends if d in places))
        for at, o in enumerate(scenario.operations)
        if at not in gone
    )
    return replace(scenario, operations=kept)


def _with(scenario: Scenario, name: str, entries: tuple[Any, ...]) -> Scenario:
    if name == "joins":
        return _without_newcomers(scenario, set(scenario.joins) - set(entries))
    change: dict[str, Any] = {name: entries}
    return replace(scenario, **change)


def _without_newcomers(scenario: Scenario, joins: set[Join]) -> Scenario:
    """Nobody sends to them any more, they do nothing, and no fault names them."""
    gone = {join.process for join in joins}
    operations = [
        replace(o, to=tuple(p for p in o.to if p not in gone)) for o in scenario.operations if o.process not in gone
    ]
    return replace(
        scenario,
        joins=tuple(join for join in scenario.joins if join not in joins),
        operations=tuple(o for o in operations if o.to),
        departures=tuple(x for x in scenario.departures if not {x.process, x.by} & gone),
        crashes=tuple(x for x in scenario.crashes if x.process not in gone),
        pauses=tuple(x for x in scenario.pauses if x.process not in gone),
        clocks=tuple(x for x in scenario.clocks if x.process not in gone),
        clogs=tuple(x for x in scenario.clogs if not {x.sender, x.to} & gone),
        partitions=tuple(x for x in scenario.partitions if not set(x.side) & gone),
    )


def _without_a_process(scenario: Scenario) -> Iterator[Scenario]:
    """One process fewer, if it sends nothing and no fault names it."""
    evicted = {x.process for x in scenario.departures}
    left = len(scenario.processes) - 1
    if left < 2 or 2 * (left - len(evicted)) <= left:
        return  # A majority must stay, or it fails for another reason.
    busy = {o.process for o in scenario.operations}
    busy |= {x.process for x in scenario.crashes} | {x.process for x in scenario.pauses}
    busy |= {x.process for x in scenario.clocks} | {p for x in scenario.departures for p in (x.process, x.by)}
    busy |= {x.by for x in scenario.joins}
    busy |= {p for x in scenario.clogs for p in (x.sender, x.to)} | {p for x in scenario.partitions for p in x.side}
    for name in scenario.processes:
        if name in busy:
            continue
        rest = [replace(o, to=tuple(p for p in o.to if p != name)) for o in scenario.operations]
        if all(o.to for o in rest):
            yield replace(
                scenario, processes=tuple(p for p in scenario.processes if p != name), operations=tuple(rest)
            )
