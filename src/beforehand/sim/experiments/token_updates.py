"""Updates by whoever has the token: causal order brings them to all sites in one order (002, problem 12.1).

Why: let u be an update before u'. If one site made both in one turn, send(u) → send(u'). Else the token went on from
the site of u, after u was sent, to that of u', perhaps by others, before u' was sent; so again send(u) → send(u'),
and causal order has every site deliver u first. The token must be passed by messages of the same communication: what
goes on outside of it makes no → that a protocol could see.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from beforehand.diagram.chart import Panel, chart_svg
from beforehand.events import Event
from beforehand.ordering import PROTOCOLS, Destinations
from beforehand.sim.composing import process_names
from beforehand.sim.experiments.findings import (
    Cell,
    Claim,
    Experiment,
    Findings,
    Progress,
    Size,
    Table,
    share_line,
)
from beforehand.sim.experiments.loads import MEAN, delay_of, scenario_of
from beforehand.sim.experiments.told_runs import drawn, ran
from beforehand.sim.record import Record
from beforehand.sim.scenario import Operation

__all__ = ["TOKEN_UPDATES"]

_OUTSIDE: Final = "causal-unicast, token outside"
_CAUSAL: Final = ("causal-unicast", "causal-broadcast", "schiper-causal", "group-leaders")
_LINES: Final = ("unordered", "fifo", *_CAUSAL, _OUTSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step(Operation):
    """An update, by its number from 1, or the token for a turn, which is not the first."""

    update: int = 0
    turn: int = 0


class _Sites:
    """What runs at all sites: whoever gets the token makes updates and passes it on; everybody applies updates."""

    def __init__(self, names: tuple[str, ...], holders: Sequence[str], *, updates: int, to_all: bool) -> None:
        self._names: Final = names
        self._holders: Final = holders
        self._updates: Final = updates  # In each turn.
        self._to_all: Final = (
            to_all  # The protocol has broadcasts only: the token goes to all, and its holder takes it.
        )
        self.applied: Final[dict[str, list[int]]] = {name: [] for name in names}

    def __call__(self, process: str, operation: Operation, now: int) -> list[_Step]:
        assert isinstance(operation, _Step)
        if operation.update:
            self.applied[process].append(operation.update)
        elif self._holders[operation.turn] == process:
            return [*self.changes(operation.turn, now), *self.token(operation.turn, now)]
        return []

    def changes(self, turn: int, now: int) -> list[_Step]:
        """The updates of a turn."""
        return [
            _Step(
                process=self._holders[turn],
                at=now + at * MEAN // 10,
                to=self._names,
                update=turn * self._updates + at + 1,
            )
            for at in range(self._updates)
        ]

    def token(self, turn: int, now: int) -> list[_Step]:
        """The token to the next holder, if there is one."""
        if turn + 1 >= len(self._holders):
            return []
        at = now + self._updates * MEAN // 10
        to = self._names if self._to_all else (self._holders[turn + 1],)
        return [_Step(process=self._holders[turn], at=at, to=to, turn=turn + 1)]


def _run(size: Size, progress: Progress) -> Findings:
    sites, turns, updates = (3, 5, 1) if size.quick else (5, 12, 2)
    deviations = (0.25, 1.0) if size.quick else (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
    differ: dict[tuple[str, float], list[bool]] = {}
    for line in _LINES:
        for deviation in deviations:
            progress(f"{line}, deviation {deviation:g}")
            differ[line, deviation] = [
                _differ(_ran(line, sites, turns, updates, deviation, seed)[1]) for seed in range(size.seeds)
            ]

    def seen(*lines: str) -> int:
        return sum(sum(differ[line, d]) for line in lines for d in deviations)

    runs = len(deviations) * size.seeds
    rows: list[tuple[Cell, ...]] = [
        (line, *(sum(differ[line, deviation]) for deviation in deviations)) for line in _LINES
    ]
    return Findings(
        state=(
            f"{sites} sites, {turns} turns with the token at sites drawn at random, updates in each: {updates}; "
            f"delays of mean 1 on channels that reorder; {size.seeds} seeds"
        ),
        claims=(
            Claim(
                text="under causal order updates arrive in the same order at all sites (002, problem 12.1)",
                holds=seen(*_CAUSAL) == 0,
                seen=f"different in {seen(*_CAUSAL)} of {runs * len(_CAUSAL)} runs of {len(_CAUSAL)} protocols",
            ),
            Claim(
                text="under FIFO order they do not",
                holds=seen("fifo") > 0,
                seen=f"different in {seen('fifo')} of {runs} runs",
            ),
            Claim(
                text="the token must be passed by the same communication (the problem does not say so)",
                holds=seen(_OUTSIDE) > 0,
                seen=f"passed outside of it, under causal order: different in {seen(_OUTSIDE)} of {runs} runs",
            ),
        ),
        tables=(
            Table(
                title=f"Runs of {size.seeds} in which sites saw different orders, against the deviation of delays",
                head=("communication", *(f"{deviation:g}" for deviation in deviations)),
                rows=tuple(rows),
            ),
        ),
        plot=_plot(differ, deviations),
        examples={"fifo": _example("fifo"), "causal": _example("causal-unicast")},
    )


def _ran(
    line: str, sites: int, turns: int, updates: int, deviation: float, seed: int
) -> tuple[Record, dict[str, list[int]]]:
    """The run, and of each site the updates in the order in which it applied them."""
    names = process_names(sites)
    rng = random.Random(f"token/{seed}")
    holders = [names[0]]
    while len(holders) < turns:
        holders.append(rng.choice([name for name in names if name != holders[-1]]))
    protocol = "causal-unicast" if line == _OUTSIDE else line
    to_all = PROTOCOLS[protocol].traits.destinations is Destinations.ALL
    scheme = _Sites(names, holders, updates=updates, to_all=to_all)
    if line == _OUTSIDE:  # The token takes a mean delay from holder to holder, by a way that nobody sees.
        slot = MEAN + updates * MEAN // 10
        operations = [step for turn in range(turns) for step in scheme.changes(turn, turn * slot)]
    else:
        operations = [*scheme.changes(0, 0), *scheme.token(0, 0)]
    scenario = scenario_of(
        protocol, names, operations, seed=seed, delay=delay_of(deviation), fifo=False, until=1_000 * MEAN
    )
    return ran(scenario, scheme), scheme.applied


def _differ(applied: dict[str, list[int]]) -> bool:
    return len({tuple(order) for order in applied.values()}) > 1


def _example(protocol: str) -> str:
    """Three sites, two turns, one update in each; the first seed under which FIFO order lets them differ."""
    seed = next(s for s in range(1_000) if _differ(_ran("fifo", 3, 2, 1, 1.0, s)[1]))
    record, applied = _ran(protocol, 3, 2, 1, 1.0, seed)
    words: dict[str, str] = {}
    for message, _ in record.sent.values():
        words[message.id] = "token" if len(message.to) == 1 else f"update {1 + sum('u' in w for w in words.values())}"

    def told(event: Event) -> str:
        return words[event.receives[0]] if event.receives else f"sends {words[event.sends[0]]}"

    ends = "sites differ" if _differ(applied) else "all sites agree"
    title = f"Updates by whoever has the token, under {protocol}: {ends}"
    return drawn(record, told, title=title, processes=process_names(3))


def _plot(differ: dict[tuple[str, float], list[bool]], deviations: tuple[float, ...]) -> str:
    lines = [share_line(line, [(d, differ[line, d]) for d in deviations]) for line in _LINES]
    panel = Panel(
        title="Runs in which sites saw different orders",
        x_label="standard deviation of delays, mean 1",
        y_label="% of runs",
        lines=tuple(lines),
    )
    return chart_svg([panel], title="Updates by whoever has the token")


TOKEN_UPDATES: Final = Experiment(
    name="token-updates",
    title="Updates by whoever has the token: one order under causal order, not under FIFO order",
    paper="002, problem 12.1",
    run=_run,
    seeds=40,
)
