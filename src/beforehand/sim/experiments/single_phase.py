"""What total order costs: latency and packets per operation against load, evenness and delays (004, sections 4 to 6).

The paper claims that its protocol is the faster and the cheaper, the more is sent and the more evenly, and leaves the
measuring to future work ("the mean latency time per group operation, the mean number of acknowledgment messages").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from beforehand.diagram.chart import Panel, chart_svg, figure_text
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
    quantile,
)
from beforehand.sim.experiments.loads import scenario_of
from beforehand.sim.experiments.observing import watch
from beforehand.sim.experiments.single_phase_runs import (
    EXACT,
    VARIANTS,
    D,
    Figures,
    Pattern,
    Variant,
    measured,
)
from beforehand.sim.scenario import Delay, DelayKind, Operation

__all__ = ["SINGLE_PHASE"]

_BASIC, _OPTIMIZED, _TO_ORIGIN, _SKEEN = VARIANTS[:4]
_SHARES: Final = (0.05, 0.5, 0.95, 0.99)
_DELAYS: Final = {
    "all d": EXACT,
    "uniform 0.1 d to d": Delay(kind=DelayKind.UNIFORM, shortest=D // 10, longest=D),
    "mostly short, up to d": Delay(kind=DelayKind.EXPONENTIAL, shortest=D // 10, longest=D),
}
_FIGURES: Final = {"remote": "remote_mean", "origin": "origin_mean", "multicasts": "multicasts", "packets": "singles"}
_LATENCY: Final = "remote: arrival to execution; origin: generation to execution; both in d"

Runs = list[Figures]  # One for each seed.


def _run(size: Size, progress: Progress) -> Findings:
    processes = 4 if size.quick else 6
    loads = (0.1, 1, 30) if size.quick else (0.1, 0.3, 1, 3, 10, 30)
    count = 30 if size.quick else 120
    groups = _groups(processes, quick=size.quick)

    def runs(variant: Variant, load: float, senders: Sequence[int] | None = None, **more: object) -> Runs:
        progress(f"{variant.name}, {load:g} operations per delay")
        number = max(count, int((6 if size.quick else 20) * load))
        return [
            measured(variant, processes=processes, count=number, load=load, seed=s, senders=senders, **more)  # type: ignore[arg-type]
            for s in range(size.seeds)
        ]

    by_load = {(v, load): runs(v, load) for v in VARIANTS for load in loads}
    by_group = {(v, name): runs(v, processes / 2, group) for v in VARIANTS for name, group in groups.items()}
    heavy = (1, 30) if size.quick else (1, 3, 10, 30, 100)
    by_pattern: dict[tuple[Pattern, float], Runs] = {
        (p, load): runs(_OPTIMIZED, load, pattern=p) for p in Pattern for load in heavy
    }
    by_delay = {(name, v): runs(v, 1, delay=delay) for name, delay in _DELAYS.items() for v in VARIANTS}
    every = [*by_load.values(), *by_group.values(), *by_pattern.values(), *by_delay.values()]
    assert all(figures.agree for found in every for figures in found), "the sites do not agree"
    tables = (
        Table(
            title=f"Against load: operations per d, all sites equally. {_LATENCY}",
            head=("protocol", "load", *_FIGURES),
            rows=tuple((v.name, load, *_cells(found)) for (v, load), found in by_load.items()),
        ),
        Table(
            title=f"Against evenness: who sends (first, last, last 2 …), {processes / 2:g} per d. {_LATENCY}",
            head=("protocol", "who", *_FIGURES),
            rows=tuple((v.name, group, *_cells(found)) for (v, group), found in by_group.items()),
        ),
        Table(
            title=f"Even load in three patterns, single-phase optimized. {_LATENCY}",
            head=("operations", "asked", "load", "remote", "origin", "acknowledgements"),
            rows=tuple(
                (str(p), load, *(_over(found, f) for f in ("load", "remote_mean", "origin_mean", "acknowledgements")))
                for (p, load), found in by_pattern.items()
            ),
        ),
        _distributions(by_delay),
    )
    return Findings(
        state=(
            f"{processes} sites, {size.seeds} seeds (mean, and the range over seeds); every delay exactly d unless "
            "the table says otherwise; the network keeps the order of each link where the protocol asks for it"
        ),
        claims=_claims(processes, by_load, by_group, by_pattern, by_delay, loads),
        tables=tables,
        plot=_plot(processes, by_load, by_group, groups),
    )


def _groups(processes: int, *, quick: bool) -> dict[str, tuple[int, ...]]:
    """Who sends: from one site, the first or the last in the order of identifiers, to all."""
    last = {str(k): tuple(range(processes - k, processes)) for k in range(2, processes) if not quick}
    return {"1st": (0,), "last": (processes - 1,), **last, "all": tuple(range(processes))}


def _over(found: Runs, figure: str) -> Spread:
    """The spread of one of the figures over the runs."""
    return Spread.of(getattr(figures, figure) for figures in found)


def _cells(found: Runs) -> tuple[Cell, ...]:
    return tuple(_over(found, figure) for figure in _FIGURES.values())


def _distributions(by_delay: dict[tuple[str, Variant], Runs]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for (name, variant), found in by_delay.items():
        for where, values in (
            ("remote", sorted(chain.from_iterable(f.remote for f in found))),
            ("origin", sorted(chain.from_iterable(f.origin for f in found))),
        ):
            shares = [quantile(values, share) for share in _SHARES]
            rows.append((name, variant.name, where, values[0], *shares, values[-1]))
    return Table(
        title=f"Distributions at 1 operation per d, all sites equally, over all seeds. {_LATENCY}",
        head=("delays", "protocol", "where", "min", *(f"{share * 100:g} %" for share in _SHARES), "max"),
        rows=tuple(rows),
    )


def _claims(
    processes: int,
    by_load: dict[tuple[Variant, float], Runs],
    by_group: dict[tuple[Variant, str], Runs],
    by_pattern: dict[tuple[Pattern, float], Runs],
    by_delay: dict[tuple[str, Variant], Runs],
    loads: Sequence[float],
) -> tuple[Claim, ...]:
    def all_of(*variants: Variant) -> Iterable[Figures]:
        return [f for found in (by_load, by_group) for (v, _), runs in found.items() if v in variants for f in runs]

    slowest = max(f.remote[-1] for f in all_of(_BASIC, _OPTIMIZED))
    varying = max(f.remote[-1] for (_, v), runs in by_delay.items() if v in (_BASIC, _OPTIMIZED) for f in runs)
    longest = max(f.origin[-1] for f in all_of(_BASIC, _OPTIMIZED))
    first = [_alone(v, 0) for v in (_BASIC, _OPTIMIZED)]
    skeen_alone = _alone(_SKEEN, 0)
    skeen_least = min(f.remote[0] for f in all_of(_SKEEN))
    acknowledged = [f.acknowledgements for f in all_of(_OPTIMIZED)]
    heaviest = max(load for _, load in by_pattern)
    fewest = {p: _over(by_pattern[p, heaviest], "acknowledgements").mean for p in Pattern}
    shortest = {p: _over(by_pattern[p, heaviest], "remote_mean").mean for p in Pattern}
    basic, two_phase = by_load[_BASIC, loads[0]], by_load[_SKEEN, loads[0]]
    light = {v: _over(by_load[v, loads[0]], "singles").mean for v in (_OPTIMIZED, _TO_ORIGIN)}
    told = ", ".join(f"{figure_text(round(value, 3))} {p}" for p, value in fewest.items())
    independent = shortest.pop(Pattern.RANDOM)
    waits = ", ".join(f"{figure_text(round(value, 3))} d {p}" for p, value in shortest.items())
    return (
        Claim(
            text="arrival to execution at remote sites is within [0, d], every delay being d (004, 4.3)",
            holds=slowest <= 1,
            seen=f"at most {figure_text(slowest)} d",
        ),
        Claim(
            text="the same where d is the largest of varying delays (004, 4.3 and abstract)",
            holds=varying <= 1,
            seen=f"up to {figure_text(varying)} d: what came early waits for what comes late",
        ),
        Claim(
            text="generation to execution at the origin is within [0, d] (the abstract, read so)",
            holds=longest <= 1,
            seen=f"up to {figure_text(longest)} d: a lone origin waits for the way there and back, [0, 2d]",
        ),
        Claim(
            text="0 for the lowest identifier when all clocks agree (004, 4.3)",
            holds=all(value == 0 for pair in first for value in pair),
            seen=f"the first operation, by the first site: {figure_text(max(map(max, first)))} d everywhere",
        ),
        Claim(
            text="two-phase protocols: arrival to execution is at least 2d (004, 4.3)",
            holds=skeen_alone[0] == 2 and skeen_least >= 2,
            seen=f"Skeen: {figure_text(skeen_alone[0])} d alone, never below {figure_text(skeen_least)} d",
        ),
        Claim(
            text=f"acknowledgements per operation are in [0, N − 1] = [0, {processes - 1}] in multicasts (004, 5)",
            holds=min(acknowledged) >= 0 and max(acknowledged) <= processes - 1,
            seen=f"means of runs from {figure_text(round(min(acknowledged), 3))} to {figure_text(max(acknowledged))}",
        ),
        Claim(
            text="under heavy even load acknowledgements fall towards 0 (004, 5)",
            holds=max(fewest.values()) < 0.5,
            seen=f"per operation, at {heaviest:g} asked per d: {told}",
        ),
        Claim(
            text="under heavy even load latency falls towards 0 (004, 5): sites that keep pace with each other",
            holds=max(shortest.values()) < 0.2,
            seen=f"arrival to execution: {waits}",
        ),
        Claim(
            text="the same for sites that send at random, independently of each other",
            holds=independent < 0.2,
            seen=f"{figure_text(round(independent, 3))} d: logical clocks drift apart by up to d's worth of sends",
        ),
        Claim(
            text="packets per operation: basic N and N(N − 1), two phases N + 1 and 3(N − 1) (004, 4.3)",
            holds=all(
                f.multicasts == whole and f.singles == single
                for runs, whole, single in (
                    (basic, processes, processes * (processes - 1)),
                    (two_phase, processes + 1, 3 * (processes - 1)),
                )
                for f in runs
            ),
            seen=f"{_counts(basic)} and {_counts(two_phase)}",
        ),
        Claim(
            text="acknowledging to the origin alone saves packets in point-to-point networks (004, 6: future work)",
            holds=light[_TO_ORIGIN] < light[_OPTIMIZED],
            seen=f"at light load {figure_text(light[_TO_ORIGIN])} instead of {figure_text(light[_OPTIMIZED])}",
        ),
    )


def _counts(found: Runs) -> str:
    multicasts, singles = _over(found, "multicasts"), _over(found, "singles")
    return f"{figure_text(multicasts.mean)} multicasts or {figure_text(singles.mean)} packets"


def _alone(variant: Variant, sender: int, processes: int = 3) -> tuple[float, float]:
    """(remote, origin) of one operation in an idle group: the longest of each, in d."""
    names = process_names(processes)
    operation = Operation(process=names[sender], at=0, to=names)
    notes = watch(scenario_of(variant.protocol, names, [operation], seed=0, delay=EXACT, options=variant.options))
    waits = [(notes.delivered[process, message] - at) / D for (process, message), at in notes.arrived.items()]
    (message,) = notes.sent
    return max(waits), (notes.delivered[names[sender], message] - notes.sent[message]) / D


def _plot(
    processes: int,
    by_load: dict[tuple[Variant, float], Runs],
    by_group: dict[tuple[Variant, str], Runs],
    groups: dict[str, tuple[int, ...]],
) -> str:
    def panel(title: str, label: str, figure: str, *, evenness: bool = False) -> Panel:
        lines = []
        for variant in VARIANTS:
            if evenness:
                points = [
                    (float(len(group)), _over(by_group[variant, n], figure))
                    for n, group in groups.items()
                    if n != "1st"
                ]
            else:
                points = [(load, _over(found, figure)) for (v, load), found in by_load.items() if v is variant]
            lines.append(line_of(variant.name, points))
        x_label = f"senders of {processes}, the last ones" if evenness else "operations per d, all sites equally"
        return Panel(title=title, x_label=x_label, y_label=label, lines=tuple(lines), logarithmic_x=not evenness)

    panels = [
        panel("Arrival to execution at remote sites", "mean, in d", "remote_mean"),
        panel("Generation to execution at the origin", "mean, in d", "origin_mean"),
        panel("Packets, multicasts counted once", "per operation", "multicasts"),
        panel("Packets, counted per destination", "per operation", "singles"),
        panel("Arrival to execution at remote sites", "mean, in d", "remote_mean", evenness=True),
        panel("Packets, multicasts counted once", "per operation", "multicasts", evenness=True),
    ]
    return chart_svg(panels, title=f"Total order in a group of {processes}: latency and packets per operation")


SINGLE_PHASE: Final = Experiment(
    name="single-phase",
    title="Latency and acknowledgements of total order against load and evenness",
    paper="004, sections 4 to 6",
    run=_run,
)
