"""The full exploration: part by part, configuration by configuration, to be interrupted and taken up again.

What was done stands in a file, one JSON document per line: the last line of a part counts. Configurations come in a
fixed order, so a number says how far a part has got. Findings are drawn into the same folder.

With several workers, each takes a few configurations at a time, with an explorer of its own. Results are counted in
the order of the configurations, so what is done is still the first so many of them: a run with other workers goes on
from there. What was computed ahead of a configuration that is not done is lost with the run; at a finding, what is
under way is waited for.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from beforehand.sim.explorer.configuration import Configuration, Stack
from beforehand.sim.explorer.counterexample import Counterexample
from beforehand.sim.explorer.engine import Engine
from beforehand.sim.explorer.plan import Part, parts
from beforehand.sim.explorer.search import Exploration, Explorer
from beforehand.sim.seeds import end_with_parent

__all__ = ["Progress", "explore_all", "explore_part"]

SAVE_AFTER_S: Final = 10.0
CHUNK: Final = 4
"""Configurations that a worker takes at once: few, since one may take minutes."""

AHEAD: Final = 16
"""Chunks per worker that are given out before the first of them is done."""

REMEMBERED_MAX: Final = 1_000_000
"""When an explorer remembers so much, a new one takes over: about a gigabyte."""


@dataclass(slots=True)
class Progress:
    """How far a part has got."""

    part: str
    done: int = 0  # Configurations.
    states: int = 0
    transitions: int = 0
    largest: int = 0  # States of the largest configuration.
    cut_short: int = 0  # Configurations that had more states than allowed, or a finding.
    seconds: float = 0.0
    findings: int = 0
    complete: bool = False


def explore_all(
    protocols: Iterable[Any],
    folder: Path,
    *,
    messages_max: int,
    kinds: Iterable[str],
    states_max: int | None,
    stride: int = 1,
    workers: int = 1,
    tell: Callable[[Progress], None],
    found: Callable[[Counterexample], None],
) -> list[Progress]:
    """Explore all parts of the protocols; `stride` takes every so-many-th configuration. Goes on where it was cut."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "progress.jsonl"
    known = _read(log)
    wanted = set(kinds)
    results = []
    for protocol in protocols:
        for part in parts(protocol, messages_max=messages_max):
            if part.kind not in wanted:
                continue
            name = part.name if stride == 1 else f"{part.name} every {stride}"
            progress = known.get(name, Progress(part=name))

            def save(progress: Progress) -> None:
                with log.open("a") as file:
                    file.write(json.dumps(asdict(progress)) + "\n")
                tell(progress)

            def keep(finding: Counterexample, name: str = name) -> None:
                stem = re.sub(r"[^a-z0-9]+", "-", f"{name} {finding.kind}".lower()).strip("-")[:100]
                (folder / f"{stem}.svg").write_text(finding.svg())
                (folder / f"{stem}.txt").write_text(str(finding) + "\n")
                found(finding)

            if not progress.complete:
                explore_part(
                    part, progress, states_max=states_max, stride=stride, workers=workers, save=save, found=keep
                )
            results.append(progress)
    return results


def explore_part(
    part: Part,
    progress: Progress,
    *,
    states_max: int | None = None,
    stride: int = 1,
    workers: int = 1,
    save: Callable[[Progress], None],
    found: Callable[[Counterexample], None],
) -> None:
    """Explore what is left of a part. It ends early at the first finding: the protocol is to be mended first."""
    left = islice(part.configurations(), progress.done * stride, None, stride)
    saved = time.monotonic()
    with closing(_explored(part.stack, left, states_max=states_max, workers=workers)) as results:
        for result in results:
            progress.done += 1
            progress.states += result.states
            progress.transitions += result.transitions
            progress.largest = max(progress.largest, result.states)
            progress.cut_short += not result.complete
            progress.seconds += result.seconds
            for finding in result.findings:
                progress.findings += 1
                found(finding)
            if result.findings:
                break
            if time.monotonic() - saved > SAVE_AFTER_S:
                saved = time.monotonic()
                save(progress)
    progress.complete = True
    progress.seconds = round(progress.seconds, 3)
    save(progress)


def _explored(
    stack: Stack, configurations: Iterator[Configuration], *, states_max: int | None, workers: int
) -> Generator[Exploration]:
    """The results, in the order of the configurations."""
    few = list(islice(configurations, CHUNK))
    configurations = chain(few, configurations)
    if workers == 1 or len(few) < CHUNK:  # To start workers would take longer.
        yield from Worker(stack).explore(configurations, states_max)
        return
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_begin_worker, initargs=(stack,)
    ) as pool:
        ahead: deque[Future[list[Exploration]]] = deque()
        try:
            while True:
                while len(ahead) < AHEAD * workers and (some := list(islice(configurations, CHUNK))):
                    ahead.append(pool.submit(_work, some, states_max))
                if not ahead:
                    return
                yield from ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


class Worker:
    """Explores one configuration after the other; when too much is remembered, a new explorer takes over."""

    def __init__(self, stack: Stack) -> None:
        self._stack: Final = stack
        self._engine = Engine(Explorer(stack), prove_repeats=True)

    def explore(self, configurations: Iterable[Configuration], states_max: int | None) -> Iterator[Exploration]:
        for configuration in configurations:
            yield self._engine.explore(configuration, states_max=states_max)
            if self._engine.remembered > REMEMBERED_MAX:
                self._engine = Engine(Explorer(self._stack), prove_repeats=True)


_here: list[Worker] = []
"""The worker of this process, if it is one."""


def _begin_worker(stack: Stack) -> None:
    end_with_parent()
    _here.append(Worker(stack))


def _work(configurations: list[Configuration], states_max: int | None) -> list[Exploration]:
    return list(_here[0].explore(configurations, states_max))


def _read(log: Path) -> dict[str, Progress]:
    known: dict[str, Progress] = {}
    if log.exists():
        for line in log.read_text().splitlines():
            try:
                progress = Progress(**json.loads(line))
            except (TypeError, ValueError):
                continue  # A line that was cut off when the run was.
            known[progress.part] = progress
    return known
