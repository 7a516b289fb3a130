"""Many seeds: run in all processors, go on where they stopped, and keep what failed.

A campaign has a folder. `progress.json` says for each protocol up to which seed all is done, and what was seen on
the way; each failing seed leaves `PROTOCOL-SEED.json`, a shrunk scenario that replays.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

from beforehand.errors import InputError
from beforehand.ordering import PROTOCOLS
from beforehand.sim.drawing import draw
from beforehand.sim.run import simulate
from beforehand.sim.scenario import write_scenario
from beforehand.sim.shrinking import shrink

__all__ = ["Campaign", "Progress", "main", "run_campaign", "run_seeds", "summary"]

CHUNK: Final = 50
"""Seeds of one protocol that a worker takes at once."""


@dataclass(slots=True)
class Progress:
    """Of one protocol."""

    done: int = 0  # All seeds below this one are done.
    failed: list[int] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)  # Rare states: in how many runs they were reached.


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a worker found in the seeds from `start` to before `end`."""

    protocol: str
    start: int
    end: int
    failed: tuple[int, ...]
    seen: dict[str, int]


Campaign = dict[str, Progress]


def run_seeds(protocol: str, start: int, end: int) -> Chunk:
    """Simulate the drawn scenarios of these seeds."""
    failed: list[int] = []
    seen: Counter[str] = Counter()
    for seed in range(start, end):
        outcome = simulate(draw(protocol, seed))
        seen.update(outcome.record.seen)
        if not outcome.verdict.passed:
            failed.append(seed)
    return Chunk(protocol, start, end, tuple(failed), dict(seen))


def run_campaign(
    folder: Path,
    protocols: Sequence[str],
    seeds: int,
    *,
    workers: int | None = None,
    tell: Callable[[Campaign], None] = lambda _: None,
) -> Campaign:
    """Bring every protocol to `seeds` seeds. `tell` is called after each chunk; the folder is up to date then."""
    folder.mkdir(parents=True, exist_ok=True)
    campaign = _read(folder)
    for protocol in protocols:
        campaign.setdefault(protocol, Progress())
    chunks = _chunks(campaign, protocols, seeds)
    # `spawn`: a worker has nothing of ours but what it imports.
    with ProcessPoolExecutor(workers or os.cpu_count() or 1, mp_context=get_context("spawn")) as pool:
        # A few at a time, in order: what is done is always a range from 0.
        while batch := list(islice(chunks, 4 * (workers or os.cpu_count() or 1))):
            for chunk in pool.map(run_seeds, *zip(*batch, strict=True)):
                _take(folder, campaign[chunk.protocol], chunk)
                _write(folder, campaign)
                tell(campaign)
    return campaign


def _chunks(campaign: Campaign, protocols: Sequence[str], seeds: int) -> Iterator[tuple[str, int, int]]:
    """Of each protocol in turn, so that all advance together."""
    places = {protocol: campaign[protocol].done for protocol in protocols}
    while any(place < seeds for place in places.values()):
        for protocol, place in list(places.items()):
            if place < seeds:
                places[protocol] = min(place + CHUNK, seeds)
                yield protocol, place, places[protocol]


def _take(folder: Path, progress: Progress, chunk: Chunk) -> None:
    progress.done = chunk.end
    progress.failed += chunk.failed
    progress.seen = dict(Counter(progress.seen) + Counter(chunk.seen))
    for seed in chunk.failed:
        small = shrink(draw(chunk.protocol, seed), lambda scenario: not simulate(scenario).verdict.passed)
        (folder / f"{chunk.protocol}-{seed}.json").write_bytes(write_scenario(small))


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
    """What a campaign found, as a page."""
    total = sum(progress.done for progress in campaign.values())
    failed = sum(len(progress.failed) for progress in campaign.values())
    yield f"{total:,} seeds over {len(campaign)} protocols, {failed} failed."
    yield ""
    yield "| protocol | seeds | failed |"
    yield "|---|---|---|"
    for name, progress in campaign.items():
        yield f"| {name} | {progress.done:,} | {', '.join(map(str, progress.failed)) or 'none'} |"
    yield ""
    yield "| rare state | runs that went through it |"
    yield "|---|---|"
    seen: Counter[str] = Counter()
    for progress in campaign.values():
        seen.update(progress.seen)
    for sight, runs in sorted(seen.items()):
        yield f"| {sight} | {runs:,} |"
    yield ""


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m beforehand.sim.campaign --seeds N --to FOLDER`; exit status 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m beforehand.sim.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100_000, help="over all protocols together")
    parser.add_argument("--to", type=Path, required=True, help="the folder; an earlier campaign there goes on")
    parser.add_argument("--workers", type=int, default=None, help="processes; by default one per processor")
    parser.add_argument("--protocol", action="append", choices=list(PROTOCOLS), help="only this one; may be repeated")
    chosen = parser.parse_args(arguments)
    protocols = chosen.protocol or list(PROTOCOLS)

    def tell(campaign: Campaign) -> None:
        done = sum(campaign[name].done for name in protocols)
        failed = sum(len(campaign[name].failed) for name in protocols)
        end = "\r" if sys.stderr.isatty() else "\n"
        print(f"{done:,} of {chosen.seeds:,} seeds, {failed} failed", end=end, file=sys.stderr, flush=True)  # noqa: T201

    try:
        campaign = run_campaign(
            chosen.to, protocols, -(-chosen.seeds // len(protocols)), workers=chosen.workers, tell=tell
        )
    except InputError as error:
        print(f"beforehand: {error}", file=sys.stderr)  # noqa: T201
        return 2
    text = "\n".join(summary(campaign))
    (chosen.to / "summary.md").write_text(text, encoding="utf-8")
    print(text)  # noqa: T201
    return 1 if any(campaign[name].failed for name in protocols) else 0


if __name__ == "__main__":
    sys.exit(main())
