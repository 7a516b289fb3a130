"""The full exploration: part by part, configuration by configuration, to be interrupted and taken up again.

What was done stands in a file, one JSON document per line: the last line of a part counts. Configurations come in a
fixed order, so a number says how far a part has got. Findings are drawn into the same folder.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from beforehand.sim.explorer.counterexample import Counterexample
from beforehand.sim.explorer.plan import Part, parts
from beforehand.sim.explorer.search import Explorer

__all__ = ["Progress", "explore_all", "explore_part"]

SAVE_AFTER_S: Final = 10.0
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
                explore_part(part, progress, states_max=states_max, stride=stride, save=save, found=keep)
            results.append(progress)
    return results


def explore_part(
    part: Part,
    progress: Progress,
    *,
    states_max: int | None = None,
    stride: int = 1,
    save: Callable[[Progress], None],
    found: Callable[[Counterexample], None],
) -> None:
    """Explore what is left of a part. It ends early at the first finding: the protocol is to be mended first."""
    explorer = Explorer(part.stack)
    saved = time.monotonic()
    for number, configuration in enumerate(part.configurations()):
        if number < progress.done * stride or number % stride:
            continue
        result = explorer.explore(configuration, states_max=states_max)
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
        if explorer.remembered > REMEMBERED_MAX:
            explorer = Explorer(part.stack)
        if time.monotonic() - saved > SAVE_AFTER_S:
            saved = time.monotonic()
            save(progress)
    progress.complete = True
    progress.seconds = round(progress.seconds, 3)
    save(progress)


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
