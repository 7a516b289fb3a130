"""A star with FIFO channels is causally ordered (002, problem 12.5), and one link more makes it so no longer.

P1 … Pn talk to P0 only, P0 to all of them, and every channel is FIFO. Why nothing can be overtaken: let
send(m) → send(m') and both go to p. If p is a leaf, both come from P0, in the order of sending. If p = P0, let q be
the leaf that sent m: if m' is from q too, they come in the order of sending; else the chain from send(m) leaves q
with a message to P0 that is m or comes after it, and P0 got that before m' was sent. With a direct channel from P1 to
P2 the detour through P0 can be the faster.
"""

from __future__ import annotations

import random
from dataclasses import replace
from enum import StrEnum
from typing import Final

from beforehand.diagram.chart import Panel, chart_svg
from beforehand.events import Event
from beforehand.history import History
from beforehand.sim.experiments.findings import (
    Cell,
    Claim,
    Experiment,
    Findings,
    Progress,
    Size,
    Spread,
    Table,
    share_line,
)
from beforehand.sim.experiments.loads import MEAN, arrivals, delay_of, scenario_of
from beforehand.sim.experiments.told_runs import drawn, ran
from beforehand.sim.record import Record
from beforehand.sim.scenario import Operation

__all__ = ["STAR", "Links"]


class Links(StrEnum):
    """Who may talk to whom, and how the channels are."""

    STAR = "star, FIFO"
    DIRECT = "star and P1 → P2, FIFO"
    DIRECT_CAUSAL = "star and P1 → P2, causal-unicast"
    REORDERING = "star, channels that reorder"


