"""What merging by bounded stamps costs and how soon it recovers: bytes against n and against time, recovery against
ε + δ."""

from __future__ import annotations

import random
from collections import defaultdict
from math import log2
from typing import Final

from beforehand.clocks import BoundedClock, Bounds, Received
from beforehand.diagram.chart import Panel, chart_svg
from beforehand.sim.experiments.findings import Claim, Experiment, Findings, Progress, Size, Spread, Table, line_of
from beforehand.sim.stabilizing import Fault, try_seed

__all__ = ["MERGE_STAMPS"]

_EPSILONS: Final = (2, 5, 10)
_DELTA: Final = 20
_WIRE_MAX: Final = 2**16
_RUNS_PER_SEED: Final = 100  # Of each kind of fault.
_FAULTS: Final = (Fault.INITIAL, Fault.ALL)


def _run(size: Size, progress: Progress) -> Findings:
    counts = (1, 16, 128, 1_024) if size.quick else (1, 16, 128, 1_024, 8_192)
    decades = (100, 1_000, 10_000) if size.quick else (100, 1_000, 10_000, 100_000, 1_000_000)
    by_count: dict[tuple[int, int], Spread] = {}
    by_time: dict[tuple[int, int], Spread] = {}
    for epsilon in _EPSILONS:
        for processes in counts:
            progress(f"ε = {epsilon}, {processes} processes")
            by_count[epsilon, processes] = Spread.of([_full_stamp(epsilon, processes)])
        progress(f"ε = {epsilon}, over time")
        for time, sizes in _over_time(epsilon, decades).items():
            by_time[epsilon, time] = Spread.of(sizes)
    recoveries, bounds = _recoveries(size, progress)
    scales = sorted(recoveries)
    return Findings(
        state=(
            f"bounded stamps with δ = {_DELTA} and the smallest modulus; bytes as `encode()` writes them. Against n: "
            "all processes have an event in each tick and know of all before it, so that every count up to r is n. "
            "Over time: two processes at the largest skew talk at random, bytes of the last 100 stamps before each "
            f"time. Recovery: {size.seeds * _RUNS_PER_SEED} runs each of the campaign's faults "
            f"{' and '.join(_FAULTS)}, with ε from 0 to 5 and δ from 1 to 17"
        ),
        claims=_claims(by_count, by_time, recoveries, bounds, counts, decades),
        tables=(
            Table(
                title="Bytes of a stamp that knows everything, n processes",
                head=("ε", *(f"n={n}" for n in counts)),
                rows=tuple((f"{e}", *(round(by_count[e, n].mean) for n in counts)) for e in _EPSILONS),
            ),
            Table(
                title="Bytes of a stamp over time, in ticks: mean and largest",
                head=("ε", *(f"t={t}" for t in decades)),
                rows=tuple((f"{e}", *(by_time[e, t] for t in decades)) for e in _EPSILONS),
            ),
            Table(
                title="Ticks after the last fault until nothing is wrong any more, and the bound",
                head=("ε + δ", "runs", "recovery", "bound"),
                rows=tuple(
                    (f"{x}", len(recoveries[x]), Spread.of(recoveries[x]), Spread.of(bounds[x])) for x in scales
                ),
            ),
        ),
        plot=chart_svg(
            [
                Panel(
                    title="Bytes of a stamp that knows everything",
                    x_label="processes",
                    y_label="bytes",
                    lines=tuple(line_of(f"ε = {e}", [(n, by_count[e, n]) for n in counts]) for e in _EPSILONS),
                    logarithmic_x=True,
                ),
                Panel(
                    title="Bytes of a stamp over time",
                    x_label="ticks",
                    y_label="bytes",
                    lines=tuple(line_of(f"ε = {e}", [(t, by_time[e, t]) for t in decades]) for e in _EPSILONS),
                    logarithmic_x=True,
                ),
                Panel(
                    title="Recovery after the last fault",
                    x_label="ε + δ, ticks",
                    y_label="ticks",
                    lines=(
                        line_of("recovery, mean and largest", [(x, Spread.of(recoveries[x])) for x in scales]),
                        line_of("bound", [(x, Spread.of(bounds[x])) for x in scales]),
                    ),
                ),
            ],
            title="Merging by bounded stamps",
        ),
    )


