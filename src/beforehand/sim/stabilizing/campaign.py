"""Many seeds of every kind of fault, in parallel, resumable: a folder has how far it is and what failed.

`FAULT-SEED.jsonl` are the events of a run that failed, to analyze or draw like any other history; the run itself is
repeated by `python -m beforehand.sim.stabilizing --replay FAULT SEED`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from beforehand.errors import InputError
from beforehand.formats import write_events
from beforehand.sim.stabilizing.setting import Fault
from beforehand.sim.stabilizing.trial import try_seed

__all__ = ["Campaign", "Progress", "run_campaign", "summary"]

CHUNK: Final = 50


@dataclass(slots=True)
class Progress:
    """How far one kind of fault is."""

    done: int = 0  # Seeds 0 to `done` - 1.
    judged: int = 0  # Messages that had to be right.
    failed: list[int] = field(default_factory=list)
    recovered: list[float] = field(default_factory=list)  # Per seed, in units of ε + δ.
    bound_share: float = 0.0  # The largest share of the time allowed that a recovery took.


Campaign: TypeAlias = dict[str, Progress]


def run_chunk(fault: Fault, start: int, end: int) -> Progress:
    """Seeds `start` to `end` - 1."""
    progress = Progress(done=end)
    for seed in range(start, end):
        trial = try_seed(fault, seed)
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
    campaign = _read(folder)
    for fault in faults:
        campaign.setdefault(fault, Progress())
    workers = workers or os.cpu_count() or 1
    chunks = _chunks(campaign, faults, seeds)
    # `spawn`: a worker has nothing of ours but what it imports.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while batch := list(islice(chunks, 4 * workers)):  # A few at a time, in order: done is a range from 0.
            for (fault, _, _), chunk in zip(batch, pool.map(run_chunk, *zip(*batch, strict=True)), strict=True):
                _take(folder, campaign[fault], fault, chunk)
                _write(folder, campaign)
                tell(campaign)
    return campaign


def _chunks(campaign: Campaign, faults: Sequence[Fault], seeds: int) -> Iterator[tuple[Fault, int, int]]:
    """Of each kind in turn, so that all advance together."""
    places = {fault: campaign[fault].done for fault in faults}
    while any(place < seeds for place in places.values()):
        for fault, place in list(places.items()):
            if place < seeds:
                places[fault] = min(place + CHUNK, seeds)
                yield fault, place, places[fault]


def _take(folder: Path, progress: Progress, fault: Fault, chunk: Progress) -> None:
    progress.done = chunk.done
    progress.judged += chunk.judged
    progress.failed += chunk.failed
    progress.recovered += chunk.recovered
    progress.bound_share = max(progress.bound_share, chunk.bound_share)
    for seed in chunk.failed:
        write_events(try_seed(fault, seed).events, folder / f"{fault}-{seed}.jsonl")


def _read(folder: Path) -> Campaign:
    path = folder / "progress.json"
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Progress])
    except (msgspec.DecodeError, OSError) as error:
        raise InputError(f"{path}: not the progress of a campaign ({error}): choose another folder") from None


def _write(folder: Path, campaign: Campaign) -> None:
    new = folder / "progress.json.new"
    new.write_bytes(msgspec.json.encode(campaign))
    new.replace(folder / "progress.json")


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
