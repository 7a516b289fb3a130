"""Seeds by the thousand: in all processors, going on where they stopped, in a folder that says how far they are.

A campaign runs seeds of several *kinds* (protocols, faults). `progress.json` has for each kind its progress: all
seeds below `done` are done. What a progress has besides, and what a worker finds, is the campaign's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Final, Protocol, TypeVar

import msgspec

from beforehand.errors import InputError

__all__ = ["SeedsDone", "end_with_parent", "read_progress", "report", "run_chunks", "tell_progress"]

CHUNK: Final = 50
"""Seeds of one kind that a worker takes at once."""


class SeedsDone(Protocol):
    done: int
    failed: list[int]


Kept = TypeVar("Kept", bound=SeedsDone)
Found = TypeVar("Found")


def read_progress(folder: Path, kind: type[Kept]) -> dict[str, Kept]:
    """What an earlier campaign in this folder left; nothing if there was none."""
    path = folder / "progress.json"
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, kind])  # type: ignore[valid-type]
    except (ValueError, OSError) as error:  # ValueError: not JSON, or not UTF-8.
        raise InputError(f"{path}: not the progress of a campaign ({error}): choose another folder") from None


def run_chunks(
    folder: Path,
    campaign: MutableMapping[str, Kept],
    kinds: Sequence[str],
    seeds: int,
    *,
    run: Callable[[str, int, int], Found],
    take: Callable[[str, Found], None],
    workers: int | None,
    tell: Callable[[], None],
) -> None:
    """Bring every kind to `seeds` seeds. `run`, of a module, works off seeds from start to before end in a worker.

    `take` adds what it found to the progress of its kind; `tell` is called when the folder is up to date again.
    """
    count = workers or os.cpu_count() or 1
    chunks = _chunks(campaign, kinds, seeds)
    # `spawn`: a worker has nothing of ours but what it imports.
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        while batch := list(islice(chunks, 4 * count)):  # A few at a time, in order: what is done is a range from 0.
            for (kind, _, end), found in zip(batch, pool.map(run, *zip(*batch, strict=True)), strict=True):
                take(kind, found)
                campaign[kind].done = end
                _write(folder, campaign)
                tell()


def end_with_parent() -> None:
    """In a worker: it ends with the campaign, also with one that is killed and cannot say so."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def tell_progress(campaign: Mapping[str, SeedsDone], kinds: Iterable[str], seeds: int) -> None:
    """One line on standard error, over itself on a terminal."""
    done = sum(campaign[kind].done for kind in kinds)
    failed = sum(len(campaign[kind].failed) for kind in kinds)
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"{done:,} of {seeds:,} seeds, {failed} failed", end=end, file=sys.stderr, flush=True)  # noqa: T201


def report(folder: Path, lines: Iterable[str]) -> None:
    """The summary of a campaign, to `summary.md` and to standard output."""
    text = "\n".join(lines)
    (folder / "summary.md").write_text(text, encoding="utf-8")
    print(text)  # noqa: T201


def _chunks(campaign: Mapping[str, SeedsDone], kinds: Sequence[str], seeds: int) -> Iterator[tuple[str, int, int]]:
    """Of each kind in turn, so that all advance together."""
    places = {kind: campaign[kind].done for kind in kinds}
    while any(place < seeds for place in places.values()):
        for kind, place in list(places.items()):
            if place < seeds:
                places[kind] = min(place + CHUNK, seeds)
                yield kind, place, places[kind]


def _write(folder: Path, campaign: Mapping[str, SeedsDone]) -> None:
    new = folder / "progress.json.new"
    new.write_bytes(msgspec.json.encode(campaign))
    new.replace(folder / "progress.json")
