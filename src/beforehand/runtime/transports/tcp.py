"""Packets over TCP: every member listens, and connects to every other one for what it sends.

Who is let in. A connection begins with a handshake: group, sender, receiver and incarnation must be those that are
expected, and the sender must be among the peers. With a key (32 bytes or more that all members know) both ends prove
that they have it, and every frame carries a code that depends on the key, on both ends' nonces and on the frame's
number: forged, changed, repeated and left-out frames are refused. With TLS both ends show certificates, and a
member's name must stand in its certificate. Without either, names are taken on trust: allowed on loopback only.

A frame is its length (4 bytes), the packet, and with a key 16 bytes of HMAC-SHA256. What breaks the rules ends the
connection with a reason, which the other end logs; the group goes on. Packets that find no room on their way out are
dropped and counted: the link sends them again. A connection to one that takes nothing for `stalled_s` is cut and made
anew: it stays a peer.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import ssl
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from beforehand.errors import InputError, RemoteProtocolError
from beforehand.runtime.codec import PACKET_BYTES_MAX
from beforehand.runtime.log_fields import Known, LogEvent, LogFields
from beforehand.runtime.transports.base import (
    KEY_BYTES_MIN,
    Identity,
    Take,
    TransportFigures,
    cancel_all,
    is_loopback,
)

__all__ = ["TcpTransport", "Tls", "parse_address"]

log: Final = logging.getLogger("beforehand.runtime")
T = TypeVar("T")

VERSION: Final = 1
HELLO_BYTES_MAX: Final = 4096
HANDSHAKE_S: Final = 5.0
HANDSHAKES_MAX: Final = 64
MAC_BYTES: Final = 16
RETRY_FIRST_S: Final = 0.05
RETRY_MOST_S: Final = 2.0
SAY_AGAIN_S: Final = 60.0
PACKETS_A_TURN: Final = 64


class _Hello(msgspec.Struct, forbid_unknown_fields=True):
    """From who connects."""

    version: int
    group: str
    sender: str
    receiver: str
    incarnation: str
    nonce: bytes


class _Welcome(msgspec.Struct, forbid_unknown_fields=True):
    """The answer: `refused` says why not. `proof` shows that the receiver has the key."""

    refused: str = ""
    nonce: bytes = b""
    proof: bytes = b""


class _Proof(msgspec.Struct, forbid_unknown_fields=True):
    """And the sender too."""

    proof: bytes = b""


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificates: ours with its key, and that of who signed the others'."""

    certificate: Path
    key: Path
    authority: Path

    def context(self, *, server: bool) -> ssl.SSLContext:
        """Both ends must show a certificate. Names are checked against members, not hosts."""
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.check_hostname = False
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"the certificates of the group cannot be used: {error}") from None
        return context


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[::1]:PORT`; InputError if it is none."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    number = int(port) if port.isdecimal() and port.isascii() and len(port) <= 5 else -1
    try:
        host.encode("idna")  # A name that cannot be looked up must not end the task that connects to it.
    except UnicodeError:
        host = ""
    if not colon or not host or "\0" in host or not 0 <= number < 65536:
        raise InputError(f"{text[:80]!r} is no address: write HOST:PORT")
    return host, number


class TcpTransport:
    """One member's connections."""

    def __init__(
        self,
        *,
        key: bytes | None = None,
        tls: Tls | None = None,
        queue_packets_max: int = 10_000,
        queue_bytes_max: int = 64 * 1024 * 1024,
        stalled_s: float = 30.0,
    ) -> None:
        if not stalled_s > 0:
            raise InputError(f"stalled_s is {stalled_s}: a number of seconds above 0")
        if key is not None and len(key) < KEY_BYTES_MIN:
            raise InputError(f"the key of a group has at least {KEY_BYTES_MIN} bytes")
        self.figures: Final = TransportFigures()
        self.packet_bytes_max: Final = PACKET_BYTES_MAX
        self._key: Final = key
        self._tls: Final = tls
        self._queue_packets_max: Final = queue_packets_max
        self._queue_bytes_max: Final = queue_bytes_max
        self._stalled_s: Final = stalled_s
        self._peers: Final[dict[str, _Outgoing]] = {}
        self._incoming: Final[dict[str, asyncio.StreamWriter]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._handshakes = 0
        self._said: Final[dict[str, float]] = {}
        self.port = 0
        self._closing = False

    async def start(self, identity: Identity, address: str, take: Take, position: bytes | None) -> None:  # noqa: ARG002
        self._identity = identity
        self._log_fields = LogFields(identity.group, identity.process)
        self._take = take
        host, port = parse_address(address)
        for place in (address, *identity.peers.values()):
            self.check(place)
        context = None if self._tls is None else self._tls.context(server=True)
        self._outgoing_tls = None if self._tls is None else self._tls.context(server=False)
        try:
            # With TLS a connection is shown to us when its handshake is over: that must not take longer, either.
            limit = None if context is None else HANDSHAKE_S
            self._server = await asyncio.start_server(
                self._accepted, host, port, ssl=context, ssl_handshake_timeout=limit
            )
        except OSError as error:
            raise InputError(f"{identity.process} cannot listen at {address}: {error.strerror or error}") from None
        self.port = self._server.sockets[0].getsockname()[1]
        if not identity.waiting:
            for name, where in [*identity.peers.items()]:
                self.meet(name, where)

    def check(self, address: str) -> None:
        place, _ = parse_address(address)
        if self._key is None and self._tls is None and not is_loopback(place):
            raise InputError(
                f"{place} is not this machine: a group beyond it needs a key or TLS, for packets could be forged"
            )

    def meet(self, process: str, address: str) -> None:
        if process in self._peers:
            return
        self.check(address)
        self._identity.peers[process] = address
        self._peers[process] = peer = _Outgoing(process, *parse_address(address))
        self._keep(asyncio.create_task(self._connect(peer)))

    def position(self) -> bytes:
        return b""  # Nothing is kept on the way.

    def send(self, to: str, data: bytes) -> None:
        peer = self._peers[to]
        full = len(peer.queue) >= self._queue_packets_max or peer.bytes + len(data) > self._queue_bytes_max
        if full or len(data) > PACKET_BYTES_MAX:
            self.figures.dropped += 1
            if len(data) > PACKET_BYTES_MAX:
                known = Known(peer=to, packet_bytes=len(data), packet_bytes_max=PACKET_BYTES_MAX)
                self._say("packet-too-large", f"a packet for {to} is above {PACKET_BYTES_MAX} bytes: not sent", known)
            return
        peer.queue.append(data)
        peer.bytes += len(data)
        peer.filled.set()

    async def close(self) -> None:
        if not hasattr(self, "_server"):
            return
        self._closing = True
        self._server.close()
        await cancel_all(self._tasks)

    # Out.

    async def _connect(self, peer: _Outgoing) -> None:
        wait = RETRY_FIRST_S
        while True:
            writer: asyncio.StreamWriter | None = None
            try:
                reader, writer = await asyncio.open_connection(
                    peer.host, peer.port, ssl=self._outgoing_tls, server_hostname=None
                )
                session = await asyncio.wait_for(self._introduce(peer.name, reader, writer), HANDSHAKE_S)
                self.figures.connected.add(peer.name)
                wait = RETRY_FIRST_S
                await self._pump(peer, reader, writer, session)
            except RemoteProtocolError as error:
                known = Known(peer=peer.name, address=peer.address, reason=str(error))
                self._say("connection-failed", f"{peer.name} at {peer.address}: {error}", known)
            except (OSError, TimeoutError, EOFError, ssl.SSLError) as error:
                known = Known(peer=peer.name, address=peer.address, reason=str(error) or type(error).__name__)
                extra = self._log_fields("connection-failed", **known)
                log.debug("%s: no connection to %s: %s", self._identity.process, peer.name, error, extra=extra)
            finally:
                self.figures.connected.discard(peer.name)
                if writer is not None:
                    writer.close()
            await asyncio.sleep(wait * (0.5 + secrets.randbelow(1000) / 2000))
            wait = min(2 * wait, RETRY_MOST_S)

    async def _introduce(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
        """Our half of the handshake; the key of the session."""
        me = self._identity
        self._check_certificate(writer, name)
        nonce = secrets.token_bytes(16)
        hello = _Hello(VERSION, me.group, me.process, name, me.incarnation, nonce)
        writer.write(_framed(msgspec.msgpack.encode(hello)))
        welcome = _decoded(await _read(reader, HELLO_BYTES_MAX), _Welcome)
        if welcome.refused:
            raise RemoteProtocolError(f"it does not let us in: {welcome.refused[:200]!r}")
        if self._key is None:
            return None
        session = _session(self._key, hello, welcome.nonce)
        if not hmac.compare_digest(welcome.proof, _mac(session, b"receiver")):
            raise RemoteProtocolError("it does not have the key of the group")
        writer.write(_framed(msgspec.msgpack.encode(_Proof(_mac(session, b"sender")))))
        return session

    async def _pump(
        self,
        peer: _Outgoing,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        session: bytes | None,
    ) -> None:
        """Send what is queued, until the connection ends."""
        ended = asyncio.create_task(_read(reader, HELLO_BYTES_MAX))
        number = 0
        try:
            while True:
                filled = asyncio.create_task(peer.filled.wait())
                try:
                    await asyncio.wait({filled, ended}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    filled.cancel()
                if ended.done():
                    said = _decoded(ended.result(), _Welcome)
                    raise RemoteProtocolError(f"it closed the connection: {said.refused[:200]!r}")
                parts: list[bytes] = []
                while peer.queue and len(parts) < 1000:
                    data = peer.queue.popleft()
                    peer.bytes -= len(data)
                    number += 1
                    code = b"" if session is None else _mac(session, number.to_bytes(8) + data)
                    parts.append(_framed(data + code))
                if not peer.queue:
                    peer.filled.clear()
                self.figures.packets_out += len(parts)
                writer.writelines(parts)
                await self._drain(writer)
        finally:
            ended.cancel()
            with suppress(Exception, asyncio.CancelledError):
                await ended

    async def _drain(self, writer: asyncio.StreamWriter) -> None:
        """Until there is room. RemoteProtocolError, and the connection is cut, if the other end takes nothing."""
        draining = asyncio.ensure_future(writer.drain())
        try:
            left = writer.transport.get_write_buffer_size()
            while not (await asyncio.wait({draining}, timeout=self._stalled_s))[0]:
                before, left = left, writer.transport.get_write_buffer_size()
                if left >= before:
                    writer.transport.abort()  # `close` would wait until all is taken.
                    why = f"it took nothing for {self._stalled_s:g} s: the connection is cut"
                    self.figures.refuse(why)
                    raise RemoteProtocolError(why)
            await draining
        finally:
            draining.cancel()

    # In.

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closing:  # It was let in just before the end: nobody is left to greet it.
            writer.close()
            return
        task = asyncio.create_task(self._accept(reader, writer))
        task.add_done_callback(lambda _: writer.close())  # Also if it is cancelled before its first step.
        self._keep(task)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sender = ""
        try:
            if self._handshakes >= HANDSHAKES_MAX:
                raise RemoteProtocolError("too many connections that have not said who they are")
            self._handshakes += 1
            try:
                sender, session = await asyncio.wait_for(self._greet(reader, writer), HANDSHAKE_S)
            finally:
                self._handshakes -= 1
            before = self._incoming.get(sender)
            if before is not None:
                before.close()
            self._incoming[sender] = writer
            await self._receive(sender, reader, session)
        except (RemoteProtocolError, TimeoutError) as error:
            why = str(error) or "it took too long to say who it is"
            self.figures.refuse(why)
            known = Known(peer=sender, reason=why) if sender else Known(reason=why)
            self._say("connection-refused", f"a connection of {sender or 'somebody'} was refused: {why}", known)
            with suppress(OSError):
                writer.write(_framed(msgspec.msgpack.encode(_Welcome(refused=why[:200]))))
                await asyncio.wait_for(writer.drain(), 1.0)
        except (OSError, EOFError, ssl.SSLError):
            pass  # The other end went away; it connects again.
        finally:
            if self._incoming.get(sender) is writer:
                del self._incoming[sender]
            writer.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, bytes | None]:
        """The other half of the handshake: who it is, and the key of the session."""
        me = self._identity
        hello = _decoded(await _read(reader, HELLO_BYTES_MAX), _Hello)
        if hello.version != VERSION:
            raise RemoteProtocolError(f"it speaks version {hello.version}, this is version {VERSION}")
        if hello.group != me.group:
            raise RemoteProtocolError(f"it is of the group {hello.group[:80]!r}, this is {me.group!r}")
        if hello.receiver != me.process or hello.sender not in me.peers:
            raise RemoteProtocolError(f"{hello.sender[:80]!r} is not a member that we know, or looks for another")
        self._check_certificate(writer, hello.sender)
        nonce, session = secrets.token_bytes(16), None
        welcome = _Welcome(nonce=nonce)
        if self._key is not None:
            session = _session(self._key, hello, nonce)
            welcome.proof = _mac(session, b"receiver")
        writer.write(_framed(msgspec.msgpack.encode(welcome)))
        if session is not None:
            proof = _decoded(await _read(reader, HELLO_BYTES_MAX), _Proof)
            if not hmac.compare_digest(proof.proof, _mac(session, b"sender")):
                raise RemoteProtocolError("it does not have the key of the group")
        # Only now: who has not proved itself cannot change what we know.
        me.check_incarnation(hello.sender, hello.incarnation)
        return hello.sender, session

    async def _receive(self, sender: str, reader: asyncio.StreamReader, session: bytes | None) -> None:
        number = 0
        while True:
            data = await _read(reader, PACKET_BYTES_MAX + MAC_BYTES)
            if session is not None:
                number += 1
                data, code = data[:-MAC_BYTES], data[-MAC_BYTES:]
                if not hmac.compare_digest(code, _mac(session, number.to_bytes(8) + data)):
                    raise RemoteProtocolError("a packet is forged, changed, repeated or out of its turn")
            self.figures.packets_in += 1
            await self._take(sender, data)
            if self.figures.packets_in % PACKETS_A_TURN == 0:
                await asyncio.sleep(0)  # What is here already is read without waiting: let others have their turn.

    def _check_certificate(self, writer: asyncio.StreamWriter, name: str) -> None:
        if self._tls is None:
            return
        shown = writer.get_extra_info("peercert") or {}
        names = {value for kind, value in shown.get("subjectAltName", ()) if kind == "DNS"}
        names |= {value for part in shown.get("subject", ()) for kind, value in part if kind == "commonName"}
        if name not in names:
            raise RemoteProtocolError(f"its certificate is not that of {name[:80]!r}")

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _say(self, event: LogEvent, text: str, known: Known) -> None:
        """Once a minute at most, each."""
        now = asyncio.get_running_loop().time()
        if now - self._said.get(text, -SAY_AGAIN_S) >= SAY_AGAIN_S:
            if len(self._said) > 1000:
                self._said.clear()
            self._said[text] = now
            log.warning("%s: %s", self._identity.process, text, extra=self._log_fields(event, **known))


class _Outgoing:
    """What goes to one member."""

    def __init__(self, name: str, host: str, port: int) -> None:
        self.name: Final = name
        self.host: Final = host
        self.port: Final = port
        self.address: Final = f"{host}:{port}"
        self.queue: Final[deque[bytes]] = deque()  # At most queue_packets_max and queue_bytes_max.
        self.bytes = 0
        self.filled: Final = asyncio.Event()


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


async def _read(reader: asyncio.StreamReader, limit: int) -> bytes:
    size = int.from_bytes(await reader.readexactly(4))
    if size > limit:
        raise RemoteProtocolError(f"a frame of {size} bytes: the limit is {limit}")
    return await reader.readexactly(size)


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: not UTF-8.
        raise RemoteProtocolError("it does not speak as a member of a group does") from None


def _session(key: bytes, hello: _Hello, nonce: bytes) -> bytes:
    """A key that is used once: both ends' nonces, and who they are, are in it."""
    return hmac.digest(key, msgspec.msgpack.encode((hello, nonce)), sha256)


def _mac(session: bytes, data: bytes) -> bytes:
    return hmac.digest(session, data, sha256)[:MAC_BYTES]
