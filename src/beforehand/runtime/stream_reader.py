"""Reading a stream of JetStream in its order, without gaps, and knowing when there is nothing more to read.

Guarantees:
  1. Messages come in the order of their stream sequence, each once, none left out that the stream has.
  2. `Fetched.drained` with `asked_ns`: whatever the stream stored before the moment at which our clock showed
     `asked_ns` has been read. This holds however slow network and broker are, because the question is older than the
     answer. Whoever uses `asked_ns` as a time on the broker's clock must allow for the difference of the two clocks.
  3. At most two batches are under way, each of at most `BATCH_BYTES_MAX`.

Works with a pull consumer that lives in the broker's memory and acknowledges nothing: it can be lost at any time, and
is then made anew, from the sequence after the last that was read. Its own count tells a gap.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
import nats.js.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from beforehand.errors import BrokerError
from beforehand.runtime.nats import FAILURES, Connection, StreamAddress, refusal

__all__ = ["Fetched", "Stored", "StreamReader"]

BATCH_MAX: Final = 1_000
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
ANSWER_S: Final = 5.0
LOOK_S: Final = 0.25
INACTIVE_S: Final = 60.0


@dataclass(slots=True)
class Stored:
    """A message as the stream has it."""

    sequence: int
    time_ns: int  # When the broker stored it.
    subject: str
    headers: dict[str, str] | None
    payload: bytes


@dataclass(slots=True)
class Fetched:
    """What came of one question."""

    messages: list[Stored]
    drained: bool  # The stream had no more of it when it was asked,
    asked_ns: int  # which was later than this on our clock.
    pending: int = 0  # How many more it has, as far as is known.


@dataclass(slots=True)
class _Question:
    asked_ns: int
    batch: int
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    messages: list[Msg] = field(default_factory=list)
    status: str = ""
    description: str = ""


class _GoneError(Exception):
    """The consumer does not answer as it should: make a new one."""


class StreamReader:
    """Reads the stream from sequence `start` on. Call `open` first."""

    def __init__(
        self, connection: Connection, address: StreamAddress, *, start: int = 1, batch_max: int = BATCH_MAX
    ) -> None:
        self._connection: Final = connection
        self._address: Final = address
        self._batch_max: Final = batch_max
        self._next = max(start, 1)  # The smallest stream sequence that was not read.
        self._consumer = ""
        self._consumed = 0  # The consumer's own count of what it gave us.
        self._reconnects = 0  # Of the connection, when the consumer was made.
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._asked = 0  # Questions so far; their number is the last part of their inbox.
        self._questions: dict[str, _Question] = {}  # Under way: at most two.
        self._ahead: _Question | None = None  # Asked before it was needed.

    @property
    def next_sequence(self) -> int:
        """The smallest stream sequence that was not read yet."""
        return self._next

    async def open(self) -> None:
        """Raises BrokerError if the stream cannot be read; then nothing of it is left with the connection."""
        try:
            await self._make_consumer()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        with suppress(*FAILURES):
            if self._subscription is not None:
                await self._subscription.unsubscribe()
            if self._consumer:
                await self._connection.jetstream(timeout=1).delete_consumer(self._address.stream, self._consumer)
        self._consumer = ""

    async def fetch(self) -> Fetched:
        """What the stream has now, up to a batch."""
        while True:
            try:
                question = self._ahead or await self._ask(self._batch_max)
                self._ahead = None
                await self._answered(question, ANSWER_S)
                drained = question.status == "404"
                if not drained:
                    self._ahead = await self._ask(self._batch_max)  # The broker works while we do.
                return self._taken(question, drained=drained)
            except _GoneError:
                await self._make_consumer()

    async def wait(self, timeout_s: float) -> Fetched:
        """Wait for one message, at most so long; give it, or nothing."""
        while True:
            try:
                question = await self._ask(1, expires_s=timeout_s)
                await self._answered(question, timeout_s + ANSWER_S)
                return self._taken(question, drained=False)
            except _GoneError:
                await self._make_consumer()

    async def _ask(self, batch: int, *, expires_s: float | None = None) -> _Question:
        self._asked += 1
        token = str(self._asked)
        request: dict[str, object] = {"batch": batch}
        if expires_s is None:
            request |= {"no_wait": True, "max_bytes": BATCH_BYTES_MAX} if batch > 1 else {"no_wait": True}
        else:
            request["expires"] = int(expires_s * 1e9)
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._address.stream}.{self._consumer}"
        question = self._questions[token] = _Question(time.time_ns(), batch)
        try:
            await self._connection.publish(subject, msgspec.json.encode(request), reply=f"{self._inbox}.{token}")
        except FAILURES as error:
            raise refusal(self._address.shown, error) from None
        return question

    async def _answered(self, question: _Question, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not question.answered.is_set():
            try:
                await asyncio.wait_for(question.answered.wait(), LOOK_S)
            except TimeoutError:
                # A broker that came back knows nothing of the question, and one that will not come back answers none.
                back = self._connection.stats["reconnects"] != self._reconnects
                if back or self._connection.is_closed or time.monotonic() > deadline:
                    raise _GoneError from None
        if question.status not in ("", "404", "408") and "exceeds" not in question.description.lower():
            raise _GoneError  # 503: nobody answers; 409: it was deleted, or its leader has changed.
        if question.status == "409" and not question.messages:
            question.status = ""
            await self._one_large(question)

    async def _one_large(self, question: _Question) -> None:
        """The next message alone is larger than a batch may be. It is read alone, to be judged like any other."""
        alone = await self._ask(1)
        await self._answered(alone, ANSWER_S)
        question.messages, question.asked_ns = alone.messages, alone.asked_ns

    def _taken(self, question: _Question, *, drained: bool) -> Fetched:
        messages: list[Stored] = []
        pending = 0
        for message in question.messages:
            parts = message.reply.split(".")
            at = 5 if len(parts) == 9 else 7  # Newer brokers put domain and account before the stream.
            sequence, consumed, time_ns, pending = (int(part) for part in parts[at : at + 4])
            if consumed != self._consumed + 1:
                self._ahead = None
                if not messages:
                    raise _GoneError
                return Fetched(messages, drained=False, asked_ns=question.asked_ns, pending=pending)
            self._consumed = consumed
            self._next = sequence + 1
            messages.append(Stored(sequence, time_ns, message.subject, message.headers, message.data))
        return Fetched(messages, drained=drained, asked_ns=question.asked_ns, pending=pending)

    async def _arrived(self, message: Msg) -> None:
        """A message of the stream, with its own subject, or a word of the broker, with the subject of the question.

        Questions are answered in order, so a message belongs to the oldest one.
        """
        if message.reply:
            token = next(iter(self._questions), "")
            question = self._questions.get(token)
            if question is None:
                return  # An answer to what is no longer asked. The gap that it leaves is noticed.
            question.messages.append(message)
            if len(question.messages) < question.batch:
                return
        else:  # Only the broker itself sends without an address for acknowledgements.
            token = message.subject.rpartition(".")[2]
            question = self._questions.get(token)
            if question is None:
                return  # It was complete before: "Batch Completed".
            headers = message.headers or {}
            question.status = headers.get("Status", "503")
            question.description = headers.get("Description", "")
        del self._questions[token]
        question.answered.set()

    async def _make_consumer(self) -> None:
        """A new one, from where we are. Tried for as long as the connection is."""
        await self.close()
        self._questions.clear()
        self._ahead = None
        while not self._connection.is_connected:
            if self._connection.is_closed:
                raise BrokerError(f"{self._address.shown}: the connection was lost and did not come back")
            await asyncio.sleep(0.05)
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._next,
            filter_subject=self._address.subject,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=INACTIVE_S,
        )
        self._reconnects = self._connection.stats["reconnects"]
        try:
            self._inbox = self._connection.new_inbox()
            self._subscription = await self._connection.subscribe(f"{self._inbox}.*", cb=self._arrived)
            made = await self._connection.jetstream().add_consumer(self._address.stream, config)
        except nats.js.errors.NotFoundError:
            raise BrokerError(f"{self._address.shown}: there is no such stream") from None
        except FAILURES as error:
            raise refusal(self._address.shown, error) from None
        self._consumer, self._consumed = made.name, 0
