"""A history directory of large executions without Spark: the tasks of the pipeline are its own; what Spark does
between them (joining, grouping, sorting, shuffling) is done here in plain Python. For tests that should be quick.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beforehand.events import Event
from beforehand.history import History
from beforehand.history.kernels import shrink
from beforehand.pipeline.census import Large, large_executions
from beforehand.pipeline.cutting import index_quantiles, tidied
from beforehand.pipeline.directory import Directory, Manifest
from beforehand.pipeline.jobs.scanning import scan_blocks
from beforehand.pipeline.schemas import BLOCK_ROW, MESSAGE_TABLE
from beforehand.pipeline.tasks.chains import follow_chains
from beforehand.pipeline.tasks.match import match_messages
from beforehand.pipeline.tasks.replay import replay_blocks
from beforehand.pipeline.tasks.stage import stage_blocks
from beforehand.pipeline.tasks.staging import LargeInfo, Staging
from history_directories import SMALL_REPORT, Case, event_row

__all__ = ["cut_by_hand"]

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

BATCH_ROWS = 7
"""Small, so that batches cut blocks and events."""


def cut_by_hand(
    executions: list[list[Event]],
    folder: Path,
    *,
    blocks: int,
    seed: int = 0,
    limit: int = 1_000,
    held_max: int = 1_000_000,
) -> Case:
    """No event is there twice. Cuts are at equal shares of indexes, with a seed at random ones, and then shrunk."""
    events = [event for execution in executions for event in execution]
    staging, directory = Staging(folder / "staging"), Directory(folder / "history")
    staging.make()
    directory.make()
    (directory.messages / "large").mkdir()
    larges = large_executions(_profile(events), blocks=blocks)
    numbers = {large.execution: large.number for large in larges}
    members = {(large.number, p): at for large in larges for at, p in enumerate(large.processes)}
    placed = [
        (numbers[event.execution], members[numbers[event.execution], event.process], at, event)
        for at, event in enumerate(events)
    ]
    run(
        match_messages(directory, [large.execution for large in larges], [list(large.processes) for large in larges]),
        _ends(placed),
    )
    messages = pq.read_table(directory.messages / "large").to_pylist()
    cuts = {large.number: _cuts(large, messages, Random(seed) if seed else None) for large in larges}
    infos: list[LargeInfo] = []
    for large in larges:
        base = infos[-1].base + infos[-1].blocks if infos else 0
        count = cuts[large.number].shape[0] + 1
        infos.append(
            LargeInfo(large.number, large.execution, list(large.processes), base, count, large.small_indexes)
        )
        staging.write_cuts(large.number, np.concatenate([np.zeros((1, large.width), np.int64), cuts[large.number]]))
    staging.write_plan(infos)

    def block_of(number: int, member: int, index: int) -> int:
        return infos[number].base + int((cuts[number][:, member] < index).sum())

    received = [row for row in messages if row["outcome"] == "received"]
    _write_leaving(received, block_of, staging, sum(info.blocks for info in infos))
    rows = _block_rows(placed, [*received, *_left_out(messages)], block_of)
    staged = run(stage_blocks(staging, lamport=True, held_max=held_max), rows)
    assert not any(block["duplicates"] for block in staged)
    scan_blocks(infos, staging, directory)
    run(follow_chains(staging, infos), pa.table({"id": [info.number for info in infos]}))
    streamed = frozenset(block["block"] for block in staged if block["streamed"])
    task = replay_blocks(staging, directory, limit=limit, lamport=True, streamed=streamed)
    found = run(task, pa.table({"id": list(range(sum(info.blocks for info in infos)))}))
    _leave_out_cycles(messages, staging, directory)
    directory.report.write_text(json.dumps(SMALL_REPORT | {"events": len(events)}))
    listed = [{"execution": info.execution, "number": info.number, "blocks": info.blocks} for info in infos]
    directory.write_manifest(Manifest(cut_executions=listed, executions=len(infos), events=len(events)))
    return Case(
        folder.name,
        directory.path,
        History.by_execution(events),
        {
            info.execution: [one for one in found if info.base <= one["block"] < info.base + info.blocks]
            for info in infos
        },
    )


def run(task: Task, table: pa.Table) -> list[dict[str, Any]]:
    batches = table.to_batches(max_chunksize=BATCH_ROWS)
    return [json.loads(text) for done in task(iter(batches)) for text in done.column(0).to_pylist()]


def _profile(events: Iterable[Event]) -> list[tuple[str | int | None, ...]]:
    own: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        own.setdefault((event.execution, event.process), []).append(event)
    result: list[tuple[str | int | None, ...]] = []
    for (execution, process), mine in own.items():
        indexes = [event.index for event in mine]
        times = [event.time for event in mine if event.time is not None]
        assert len(set(indexes)) == len(indexes)
        span = (min(times), max(times)) if times else (None, None)
        result.append((execution, process, len(mine), min(indexes), max(indexes), len(times), *span))
    return result


def _ends(placed: list[tuple[int, int, int, Event]]) -> pa.Table:
    """As `matching.message_ends` gives them."""
    ends = []
    for number, member, offset, event in placed:
        for key, ids in ((-1, event.sends), (member, event.receives)):
            for position, message in enumerate(ids):
                row = (number, member, event.index, event.time, key, position, message)
                ends.append(((number, message, key, offset), row))
    rows = [row for _, row in sorted(ends, key=lambda end: end[0])]
    names = ["number", "member", "index", "time", "key", "position", "message"]
    types = [pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int32(), pa.int32(), pa.string()]
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return pa.table([pa.array(list(c), t) for c, t in zip(columns, types, strict=True)], names=names)


def _cuts(large: Large, messages: list[dict[str, Any]], random: Random | None) -> np.ndarray:
    low = np.maximum(large.first_index - 1, 0)
    cuts = index_quantiles(low, large.last_index, large.blocks - 1)
    if random is not None:
        shares = np.sort([[random.random() for _ in low] for _ in cuts], axis=0).reshape(cuts.shape)
        cuts = low + np.floor(shares * (large.last_index - low + 1)).astype(np.int64)
    mine = [row for row in messages if row["number"] == large.number and row["outcome"] == "received"]
    ends = [
        np.array([row[name] for row in mine], kind)
        for name, kind in (
            ("sender", np.int32),
            ("send_index", np.int64),
            ("receiver", np.int32),
            ("receive_index", np.int64),
        )
    ]
    shrink(*ends, cuts)
    return tidied(large, cuts)


def _write_leaving(
    received: list[dict[str, Any]], block_of: Callable[[int, int, int], int], staging: Staging, blocks: int
) -> None:
    until: dict[tuple[int, int, int], int] = {}
    for row in received:
        sent = block_of(row["number"], row["sender"], row["send_index"])
        arrived = block_of(row["number"], row["receiver"], row["receive_index"])
        if arrived > sent:
            key = (sent, row["sender"], row["send_index"])
            until[key] = max(until.get(key, 0), arrived)
    keys = sorted(until)
    staging.write_leaving(
        np.searchsorted([block for block, _, _ in keys], np.arange(blocks + 1)).astype(np.int64),
        np.array([sender for _, sender, _ in keys], np.int32),
        np.array([send for _, _, send in keys], np.int64),
        np.array([until[key] for key in keys], np.int64),
    )


def _left_out(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "sender": -2, "send_index": 0} for row in messages if row["outcome"] == "duplicate-receive"]


def _block_rows(
    placed: list[tuple[int, int, int, Event]],
    sources: list[dict[str, Any]],
    block_of: Callable[[int, int, int], int],
) -> pa.Table:
    """As `blocking.block_rows` gives them."""
    rows = [
        {
            **event_row(event),
            "block": block_of(number, member, event.index),
            "member": member,
            "rank": 0,
            "file": 0,
            "offset": offset,
        }
        for number, member, offset, event in placed
    ]
    rows += [
        {
            "block": block_of(row["number"], row["receiver"], row["receive_index"]),
            "member": row["receiver"],
            "index": row["receive_index"],
            "rank": 1,
            "file": row["position"],
            "offset": row["send_index"],
            "sender": row["sender"],
        }
        for row in sources
    ]
    rows.sort(key=lambda row: (row["block"], row["member"], row["index"], row["rank"]))
    return pa.Table.from_pylist(rows, schema=BLOCK_ROW)


def _leave_out_cycles(messages: list[dict[str, Any]], staging: Staging, directory: Directory) -> None:
    files = sorted(staging.folder("cycles").glob("*.parquet"))
    left_out = {tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist()}
    for row in messages:
        place = (row["number"], row["receiver"], row["receive_index"], row["position"])
        if row["outcome"] == "received" and place in left_out:
            row["outcome"] = "cycle"
    for file in (directory.messages / "large").glob("*.parquet"):
        file.unlink()
    table = pa.Table.from_pylist(messages, schema=MESSAGE_TABLE)
    pq.write_table(table, directory.messages / "large" / "000000.parquet")
