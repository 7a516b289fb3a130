"""Many seeds: run in all processors, go on where they stopped, and keep what failed.

A campaign has a folder. `progress.json` says for each protocol up to which seed all is done, and what was seen on
the way; each failing seed leaves `PROTOCOL-SEED.json`, a shrunk scenario that replays.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from beforehand.errors import InputError
from beforehand.ordering import PROTOCOLS
from beforehand.sim.drawing import draw
from beforehand.sim.drawing_joins import can_join, draw_with_joins
from beforehand.sim.run import simulate
from beforehand.sim.scenario import Scenario, write_scenario
from beforehand.sim.seeds import read_progress, report, run_chunks, tell_progress
from beforehand.sim.shrinking import shrink

__all__ = ["Campaign", "Progress", "main", "run_campaign", "run_seeds", "summary"]


@dataclass(slots=True)
class Progress:
    """Of one protocol."""

    done: int = 0  # All seeds below this one are done.
    failed: list[int] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)  # Rare states: in how many runs they were reached.


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a worker found."""

    failed: tuple[int, ...]
    seen: dict[str, int]


Campaign = dict[str, Progress]


def run_seeds(protocol: str, start: int, end: int, *, scenario_of: Callable[[str, int], Scenario] = draw) -> Chunk:
    """Simulate the drawn scenarios of these seeds."""
    failed: list[int] = []
    seen: Counter[str] = Counter()
    for seed in range(start, end):
        outcome = simulate(scenario_of(protocol, seed))
        seen.update(outcome.record.seen)
        if not outcome.verdict.passed:
            failed.append(seed)
    return Chunk(tuple(failed), dict(seen))


def run_campaign(
    folder: Path,
    protocols: Sequence[str],
    seeds: int,
    *,
    workers: int | None = None,
    joins: bool = False,
    tell: Callable[[Campaign], None] = lambda _: None,
) -> Campaign:
    """Bring every protocol to `seeds` seeds. `tell` is called after each chunk; the folder is up to date then.

    With `joins`, processes join in every scenario: see `drawing_joins`. Use another folder for it.
    """
    scenario_of = draw_with_joins if joins else draw
    folder.mkdir(parents=True, exist_ok=True)
    campaign = read_progress(folder, Progress)
    for protocol in protocols:
        campaign.setdefault(protocol, Progress())

    def take(protocol: str, chunk: Chunk) -> None:
        progress = campaign[protocol]
        progress.failed += chunk.failed
        progress.seen = dict(Counter(progress.seen) + Counter(chunk.seen))
        for seed in chunk.failed:
            small = shrink(scenario_of(protocol, seed), lambda scenario: not simulate(scenario).verdict.passed)
            (folder / f"{protocol}-{seed}.json").write_bytes(write_scenario(small))

    run_chunks(
        folder,
        campaign,
        protocols,
        seeds,
        run=partial(run_seeds, scenario_of=scenario_of) if joins else run_seeds,
        take=take,
        workers=workers,
        tell=lambda: tell(campaign),
    )
    return campaign


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
    parser.add_argument("--joins", action="store_true", help="processes join in every scenario")
    chosen = parser.parse_args(arguments)
    offered = [name for name in PROTOCOLS if can_join(name)] if chosen.joins else list(PROTOCOLS)
    protocols = [name for name in chosen.protocol or offered if name in offered]
    if not protocols:
        parser.error(f"nobody can join a group of {', '.join(chosen.protocol)}")

    def tell(campaign: Campaign) -> None:
        tell_progress(campaign, protocols, chosen.seeds)

    try:
        campaign = run_campaign(
            chosen.to,
            protocols,
            -(-chosen.seeds // len(protocols)),
            workers=chosen.workers,
            joins=chosen.joins,
            tell=tell,
        )
    except InputError as error:
        print(f"beforehand: {error}", file=sys.stderr)  # noqa: T201
        return 2
    report(chosen.to, summary(campaign))
    return 1 if any(campaign[name].failed for name in protocols) else 0


if __name__ == "__main__":
    sys.exit(main())
