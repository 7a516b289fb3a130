"""The data sink `beforehand-merged-nats`: what a merge gives, to a JetStream stream of its own, exactly once.

A channel `orders` goes to the subject `PREFIX.orders` with `Beforehand-Position` and `Nats-Msg-Id`; what lane 3 set
aside goes to `PREFIX-set-aside.3`, numbered too. A channel that is no subject, as files may have, goes to `PREFIX.%`
and its name with all signs but letters, digits and `_-~` as in a URL.

Guarantees:
  1. Exactly once: positions of a subject are 1, 2, 3, … without gap or repetition, whatever is killed and when.
  2. Only one merge writes: the stream must be empty at its first start and have only its own messages later.

Why it holds. One task writes all of a micro-batch. Each message says which one of the stream it follows, by its
number and by its id (`Nats-Expected-Last-Sequence`, `Nats-Expected-Last-Msg-Id`), so the broker takes them in our
order or not at all: what is stored is a beginning of what was to be stored.
  Why the number is not enough: (1) we send 6, 7, 8 to follow 5, 6, 7. (2) Another's message comes first and is stored
  as 6. (3) Ours that was to be 6 is refused. (4) The next follows 6, and is taken: one is missing.
A micro-batch that is run again has the same messages with the same numbers, and those up to
the last number found on each subject are left out.

Options: `server`, `stream`, `prefix`, `id` (of the merge), `figures`, `credentials`, `tls_ca`.
"""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from beforehand.errors import BrokerError, InputError
from beforehand.formats.merged import POSITION_HEADER
from beforehand.pipeline.merging.folder_sink import Given, Written, combined, given_by
from beforehand.pipeline.merging.ledger import Ledger
from beforehand.pipeline.merging.nats_reading import Place, Streams
from beforehand.runtime.nats import Connection, StreamAddress, ensure_stream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MergedNatsDataSource", "prepare_stream"]

MERGE_HEADER: Final = "Beforehand-Merge"
REASON_HEADER: Final = "Beforehand-Reason"
ID_HEADER: Final = "Nats-Msg-Id"
CHAIN_HEADER: Final = "Nats-Expected-Last-Sequence"
CHAIN_ID_HEADER: Final = "Nats-Expected-Last-Msg-Id"

GROUP_MAX: Final = 500
GROUP_BYTES_MAX: Final = 4 * 1024 * 1024
GROUPS_MAX: Final = 4
ANSWER_S: Final = 30.0
ASKED_MAX: Final = 200

_SUBJECT: Final = re.compile(r"[^\s.*>%\x00-\x1f\x7f]+(\.[^\s.*>%\x00-\x1f\x7f]+)*")

Message = tuple[str, bytes, dict[str, str]]  # Subject, payload, headers.


def prepare_stream(given: Mapping[str, str], *, fresh: bool) -> None:
    """Make the stream if it is not there; InputError if it is another merge's."""
    with Streams(_place(given)) as streams:
        streams.ask(_prepare(streams, given, fresh))


async def _prepare(streams: Streams, given: Mapping[str, str], fresh: bool) -> None:
    connection = await streams.connection()
    address = StreamAddress(server=given["server"], stream=given["stream"])
    prefix = given["prefix"]
    info = await ensure_stream(connection.jetstream(), address, [f"{prefix}.>", f"{prefix}-set-aside.>"])
    if info.state.last_seq == 0:
        if not fresh and info.state.first_seq > 1:
            raise InputError(f"{address.shown}: what the merge wrote before is gone: use another checkpoint")
        return
    last = await connection.jetstream().get_msg(address.stream, info.state.last_seq)
    if fresh or (last.headers or {}).get(MERGE_HEADER) != given["id"]:
        raise InputError(
            f"{address.shown}: the stream has messages of others: a merge needs a stream of its own for its output"
        )


class MergedNatsDataSource(DataSource):
    """Register it with `spark.dataSource.register(MergedNatsDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "beforehand-merged-nats"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802
        return _StreamWriter(self.options)


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        written = Written()
        with Streams(_place(self._given)) as streams:
            chain: _Chain | None = None
            for given in given_by(iterator, written):
                if given.merged is None and given.aside is None:
                    continue
                if chain is None:
                    chain = _Chain(streams.ask(streams.connection()), self._given["stream"], self._given["id"])
                    streams.ask(chain.begin())
                streams.ask(self._lane(chain, given))
            if chain is not None:
                streams.ask(chain.flush())
        return written

    async def _lane(self, chain: _Chain, given: Given) -> None:
        prefix, merge = self._given["prefix"], self._given["id"]
        if given.merged is not None:
            channels = given.merged.column("channel").unique().to_pylist()
            found = await chain.positions([subject_of(prefix, channel) for channel in channels])
            await chain.write(_merged(given.merged, prefix, merge, found))
        if given.aside is not None:
            subject = f"{prefix}-set-aside.{given.lane}"
            found = await chain.positions([subject])
            await chain.write(_aside(given, subject, merge, after=found[subject]))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        if "figures" in self._given:
            Ledger(Path(self._given["figures"])).add_figures(batchId, combined(messages).figures())

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What was stored stays: the micro-batch will be run again and goes on behind it."""


def subject_of(prefix: str, channel: str) -> str:
    if _SUBJECT.fullmatch(channel):
        return f"{prefix}.{channel}"
    return f"{prefix}.%{quote(channel, safe='').replace('.', '%2E')}"


