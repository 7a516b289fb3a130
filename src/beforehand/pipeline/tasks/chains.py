"""Lamport times of large executions: one task for each passes over its blocks in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow as pa

from beforehand.pipeline.chains import Chains
from beforehand.pipeline.schemas import DONE
from beforehand.pipeline.tasks.staging import LargeInfo, Staging

__all__ = ["follow_chains"]


def follow_chains(
    staging: Staging, larges: list[LargeInfo]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over a column of numbers of large executions; writes the Lamport times of their
    blocks, and gives a DONE row for each: `number` and `depth`, the largest of them.
    """
    of_number = {large.number: large for large in larges}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                done = {"number": number, "depth": _follow(of_number[number], staging)}
                yield pa.RecordBatch.from_arrays([pa.array([json.dumps(done)])], schema=DONE)

    return run


def _follow(large: LargeInfo, staging: Staging) -> int:
    chains = Chains(len(large.processes))
    for number in range(large.base, large.base + large.blocks):
        links = staging.read_links(number)
        if links is None:
            chains.skip()
            continue
        sender, send, until = staging.leaving(number)
        with staging.making_lamport_times(number, links.process.size) as times:
            chains.step(links, sender, send, until - large.base, times)
    assert not chains.flights
    return int(chains.front.max())
