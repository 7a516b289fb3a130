"""Where a live merger writes: a stream of the broker, exactly once, or lines of JSON.

`StreamOutput` writes each message with its position, and what was set aside, to one stream that is the merger's own:
a channel `orders` to the subject `PREFIX.orders`, what was set aside to `PREFIX-set-aside.0`.

Guarantees of `StreamOutput`:
  1. Exactly once: positions of a channel are 1, 2, 3, … without gap or repetition, whatever is killed and when.
  2. Only one writes: a second merger on the same stream cannot come between; its writes are refused by the broker.

Why it holds. Every message says which one it follows: by its sequence in the output stream
(`Nats-Expected-Last-Sequence`) and by its id (`Nats-Expected-Last-Msg-Id`). So the broker takes them in our order or
not at all: if one is not taken, none after it is. The sequence alone would not do: (1) another writes, at sequence n,
(2) ours that was to be n is refused, (3) ours that is to follow n would be taken. The first message after `open` has
no id to follow, for a broker may forget the last id when it restarts. What is written is therefore always a beginning
of what was to be written.

Each message carries how far the input had been read when it was made (s), from where reading must begin to have all
that waited (k), and the arrival there (a), as `Beforehand-Read: s k a`. After a kill the last message of the stream
gives these, and the last of each channel its position and its key; everything else is read again from k on, and
whatever the input up to s set aside was set aside before; but for what is FULL, which another run may take in, and
so is never held to be written. `Beforehand-Merge` says which input and settings it was: others are refused.

Only the last message of a group asks for an answer. It stands for all of them, by the chain. At most `GROUPS_MAX`
groups are without answer.

`LineOutput` writes lines and begins anew every time: the order is the same, for it depends on the input alone.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Final, Protocol, TypeAlias

import msgspec
import nats.js.errors

from beforehand.errors import BrokerError
from beforehand.formats.merged import ARRIVAL_HEADER, MergedRecord, SetAsideRecord
from beforehand.formats.published import Arrived, RecordReader
from beforehand.runtime.nats import FAILURES, Connection, StreamAddress, ensure_stream, refusal

__all__ = ["Checkpoint", "LineOutput", "MergeOutput", "Outgoing", "Resume", "StreamOutput", "WriteConflictError"]

READ_HEADER: Final = "Beforehand-Read"
MERGE_HEADER: Final = "Beforehand-Merge"
REASON_HEADER: Final = "Beforehand-Reason"
ID_HEADER: Final = "Nats-Msg-Id"
CHAIN_HEADER: Final = "Nats-Expected-Last-Sequence"
CHAIN_ID_HEADER: Final = "Nats-Expected-Last-Msg-Id"

GROUP_MAX: Final = 500
GROUPS_MAX: Final = 4  # Below what brokers keep waiting for a stream: 10,000 messages.
ANSWER_S: Final = 10.0
_READ: Final = re.compile(r"([0-9]{1,19}) ([0-9]{1,19}) ([0-9]{1,19})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """From where the input must be read again to have all that waits."""

    start: int = 1  # k: the smallest input sequence that waits, or the next one.
    arrival: int = 0  # a: the arrival there; arrivals never go back.


@dataclass(slots=True)
class Outgoing:
    """What is to be written: a message with its position, or a record that was set aside, with position 0."""

    item: Arrived | SetAsideRecord
    read: int  # How far the input had been read when it was made.
    position: int = 0


@dataclass(slots=True)
class Resume:
    """What an output knows of the merge so far."""

    read: int = 0  # What the input up to here set aside is written.
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    last: dict[str, tuple[int, Arrived]] = field(default_factory=dict)  # By channel: position and message.


class WriteConflictError(BrokerError):
    """The output stream is not as we left it: begin again from what it has."""


class MergeOutput(Protocol):
    async def open(self, reader: RecordReader, merge: str) -> Resume:
        """Be ready to write, and say what was written before, by the same `merge`: the same input and settings."""

    async def write(self, batch: Sequence[Outgoing], checkpoint: Checkpoint) -> None:
        """Write in this order. May return before it is safe; `flush` waits for that."""

    async def flush(self) -> None:
        """Return when all that was given is written."""


class LineOutput:
    """Lines of JSON: merged records to one file, what was set aside to another (None: nowhere, it is counted)."""

    def __init__(self, lines: IO[bytes], set_aside: IO[bytes] | None = None) -> None:
        self._lines: Final = lines
        self._set_aside: Final = set_aside

    async def open(self, reader: RecordReader, merge: str) -> Resume:  # noqa: ARG002
        return Resume()

    async def write(self, batch: Sequence[Outgoing], checkpoint: Checkpoint) -> None:  # noqa: ARG002
        merged = [each.item.merged(each.position).line() for each in batch if isinstance(each.item, Arrived)]
        aside = [each.item.line() for each in batch if isinstance(each.item, SetAsideRecord)]
        if merged:
            self._lines.write(b"".join(merged))
            self._lines.flush()
        if aside and self._set_aside is not None:
            self._set_aside.write(b"".join(aside))
            self._set_aside.flush()

    async def flush(self) -> None:
        self._lines.flush()


class _Answer(msgspec.Struct):
    """What the broker says of a message: its sequence, or an error."""

    seq: int = 0
    error: dict[str, object] | None = None


Waiting: TypeAlias = "tuple[int, asyncio.Future[_Answer]]"


class StreamOutput:
    """A stream of the merger's own. See the module."""

    def __init__(self, connection: Connection, address: StreamAddress) -> None:
        self._connection: Final = connection
        self._address: Final = address
        self.prefix: Final = address.prefix or address.stream
        self.aside_subject: Final = f"{self.prefix}-set-aside.0"  # The merger on Spark has several.
        self._last = 0  # The sequence of the last message that we sent to the stream,
        self._last_id = ""  # and its id; none before the first.
        self._merge = ""
        self._inbox = ""
        self._answers: dict[str, asyncio.Future[_Answer]] = {}
        self._waiting: deque[Waiting] = deque()  # At most GROUPS_MAX: the sequence that is due, and its answer.

    async def open(self, reader: RecordReader, merge: str) -> Resume:
        address = self._address
        self._merge = merge
        jetstream = self._connection.jetstream()
        info = await ensure_stream(jetstream, address, [f"{self.prefix}.>", f"{self.prefix}-set-aside.>"])
        if not self._inbox:
            self._inbox = self._connection.new_inbox()
            await self._connection.subscribe(f"{self._inbox}.*", cb=self._answered)
        self._waiting.clear()
        self._answers.clear()
        self._last, self._last_id = info.state.last_seq, ""
        if self._last == 0:
            return Resume()
        try:
            named = await jetstream.stream_info(address.stream, subjects_filter=f"{self.prefix}.>")
            last = await jetstream.get_msg(address.stream, self._last)
            found = _READ.fullmatch((last.headers or {}).get(READ_HEADER, ""))
            if found is None:
                raise BrokerError(
                    f"{address.shown}: its last message is not a merger's: a merger needs a stream of its own"
                )
            if (last.headers or {}).get(MERGE_HEADER) != merge:
                raise BrokerError(
                    f"{address.shown}: it was written from another input, or one that was made anew since, or with "
                    "another subject, epsilon, delta, tick or number of publishers or events: use another stream"
                )
            read, start, arrival = (int(part) for part in found.groups())
            resume = Resume(read=read, checkpoint=Checkpoint(start, arrival))
            for subject in named.state.subjects or {}:
                channel = subject.removeprefix(f"{self.prefix}.")
                resume.last[channel] = await self._last_of(channel, reader)
        except nats.js.errors.NotFoundError:
            raise BrokerError(
                f"{address.shown}: its last messages were removed, so positions are unknown: use another stream"
            ) from None
        except FAILURES as error:
            raise refusal(address.shown, error) from None
        return resume

    async def write(self, batch: Sequence[Outgoing], checkpoint: Checkpoint) -> None:
        after = f"{checkpoint.start} {checkpoint.arrival}"
        for at in range(0, len(batch), GROUP_MAX):
            while len(self._waiting) >= GROUPS_MAX:
                await self._settle()
            group = batch[at : at + GROUP_MAX]
            commands = [self._command(outgoing, after) for outgoing in group[:-1]]
            token = str(self._last + 1)
            commands.append(self._command(group[-1], after, reply=f"{self._inbox}.{token}"))
            self._answers[token] = answer = asyncio.get_running_loop().create_future()
            self._waiting.append((self._last, answer))
            try:
                await self._connection.send(commands)
            except FAILURES as error:
                raise refusal(self._address.shown, error) from None

    async def flush(self) -> None:
        while self._waiting:
            await self._settle()

    def _command(self, outgoing: Outgoing, after: str, *, reply: str = "") -> bytes:
        item = outgoing.item
        if isinstance(item, Arrived):
            subject, payload = f"{self.prefix}.{item.channel}", item.message.payload
            headers = item.merged_headers(outgoing.position)
            own_id = f"{subject}:{outgoing.position}"
        else:
            subject, payload = self.aside_subject, item.line()
            headers = {REASON_HEADER: item.reason.value}
            own_id = f"{subject}:{self._last + 1}"  # What is FULL may be set aside once more by a later run.
        headers[ID_HEADER] = own_id
        headers[READ_HEADER] = f"{outgoing.read} {after}"
        headers[MERGE_HEADER] = self._merge
        headers[CHAIN_HEADER] = str(self._last)
        if self._last_id:
            headers[CHAIN_ID_HEADER] = self._last_id
        self._last += 1
        self._last_id = own_id
        return self._connection.command(subject, payload, headers=headers, reply=reply)

    async def _settle(self) -> None:
        """Wait for the answer to the oldest group."""
        due, future = self._waiting.popleft()
        shown = self._address.shown
        try:
            answer = await asyncio.wait_for(future, ANSWER_S)
        except TimeoutError:
            raise WriteConflictError(f"{shown}: no answer to what was written", may_have_happened=True) from None
        if answer.error is not None:
            said = " ".join(str(answer.error.get("description", "")).split())
            raise WriteConflictError(f"{shown}: the broker does not take it: {said}", may_have_happened=True)
        if answer.seq != due:
            raise WriteConflictError(f"{shown}: it was stored as {answer.seq}, not as {due}", may_have_happened=True)

    async def _answered(self, message: object) -> None:
        subject, data = getattr(message, "subject", ""), getattr(message, "data", b"")
        future = self._answers.pop(subject.rpartition(".")[2], None)
        if future is None or future.done():
            return
        try:
            future.set_result(msgspec.json.decode(data, type=_Answer))
        except (msgspec.MsgspecError, ValueError, RecursionError):  # Nobody takes this subject: the stream is gone.
            future.set_result(_Answer(error={"description": "no stream takes it"}))

    async def _last_of(self, channel: str, reader: RecordReader) -> tuple[int, Arrived]:
        """The last message of a channel, read as it was when it arrived."""
        jetstream = self._connection.jetstream()
        stored = await jetstream.get_last_msg(self._address.stream, f"{self.prefix}.{channel}")
        headers = stored.headers or {}
        record = MergedRecord.from_headers(channel, headers, stored.data or b"")
        arrived = reader.headers(channel, headers, record.payload, arrival=int(headers[ARRIVAL_HEADER]))
        settings = reader.settings
        if (
            not isinstance(arrived, Arrived)
            or settings.rules.judge(arrived.message.stamp, arrival=settings.reading(arrived.arrival)) is not None
        ):
            raise BrokerError(
                f"{self._address.shown}: it was written with another epsilon, delta or tick: use another stream"
            )
        return record.position, arrived