def _run(size: Size, progress: Progress) -> Findings:
    leaves, messages = (3, 20) if size.quick else (5, 60)
    deviations = (0.25, 1.0) if size.quick else (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
    overtaken: dict[tuple[Links, float], list[int]] = {}
    for links in Links:
        for deviation in deviations:
            progress(f"{links}, deviation {deviation:g}")
            overtaken[links, deviation] = [
                _overtaken(_ran(links, leaves, messages, deviation, seed)) for seed in range(size.seeds)
            ]

    def broken(links: Links) -> str:
        runs = [number for d in deviations for number in overtaken[links, d]]
        return f"{sum(map(bool, runs))} of {len(runs)} runs, {sum(runs)} messages overtaken"

    def kept(links: Links) -> bool:
        return not any(any(overtaken[links, d]) for d in deviations)

    counterexample = _counterexample()
    rows: list[tuple[Cell, ...]] = [
        (str(links), deviation, sum(map(bool, found)), Spread.of(found))
        for (links, deviation), found in overtaken.items()
    ]
    return Findings(
        state=(
            f"P0 and {leaves} leaves, {messages} messages in all, each but the first few sent because of one that "
            f"was received; delays of mean 1; {size.seeds} seeds; protocol `unordered` unless another is named"
        ),
        claims=(
            Claim(
                text="a star with FIFO channels is causally ordered (002, problem 12.5)",
                holds=kept(Links.STAR),
                seen=f"broken in {broken(Links.STAR)}",
            ),
            Claim(
                text="with a channel between two leaves FIFO is not enough",
                holds=_overtaken(counterexample) > 0,
                seen=f"broken in {broken(Links.DIRECT)}; the shortest counterexample has 3",
            ),
            Claim(
                text="a causal protocol mends that",
                holds=kept(Links.DIRECT_CAUSAL),
                seen=f"broken in {broken(Links.DIRECT_CAUSAL)}",
            ),
            Claim(
                text="the star needs FIFO channels",
                holds=not kept(Links.REORDERING),
                seen=f"without them broken in {broken(Links.REORDERING)}",
            ),
        ),
        tables=(
            Table(
                title=f"Causal order in {size.seeds} runs each, against the deviation of delays",
                head=("channels", "deviation", "runs that break it", "messages overtaken in a run"),
                rows=tuple(rows),
            ),
        ),
        plot=_plot(overtaken, deviations),
        examples={"counterexample": _drawn(counterexample)},
    )


class _Talk:
    """Leaves and the centre answer what they receive, as long as there are messages left."""

    def __init__(self, links: Links, leaves: int, messages: int, seed: int) -> None:
        self.names: Final = tuple(f"P{at}" for at in range(leaves + 1))
        self._direct: Final = links in (Links.DIRECT, Links.DIRECT_CAUSAL)
        self._rng: Final = random.Random(f"star/{seed}")
        first = max(leaves, messages // 4)
        self._left = messages - first
        times = arrivals(self._rng, count=first, per_delay=leaves, delay=MEAN)
        self.operations: Final = [self._sends(self._rng.choice(self.names), at) for at in times]

    def _sends(self, process: str, at: int) -> Operation:
        if process == "P0":
            to = self._rng.choice(self.names[1:])
        elif process == "P1" and self._direct and self._rng.random() < 0.5:
            to = "P2"
        else:
            to = "P0"
        return Operation(process=process, at=at, to=(to,))

    def __call__(self, process: str, operation: Operation, now: int) -> list[Operation]:  # noqa: ARG002
        answers = min(self._left, self._rng.choice((1, 1, 2)))
        self._left -= answers
        return [self._sends(process, now) for _ in range(answers)]


def _ran(links: Links, leaves: int, messages: int, deviation: float, seed: int) -> Record:
    talk = _Talk(links, leaves, messages, seed)
    protocol = "causal-unicast" if links is Links.DIRECT_CAUSAL else "unordered"
    scenario = scenario_of(
        protocol,
        talk.names,
        talk.operations,
        seed=seed,
        delay=delay_of(deviation),
        fifo=links is not Links.REORDERING,
        until=1_000 * MEAN,
    )
    return ran(scenario, talk)


def _overtaken(record: Record) -> int:
    return History(record.events).check(limit=1).counts["causal"]


def _counterexample() -> Record:
    """P1 sends to P2 directly, then to P0, which passes it on: the shortest chain that can overtake, and does."""
    scenario = scenario_of(
        "unordered",
        ("P0", "P1", "P2"),
        [Operation(process="P1", at=0, to=("P2",)), Operation(process="P1", at=MEAN // 4, to=("P0",))],
        seed=0,
        delay=delay_of(1.0),
        fifo=True,
    )

    def pass_on(process: str, _: Operation, now: int) -> list[Operation]:
        return [Operation(process="P0", at=now, to=("P2",))] if process == "P0" else []

    return next(run for run in (ran(replace(scenario, seed=s), pass_on) for s in range(1_000)) if _overtaken(run))


def _drawn(record: Record) -> str:
    words = {"P1.1": "directly", "P1.2": "to P0", "P0.1": "passed on"}

    def told(event: Event) -> str:
        if event.receives:
            return f"gets {words[event.receives[0]]}" if event.process == "P2" else "gets it"
        return words[event.sends[0]]

    title = "A star and one link more, all channels FIFO: the direct message is overtaken"
    return drawn(record, told, title=title, processes=("P1", "P0", "P2"), overtaken=("P1.1",))


def _plot(overtaken: dict[tuple[Links, float], list[int]], deviations: tuple[float, ...]) -> str:
    lines = [share_line(str(links), [(d, overtaken[links, d]) for d in deviations]) for links in Links]
    panel = Panel(
        title="Runs that break causal order",
        x_label="standard deviation of delays, mean 1",
        y_label="% of runs",
        lines=tuple(lines),
    )
    return chart_svg([panel], title="A star with FIFO channels is causally ordered")


STAR: Final = Experiment(
    name="star",
    title="A star with FIFO channels is causally ordered; with one link more it is not",
    paper="002, problem 12.5",
    run=_run,
    seeds=40,
)
