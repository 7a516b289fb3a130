"""Many seeds of every kind of fault, in parallel, resumable: a folder has how far it is and what failed.

`FAULT-SEED.jsonl` are the events of a run that failed, to analyze or draw like any other history; the run itself is
repeated by `python -m beforehand.sim.stabilizing --replay FAULT SEED`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from beforehand.formats import write_events
from beforehand.sim.seeds import read_progress, run_chunks
from beforehand.sim.stabilizing.setting import Fault
from beforehand.sim.stabilizing.trial import try_seed

__all__ = ["Campaign", "Progress", "run_campaign", "summary"]


@dataclass(slots=True)
class Progress:
    """How far one kind of fault is."""

    done: int = 0  # Seeds 0 to `done` - 1.
    judged: int = 0  # Messages that had to be right.
    failed: list[int] = field(default_factory=list)
    recovered: list[float] = field(default_factory=list)  # Per seed, in units of ε + δ.
    bound_share: float = 0.0  # The largest share of the time allowed that a recovery took.


Campaign: TypeAlias = dict[str, Progress]


def run_chunk(fault: str, start: int, end: int) -> Progress:
    """Seeds `start` to `end` - 1."""
    progress = Progress()
    for seed in range(start, end):
        trial = try_seed(Fault(fault), seed)
        progress.judged += trial.judged
        progress.recovered.append(round(trial.recovered_relative, 3))
        if trial.passed:
            progress.bound_share = max(progress.bound_share, trial.recovered / trial.setting.recovery)
        else:
            progress.failed.append(seed)
    return progress


def run_campaign(
    folder: Path,
    faults: Sequence[Fault],
    seeds: int,
    *,
    workers: int | None = None,
    tell: Callable[[Campaign], None] = lambda _: None,
) -> Campaign:
    """Bring every kind to `seeds` seeds. `tell` is called after each chunk; the folder is up to date then."""
    folder.mkdir(parents=True, exist_ok=True)
    campaign = read_progress(folder, Progress)
    for fault in faults:
        campaign.setdefault(fault, Progress())

    def take(fault: str, chunk: Progress) -> None:
        _take(folder, campaign[fault], fault, chunk)

    run_chunks(
        folder, campaign, faults, seeds, run=run_chunk, take=take, workers=workers, tell=lambda: tell(campaign)
    )
    return campaign


def _take(folder: Path, progress: Progress, fault: str, chunk: Progress) -> None:
    progress.judged += chunk.judged
    progress.failed += chunk.failed
    progress.recovered += chunk.recovered
    progress.bound_share = max(progress.bound_share, chunk.bound_share)
    for seed in chunk.failed:
        write_events(try_seed(Fault(fault), seed).events, folder / f"{fault}-{seed}.jsonl")


def summary(campaign: Campaign) -> Iterator[str]:
    """What a campaign found, as a page. Recovery times are in units of ε + δ."""
    seeds = sum(progress.done for progress in campaign.values())
    failed = sum(len(progress.failed) for progress in campaign.values())
    yield f"{seeds:,} seeds over {len(campaign)} kinds of faults, {failed} failed. Recovery in units of ε + δ."
    yield ""
    yield "| fault | seeds | messages judged | failed | runs with wrong messages after T | p99 | max | of bound |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, progress in campaign.items():
        ordered = sorted(progress.recovered) or [0.0]
        wrong = sum(value > 0 for value in ordered)
        tail = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        failures = ", ".join(map(str, progress.failed)) or "none"
        yield (
            f"| {name} | {progress.done:,} | {progress.judged:,} | {failures} | {wrong:,} "
            f"| {tail:.2f} | {ordered[-1]:.2f} | {progress.bound_share:.0%} |"
        )
    yield ""
