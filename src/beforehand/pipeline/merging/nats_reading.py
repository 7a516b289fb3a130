"""Messages of a stream by their numbers, for tasks that are not asynchronous.

`StreamReader` reads in the order of the stream and notices what the client dropped. What was removed from the stream
before it was read is looked for at the end of a range: it is an error, never silence.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

import nats.errors
import nats.js.errors
import pyarrow as pa
from nats.js.api import RetentionPolicy

from beforehand.errors import BrokerError, InputError
from beforehand.events import parse_time
from beforehand.formats.merged import PUBLISHER_HEADER, SEQUENCE_HEADER, STAMP_HEADER, decimal
from beforehand.formats.published import RecordReader, SetAsideRecord
from beforehand.ordering.merging import MergeSettings
from beforehand.pipeline.merging.schemas import ARRIVED
from beforehand.pipeline.merging.times import arrival_after
from beforehand.runtime.nats import Connection, StreamAddress, connect, shown_server
from beforehand.runtime.stream_reader import Stored, StreamReader

__all__ = ["Place", "StreamState", "Streams", "read_range"]

ASKED_MAX: Final = 4_000
"""Messages asked for at once."""
ANSWER_S: Final = 30.0

T = TypeVar("T")


class Place(NamedTuple):
    """A broker, and what is needed to be let in."""

    server: str
    credentials: Path | None = None
    tls_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class StreamState:
    shown: str
    first: int
    last: int
    bytes_mean: int
    created: int  # When the stream was made, in microseconds since 1970.

    def check_has(self, after: int, *, created: int) -> None:
        """Raise if the stream is not the one that was made at `created`, or messages behind `after` are gone."""
        if self.created != created:
            raise InputError(
                f"{self.shown}: the stream was made anew since: its messages have other numbers; use another "
                "checkpoint and output"
            )
        if self.first > after + 1 and self.last > after:
            raise removed(self.shown, f"messages {after + 1} to {self.first - 1} were")
        if self.last < after:
            raise InputError(
                f"{self.shown}: the stream ends at message {self.last}, but {after} were read: it is another stream "
                "of that name; use another checkpoint and output"
            )


def removed(shown: str, which: str) -> InputError:
    return InputError(
        f"{shown}: {which} removed from the stream before they were read: let it keep messages for longer, and start "
        "again with another checkpoint and output"
    )


class Streams:
    """Questions about streams over one connection, which is made when it is first needed, and anew if it broke."""

    def __init__(self, place: Place) -> None:
        self._place: Final = place
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def state(self, name: str) -> StreamState:
        return self.ask(self._state(name))

    def arrival(self, name: str, number: int, *, before: int, span_ns: int) -> int:
        """The arrival of a message, where that of an earlier one is `before`."""
        return arrival_after(before, self.ask(self._stored(name, number)), span_ns=span_ns)

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        try:
            return self._loop.run_until_complete(question)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self.close()
            text = " ".join(str(error).split()) or type(error).__name__
            raise BrokerError(f"{shown_server(self._place.server)}: {text}", may_have_happened=True) from None

    def close(self) -> None:
        if self._loop is not None:
            if self._connection is not None:
                with suppress(Exception):
                    self._loop.run_until_complete(self._connection.close())
            self._loop.close()
        self._loop = self._connection = None

    async def connection(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            place = self._place
            self._connection = await connect(place.server, credentials=place.credentials, tls_ca=place.tls_ca)
        return self._connection

    def shown(self, name: str) -> str:
        return f"{shown_server(self._place.server)}/{name}"

    async def _state(self, name: str) -> StreamState:
        jetstream = (await self.connection()).jetstream()
        try:
            info = await jetstream.stream_info(name)
        except nats.js.errors.NotFoundError:
            raise InputError(f"{self.shown(name)}: there is no such stream: publish to it first") from None
        if info.config.retention not in (None, RetentionPolicy.LIMITS):
            raise InputError(
                f"{self.shown(name)}: the stream forgets what was consumed (retention {info.config.retention}): "
                "give it retention by limits"
            )
        state = info.state
        mean = max(1, state.bytes // max(1, state.messages))
        # An empty stream has the number of the next message as its first.
        created = 0 if info.created is None else round(info.created.timestamp() * 1e6)
        return StreamState(self.shown(name), max(state.first_seq, 1), state.last_seq, mean, created)

    def check_whole(self, name: str, *, after: int, last: int, created: int) -> None:
        """Raise if any message of the range is gone from the stream."""
        self.state(name).check_has(after, created=created)
        gone = [number for number in self.ask(self._deleted(name)) if after < number <= last]
        if gone:
            raise removed(self.shown(name), f"{len(gone)} messages, {gone[0]} the first, were")

    async def _deleted(self, name: str) -> list[int]:
        """The numbers of messages that were removed from the middle of a stream."""
        connection = await self.connection()
        request = json.dumps({"deleted_details": True}).encode()
        answer = await connection.request(f"$JS.API.STREAM.INFO.{name}", request, timeout=ANSWER_S)
        found: list[int] = json.loads(answer.data).get("state", {}).get("deleted") or []
        return found

    async def _stored(self, name: str, number: int) -> int:
        """When the broker stored the message, or the first behind it that is there."""
        connection = await self.connection()
        request = json.dumps({"seq": number, "next_by_subj": ">"}).encode()
        answer = await connection.request(f"$JS.API.STREAM.MSG.GET.{name}", request, timeout=ANSWER_S)
        found = json.loads(answer.data)
        if "message" not in found:
            raise removed(self.shown(name), f"message {number} was")
        return parse_time(found["message"]["time"])


def read_range(
    place: Place, stream: str, subject: str, *, after: int, last: int, arrival: int, span_ns: int, created: int
) -> Iterator[pa.RecordBatch]:
    """Messages of a stream with numbers above `after` up to `last`, in their order. Rows of ARRIVED."""
    with Streams(place) as streams:
        streams.state(stream).check_has(after, created=created)
        rows = _Rows(stream, arrival=arrival, span_ns=span_ns)
        address = StreamAddress(server=place.server, stream=stream, subject=subject or None)
        reader = StreamReader(streams.ask(streams.connection()), address, start=after + 1, batch_max=ASKED_MAX)
        streams.ask(reader.open())
        drained = False
        while not drained and rows.last < last:
            fetched = streams.ask(reader.fetch())
            drained = fetched.drained  # Not the end of the stream, but of what the filter takes.
            taken = [message for message in fetched.messages if message.sequence <= last]
            drained |= len(taken) < len(fetched.messages)
            if taken:
                yield rows.batch(taken)
        streams.ask(reader.close())
        if rows.count < last - after:
            streams.check_whole(stream, after=after, last=last, created=created)


class _Rows:
    """Messages as rows of ARRIVED, with arrivals that do not go back."""

    def __init__(self, stream: str, *, arrival: int, span_ns: int) -> None:
        self._stream = stream
        self._arrival = arrival
        self._span_ns = span_ns
        self._reader = RecordReader(MergeSettings(epsilon_ns=0, delta_ns=0))  # For records without a usable number.
        self.last = 0
        self.count = 0

    def batch(self, messages: list[Stored]) -> pa.RecordBatch:
        rows = [self._row(message) for message in messages]
        self.count += len(rows)
        columns = zip(*rows, strict=True)
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, ARRIVED, strict=True)], schema=ARRIVED
        )

    def _row(self, message: Stored) -> tuple[Any, ...]:
        self._arrival = arrival = arrival_after(self._arrival, message.time_ns, span_ns=self._span_ns)
        self.last = number = message.sequence
        headers = message.headers or {}
        sequence = decimal(headers.get(SEQUENCE_HEADER))
        publisher, stamp = headers.get(PUBLISHER_HEADER), headers.get(STAMP_HEADER)
        payload = message.payload
        why: tuple[Any, ...] = (None, None, None)
        if sequence is None or sequence >= 2**63 or not _clean(publisher) or not _clean(stamp):
            read = self._reader.headers(message.subject, headers, payload, arrival=arrival)
            assert isinstance(read, SetAsideRecord), "one of the three cannot be read"
            publisher, sequence, stamp, payload = read.publisher, read.sequence, read.stamp, read.payload
            why = (read.reason.value, read.detail, read.payload_bytes)
        return (message.subject, publisher, sequence, stamp, arrival, payload, self._stream, number, *why, None)


def _clean(text: str | None) -> bool:
    """Text that can be a column: not what stands for bytes that are no UTF-8."""
    return text is None or text.isascii() or not any(0xD800 <= ord(sign) <= 0xDFFF for sign in text)
