"""Stamping by cuts without Spark: summarize, scan and replay on random histories equal the history in memory."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from beforehand.events import Event
from beforehand.history import History
from beforehand.history.kernels import NO_TIME, shrink
from beforehand.pipeline import chains as chains_module
from beforehand.pipeline import room
from beforehand.pipeline.block import UNSENT, Block, replay, summarize, wire, without_cycles
from beforehand.pipeline.chains import Chains, links_of
from beforehand.pipeline.scan import Scan
from random_histories import as_events, random_steps


def cuts_of(history: History, random: Random, count: int) -> np.ndarray:
    """Random prefixes, shrunk to consistent cuts by the kernel under test."""
    columns = history.columns
    last = columns.index[columns.start[1:] - 1]
    shares = np.sort([[random.random() for _ in last] for _ in range(count)], axis=0).reshape(count, last.size)
    cuts = np.floor(shares * (last + 1)).astype(np.int64)
    source, row = columns.source, columns.receive_row
    sent = source >= 0
    shrink(
        columns.process[source[sent]],
        columns.index[source[sent]],
        columns.process[row[sent]],
        columns.index[row[sent]],
        cuts,
    )
    return cuts


def blocks_of(history: History, cuts: np.ndarray) -> list[tuple[Block, np.ndarray]]:
    """Each block with the rows of the history that it holds."""
    columns = history.columns
    of = (cuts[:, columns.process] < columns.index).sum(axis=0)
    result = []
    for number in range(cuts.shape[0] + 1):
        rows = np.flatnonzero(of == number)
        receives = [r for row in rows for r in range(columns.receive_start[row], columns.receive_start[row + 1])]
        source = columns.source[np.array(receives, np.int64)]
        counts = np.diff(columns.receive_start)[rows]
        block = Block(
            cut=cuts[number - 1] if number else np.zeros(len(history.processes), np.int64),
            process=columns.process[rows],
            index=columns.index[rows],
            time=columns.time[rows],
            receive_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            sender=np.where(source >= 0, columns.process[source], UNSENT).astype(np.int32),
            send=np.where(source >= 0, columns.index[source], 0),
            real=columns.real[columns.receive_message[np.array(receives, np.int64)]],
            small=True,
        )
        result.append((block, rows))
    return result


@pytest.mark.parametrize("seed", range(150))
def test_summarize_scan_and_replay_equal_the_history_in_memory(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    steps = random_steps(
        random,
        processes=random.randint(1, 9),
        steps=random.choice([5, 60, 300]),
        skew_ns=random.choice([0, 50_000]),
        untimed=random.choice([0, 0.3]),
    )
    history = History([_gapped(event, seed) for event in as_events(steps)])
    columns = history.columns
    cuts = cuts_of(history, random, random.choice([0, 1, 3, 20]))
    blocks = blocks_of(history, cuts)
    of = (cuts[:, columns.process] < columns.index).sum(axis=0)
    last_block = np.full(len(history.messages), -1)
    np.maximum.at(last_block, columns.receive_message, of[columns.receive_row])

    # Every other history keeps no stamp in memory that is in flight.
    spill = tmp_path / "flights" if seed % 2 else None
    # And every fourth one keeps its arrays in files, worked on in small pieces.
    monkeypatch.setattr(room, "SLICE", 1 + seed % 13)
    monkeypatch.setattr(chains_module, "SLICE", 1 + seed % 13)
    place = room.Room(tmp_path if seed % 4 == 2 else None)
    scan = Scan(len(history.processes), small=True, spill=spill, bytes_max=40)
    chains = Chains(len(history.processes))
    causal, fifo = 0, 0
    for number, (block, rows) in enumerate(blocks):
        until: dict[tuple[int, int], int] = {}
        for message in np.flatnonzero(
            (columns.send >= 0) & (last_block > of[columns.send]) & (of[columns.send] == number)
        ):
            send = columns.send[message]
            key = (int(columns.process[send]), int(columns.index[send]))
            until[key] = max(until.get(key, 0), int(last_block[message]))
        leaving = sorted(until)
        clear, knots = without_cycles(block, room=place)
        assert not knots
        sender, send = np.array([p for p, _ in leaving], np.int32), np.array([i for _, i in leaving], np.int64)
        summary = summarize(clear, sender, send, room=place)
        entry = scan.entry(summary)
        result = replay(clear, entry, kept=np.arange(block.rows), room=place)
        for at, row in enumerate(rows.tolist()):
            event = columns.events[row]
            assert (result.kept[at] == history.stamps[row]).all()
            assert result.past_size[at] == history.past_size(event)
            time = None if result.causal_time[at] == NO_TIME else result.causal_time[at]
            assert time == history.causal_time(event)
        causal, fifo = causal + int(result.causal.sum()), fifo + int(result.fifo.sum())
        passed = np.array([until[key] for key in leaving], np.int64)
        scan.step(summary, entry, passed)
        times = np.empty(block.rows, np.int64)
        chains.step(links_of(clear, wire(clear, place), sender, send), sender, send, passed, times)
        assert times.tolist() == [history.lamport_time(columns.events[row]) for row in rows.tolist()]
        assert chains.flights.keys() == scan.flights.keys()
        assert (scan.front == result.front).all()
        assert (scan.front_time == result.front_time).all()
        assert (scan.known_sends == result.known_sends).all()
        assert (scan.fifo_sends == result.fifo_sends).all()
    report = history.check()
    assert (causal, fifo) == (report.counts["causal"], report.counts["fifo"])
    assert not scan.flights


def _gapped(event: Event, seed: int) -> Event:
    """Every third history has gaps in its indexes."""
    if seed % 3:
        return event
    return Event(
        process=event.process,
        index=event.index * 3 - 1,
        sends=event.sends,
        receives=event.receives,
        time=event.time,
    )
