"""The kernels replay a block of a larger history from its entry stamps, exactly as the whole."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from beforehand.history import History
from beforehand.history.kernels import NO_TIME, lamport_times, overtaken, replay, topological_order
from random_histories import as_events, random_steps


@pytest.mark.parametrize("seed", range(40))
def test_replaying_blocks_between_consistent_cuts_equals_replaying_the_whole(seed: int) -> None:
    random = Random(seed)
    steps = random_steps(random, processes=random.randint(1, 6), steps=80, skew_ns=1_000, untimed=0.1)
    whole = History(as_events(steps))
    columns = whole.columns
    rows, size = len(whole), len(whole.processes)
    receive_row, source = columns.receive_row, columns.source

    # Cut the deterministic order, a consistent run, into blocks: every prefix of it is a consistent cut.
    order = np.array([int(np.flatnonzero(_is(whole, event))[0]) for event in whole.order()])
    bounds = sorted({0, rows, *(random.randint(0, rows) for _ in range(random.randint(0, 6)))})

    front = np.zeros((size, size), np.int64)
    front_time = np.full(size, NO_TIME, np.int64)
    front_lamport = np.zeros(size, np.int64)
    known_sends, fifo_sends = np.zeros((size, size), np.int64), np.zeros((size, size), np.int64)
    stamp_of: dict[int, np.ndarray] = {}
    time_of: dict[int, int] = {}
    lamport_of: dict[int, int] = {}
    overtaken_receives: dict[int, tuple[bool, bool]] = {}

    for begin, end in pairwise(bounds):
        block = np.sort(order[begin:end])
        inside = {int(row): at for at, row in enumerate(block)}
        chosen = [r for row in block for r in range(columns.receive_start[row], columns.receive_start[row + 1])]
        sent = [int(source[r]) for r in chosen]
        entering_rows = sorted({s for s in sent if s >= 0 and s not in inside})
        entering_at = {row: at for at, row in enumerate(entering_rows)}
        block_source = np.array(
            [-1 if s < 0 else inside[s] if s in inside else -2 - entering_at[s] for s in sent], np.int64
        )
        counts = np.diff(columns.receive_start)[block]
        receive_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        start = np.searchsorted(columns.process[block], np.arange(size + 1)).astype(np.int64)
        local = np.empty(block.size, np.int64)
        assert topological_order(start, receive_start, block_source, local) == block.size

        entering = np.array([stamp_of[row] for row in entering_rows], np.int64).reshape(-1, size)
        stamps = np.zeros((block.size, size), np.int64)
        causal_time, past_size = np.empty(block.size, np.int64), np.empty(block.size, np.int64)
        process, index = columns.process[block], columns.index[block]
        replay(
            local,
            process,
            index,
            columns.time[block],
            receive_start,
            block_source,
            front,
            front_time,
            entering,
            np.array([time_of[row] for row in entering_rows], np.int64),
            np.arange(block.size),
            stamps,
            causal_time,
            past_size,
        )
        times = np.empty(block.size, np.int64)
        entering_lamport = np.array([lamport_of[row] for row in entering_rows], np.int64)
        lamport_times(local, process, receive_start, block_source, front_lamport, entering_lamport, times)
        causal, fifo = np.zeros(len(chosen), np.bool_), np.zeros(len(chosen), np.bool_)
        overtaken(
            process,
            receive_start,
            block_source,
            np.ones(len(chosen), np.bool_),
            columns.process[np.array(sent, np.int64)],
            columns.index[np.array(sent, np.int64)],
            np.arange(block.size),
            stamps,
            entering,
            known_sends,
            fifo_sends,
            causal,
            fifo,
        )
        for at, row in enumerate(block.tolist()):
            stamp_of[row], time_of[row], lamport_of[row] = stamps[at], int(causal_time[at]), int(times[at])
            event = columns.events[row]
            assert {p: int(n) for p, n in zip(whole.processes, stamps[at], strict=True) if n} == whole.stamp(event)
            assert past_size[at] == whole.past_size(event)
            assert times[at] == whole.lamport_time(event)
            assert (None if causal_time[at] == NO_TIME else causal_time[at]) == whole.causal_time(event)
        overtaken_receives |= {r: (bool(causal[i]), bool(fifo[i])) for i, r in enumerate(chosen)}

    report = whole.check()
    assert sum(causal for causal, _ in overtaken_receives.values()) == report.counts["causal"]
    assert sum(fifo for _, fifo in overtaken_receives.values()) == report.counts["fifo"]
    assert len(overtaken_receives) == receive_row.size


def _is(history: History, event: object) -> np.ndarray:
    return np.array([other is event for other in history.columns.events])
