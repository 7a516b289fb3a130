"""History directories of random histories, made by the pipeline or written by hand, and the same in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from beforehand.events import Event
from beforehand.history import History
from random_histories import as_events, random_steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Case:
    """A history directory and the same executions in memory."""

    name: str
    path: Path
    histories: dict[str, History]
    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # Per block, see pipeline/tasks/replay.py.


def random_events(
    seed: int,
    *,
    processes: int,
    steps: int,
    gap: int = 1,
    untimed: float = 0.0,
    skew_ns: int = 0,
    execution: str = "",
) -> list[Event]:
    """A random history with names, attributes, some reported clocks (a few of them wrong) and inferred messages."""
    random = Random(seed)
    plain = as_events(random_steps(random, processes=processes, steps=steps, skew_ns=skew_ns, untimed=untimed))
    inferred = {m for event in plain for m in event.sends if random.random() < 0.1}
    renamed = {m: f"~{m}" if m in inferred else m for event in plain for m in (*event.sends, *event.receives)}
    known = History(plain)
    result = []
    for event in plain:
        clock = None
        if random.random() < 0.2:
            clock = {p: i * gap - (gap > 1) for p, i in known.stamp(event).items()}
            if random.random() < 0.2:
                clock[event.process] += 1
        attributes = {"resource": f"item-{random.randint(1, 5)}", "n": str(random.randint(-3, 20))}
        if random.random() < 0.1:
            attributes["level"] = random.choice(["error", "warn"])
        result.append(
            Event(
                execution=execution,
                process=event.process,
                index=event.index * gap - (gap > 1),
                sends=tuple(renamed[m] for m in event.sends),
                receives=tuple(renamed[m] for m in event.receives),
                time=event.time,
                name=random.choice(["reserve", "pay", "check out", "Überweisung", "pay failed", ""]),
                attributes=attributes if random.random() < 0.7 else {},
                clock=clock,
            )
        )
    return result


def untidy(events: list[Event], seed: int) -> list[Event]:
    """The same with messages sent twice, received twice, sent by nobody and received before they were sent."""
    random = Random(seed)
    messages = [m for event in events for m in event.sends]
    result = []
    for event in events:
        sends, receives = list(event.sends), list(event.receives)
        if random.random() < 0.05:
            sends.append(random.choice(messages))
        if random.random() < 0.03:
            receives.append(random.choice(messages))
        if random.random() < 0.03:
            receives.append(f"nobody-{event.process}-{event.index}")
        if random.random() < 0.02:
            sends.append(f"twice-{random.randint(1, 3)}")
        result.append(
            Event(
                execution=event.execution,
                process=event.process,
                index=event.index,
                sends=tuple(dict.fromkeys(sends)),
                receives=tuple(dict.fromkeys(receives)),
                time=event.time,
                name=event.name,
                attributes=event.attributes,
                clock=event.clock,
            )
        )
    return result


SMALL_REPORT: dict[str, Any] = {
    "events": 0,
    "processes": 0,
    "executions": 1,
    "messages": 0,
    "receives": 0,
    "unreceived": 0,
    "unsent": 0,
    "rejected": 0,
    "failures": [],
    "violations": {"fifo": 0, "causal": 0, "total": 0, "clock": 0},
    "synchrony": {"tightness_ns": None, "steadiness_ns": None, "uncertainty_ns": None},
    "clocks": {},
    "notes": [],
}


def make_cut_directory(spark: SparkSession, executions: list[list[Event]], folder: Path, *, blocks: int) -> Case:
    """Analyze executions as large ones, with about this many blocks each."""
    import pyarrow as pa

    from beforehand.pipeline.census import LARGE_COLUMNS, large_executions, profile
    from beforehand.pipeline.directory import Directory, Manifest
    from beforehand.pipeline.jobs.large import analyze_large
    from beforehand.pipeline.progress import Progress
    from beforehand.pipeline.schemas import SOURCED
    from beforehand.pipeline.tasks.staging import Staging

    events = [event for execution in executions for event in execution]
    rows = [{**event_row(event), "file": 0, "offset": offset} for offset, event in enumerate(events)]
    staging = Staging(folder / "staging")
    staging.make()
    directory = Directory(folder / "history")
    directory.make()
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=SOURCED))
    counted = profile(frame).select(*LARGE_COLUMNS).collect()
    larges = large_executions([tuple(row) for row in counted], blocks=blocks)
    outcome = analyze_large(
        spark, frame, larges, staging=staging, directory=directory, limit=1_000, progress=Progress(quiet=True)
    )
    directory.report.write_text(json.dumps(SMALL_REPORT | {"events": len(events)}))
    cut = [{"execution": one.execution, "number": one.number, "blocks": one.blocks} for one in outcome.larges]
    directory.write_manifest(Manifest(cut_executions=cut, executions=len(cut), events=len(events)))
    found = {
        one.execution: [block for block in outcome.found if one.base <= block["block"] < one.base + one.blocks]
        for one in outcome.larges
    }
    return Case(folder.name, directory.path, History.by_execution(events), found)


def event_row(event: Event) -> dict[str, Any]:
    """An event as a row of the tables of the pipeline."""
    return {
        "execution": event.execution,
        "process": event.process,
        "index": event.index,
        "sends": list(event.sends),
        "receives": list(event.receives),
        "time": event.time,
        "name": event.name,
        "attributes": list(event.attributes.items()),
        "clock": None if event.clock is None else list(event.clock.items()),
    }


def make_pack_directory(executions: list[list[Event]], folder: Path, *, packs: int) -> Case:
    """A directory of small executions, without Spark."""
    import pyarrow as pa

    from beforehand.pipeline.directory import Directory, Manifest, pack_of
    from beforehand.pipeline.schemas import MESSAGE_TABLE, STORED
    from beforehand.pipeline.tables import write_parquet

    directory = Directory(folder / "history")
    directory.make()
    histories = History.by_execution(event for events in executions for event in events)
    rows: dict[int, list[dict[str, Any]]] = {}
    messages: list[dict[str, Any]] = []
    for execution, history in histories.items():
        mine = rows.setdefault(pack_of(execution, packs), [])
        mine += stored_rows(history)
        messages += message_rows(history)
    for pack, of_pack in rows.items():
        write_parquet(pa.Table.from_pylist(of_pack, schema=STORED), directory.pack(pack))
    write_parquet(pa.Table.from_pylist(messages, schema=MESSAGE_TABLE), directory.messages / "small.parquet")
    directory.report.write_text(json.dumps(SMALL_REPORT | {"executions": len(executions)}))
    count = sum(len(history) for history in histories.values())
    directory.write_manifest(Manifest(packs=packs, executions=len(histories), events=count))
    return Case(folder.name, directory.path, histories)


def stored_rows(history: History) -> list[dict[str, Any]]:
    """Rows of `events/`."""
    columns = history.columns
    rows = []
    for row, event in enumerate(columns.events):
        receives = range(columns.receive_start[row], columns.receive_start[row + 1])
        sent = {columns.messages[columns.receive_message[r]]: int(columns.source[r]) for r in receives}
        sources = []
        for message in event.receives:
            at = sent.get(message, -2)
            sender, index = (int(columns.process[at]), int(columns.index[at])) if at >= 0 else (at, None)
            sources.append({"sender": sender, "send_index": index})
        rows.append(
            {
                **event_row(event),
                "block": 0,
                "kind": event.kind.value,
                "causal_time": history.causal_time(event),
                "past_size": history.past_size(event),
                "sources": sources,
            }
        )
    return rows


def message_rows(history: History) -> list[dict[str, Any]]:
    """Rows of `messages/`: received, unsent and unreceived ones, and sends that were left out."""
    columns = history.columns
    rows = []

    def add(message: str, outcome: str, **more: object) -> None:
        inferred = message.startswith("~")
        rows.append(
            {"execution": history.execution, "message": message, "inferred": inferred, "outcome": outcome, **more}
        )

    def end(side: str, row: int) -> dict[str, object]:
        event = columns.events[row]
        return {f"{side}_process": event.process, f"{side}_index": event.index, f"{side}_time": event.time}

    for r, row in enumerate(columns.receive_row.tolist()):
        message, source = columns.messages[columns.receive_message[r]], int(columns.source[r])
        position = columns.events[row].receives.index(message)
        sent = end("send", source) if source >= 0 else {}
        add(message, "received" if sent else "unsent", position=position, **sent, **end("receive", row))
    received = set(columns.receive_message.tolist())
    for number, message in enumerate(columns.messages):
        if columns.send[number] >= 0 and number not in received:
            add(message, "unreceived", **end("send", int(columns.send[number])))
    for rejection in history.rejections:
        if rejection.reason == "duplicate-send":
            again = rejection.events[-1]
            add(str(rejection.message), "duplicate-send", send_process=again.process, send_index=again.index)
    return rows
