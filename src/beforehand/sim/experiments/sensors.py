"""Is causal order sufficient? Replicas that calculate with what they deliver, in causal and in total order (003).

Each sensor keeps W = max(W, reading) + 5, over its own readings and those of all others, in the order of delivery.
Two concurrent readings give different values in different orders: 10 then 50 leaves 55, 50 then 10 leaves 60.
"""

from __future__ import annotations

import random
from typing import Final

from beforehand.diagram.chart import Panel, chart_svg
from beforehand.events import Event
from beforehand.ordering import PROTOCOLS
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
from beforehand.sim.experiments.loads import MEAN, arrivals, delay_of, scenario_of
from beforehand.sim.experiments.told_runs import drawn, ran
from beforehand.sim.record import Record
from beforehand.sim.scenario import Operation

__all__ = ["SENSORS", "readings_of", "states"]

_PROTOCOLS: Final = (
    "unordered",
    "fifo",
    "causal-broadcast",
    "skeen",
    "coordinator",
    "rotating-token",
    "lamport-total",
    "single-phase",
)
_STEP: Final = 5
_READING_MAX: Final = 100


def _run(size: Size, progress: Progress) -> Findings:
    sensors, readings = (3, 6) if size.quick else (4, 12)
    loads = (0.1, 10.0) if size.quick else (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    unequal: dict[tuple[str, float], list[bool]] = {}
    for protocol in _PROTOCOLS:
        for load in loads:
            progress(f"{protocol}, {load:g} readings per delay")
            unequal[protocol, load] = [
                len(set(states(_ran(protocol, sensors, readings, load, seed), seed).values())) > 1
                for seed in range(size.seeds)
            ]
    ordered = [p for p in _PROTOCOLS if PROTOCOLS[p].traits.total]
    runs = len(loads) * size.seeds
    causal = sum(sum(unequal["causal-broadcast", load]) for load in loads)
    total = sum(sum(unequal[p, load]) for p in ordered for load in loads)
    seed = next(s for s in range(1_000) if len(set(states(_ran("causal-broadcast", 3, 3, 3.0, s), s).values())) > 1)
    examples = {word: _example(protocol, seed) for word, protocol in _EXAMPLES.items()}
    rows: list[tuple[Cell, ...]] = [
        (p, _yes(PROTOCOLS[p].traits.causal), _yes(PROTOCOLS[p].traits.total), *(sum(unequal[p, x]) for x in loads))
        for p in _PROTOCOLS
    ]
    return Findings(
        state=(
            f"{sensors} sensors, {readings} readings in all, at random times; delays of mean 1 and deviation 1; "
            f"{size.seeds} seeds; the two runs that are drawn have 3 sensors and 3 readings, seed {seed}"
        ),
        claims=(
            Claim(
                text="under causal order replicas can end unequal (003)",
                holds=causal > 0,
                seen=f"in {causal} of {runs} runs",
            ),
            Claim(
                text="under total order replicas end equal (003)",
                holds=total == 0,
                seen=f"unequal in {total} of {len(ordered) * runs} runs of {len(ordered)} protocols",
            ),
        ),
        tables=(
            Table(
                title=f"Runs of {size.seeds} in which replicas ended unequal, against readings per mean delay",
                head=("protocol", "causal", "total", *(f"{load:g}" for load in loads)),
                rows=tuple(rows),
            ),
            *(_table(word, protocol, seed) for word, protocol in _EXAMPLES.items()),
        ),
        plot=_plot(unequal, loads),
        examples=examples,
    )


_EXAMPLES: Final = {"causal": "causal-broadcast", "total": "lamport-total"}


def _yes(promised: bool) -> str:
    return "yes" if promised else "-"


def _ran(protocol: str, sensors: int, readings: int, load: float, seed: int) -> Record:
    names = process_names(sensors)
    rng = random.Random(f"sensors/{seed}")
    operations = [
        Operation(process=rng.choice(names), at=at, to=names)
        for at in arrivals(rng, count=readings, per_delay=load, delay=MEAN)
    ]
    return ran(scenario_of(protocol, names, operations, seed=seed, delay=delay_of(1.0)))


def readings_of(record: Record, seed: int) -> dict[str, int]:
    """What each message says: a reading that follows from the seed and the position of its operation."""
    return {
        message.id: random.Random(f"reading/{seed}/{int(message.payload)}").randrange(_READING_MAX)
        for message, _ in record.sent.values()
    }


def states(record: Record, seed: int) -> dict[str, int]:
    """W of each replica at the end."""
    readings = readings_of(record, seed)
    return {process: _calculated([readings[m] for m in order])[-1] for process, order in record.delivered.items()}


def _calculated(readings: list[int]) -> list[int]:
    """W after each reading."""
    values = [0]
    for reading in readings:
        values.append(max(values[-1], reading) + _STEP)
    return values[1:]


def _table(word: str, protocol: str, seed: int) -> Table:
    record = _ran(protocol, 3, 3, 3.0, seed)
    readings = readings_of(record, seed)
    rows = []
    for process, order in sorted(record.delivered.items()):
        told = ", ".join(
            f"{readings[m]} → {w}" for m, w in zip(order, _calculated([readings[m] for m in order]), strict=True)
        )
        rows.append((process, told, states(record, seed)[process]))
    return Table(
        title=f"One run in {word} order ({protocol}): readings as they are delivered, and W after each",
        head=("replica", "reading → W", "W at the end"),
        rows=tuple(rows),
    )


def _example(protocol: str, seed: int) -> str:
    record = _ran(protocol, 3, 3, 3.0, seed)
    readings = readings_of(record, seed)
    state = dict.fromkeys(record.delivered, 0)

    def told(event: Event) -> str:
        if not event.receives:
            return f"reads {readings[event.sends[0]]}"
        reading = readings[event.receives[0]]
        state[event.process] = max(state[event.process], reading) + _STEP
        return f"{reading}: W = {state[event.process]}"

    values = sorted(set(states(record, seed).values()))
    ends = f"all end with {values[0]}" if len(values) == 1 else f"they end with {' and '.join(map(str, values))}"
    return drawn(record, told, title=f"W = max(W, reading) + 5 under {protocol}: {ends}", processes=process_names(3))


def _plot(unequal: dict[tuple[str, float], list[bool]], loads: tuple[float, ...]) -> str:
    lines = [share_line(protocol, [(load, unequal[protocol, load]) for load in loads]) for protocol in _PROTOCOLS]
    panel = Panel(
        title="Runs in which replicas end unequal",
        x_label="readings per mean delay",
        y_label="% of runs",
        lines=tuple(lines),
        logarithmic_x=True,
    )
    return chart_svg([panel], title="Is causal order sufficient?")


SENSORS: Final = Experiment(
    name="sensors",
    title="Replicas of a sensor field in causal order and in total order",
    paper='003, "Is causal order sufficient?"',
    run=_run,
    seeds=40,
)