def _merged(table: pa.Table, prefix: str, merge: str, found: Mapping[str, int]) -> Iterator[Message]:
    from beforehand.pipeline.merging.table_files import merged_record

    for batch in table.to_batches(max_chunksize=GROUP_MAX):
        for row in batch.to_pylist():
            record = merged_record(row)
            subject = subject_of(prefix, record.channel)
            if record.position > found[subject]:
                identity = {ID_HEADER: f"{subject}:{record.position}", MERGE_HEADER: merge}
                yield subject, record.payload, {**record.headers(), **identity}


def _aside(given: Given, subject: str, merge: str, *, after: int) -> Iterator[Message]:
    from beforehand.pipeline.merging.table_files import aside_record

    assert given.aside is not None
    for number, row in enumerate(given.aside.to_pylist(), start=given.aside_before + 1):
        if number > after:
            record = aside_record(row)
            headers = {REASON_HEADER: record.reason.value, POSITION_HEADER: str(number)}
            yield subject, record.line(), {**headers, ID_HEADER: f"{subject}:{number}", MERGE_HEADER: merge}


class _Chain:
    """Messages that follow one another in a stream, with few answers: the last of a group stands for all of it."""

    def __init__(self, connection: Connection, stream: str, merge: str) -> None:
        self._connection = connection
        self._stream = stream
        self._merge = merge
        self._last = 0  # The number of the last message that we sent to the stream.
        self._last_id = ""  # And its id; empty before the first that we sent.
        self._inbox = ""
        self._answers: dict[str, asyncio.Future[bytes]] = {}
        self._waiting: deque[tuple[int, asyncio.Future[bytes]]] = deque()  # At most GROUPS_MAX.

    async def begin(self) -> None:
        info = await self._connection.jetstream().stream_info(self._stream)
        self._last = info.state.last_seq
        self._inbox = self._connection.new_inbox()
        await self._connection.subscribe(f"{self._inbox}.*", cb=self._answered)

    async def positions(self, subjects: list[str]) -> dict[str, int]:
        """The last number on each subject; 0 where there is none."""
        found: dict[str, int] = {}
        for at in range(0, len(subjects), ASKED_MAX):
            some = subjects[at : at + ASKED_MAX]
            found |= dict(zip(some, await asyncio.gather(*map(self._position, some)), strict=True))
        return found

    async def _position(self, subject: str) -> int:
        request = json.dumps({"last_by_subj": subject}).encode()
        name = f"$JS.API.STREAM.MSG.GET.{self._stream}"
        answer = json.loads((await self._connection.request(name, request, timeout=ANSWER_S)).data)
        if "message" not in answer:
            if answer.get("error", {}).get("code") == 404:
                return 0
            raise BrokerError(f"{self._stream}: the broker does not tell the last position of {subject}")
        lines = b64decode(answer["message"].get("hdrs", "")).decode("utf-8", "replace").split("\r\n")
        headers = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get(MERGE_HEADER) != self._merge:  # Its position would have us leave messages out.
            raise BrokerError(f"{self._stream}: another writes to {subject}: a merge needs a stream of its own")
        return int(headers[POSITION_HEADER])

    async def write(self, messages: Iterable[Message]) -> None:
        group: list[Message] = []
        size = 0
        for message in messages:
            group.append(message)
            size += len(message[1])
            if len(group) >= GROUP_MAX or size >= GROUP_BYTES_MAX:
                await self._send(group)
                group, size = [], 0
        if group:
            await self._send(group)

    async def flush(self) -> None:
        while self._waiting:
            await self._settle()

    async def _send(self, group: list[Message]) -> None:
        while len(self._waiting) >= GROUPS_MAX:
            await self._settle()
        commands = []
        for at, (subject, payload, headers) in enumerate(group):
            reply = f"{self._inbox}.{self._last + 1}" if at == len(group) - 1 else ""
            chained = {**headers, CHAIN_HEADER: str(self._last)}
            if self._last_id:
                chained[CHAIN_ID_HEADER] = self._last_id
            commands.append(self._connection.command(subject, payload, headers=chained, reply=reply))
            self._last += 1
            self._last_id = headers[ID_HEADER]
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[str(self._last)] = answer
        self._waiting.append((self._last, answer))
        await self._connection.send(commands)

    async def _settle(self) -> None:
        due, future = self._waiting.popleft()
        answer = await asyncio.wait_for(future, ANSWER_S)
        try:
            found = json.loads(answer)
        except ValueError:  # Nobody takes the subject.
            found = {"error": {"description": "no stream takes it"}}
        if "error" in found or found.get("seq") != due:
            said = found.get("error", {}).get("description", f"it was stored as {found.get('seq')}, not as {due}")
            raise BrokerError(
                f"{self._stream}: the broker did not take what was merged: {said}; does another write to it?",
                may_have_happened=True,
            )

    async def _answered(self, message: Any) -> None:
        future = self._answers.pop(message.subject.rpartition(".")[2], None)
        if future is not None and not future.done():
            future.set_result(message.data)


def _place(given: Mapping[str, str]) -> Place:
    credentials, ca = given.get("credentials"), given.get("tls_ca")
    return Place(given["server"], Path(credentials) if credentials else None, Path(ca) if ca else None)
