"""Spans and log records of whole executions to events on lanes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import pyarrow as pa

from beforehand.formats.spans import LogRecord, Span, spans_to_events
from beforehand.pipeline.schemas import DONE, EXECUTION
from beforehand.pipeline.tasks.staging import Staging
from beforehand.pipeline.tasks.writing import ParsedWriter, RejectedWriter

__all__ = ["lay_spans"]


def lay_spans(staging: Staging, *, number: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` over execution, pack, is_span, payload, sorted by execution, whole executions to a
    partition. Events get the input file's `number` and count on within the pack.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        laying: _Laying | None = None
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in (EXECUTION, "pack", "is_span", "payload"))
            for execution, pack, is_span, payload in zip(*columns, strict=True):
                if laying is None:
                    laying = _Laying(staging, pack, number)
                laying.take(execution, is_span, payload)
        if laying is not None:
            done = laying.end()
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(done)])], schema=DONE)

    return run


class _Laying:
    def __init__(self, staging: Staging, pack: int, number: int) -> None:
        name = f"lanes-{pack:06d}.parquet"
        self.rejected = RejectedWriter(staging.folder("rejected") / name)
        self.parsed = ParsedWriter(staging.folder("parsed") / name, self.rejected)
        self.number = number
        self.pack = pack
        self.execution: str | None = None
        self.spans: list[Span] = []
        self.logs: list[LogRecord] = []
        self.notes: dict[tuple[str, str], int] = {}
        self.offset = pack << 40  # Places of different packs differ.
        self._span = msgspec.msgpack.Decoder(Span)
        self._log = msgspec.msgpack.Decoder(LogRecord)

    def take(self, execution: str, is_span: bool, payload: bytes) -> None:
        if execution != self.execution:
            self._lay()
            self.execution = execution
        if is_span:
            self.spans.append(self._span.decode(payload))
        else:
            self.logs.append(self._log.decode(payload))

    def _lay(self) -> None:
        if self.execution is None:
            return
        laned = spans_to_events(self.spans, self.logs, execution=self.execution)
        for event in laned.events:
            self.offset += 1
            self.parsed.event(event, number=self.number, split=0, offset=self.offset, line=None, file=None)
        # The file is not known any more, but the trace is.
        trace = f"trace {self.execution or '(without an id)'}"
        self.rejected.reject(replace(one, detail=f"{trace}: {one.detail}") for one in laned.rejections)
        for note in laned.notes:
            key = (note.reason, note.detail)
            self.notes[key] = self.notes.get(key, 0) + note.count
        self.spans, self.logs = [], []

    def end(self) -> dict[str, object]:
        with self.rejected, self.parsed:
            self._lay()
        return {
            "pack": self.pack,
            "events": self.parsed.count,
            "rejected": self.rejected.count,
            "notes": [[reason, detail, count] for (reason, detail), count in self.notes.items()],
        }
