"""Packets over NATS JetStream: one stream for the group, a subject for each pair of members.

Every member reads what is for it from where it stopped: the position goes into the member's state with each commit,
so a member that was away finds all that was sent to it meanwhile, for as long as the stream keeps it (`keep_s`). What
was lost or forgotten is sent again by the link of the group.

Who is let in. Whoever may publish to the stream could write under any name, so beyond loopback a key is required, and
every packet carries a code made with it over group, sender, receiver, incarnation and packet. A repetition is
harmless: the link takes a frame once. Without a key, on loopback, names are taken on trust.

A packet has at most what the broker takes (its `max_payload`, 1 MiB by default): a larger one would make it cut us
off, each time that the link sends it again.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from base64 import urlsafe_b64encode
from collections import deque
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

from beforehand.errors import BrokerError, InputError, RemoteProtocolError
from beforehand.runtime.codec import PACKET_BYTES_MAX
from beforehand.runtime.log_fields import Known, LogFields
from beforehand.runtime.nats import FAILURES, Connection, StreamAddress, connect, find_stream, refusal
from beforehand.runtime.stream_reader import StreamReader
from beforehand.runtime.transports.base import (
    KEY_BYTES_MIN,
    Identity,
    Take,
    TransportFigures,
    cancel_all,
    is_loopback,
)

__all__ = ["NatsTransport"]

log: Final = logging.getLogger("beforehand.runtime")

IDLE_S: Final = 1.0
RETRY_S: Final = 0.5
CLOSE_S: Final = 2.0
PACKETS_AT_ONCE: Final = 500
ENVELOPE_BYTES_MAX: Final = 1024
SAY_AGAIN_S: Final = 60.0


class _Envelope(msgspec.Struct, array_like=True):
    incarnation: str
    code: bytes
    packet: bytes


class NatsTransport:
    """One member's packets on a stream, `nats://HOST:PORT/STREAM`, which is made if it is not there."""

    def __init__(
        self,
        address: str,
        *,
        key: bytes | None = None,
        credentials: Path | None = None,
        tls_ca: Path | None = None,
        keep_s: float = 86_400,
        queue_packets_max: int = 10_000,
        queue_bytes_max: int = 64 * 1024 * 1024,
    ) -> None:
        self._address: Final = StreamAddress.parse(address)
        if key is not None and len(key) < KEY_BYTES_MIN:
            raise InputError(f"the key of a group has at least {KEY_BYTES_MIN} bytes")
        if key is None and not is_loopback(urlsplit(self._address.server).hostname or ""):
            raise InputError(
                f"{self._address.shown} is not this machine: a group beyond it needs a key, for packets can be forged"
            )
        self.figures: Final = TransportFigures()
        self.packet_bytes_max = PACKET_BYTES_MAX  # Less, if the broker takes less.
        self._key: Final = key
        self._credentials: Final = credentials
        self._tls_ca: Final = tls_ca
        self._keep_s: Final = keep_s
        self._queue_packets_max: Final = queue_packets_max
        self._queue_bytes_max: Final = queue_bytes_max
        self._queue: Final[deque[tuple[str, bytes]]] = deque()  # At most both bounds.
        self._bytes = 0
        self._filled: Final = asyncio.Event()
        self._sequence = 0  # The last message of the stream that was taken.
        self._tasks: Final[list[asyncio.Task[None]]] = []
        self._said = -SAY_AGAIN_S  # When a packet that was too large was told of.

    async def start(self, identity: Identity, address: str, take: Take, position: bytes | None) -> None:  # noqa: ARG002
        self._identity = identity
        self._log_fields = LogFields(identity.group, identity.process)
        self._take = take
        with suppress(ValueError):
            self._sequence = int(position or b"0")
        self._subjects = {_subject(self._address, identity, name): name for name in identity.peers}
        self._connection = await self._connect()
        self.figures.connected.update(identity.peers)
        self._tasks.append(asyncio.create_task(self._read()))
        self._tasks.append(asyncio.create_task(self._pump()))

    def check(self, address: str) -> None:
        """Addresses are not looked at: the stream is where everybody is."""

    def meet(self, process: str, address: str) -> None:
        self._identity.peers[process] = address
        self._subjects[_subject(self._address, self._identity, process)] = process
        self.figures.connected.add(process)

    def position(self) -> bytes:
        return str(self._sequence).encode()

    def send(self, to: str, data: bytes) -> None:
        full = len(self._queue) >= self._queue_packets_max or self._bytes + len(data) > self._queue_bytes_max
        large, most = len(data) > self.packet_bytes_max, self.packet_bytes_max
        if full or large:
            self.figures.dropped += 1
            now = asyncio.get_running_loop().time()
            if large and now - self._said >= SAY_AGAIN_S:
                self._said = now
                me, size = self._identity.process, len(data)
                extra = self._log_fields("packet-too-large", peer=to, packet_bytes=size, packet_bytes_max=most)
                log.warning("%s: a packet for %s is above %d bytes: not sent", me, to, most, extra=extra)
            return
        self._queue.append((to, data))
        self._bytes += len(data)
        self._filled.set()

    async def close(self) -> None:
        await cancel_all(self._tasks)
        if self._tasks:
            with suppress(*FAILURES):
                await asyncio.wait_for(self._connection.close(), CLOSE_S)

    async def _connect(self) -> Connection:
        connection = await connect(self._address.server, credentials=self._credentials, tls_ca=self._tls_ca)
        try:
            await self._ensure_stream(connection)
        except BaseException:
            with suppress(*FAILURES):
                await asyncio.wait_for(connection.close(), CLOSE_S)
            raise
        self.packet_bytes_max = min(PACKET_BYTES_MAX, connection.max_payload - ENVELOPE_BYTES_MAX)
        return connection

    async def _ensure_stream(self, connection: Connection) -> None:
        jetstream = connection.jetstream()
        if await find_stream(jetstream, self._address) is not None:
            return
        config = StreamConfig(
            name=self._address.stream,
            subjects=[f"{self._address.stream}.>"],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.OLD,
            storage=StorageType.FILE,
            max_age=self._keep_s,
            allow_direct=True,
        )
        try:
            await jetstream.add_stream(config)
        except FAILURES as error:
            if await find_stream(jetstream, self._address) is None:  # Otherwise another member has just made it.
                raise refusal(self._address.shown, error) from None

    async def _read(self) -> None:
        while True:
            try:
                if self._connection.is_closed:
                    self._connection = await self._connect()
                await self._read_on()
            except (BrokerError, InputError) as error:  # The latter: a file of credentials that is gone, say.
                extra = self._log_fields("broker-failed", address=self._address.shown, reason=str(error))
                log.warning("%s: %s; trying again", self._identity.process, error, extra=extra)
                self.figures.connected.clear()
                await asyncio.sleep(RETRY_S)

    async def _read_on(self) -> None:
        mine = f"{self._address.stream}.{_token(self._identity.group)}.{_token(self._identity.process)}.*"
        address = StreamAddress(server=self._address.server, stream=self._address.stream, subject=mine)
        reader = StreamReader(self._connection, address, start=self._sequence + 1)
        await reader.open()
        self.figures.connected.update(self._identity.peers)
        try:
            while True:
                fetched = await reader.fetch()
                if fetched.drained and not fetched.messages:
                    fetched = await reader.wait(IDLE_S)
                for stored in fetched.messages:
                    try:
                        await self._arrived(stored.subject, stored.payload)
                    except RemoteProtocolError as error:
                        self._refused(stored.subject, error)
                    self._sequence = stored.sequence  # After the call: a commit between has what it did, or neither.
        finally:
            await reader.close()

    def _refused(self, subject: str, error: RemoteProtocolError) -> None:
        self.figures.refuse(str(error))
        known, sender = Known(reason=str(error)), self._subjects.get(subject)
        if sender is not None:
            known["peer"] = sender
        extra = self._log_fields("packet-refused", **known)
        log.warning("%s: a packet was refused: %s", self._identity.process, error, extra=extra)

    async def _arrived(self, subject: str, payload: bytes) -> None:
        sender = self._subjects.get(subject)
        if sender is None:
            raise RemoteProtocolError("it is of nobody that we know")
        if len(payload) > PACKET_BYTES_MAX:
            raise RemoteProtocolError(f"a packet of {len(payload)} bytes: the limit is {PACKET_BYTES_MAX}")
        try:
            envelope = msgspec.msgpack.decode(payload, type=_Envelope)
        except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: not UTF-8.
            raise RemoteProtocolError(f"{sender}: it does not speak as a member of a group does") from None
        code = self._code(sender, self._identity.process, envelope.incarnation, envelope.packet)
        if not hmac.compare_digest(envelope.code, code):
            raise RemoteProtocolError(f"{sender}: the packet is forged or changed, or made with another key")
        self._identity.check_incarnation(sender, envelope.incarnation)
        self.figures.packets_in += 1
        await self._take(sender, envelope.packet)

    async def _pump(self) -> None:
        me = self._identity
        while True:
            await self._filled.wait()
            commands: list[bytes] = []
            for to, data in islice(self._queue, PACKETS_AT_ONCE):
                envelope = _Envelope(me.incarnation, self._code(me.process, to, me.incarnation, data), data)
                subject = f"{self._address.stream}.{_token(me.group)}.{_token(to)}.{_token(me.process)}"
                commands.append(Connection.command(subject, msgspec.msgpack.encode(envelope), headers={}))
            try:
                await self._connection.send(commands)
            except FAILURES:
                await asyncio.sleep(RETRY_S)
                continue
            for _ in commands:
                _, data = self._queue.popleft()
                self._bytes -= len(data)
            self.figures.packets_out += len(commands)
            if not self._queue:
                self._filled.clear()

    def _code(self, sender: str, receiver: str, incarnation: str, data: bytes) -> bytes:
        if self._key is None:
            return b""
        said = msgspec.msgpack.encode((self._identity.group, sender, receiver, incarnation, data))
        return hmac.digest(self._key, said, sha256)[:16]


def _subject(address: StreamAddress, identity: Identity, sender: str) -> str:
    """What `sender` writes to us under."""
    return f"{address.stream}.{_token(identity.group)}.{_token(identity.process)}.{_token(sender)}"


def _token(name: str) -> str:
    """A name as one word of a subject."""
    return urlsafe_b64encode(name.encode()).rstrip(b"=").decode()
