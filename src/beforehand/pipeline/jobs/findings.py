"""What an analysis found, gathered from all its tasks; every list is bounded."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from beforehand.events import EventId
from beforehand.history.checks import Violation
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.jobs.large import LargeOutcome
from beforehand.pipeline.rejecting import well_formed
from beforehand.pipeline.schemas import VIOLATION
from beforehand.pipeline.stored import StoredHistory
from beforehand.pipeline.stored.witnesses import clock_witness, overtaken_witness
from beforehand.pipeline.tables import write_parquet

__all__ = ["Findings", "write_violations"]


@dataclass(slots=True)
class Findings:
    limit: int
    events: int = 0
    executions: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # fifo, causal, total, clock.
    clocks: int = 0  # Events that report one.
    total_unjudged: str = ""  # Why total order could not be judged; empty if it could.
    failures: list[tuple[int, int, EventId]] = field(default_factory=list)  # causal time, size of past, event.
    failures_total: int = 0
    hidden: list[dict[str, Any]] = field(default_factory=list)
    past: int | None = 0  # Pairs of events of which one happened before the other; None: not known.
    pairs: int = 0
    depth: int | None = None  # The largest Lamport time; None: not asked for.
    notes: list[str] = field(default_factory=list)

    def note_sources(self, notes: Mapping[tuple[str, str], int]) -> None:
        self.notes += [f"{count} × {reason}: {detail}" for (reason, detail), count in sorted(notes.items())]

    def add_packs(self, packs: list[dict[str, Any]]) -> None:
        said: dict[str, tuple[int, str]] = {}
        for pack in sorted(packs, key=lambda pack: int(pack["pack"])):
            counts = pack["counts"]
            self.events += counts.get("events", 0)
            self.executions += counts.get("executions", 0)
            self.counts.update({kind: counts.get(kind, 0) for kind in ("fifo", "causal", "total", "clock")})
            self.clocks += counts.get("clocks", 0)
            self.failures_total += counts.get("failures", 0)
            if self.past is not None:
                self.past += counts.get("past", 0)
            self.pairs += counts.get("pairs", 0)
            self._deepen(pack["depth"])
            self.failures += [(time, size, EventId(*event)) for time, size, *event in pack["failures"]]
            self.hidden += [
                dict(zip(("resource", "earlier", "later", "apart_ns"), row, strict=True)) for row in pack["hidden"]
            ]
            for key, (count, note) in pack["notes"].items():
                before, first = said.get(key, (0, note))
                said[key] = (before + count, first)
        self.notes += [
            note if count == 1 else f"in {count} executions; in the first of them: {note}"
            for _, (count, note) in sorted(said.items())
        ]
        self._trim()

    def add_blocks(self, outcome: LargeOutcome) -> None:
        bases = [large.base for large in outcome.larges]
        sizes: Counter[int] = Counter()
        past = 0
        for block in outcome.found:
            large = outcome.larges[bisect_right(bases, block["block"]) - 1]
            sizes[large.number] += block["events"]
            self.events += block["events"]
            self.counts.update(block["counts"])
            self.failures_total += block["failures_total"]
            past += block["past"] - block["events"]
            self.clocks += block["clocks"]
            self.failures += [
                (time, size, EventId(large.execution, large.processes[member], index))
                for time, size, member, index in block["failures"]
            ]
        self.executions += len(outcome.larges)
        self.pairs += sum(size * (size - 1) // 2 for size in sizes.values())
        if self.past is not None:
            self.past += past
        self.notes += outcome.notes
        self._deepen(outcome.depth)
        self._trim()

    def add_total(self, count: int | None, notes: list[str]) -> None:
        if count is None:
            (note,) = notes
            self.total_unjudged = note.removeprefix("total order: ").removesuffix("; not judged")
        else:
            self.counts["total"] += count
        self.notes += notes

    def _deepen(self, depth: int | None) -> None:
        if depth is not None:
            self.depth = max(self.depth or 0, depth)

    def _trim(self) -> None:
        self.failures = sorted(self.failures)[: self.limit]
        self.hidden = self.hidden[: 10 * self.limit]


def write_violations(
    directory: Directory,
    stored: StoredHistory,
    findings: Findings,
    outcome: LargeOutcome,
    total: list[tuple[str, Violation]],
) -> None:
    """The witnesses of large executions: at most `limit` of a kind for each."""
    rows: list[tuple[str, Violation]] = []
    for large in outcome.larges:
        own = [block for block in outcome.found if large.base <= block["block"] < large.base + large.blocks]
        for kind in ("fifo", "causal"):
            hits = sorted(tuple(hit) for block in own for hit in block[kind])
            found = sum(block["counts"][kind] for block in own)
            if found > findings.limit:
                findings.notes.append(f"{kind}: {found} found, {findings.limit} are listed")
            rows += [
                (large.execution, overtaken_witness(stored, large.execution, kind, *hit))
                for hit in hits[: findings.limit]
            ]
        first: dict[int, int] = {}
        for block in own:
            for member, index in block["clock"]:
                first.setdefault(member, index)
        if len(first) > findings.limit:
            findings.notes.append(
                f"clock: {len(first)} processes report wrong ones, the first {findings.limit} are listed"
            )
        rows += [
            (large.execution, clock_witness(stored, large.execution, member, index))
            for member, index in sorted(first.items())[: findings.limit]
        ]
    rows += total
    if not rows:
        return
    columns = list(
        zip(
            *(
                (
                    execution,
                    violation.kind,
                    [str(event) for event in violation.events],
                    list(violation.messages),
                    well_formed(violation.why),
                    [well_formed(reason) for reason in violation.reasons],
                )
                for execution, violation in rows
            ),
            strict=True,
        )
    )
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, VIOLATION, strict=True)]
    write_parquet(pa.Table.from_arrays(arrays, schema=VIOLATION), directory.violations / "large.parquet")
