"""A publisher: stamps messages and puts them on channels of a stream.

Guarantees:
  1. Its messages carry stamps of its own bounded (or offset) clock, so that mergers put them in causal order: after
     its own earlier ones, and after every message whose stamp it was told by `observe`.
  2. Never more than K messages in a tick: it waits for the next one.
  3. At most `in_flight_max` messages are without an answer of the broker; `publish` waits for room. When `flush` has
     returned, all are stored. A message that the broker did not take ends the publisher with a BrokerError: those
     without an answer may be stored or not.

Assumes that only one publisher of a name runs at a time.

After a crash. A new publisher of the same name waits ε before its first message: so its stamps are later than all
that the old one gave, if the machine's clock was not set back. No two messages of a name are then taken for one, for
messages are the same only if stamp, name and number are. Numbers go on after the last sequence of the stream, so
usually they grow, with gaps; a number can come twice only where messages were lost in the crash. Whoever keeps count
by himself passes `first_sequence`. Nobody knows of messages in flight at a crash whether they were stored: sent
again, they are new messages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from beforehand.clocks.bounded import BoundedClock, BoundedStamp, Held, Received
from beforehand.clocks.offset import OffsetClock, OffsetStamp
from beforehand.clocks.wire import VALUE_MAX
from beforehand.errors import BrokerError, FutureStampError, InputError, TooManyEventsError
from beforehand.formats.merged import PUBLISHER_HEADER, SEQUENCE_HEADER, STAMP_HEADER
from beforehand.formats.published import RecordLimits, stamp_bytes_max
from beforehand.ordering.merging import MergeSettings, MergeStamp, Published
from beforehand.runtime.nats import FAILURES, Connection, StreamAddress, covers, find_stream, refusal

__all__ = ["Publisher"]

IN_FLIGHT_MAX: Final = 1_000
ANSWER_S: Final = 10.0


class _Answer(msgspec.Struct):
    seq: int = 0
    error: dict[str, object] | None = None


class Publisher:
    """Publishes under one name. Make it with `open`; close it with `close`."""

    def __init__(
        self,
        connection: Connection,
        address: StreamAddress,
        name: str,
        settings: MergeSettings,
        *,
        first_sequence: int,
        in_flight_max: int = IN_FLIGHT_MAX,
        time_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.name: Final = name
        self._connection: Final = connection
        self._address: Final = address
        self._settings: Final = settings
        self._time_ns: Final = time_ns
        self._reading = settings.reading(time_ns())  # Never goes back.
        self._bounded: BoundedClock | None = None
        self._offset: OffsetClock | None = None
        if settings.c_max_ns is None:
            self._bounded = BoundedClock(name, settings.bounds, now=self._reading)
        else:
            c_max = settings.rules.c_max
            self._offset = OffsetClock(name, epsilon=settings.bounds.epsilon, now=self._reading, c_max=c_max)
        self._stamp_max: Final = stamp_bytes_max(settings)
        self._payload_max: Final = min(RecordLimits().payload_bytes_max, connection.max_payload - 4096)
        self._sequence = first_sequence - 1  # Of the last message.
        self._in_flight_max: Final = in_flight_max
        self._in_flight: dict[str, float] = {}  # By the last part of the inbox: when it was sent. At most the bound.
        self._room: Final = asyncio.Event()
        self._failure: BrokerError | None = None
        self._inbox: Final = connection.new_inbox()
        self._turn: Final = asyncio.Lock()  # Messages leave in the order of their stamps.

    @classmethod
    async def open(
        cls,
        connection: Connection,
        address: StreamAddress,
        name: str,
        settings: MergeSettings,
        *,
        first_sequence: int | None = None,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> Publisher:
        """A publisher that may publish. Waits ε, for the sake of an earlier one of its name."""
        if not name or name != name.strip() or not name.isprintable() or len(name.encode(errors="replace")) > 255:
            raise InputError(f"publisher {name[:40]!r}: a name has 1 to 255 bytes and no blanks at its ends")
        if first_sequence is not None and not 1 <= first_sequence <= VALUE_MAX:
            raise InputError("the first sequence number is from 1")
        info = await find_stream(connection.jetstream(), address)
        if info is None:
            raise BrokerError(f"{address.shown}: there is no such stream: `beforehand merge --create` makes it")
        first = info.state.last_seq + 1 if first_sequence is None else first_sequence
        made = cls(connection, address, name, settings, first_sequence=first, in_flight_max=in_flight_max)
        made._subjects = tuple(info.config.subjects or ())
        made._answers = await connection.subscribe(f"{made._inbox}.*", cb=made._answered)
        try:
            await asyncio.sleep((settings.bounds.epsilon + 1) * settings.tick_ns / 1e9)
        except BaseException:
            await made._stop_listening()
            raise
        return made

    _subjects: tuple[str, ...] = (">",)
    _answers: Subscription | None = None

    @property
    def sequence(self) -> int:
        """The number of the last message; one less than the first, before it."""
        return self._sequence

    @property
    def stored(self) -> int:
        """The broker has taken all messages up to this number, for sure."""
        first = next(iter(self._in_flight), None)  # They are sent, and so stand here, in the order of their numbers.
        return self._sequence if first is None else int(first) - 1

    async def publish(self, channel: str, payload: bytes) -> Published:
        """Stamp and send a message. It is stored for sure when `flush` has returned."""
        self._check(channel, payload)
        async with self._turn:
            await self._wait_for_room(self._in_flight_max)
            stamp = await self._stamped()
            self._sequence += 1
            message = Published(publisher=self.name, sequence=self._sequence, stamp=stamp, payload=payload)
            headers = {
                PUBLISHER_HEADER: self.name,
                SEQUENCE_HEADER: str(self._sequence),
                STAMP_HEADER: stamp.to_text(limit=self._stamp_max),
            }
            token = str(self._sequence)
            self._in_flight[token] = time.monotonic()
            command = self._connection.command(channel, payload, headers=headers, reply=f"{self._inbox}.{token}")
            try:
                await self._connection.send([command])
            except FAILURES as error:
                raise self._failed(refusal(self._address.shown, error)) from None
            return message

    async def observe(self, stamp: MergeStamp) -> bool:
        """Learn of a message that was received elsewhere: what is published from now on comes after it.

        False if the stamp is beyond the bounds: late, from the future, or of other settings. Then nothing has
        changed. A late one needs no more: time alone puts it before.
        """
        while True:
            now = self._now()
            if self._bounded is not None and isinstance(stamp, BoundedStamp):
                outcome = self._bounded.receive(stamp, now)
                if isinstance(outcome, Held):
                    await self._until(outcome.until)
                    continue
                return isinstance(outcome, Received)
            if self._offset is not None and isinstance(stamp, OffsetStamp):
                try:
                    self._offset.receive(stamp, now)
                except FutureStampError:
                    return False
                return True
            return False

    async def flush(self) -> None:
        """Return when all that was published is stored."""
        await self._wait_for_room(1)

    async def close(self) -> None:
        """Flush. The connection stays open: it was not ours, and nothing of us is left there."""
        try:
            await self.flush()
        finally:
            await self._stop_listening()

    async def _stop_listening(self) -> None:
        answers, self._answers = self._answers, None
        if answers is not None:
            with suppress(*FAILURES):
                await answers.unsubscribe()

    def _check(self, channel: str, payload: bytes) -> None:
        size = len(channel.encode(errors="replace"))
        if not 0 < size <= 255 or any(part in ("", "*", ">") for part in channel.split(".")):
            raise InputError(f"channel {channel[:40]!r}: a subject of NATS, without wildcards, of at most 255 bytes")
        if any(character.isspace() or not character.isprintable() for character in channel):
            raise InputError(f"channel {channel[:40]!r} has blanks or control characters")
        if not any(covers(pattern, channel) for pattern in self._subjects):
            raise InputError(
                f"{self._address.shown} does not take the channel {channel!r}, only {self._subjects[0]!r}"
            )
        if len(payload) > self._payload_max:
            raise InputError(f"a payload of {len(payload)} bytes: the limit is {self._payload_max}")

    def _now(self) -> int:
        self._reading = max(self._reading, self._settings.reading(self._time_ns()))
        return self._reading

    async def _stamped(self) -> MergeStamp:
        while True:
            now = self._now()
            try:
                if self._offset is not None:
                    return self._offset.tick(now)
                assert self._bounded is not None
                return self._bounded.tick(now)
            except TooManyEventsError:
                await self._until(now + 1)

    async def _until(self, reading: int) -> None:
        """Sleep until the clock shows `reading`."""
        while (left := reading * self._settings.tick_ns - self._time_ns()) > 0:
            await asyncio.sleep(left / 1e9)

    async def _wait_for_room(self, limit: int) -> None:
        """Return when fewer than `limit` messages are without an answer."""
        while self._failure is None and len(self._in_flight) >= limit:
            self._room.clear()
            try:
                await asyncio.wait_for(self._room.wait(), 1.0)
            except TimeoutError:
                oldest = min(self._in_flight.values(), default=time.monotonic())
                if self._connection.is_closed or time.monotonic() - oldest > ANSWER_S:
                    text = f"{self._address.shown}: no answer to {len(self._in_flight)} message(s)"
                    raise self._failed(BrokerError(text, may_have_happened=True)) from None
        if self._failure is not None:
            raise self._failure

    async def _answered(self, message: Msg) -> None:
        token = message.subject.rpartition(".")[2]
        try:
            answer = msgspec.json.decode(message.data, type=_Answer)
        except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: not UTF-8.
            answer = _Answer(error={"description": "no stream takes this channel"})
        if answer.error is not None:
            said = " ".join(str(answer.error.get("description", "")).split())
            self._failed(BrokerError(f"{self._address.shown}: message {token} was not taken: {said}"))
        else:
            self._in_flight.pop(token, None)
        self._room.set()

    def _failed(self, error: BrokerError) -> BrokerError:
        self._failure = self._failure or error
        self._room.set()
        return self._failure
