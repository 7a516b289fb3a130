"""The data source `nats`: messages of a JetStream stream, as a batch or as a stream.

    spark.dataSource.register(NatsDataSource)
    spark.read.format("nats").option("server", "nats://127.0.0.1:4222").option("stream", "ORDERS").load()

Columns as in `ARRIVED`; `channel` is the subject, `source` the stream, `offset` the message's number in it.

Guarantees:
  1. Replayable: an offset holds the number of the last message read and the times that go with it. The same offsets
     give the same rows, for messages are read by their numbers. Nothing is acknowledged, and no consumer outlives a
     task: the broker keeps no state for us.
  2. Nothing is lost in silence: messages that are gone from the stream before they were read end the query with an
     error that says which, and so does a stream that was made anew since. Streams that forget what was consumed
     (interest, work queue) are refused.
  3. With `span_ns`, each micro-batch has one row that tells the time of the channels (`merge_times`), also where
     only time has moved.
  4. Arrivals do not go back (`arrival_after`), in the order of the stream, from one micro-batch to the next.

Each filter in `subjects` is read by a task of its own, so filters must not overlap. Where the broker's clock went
back, 4 holds for each filter by itself.

Options: `server`, `stream` (several: a JSON list), `subjects` (a JSON list of filters; default all), `start`
(`first`, `new` or a number), `messages_max` (per micro-batch), `span_ns`, `grace_ns`, `flush`, `credentials`,
`tls_ca`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from beforehand.errors import InputError
from beforehand.pipeline.merging.nats_reading import Place, Streams, StreamState, read_range
from beforehand.pipeline.merging.schemas import ARRIVED
from beforehand.pipeline.merging.times import TimeRules, number_option
from beforehand.pipeline.schemas import spark_type

__all__ = ["NatsDataSource", "check_streams"]

MESSAGES_MAX: Final = 100_000
BYTES_MAX: Final = 256 * 1024 * 1024
"""About so many bytes of a stream in a micro-batch, by the mean size of its messages."""

# {stream: {"sequence": last number read, "arrival": its arrival, "time": of the channels,
#           "created": when the stream was made}}
Offset = dict[str, dict[str, int]]


@dataclass(frozen=True)
class _Options:
    place: Place
    streams: tuple[str, ...]
    subjects: tuple[str, ...]  # One empty text: all.
    start: str
    messages_max: int
    times: TimeRules | None  # None: no rows that tell the time.

    @classmethod
    def read(cls, given: Mapping[str, str]) -> _Options:
        names = _list(given.get("stream", ""), "stream")
        subjects = _list(given.get("subjects", ""), "subjects")
        if "server" not in given or not names:
            raise InputError("the data source nats needs the options server and stream")
        _refuse_overlap(subjects)
        credentials, ca = given.get("credentials"), given.get("tls_ca")
        return cls(
            place=Place(given["server"], Path(credentials) if credentials else None, Path(ca) if ca else None),
            streams=names,
            subjects=subjects or ("",),
            start=given.get("start", "first"),
            messages_max=max(1, number_option(given, "messages_max", MESSAGES_MAX)),
            times=TimeRules.read(given),
        )

    @property
    def span_ns(self) -> int:
        """Without rules about times, arrivals follow no step back."""
        return 2**62 if self.times is None else self.times.span_ns


class NatsDataSource(DataSource):
    """Register it with `spark.dataSource.register(NatsDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "nats"

    def schema(self) -> StructType:
        return spark_type(ARRIVED)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return _BatchReader(_Options.read(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return _StreamReader(_Options.read(self.options))


class _Range(InputPartition):
    """Messages of a stream that a task reads; or only a time."""

    def __init__(
        self,
        stream: str,
        subject: str,
        *,
        after: int,
        last: int,
        arrival: int,
        created: int,
        time_ns: int | None = None,
    ) -> None:
        super().__init__(None)
        self.stream = stream
        self.subject = subject
        self.after = after
        self.last = last
        self.arrival = arrival  # Of the message `after`.
        self.created = created
        self.time_ns = time_ns


class _BatchReader(DataSourceReader):
    """All that the streams hold when the read is planned."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        with Streams(self._options.place) as streams:
            states = {name: streams.state(name) for name in self._options.streams}
        return [
            _Range(name, subject, after=state.first - 1, last=state.last, arrival=0, created=state.created)
            for name, state in states.items()
            for subject in self._options.subjects
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: _Options) -> None:
        self._options = options
        self._streams = Streams(options.place)
        self._frozen: tuple[dict[str, int], int] | None = None  # The last numbers and the time of the wall clock.

    def initialOffset(self) -> Offset:  # noqa: N802
        states = {name: self._streams.state(name) for name in self._options.streams}
        return {
            name: {"sequence": self._first(state), "arrival": 0, "time": 0, "created": state.created}
            for name, state in states.items()
        }

    def _first(self, state: StreamState) -> int:
        start = self._options.start
        if start == "first":
            return state.first - 1
        if start == "new":
            return state.last
        if not start.isdecimal():
            raise InputError(f"start is {start!r}: it is first, new or the number of a message")
        return max(int(start), 1) - 1

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.messages_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        now_ns = time.time_ns()  # Before the question: what was stored by now is in the answer.
        self._frozen = ({name: self._streams.state(name).last for name in self._options.streams}, now_ns)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        options = self._options
        if set(start) != set(options.streams):
            raise InputError(
                f"the checkpoint is of the streams {', '.join(sorted(start))}: name the same, or another"
            )
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else options.messages_max
        # Before the questions: what was stored by now is in the answers.
        now_ns = time.time_ns() if self._frozen is None else self._frozen[1]
        offset: Offset = {}
        drained: dict[str, bool] = {}
        for name, before in start.items():
            state = self._streams.state(name)
            state.check_has(before["sequence"], created=before["created"])
            last = state.last if self._frozen is None else max(self._frozen[0][name], before["sequence"])
            step = min(max(1, rows // len(start)), max(1, BYTES_MAX // state.bytes_mean))
            end = min(last, before["sequence"] + step)
            arrival = before["arrival"]
            if end > before["sequence"]:
                arrival = self._streams.arrival(name, end, before=arrival, span_ns=options.span_ns)
            drained[name] = end >= last
            offset[name] = {**before, "sequence": end, "arrival": arrival}
        if options.times is not None:
            arrivals = {name: after["arrival"] for name, after in offset.items()}
            for name, time_ns in options.times.times(start, arrivals, drained, now_ns=now_ns).items():
                offset[name]["time"] = time_ns
        return offset

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        ranges = []
        for name, after in end.items():
            before = start[name]
            if after["sequence"] > before["sequence"]:
                ranges += [
                    _Range(
                        name,
                        subject,
                        after=before["sequence"],
                        last=after["sequence"],
                        arrival=before["arrival"],
                        created=before["created"],
                    )
                    for subject in self._options.subjects
                ]
        if self._options.times is not None:
            time_ns = min(after["time"] for after in end.values())
            if ranges:
                ranges[0].time_ns = time_ns
            else:
                ranges = [_Range("", "", after=0, last=0, arrival=0, created=0, time_ns=time_ns)]
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def commit(self, end: Offset) -> None:
        """Nothing to acknowledge: the broker knows nothing of us."""

    def stop(self) -> None:
        self._streams.close()


def _read(options: _Options, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, _Range)
    if partition.time_ns is not None:
        columns: list[Any] = [pa.nulls(1, field.type) for field in ARRIVED][:-1]
        yield pa.RecordBatch.from_arrays([*columns, pa.array([partition.time_ns])], schema=ARRIVED)
    if partition.last > partition.after:
        yield from read_range(
            options.place,
            partition.stream,
            partition.subject,
            after=partition.after,
            last=partition.last,
            arrival=partition.arrival,
            span_ns=options.span_ns,
            created=partition.created,
        )


def check_streams(given: Mapping[str, str]) -> None:
    """InputError or BrokerError if what these options name cannot be read. Needs no Spark: it can be asked first."""
    options = _Options.read(given)
    with Streams(options.place) as streams:
        for name in options.streams:
            streams.state(name)


def _list(text: str, name: str) -> tuple[str, ...]:
    """A JSON list of texts, or one text."""
    if not text.startswith("["):
        return (text,) if text else ()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(item, str) and item for item in found):
        raise InputError(f"the option {name} is no JSON list of texts")
    return tuple(found)


def _refuse_overlap(subjects: Sequence[str]) -> None:
    for at, one in enumerate(subjects):
        for other in subjects[at + 1 :]:
            if _overlap(one.split("."), other.split(".")):
                raise InputError(f"the subjects {one!r} and {other!r} overlap: a message would be read twice")


def _overlap(one: list[str], other: list[str]) -> bool:
    for mine, theirs in zip(one, other, strict=False):
        if ">" in (mine, theirs):
            return True
        if mine != theirs and "*" not in (mine, theirs):
            return False
    return len(one) == len(other)
