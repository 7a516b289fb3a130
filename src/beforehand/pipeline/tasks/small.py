"""Small executions, each analyzed whole by `History`, many to a task."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from beforehand.events import INDEX_MAX, INFERRED, Event, EventId, Rejection
from beforehand.history import History
from beforehand.history.checks import inferred_note
from beforehand.history.kernels import NO_TIME
from beforehand.history.measures import TIME_MAX
from beforehand.pipeline.block import LEFT_OUT, UNSENT
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.rejecting import well_formed
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    CYCLE,
    DONE,
    DUPLICATE_RECEIVE,
    DUPLICATE_SEND,
    FILE,
    MESSAGE_TABLE,
    OFFSET,
    RECEIVED,
    STORED,
    UNRECEIVED,
    VIOLATION,
)
from beforehand.pipeline.schemas import UNSENT as UNSENT_OUTCOME
from beforehand.pipeline.stored.records import EVENT_COLUMNS, event_of
from beforehand.pipeline.tables import failures_in
from beforehand.pipeline.tasks.staging import Staging
from beforehand.pipeline.tasks.writing import RejectedWriter, RowWriter

__all__ = ["INDEX_TOO_LARGE", "analyze_packs"]

INDEX_TOO_LARGE = "index-too-large"
"""The last indexes of an execution add up to more than 64 bits hold, and so would sizes of pasts."""


Place = tuple[int, int]
"""Where an event stood in the input: file and offset."""


def analyze_packs(
    staging: Staging, directory: Directory, *, limit: int, lamport: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over SOURCED with `pack`, a pack to a partition, sorted by execution, file and
    offset. Gives one DONE row per pack, with at most `limit` findings of a kind. `lamport`: with Lamport times.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pack: _Pack | None = None
        events: list[Event] = []
        places: list[Place] = []
        for batch in batches:
            if pack is None and batch.num_rows:
                pack = _Pack(batch.column("pack")[0].as_py(), staging, directory, limit, lamport=lamport)
            columns = [batch.column(name).to_pylist() for name in (*EVENT_COLUMNS, FILE, OFFSET)]
            for *row, file, offset in zip(*columns, strict=True):
                if events and row[0] != events[-1].execution:
                    cast(_Pack, pack).analyze(events, places)
                    events, places = [], []
                events.append(event_of(*row))
                places.append((file, offset))
        if pack is not None:
            pack.analyze(events, places)
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(pack.end())])], schema=DONE)

    return run


def _is_again(event: EventId, place: Place, first: dict[EventId, Place]) -> bool:
    """Whether the event was there before; if not, it is now."""
    return first.setdefault(event, place) != place


class _Pack:
    def __init__(self, number: int, staging: Staging, directory: Directory, limit: int, *, lamport: bool) -> None:
        name = f"pack-{number:05d}.parquet"
        self.number = number
        self.limit = limit
        self.lamport = lamport
        self.depth: int | None = None  # The largest Lamport time.
        self.rejected = RejectedWriter(staging.folder("rejected") / name)
        self.stored = RowWriter(directory.pack(number), STORED)
        self.messages = RowWriter(directory.messages / name, MESSAGE_TABLE)
        self.violations = RowWriter(directory.violations / name, VIOLATION)
        self.counts: Counter[str] = Counter()
        self.notes: dict[str, tuple[int, str]] = {}  # Without its numbers: how often, and the first one.
        self.failures: list[tuple[int, int, str, str, int]] = []
        self.hidden: list[tuple[str, str, str, int]] = []

    def analyze(self, events: list[Event], places: list[Place]) -> None:
        last: dict[str, int] = {}
        for event in events:
            last[event.process] = max(event.index, last.get(event.process, 0))
        if sum(last.values()) > INDEX_MAX:
            detail = (
                f"the last indexes of the {len(last)} processes of execution {events[0].execution!r} add up to more "
                f"than {INDEX_MAX}: its {len(events)} events are left out; number them from 1"
            )
            self.rejected.reject([Rejection(reason=INDEX_TOO_LARGE, detail=detail)])
            self.counts["left_out"] += len(events)
            return
        history = History(events)
        self.counts["events"] += len(history)
        self.counts["executions"] += 1
        self.counts["past"] += int(history._past_counts.sum())
        self.counts["pairs"] += len(history) * (len(history) - 1) // 2
        self._reject(history, events, places)
        self._check(history)
        sources = _Sources(history)
        for row in sources.message_rows():
            self.messages.add(row)
        self._store(history, sources)
        if any("resource" in event.attributes for event in history.columns.events):
            found = history.measure().hidden_channels
            self.hidden += [(h.resource, str(h.earlier), str(h.later), h.apart_ns) for h in found][
                : self.limit - len(self.hidden)
            ]

    def _reject(self, history: History, events: list[Event], places: list[Place]) -> None:
        """With where they stood: duplicate events in the order of the input, the others by their last event."""
        if not history.rejections:
            return
        first: dict[EventId, Place] = {}
        again = iter(
            [place for event, place in zip(events, places, strict=True) if _is_again(event.id, place, first)]
        )
        for rejection in history.rejections:
            if rejection.reason == "duplicate-event":
                file, offset = next(again)
            elif rejection.reason == "cycle":  # All of it is wrong together.
                self.rejected.reject([rejection])
                continue
            else:
                file, offset = first[rejection.events[-1]]
            self.rejected.reject([replace(rejection, offset=offset)], number=file)

    def _check(self, history: History) -> None:
        report = history.check(limit=self.limit)
        self.counts.update(report.counts)
        self.counts["clocks"] += report.judged["clock"].judged
        for note in report.notes:
            if note == inferred_note(report.judged["total"].of - report.judged["total"].judged):
                continue  # Said of all executions together.
            key = _without_numbers(note)
            count, first = self.notes.get(key, (0, note))
            self.notes[key] = (count + 1, first)
        for violation in report.violations:
            self.violations.add(
                (
                    history.execution,
                    violation.kind,
                    [str(event) for event in violation.events],
                    list(violation.messages),
                    well_formed(violation.why),
                    [well_formed(reason) for reason in violation.reasons],
                )
            )

    def _store(self, history: History, sources: _Sources) -> None:
        columns = history.columns
        rows = []
        chains = history._lamport.tolist() if self.lamport else [None] * len(history)
        if self.lamport:
            self.depth = max(self.depth or 0, *chains)
        for row, event in enumerate(columns.events):
            time = int(history._causal_time[row])
            rows.append(
                (
                    event.execution,
                    0,
                    event.process,
                    event.index,
                    event.sends,
                    event.receives,
                    event.time,
                    event.name,
                    list(event.attributes.items()),
                    None if event.clock is None else list(event.clock.items()),
                    event.kind.value,
                    None if time == NO_TIME else time,
                    int(history._past_size[row]),
                    chains[row],
                    sources.of_row(row),
                )
            )
        for stored in rows:
            self.stored.add(stored)
        failing = failures_in(
            pa.table({ATTRIBUTES: pa.array([row[8] for row in rows], STORED.field(ATTRIBUTES).type)})
        )
        self.counts["failures"] += int(failing.size)
        for row in failing:
            event = columns.events[row]
            place = (int(history._causal_time[row]), int(history._past_size[row]))
            self.failures.append((*place, event.execution, event.process, event.index))
        self.failures = sorted(self.failures)[: self.limit]

    def end(self) -> dict[str, Any]:
        with self.rejected, self.stored, self.messages, self.violations:
            pass
        return {
            "pack": self.number,
            "counts": dict(self.counts),
            "depth": self.depth,
            "notes": self.notes,
            "failures": self.failures,
            "hidden": self.hidden,
        }


class _Sources:
    """Where each receive's message came from, as `sources` and `messages/` have it."""

    def __init__(self, history: History) -> None:
        self.history = history
        columns = history.columns
        self.numbers = {message: at for at, message in enumerate(columns.messages)}
        starts = columns.receive_start
        self.kept = [
            set(columns.receive_message[starts[row] : starts[row + 1]].tolist()) for row in range(len(history))
        ]
        count = len(columns.messages)
        self.longest, self.shortest = np.full(count, NO_TIME), np.full(count, INDEX_MAX)
        times = columns.time[columns.receive_row]
        timed = (times > -TIME_MAX) & (times < TIME_MAX)  # Differences of others would not fit 64 bits.
        np.maximum.at(self.longest, columns.receive_message[timed], times[timed])
        np.minimum.at(self.shortest, columns.receive_message[timed], times[timed])
        self.of_process = {
            (int(columns.process[row]), int(number)) for row in range(len(history)) for number in self.kept[row]
        }

    def of_row(self, row: int) -> list[dict[str, int | None]]:
        columns = self.history.columns
        result: list[dict[str, int | None]] = []
        for message in columns.events[row].receives:
            number = self.numbers.get(message, -1)
            if number not in self.kept[row]:
                result.append({"sender": LEFT_OUT, "send_index": None})
            elif columns.send[number] < 0:
                result.append({"sender": UNSENT, "send_index": None})
            else:
                send = columns.send[number]
                result.append({"sender": int(columns.process[send]), "send_index": int(columns.index[send])})
        return result

    def message_rows(self) -> Iterator[tuple[Any, ...]]:
        columns = self.history.columns
        receivers = np.bincount(columns.receive_message, minlength=len(columns.messages))
        told: set[int] = set()
        looped = {  # Received, if in a cycle only.
            self.numbers[message]
            for row, event in enumerate(columns.events)
            for message in event.receives
            if message in self.numbers and self.numbers[message] not in self.kept[row]
        }
        for row, event in enumerate(columns.events):
            for position, message in enumerate(event.receives):
                number = self.numbers.get(message, -1)
                kept = number in self.kept[row]
                send = int(columns.send[number]) if number >= 0 else -1
                if kept:
                    outcome = RECEIVED if send >= 0 else UNSENT_OUTCOME
                else:
                    elsewhere = (int(columns.process[row]), number) in self.of_process
                    outcome = DUPLICATE_RECEIVE if elsewhere else CYCLE
                figures = kept or (number >= 0 and not receivers[number])
                first = figures and number not in told
                if figures:
                    told.add(number)
                yield self._row(message, outcome, send, row, position, int(receivers[number]) if first else None)
            for message in event.sends:
                number = self.numbers[message]
                if columns.send[number] != row:
                    yield self._row(message, DUPLICATE_SEND, row, None, None, None)
                elif not receivers[number] and number not in looped:
                    yield self._row(message, UNRECEIVED, row, None, None, 0)

    def _row(
        self, message: str, outcome: str, send: int, receive: int | None, position: int | None, receivers: int | None
    ) -> tuple[Any, ...]:
        columns = self.history.columns
        sent = columns.events[send] if send >= 0 else None
        received = columns.events[receive] if receive is not None else None
        return (
            self.history.execution,
            None,
            message,
            message.startswith(INFERRED),
            outcome,
            None if sent is None else int(columns.process[send]),
            None if sent is None else sent.process,
            None if sent is None else sent.index,
            None if sent is None else sent.time,
            None if received is None or receive is None else int(columns.process[receive]),
            None if received is None else received.process,
            None if received is None else received.index,
            None if received is None else received.time,
            position,
            receivers,
            self._spread(message) if receivers else None,
        )

    def _spread(self, message: str) -> int | None:
        number = self.numbers[message]
        send = int(self.history.columns.send[number])
        untimed = send < 0 or abs(int(self.history.columns.time[send])) >= TIME_MAX
        untimed = untimed or self.longest[number] == NO_TIME
        return None if untimed else int(self.longest[number]) - int(self.shortest[number])


def _without_numbers(note: str) -> str:
    """Notes of many executions count together."""
    return "".join("N" if character.isdigit() else character for character in note)
