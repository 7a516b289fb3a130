"""What causal order costs in memory and time: how many messages wait, and how long, against the variance of delays.

The papers say when a message must wait (002, figure 12.2 and problem 12.4; 001, section 4.3) and nothing about how
often it happens. With equal delays nothing can be overtaken and nobody waits; the more delays vary, the more must.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Final

from beforehand.diagram.chart import Panel, chart_svg, figure_text
from beforehand.ordering import PROTOCOLS, Destinations
from beforehand.sim.composing import process_names
from beforehand.sim.experiments.findings import (
    Cell,
    Claim,
    Experiment,
    Findings,
    Progress,
    Size,
    Spread,
    Table,
    line_of,
)
from beforehand.sim.experiments.loads import MEAN, arrivals, delay_of, scenario_of
from beforehand.sim.experiments.observing import Notes, watch
from beforehand.sim.scenario import Operation

__all__ = ["BUFFERING"]

_PROTOCOLS: Final = ("fifo", "causal-unicast", "causal-broadcast", "schiper-causal", "group-leaders")
_BROADCASTS: Final = "to all"
_UNICASTS: Final = "to one"

Key = tuple[str, str, float]  # Destinations, protocol, deviation.


def _run(size: Size, progress: Progress) -> Findings:
    processes, count = (4, 40) if size.quick else (6, 200)
    deviations = (0.0, 0.1, 0.5, 1.5) if size.quick else (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
    found: dict[Key, list[Notes]] = {}
    for destinations in (_BROADCASTS, _UNICASTS):
        for protocol in _PROTOCOLS:
            if destinations == _UNICASTS and PROTOCOLS[protocol].traits.destinations is Destinations.ALL:
                continue
            for deviation in deviations:
                progress(f"{protocol} {destinations}, deviation {deviation:g}")
                found[destinations, protocol, deviation] = [
                    _watched(protocol, destinations, deviation, processes=processes, count=count, seed=seed)
                    for seed in range(size.seeds)
                ]
    rows: list[tuple[Cell, ...]] = [
        (
            *key,
            Spread.of(_share(notes) for notes in runs),
            Spread.of(_wait(notes) for notes in runs),
            Spread.of(notes.waiting_max for notes in runs),
        )
        for key, runs in found.items()
    ]
    return Findings(
        state=(
            f"{processes} processes, each sends 1 message per mean delay at random times, {count} messages, "
            f"{size.seeds} seeds; delays of mean 1 from the bent distribution (most are short, a few long), on links "
            "that reorder; two groups for group-leaders, whose packets make up to three hops"
        ),
        claims=_claims(found, deviations),
        tables=(
            Table(
                title="Packets that wait, against the standard deviation σ of delays; times in mean delays",
                head=("sent", "protocol", "σ", "% that wait", "wait of these", "most at once"),
                rows=tuple(rows),
            ),
        ),
        plot=_plot(found, deviations),
    )


def _watched(protocol: str, destinations: str, deviation: float, *, processes: int, count: int, seed: int) -> Notes:
    names = process_names(processes)
    rng = random.Random(f"buffering/{seed}")
    operations = []
    for at in arrivals(rng, count=count, per_delay=processes, delay=MEAN):
        process = rng.choice(names)
        other = rng.choice([name for name in names if name != process])
        operations.append(Operation(process=process, at=at, to=names if destinations == _BROADCASTS else (other,)))
    scenario = scenario_of(protocol, names, operations, seed=seed, delay=delay_of(deviation), fifo=False)
    return watch(scenario, waits=True)


def _share(notes: Notes) -> float:
    return 100 * len(notes.waits) / notes.received


def _wait(notes: Notes) -> float:
    return sum(notes.waits) / len(notes.waits) / MEAN if notes.waits else 0.0


def _wait_of_all(notes: Notes) -> float:
    return sum(notes.waits) / notes.received / MEAN


def _claims(found: dict[Key, list[Notes]], deviations: tuple[float, ...]) -> tuple[Claim, ...]:
    def mean(destinations: str, protocol: str, deviation: float) -> float:
        return Spread.of(_share(notes) for notes in found[destinations, protocol, deviation]).mean

    still = [notes for key, runs in found.items() if key[2] == 0 and key[1] != "group-leaders" for notes in runs]
    led = [notes for key, runs in found.items() if key[2] == 0 and key[1] == "group-leaders" for notes in runs]
    causal = ("causal-unicast", "causal-broadcast", "schiper-causal")
    last = deviations[-1]
    equal = all(
        sorted(notes.waits) == sorted(other.waits)
        for protocol in causal[1:]
        for deviation in deviations
        for notes, other in zip(
            found[_BROADCASTS, causal[0], deviation], found[_BROADCASTS, protocol, deviation], strict=True
        )
    )
    grows = all(
        mean(sent, protocol, a) <= mean(sent, protocol, b) + 2
        for sent, protocol in {(key[0], key[1]) for key in found}
        for a, b in pairwise(deviations)
    )
    narrow = [d for d in deviations if delay_of(d).longest <= 2 * delay_of(d).shortest]
    same = all(
        sorted(notes.waits) == sorted(other.waits)
        for deviation in narrow
        for notes, other in zip(
            found[_BROADCASTS, "fifo", deviation], found[_BROADCASTS, causal[0], deviation], strict=True
        )
    )
    tail = ", ".join(f"{p} {figure_text(mean(_BROADCASTS, p, last))} %" for p in _PROTOCOLS)
    return (
        Claim(
            text="with equal delays and one hop nobody waits",
            holds=not any(notes.waits for notes in still),
            seen=f"{sum(len(n.waits) for n in still)} waits; with hops by leaders {sum(len(n.waits) for n in led)}",
        ),
        Claim(
            text="more wait the more delays vary (up to 2 points between neighbours, for chance)",
            holds=grows,
            seen=f"at deviation {last:g}, broadcasts: {tail}",
        ),
        Claim(
            text="matrix, vector and ordering clock hold back exactly the same broadcasts for exactly as long",
            holds=equal,
            seen="the waits are equal" if equal else "the waits differ",
        ),
        Claim(
            text="while no delay is more than twice another, causal order holds back no more than FIFO order",
            holds=same,
            seen=f"equal waits at deviation {' and '.join(f'{d:g}' for d in narrow)}: two hops overtake nothing",
        ),
        Claim(
            text="beyond that it holds back more",
            holds=all(mean(_BROADCASTS, p, last) > mean(_BROADCASTS, "fifo", last) for p in causal),
            seen=f"{figure_text(mean(_BROADCASTS, causal[0], last))} % instead of "
            f"{figure_text(mean(_BROADCASTS, 'fifo', last))} %",
        ),
    )


def _plot(found: dict[Key, list[Notes]], deviations: tuple[float, ...]) -> str:
    panels = []
    for destinations in (_BROADCASTS, _UNICASTS):
        for title, label, figure in (
            ("packets that wait", "% of all", _share),
            ("time that a packet waits", "mean over all, in mean delays", _wait_of_all),
        ):
            lines = [
                line_of(p, [(d, Spread.of(map(figure, found[destinations, p, d]))) for d in deviations])
                for p in _PROTOCOLS
                if (destinations, p, 0.0) in found
            ]
            panels.append(
                Panel(
                    title=f"Messages {destinations}: {title}",
                    x_label="standard deviation of delays, mean 1",
                    y_label=label,
                    lines=tuple(lines),
                )
            )
    return chart_svg(panels, title="Waiting for causal order, against the variance of delays")


BUFFERING: Final = Experiment(
    name="buffering",
    title="How many messages wait for causal order, and how long, against the variance of delays",
    paper="002, section 12.2 and problems 12.4 and 12.7; 001, section 4.3",
    run=_run,
)