def _full_stamp(epsilon: int, processes: int) -> int:
    """Bytes of a stamp that knows of an event of every process at every reading that it covers."""
    bounds = Bounds(epsilon=epsilon, delta=_DELTA, processes=processes)
    clocks = [BoundedClock(f"p{i}", bounds) for i in range(processes)]
    stamp = clocks[0].tick(1)
    for now in range(1, epsilon + 3):
        for clock in clocks[1 if now == 1 else 0 :]:
            received = clock.receive(stamp, now)
            assert isinstance(received, Received), received
            stamp = received.stamp
    return len(stamp.encode(limit=_WIRE_MAX))


def _over_time(epsilon: int, decades: tuple[int, ...]) -> dict[int, list[int]]:
    """Bytes of the last 100 stamps before each time."""
    bounds = Bounds(epsilon=epsilon, delta=_DELTA, processes=2)
    ahead, behind = BoundedClock("ahead", bounds), BoundedClock("behind", bounds)
    rng = random.Random(epsilon)
    found: dict[int, list[int]] = {}
    sizes: list[int] = []
    time = 0
    for decade in decades:
        while time < decade:
            time += rng.randint(1, epsilon)
            stamp = ahead.tick(time + epsilon - 1)
            received = behind.receive(stamp, time)
            assert isinstance(received, Received), received
            if decade - time < 100 * epsilon:
                sizes = [*sizes[-99:], len(received.stamp.encode(limit=_WIRE_MAX))]
        found[decade] = sizes
    return found


def _recoveries(size: Size, progress: Progress) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    recoveries: dict[int, list[int]] = defaultdict(list)
    bounds: dict[int, list[int]] = defaultdict(list)
    for fault in _FAULTS:
        progress(f"recovery, faults: {fault}")
        for seed in range(size.seeds * (_RUNS_PER_SEED // 10 if size.quick else _RUNS_PER_SEED)):
            trial = try_seed(fault, seed)
            scale = trial.setting.bounds.epsilon + trial.setting.bounds.delta
            recoveries[scale].append(trial.recovered)
            bounds[scale].append(trial.setting.recovery)
    return recoveries, bounds


def _claims(
    by_count: dict[tuple[int, int], Spread],
    by_time: dict[tuple[int, int], Spread],
    recoveries: dict[int, list[int]],
    bounds: dict[int, list[int]],
    counts: tuple[int, ...],
    decades: tuple[int, ...],
) -> tuple[Claim, ...]:
    # A count takes a byte for each seven bits; the rest of a stamp does not depend on n.
    logarithmic = all(by_count[e, n].high <= 10 + 2 * e * (1 + log2(n) / 7) for e in _EPSILONS for n in counts)
    constant = all(by_time[e, t].high <= by_time[e, decades[0]].high for e in _EPSILONS for t in decades)
    runs = [(r, b, x) for x in recoveries for r, b in zip(recoveries[x], bounds[x], strict=True)]
    slowest = max(r / x for r, _, x in runs)
    allowed = max(b / x for _, b, x in runs)
    return (
        Claim(
            text="a stamp has O(ε log n + log δ) bytes (000 theorem 3.8)",
            holds=logarithmic,
            seen=f"ε = 10: {by_count[10, counts[0]].mean:.0f} bytes with 1 process, "
            f"{by_count[10, counts[-1]].mean:.0f} with {counts[-1]:,}",
        ),
        Claim(
            text="its size is bounded over time (000 theorem 3.7)",
            holds=constant,
            seen=f"ε = 10: at most {by_time[10, decades[0]].high:.0f} bytes after {decades[0]} ticks, "
            f"{by_time[10, decades[-1]].high:.0f} after {decades[-1]:,}",
        ),
        Claim(
            text="after the last fault order is right again within O(ε + δ) (000 theorem 4.6)",
            holds=all(r <= b for r, b, _ in runs),
            seen=f"in {len(runs):,} runs at most {slowest:.2f} (ε + δ), where up to {allowed:.2f} are allowed; "
            f"{sum(r > 0 for r, _, _ in runs)} runs had something wrong after it",
        ),
    )


MERGE_STAMPS: Final = Experiment(
    name="merge-stamps",
    title="Bounded stamps against n and time, and recovery of a merge against ε + δ",
    paper="000: theorems 3.7, 3.8 and 4.6",
    run=_run,
    seeds=5,
)
