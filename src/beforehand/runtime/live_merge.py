"""The live merger: from a stream to a stream, or to lines, in one order, with a delay of milliseconds.

It is the same `MergeBuffer` per channel that the merger on Spark uses, driven by two clocks. While there is more to
read, a channel's time is the last arrival that was read: so a late start or a restart goes through the past as it
was. Once the stream is drained, time is our own clock at the moment at which we asked, less a grace. An idle
publisher holds nobody up, and nobody sends heartbeats.

Guarantees, beside those of `MergeBuffer` and of the output:
  1. The order depends on the input alone: any two live mergers with the same settings, started and restarted
     whenever, write the same sequence per channel, if the clocks of broker and merger differ by at most the grace.
  2. Nothing is lost silently: what is not in the order is in the set-aside records, with a reason.
  3. Bounded: at most `waiting_max` messages and `waiting_bytes_max` bytes wait, in at most `channels_max` channels.
     What comes beyond is set aside as FULL. Reading goes on: while it catches up, only reading moves time on.

Why 1 holds. Late and future are decided by stamp and arrival. Of the rest, each leaves in its place unless its place
was passed, and that cannot be. Let m be read after time had come to t. If t was an arrival, m arrived at t or later.
If t was our clock less the grace when we asked, and m was not in the answer, it was stored after we asked, so it
arrived at t or later on the broker's clock too. In both cases P7 of `MergeBuffer` has room for m. The grace is ε
unless told otherwise: G1 covers the clocks of broker and merger.

What 1 does not promise: at the bounds of 3 mergers may differ in what they set aside, and after a restart there a
message may be both set aside as FULL and merged, or set aside as FULL twice; none is lost. If the broker's clock was
set back by more than the grace while the stream was drained, some may be set aside as PASSED.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal

from nats.js.api import StreamInfo

from beforehand.errors import BrokerError
from beforehand.formats.published import Arrived, RecordLimits, RecordReader, SetAsideRecord
from beforehand.ordering.merging import MergeBuffer, MergeSettings, SetAside
from beforehand.runtime.merge_output import Checkpoint, MergeOutput, Outgoing, Resume, WriteConflictError
from beforehand.runtime.nats import RECONNECT_S, Connection, StreamAddress, find_stream
from beforehand.runtime.stream_reader import Fetched, Stored, StreamReader

__all__ = ["LiveLimits", "LiveMerger", "MergeFigures"]

POLL_S: Final = 0.02
"""While messages wait and the stream is drained, what arrives is fetched so often: not all of it when it is due."""

IDLE_S: Final = 1.0
RETRY_S: Final = 0.25
FAILURES_MAX: Final = 5
CALM_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveLimits:
    """What a live merger may hold."""

    waiting_max: int = 1_000_000
    waiting_bytes_max: int = 512 * 1024 * 1024
    channels_max: int = 10_000
    records: RecordLimits = field(default_factory=RecordLimits)


@dataclass(slots=True, kw_only=True)
class MergeFigures:
    """What a merger has done since it was started, and where it stands."""

    read: int = 0
    delivered: int = 0
    set_aside: Counter[str] = field(default_factory=Counter)  # By reason.
    waiting: int = 0
    waiting_bytes: int = 0
    channels: int = 0
    behind: int = 0  # Messages that the stream has and we have not read, as far as is known.
    lag_ns: int = 0  # How far the time of the merge lies behind the clock.
    restarts: int = 0  # How often it began again from its output, because the broker was away or refused.
    missed: int = 0  # Input sequences that limits of the stream removed before they were read.


@dataclass(slots=True)
class _Entry:
    """A message that waits."""

    arrived: Arrived
    sequence: int  # In the input stream.
    done: bool = False


@dataclass(slots=True)
class _Channel:
    buffer: MergeBuffer[_Entry]
    position: int = 0  # Of the last message released.
    looked: int = 0  # The time of the last `advance`.


class LiveMerger:
    """Merges one stream. `run` until `stop` is set."""

    def __init__(
        self,
        connection: Connection,
        source: StreamAddress,
        output: MergeOutput,
        settings: MergeSettings,
        *,
        grace_ns: int | None = None,
        limits: LiveLimits | None = None,
        progress: Callable[[MergeFigures], None] | None = None,
    ) -> None:
        """`grace_ns`: how far the broker's clock may be from ours; ε if not given. `progress` is told the figures."""
        self._connection: Final = connection
        self._source: Final = source
        self._output: Final = output
        self._settings: Final = settings
        self._rules: Final = settings.rules
        self._grace_ns: Final = settings.epsilon_ns if grace_ns is None else grace_ns
        self._limits: Final = LiveLimits() if limits is None else limits
        self._progress: Final = progress
        self._reader: Final = RecordReader(settings, limits=self._limits.records)
        self.figures: Final = MergeFigures()
        self._delivered_before: int | None = None  # By earlier runs.
        # All below is made anew by every `_resume`.
        self._channels: dict[str, _Channel] = {}  # At most `channels_max`.
        self._order: deque[_Entry] = deque()  # All that wait, and some done, by input sequence.
        self._arrival = 0  # The greatest arrival read: arrivals never go back.
        self._time = 0  # In ticks; never goes back.
        self._read = 0  # The last input sequence that was read.
        self._written = 0  # What the input up to here set aside was written by an earlier run.
        self._out: list[Outgoing] = []  # Made and not handed to the output yet: of one batch.

    async def run(self, stop: asyncio.Event, *, drain: bool = False) -> MergeFigures:
        """Merge until `stop` is set; with `drain` also end when nothing is left to read and nothing waits.

        A broker that goes away is waited for. BrokerError if it stays away, or if another merger writes here too.
        """
        failures: deque[float] = deque(maxlen=FAILURES_MAX)
        while True:
            try:
                await self._session(stop, drain=drain)
                return self.figures
            except BrokerError as error:
                if not error.may_have_happened or self._connection.is_closed:
                    raise
                now = time.monotonic()
                if len(failures) == FAILURES_MAX and now - failures[0] < CALM_S:
                    if isinstance(error, WriteConflictError):
                        raise BrokerError(f"{error}: does another merger write there?") from None
                    raise
                failures.append(now)
                self.figures.restarts += 1
                await asyncio.sleep(RETRY_S)

    async def _session(self, stop: asyncio.Event, *, drain: bool) -> None:
        await self._connected()
        info = await find_stream(self._connection.jetstream(), self._source)
        if info is None:
            raise BrokerError(f"{self._source.shown}: there is no such stream: make it with --create")
        resume = await self._output.open(self._reader, self._identity(info))
        self._resume(resume)
        start = resume.checkpoint.start
        if resume.read and info.state.first_seq > start:
            self.figures.missed = info.state.first_seq - start
        reader = StreamReader(self._connection, self._source, start=start)
        await reader.open()
        try:
            await self._merge(reader, stop, drain=drain)
            await self._output.flush()
        finally:
            await reader.close()

    async def _merge(self, reader: StreamReader, stop: asyncio.Event, *, drain: bool) -> None:
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                fetched = await reader.fetch()
                await self._step(fetched)
                if not fetched.drained:
                    continue
                if not self.figures.waiting:
                    await self._output.flush()
                    if drain:
                        return
                    found = await _unless(stopping, reader.wait(IDLE_S))
                    if found is not None:
                        await self._step(found)
                else:
                    await asyncio.wait([stopping], timeout=self._pause_s())
        finally:
            stopping.cancel()

    async def _step(self, fetched: Fetched) -> None:
        """Take in what was fetched, let go what is due, and write both."""
        if not fetched.messages and not self.figures.waiting:
            self._report(fetched)
            return
        checkpoint = self._checkpoint()
        for stored in fetched.messages:
            self._take(stored)
        now = fetched.asked_ns - self._grace_ns if fetched.drained else 0
        self._release(self._settings.reading(max(self._arrival, now)))
        out, self._out = self._out, []
        if out:
            await self._output.write(out, checkpoint)
        self._report(fetched)

    def _take(self, stored: Stored) -> None:
        figures, limits = self.figures, self._limits
        figures.read += 1
        if figures.waiting >= limits.waiting_max or figures.waiting_bytes >= limits.waiting_bytes_max:
            self._release(self._settings.reading(max(self._arrival, stored.time_ns)))
        self._read = stored.sequence  # Not before: what was released just now says nothing of this one.
        self._arrival = arrival = max(self._arrival, stored.time_ns)
        record = self._reader.headers(stored.subject, stored.headers, stored.payload, arrival=arrival)
        if isinstance(record, SetAsideRecord):
            self._set_aside(record)
            return
        tick = self._settings.reading(arrival)
        channel = self._channels.get(record.channel)
        if channel is None and len(self._channels) < limits.channels_max:
            channel = self._channels[record.channel] = _Channel(
                MergeBuffer(self._rules, waiting_max=limits.waiting_max)
            )
        entry = _Entry(record, stored.sequence)
        if (
            channel is None
            or figures.waiting >= limits.waiting_max
            or figures.waiting_bytes >= limits.waiting_bytes_max
        ):
            reason = self._rules.judge(record.message.stamp, arrival=tick) or SetAside.FULL
        else:
            refused = channel.buffer.offer(record.message, entry, arrival=tick)
            if refused is None:
                figures.waiting += 1
                figures.waiting_bytes += len(record.message.payload)
                self._order.append(entry)
                return
            reason = refused
        self._set_aside(record.set_aside(reason, self._settings, limits=limits.records))

    def _set_aside(self, record: SetAsideRecord) -> None:
        if self._read <= self._written and record.reason is not SetAside.FULL:
            return  # An earlier run did it.
        self.figures.set_aside[record.reason.value] += 1
        self._out.append(Outgoing(record, self._read))

    def _release(self, tick: int) -> None:
        """Time has come to `tick`, in every channel."""
        self._time = now = max(self._time, tick)
        figures, span = self.figures, self._rules.span
        for channel in self._channels.values():
            due = channel.buffer.next_due()
            if due is None or (due > now and now < channel.looked + span):
                continue
            channel.looked = now
            for released in channel.buffer.advance(now):
                entry = released.item
                entry.done = True
                figures.waiting -= 1
                figures.waiting_bytes -= len(entry.arrived.message.payload)
                if released.reason is not None:
                    records = self._limits.records
                    self._set_aside(entry.arrived.set_aside(released.reason, self._settings, limits=records))
                    continue
                channel.position += 1
                figures.delivered += 1
                self._out.append(Outgoing(entry.arrived, self._read, channel.position))

    def _identity(self, info: StreamInfo) -> str:
        """Of the input and of all that decides about it: an output goes on with the same only."""
        made = None if info.created is None else info.created.isoformat()
        parts = (self._source.stream, self._source.subject, made, self._settings)
        return sha256(repr(parts).encode()).hexdigest()[:32]

    def _checkpoint(self) -> Checkpoint:
        """From where to read again, if what comes next is the last that gets written."""
        while self._order and self._order[0].done:
            self._order.popleft()
        if self._order:
            return Checkpoint(self._order[0].sequence, self._order[0].arrived.arrival)
        return Checkpoint(self._read + 1, self._arrival)

    def _resume(self, resume: Resume) -> None:
        figures, rules = self.figures, self._rules
        figures.waiting = figures.waiting_bytes = 0
        self._channels = {}
        self._order.clear()
        self._out = []
        self._arrival = resume.checkpoint.arrival
        self._time = self._settings.reading(self._arrival)
        self._read = resume.checkpoint.start - 1
        self._written = resume.read
        for name, (position, arrived) in resume.last.items():
            buffer: MergeBuffer[_Entry] = MergeBuffer(rules, waiting_max=self._limits.waiting_max)
            buffer.restore((rules.key(arrived.message), ()))
            self._channels[name] = _Channel(buffer, position)
        delivered = sum(channel.position for channel in self._channels.values())
        if self._delivered_before is None:
            self._delivered_before = delivered
        figures.delivered = delivered - self._delivered_before

    def _pause_s(self) -> float:
        """Until something is due, on our clock; but not for long."""
        dues = [due for channel in self._channels.values() if (due := channel.buffer.next_due()) is not None]
        due_ns = min(dues, default=self._time) * self._settings.tick_ns + self._grace_ns
        return min(max((due_ns - time.time_ns()) / 1e9, 0.0005), POLL_S)

    def _report(self, fetched: Fetched) -> None:
        figures = self.figures
        figures.channels = len(self._channels)
        figures.behind = fetched.pending
        figures.lag_ns = 0 if fetched.drained else max(0, time.time_ns() - self._arrival)
        if self._progress is not None:
            self._progress(figures)

    async def _connected(self) -> None:
        deadline = time.monotonic() + RECONNECT_S
        while not self._connection.is_connected:
            if self._connection.is_closed or time.monotonic() > deadline:
                raise BrokerError(f"{self._source.shown}: the connection was lost and did not come back")
            await asyncio.sleep(RETRY_S)


async def _unless(stopping: asyncio.Task[Literal[True]], fetching: Coroutine[None, None, Fetched]) -> Fetched | None:
    """What was fetched, or None if we are to stop before."""
    task = asyncio.create_task(fetching)
    either: list[asyncio.Task[Literal[True]] | asyncio.Task[Fetched]] = [task, stopping]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:  # Also if we are cancelled ourselves.
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
