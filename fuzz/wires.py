"""What takes bytes from a connection, attacked over a real one: members of a group, brokers, services, webhooks.

Each target starts when it is first called and stays until the program ends. A call is over when the other end has let
go, or has taken something that is right behind what was wrong: that one bad packet does not deafen it. What an event
loop could not handle is a finding, too.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import socket
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from beforehand.reporting.http_target import HttpTarget
from beforehand.reporting.targets import Later, Refused, Split, Taken
from beforehand.runtime.codec import decode_packet
from beforehand.runtime.embedded_broker import EmbeddedBroker
from beforehand.runtime.nats import Connection, connect
from beforehand.runtime.transports.base import Identity
from beforehand.runtime.transports.nats import NatsTransport
from beforehand.runtime.transports.tcp import TcpTransport
from beforehand.service.subscriptions.posting import PostError, post
from fuzz.running import Target

__all__ = ["wires"]

T = TypeVar("T")

_LOOPBACK = "127.0.0.1"
_PATIENCE_S = 30.0
_KEY = b"k" * 32


def wires(packets: tuple[bytes, ...]) -> list[Target]:
    """All of them. `packets` are what members send each other."""
    logging.getLogger("beforehand").addHandler(logging.NullHandler())  # Refusals are told; nobody reads them here.
    hello = _framed(msgspec.msgpack.encode(_HELLO))
    proof = _framed(msgspec.msgpack.encode({"proof": b"p" * 16}))
    keyed = {"nonce": b"n" * 16, "proof": b"p" * 16}
    welcomes: tuple[dict[str, Any], ...] = ({}, keyed, {"refused": "no"})
    welcomed = tuple(_framed(msgspec.msgpack.encode(said)) for said in welcomes)
    envelopes = tuple(msgspec.msgpack.encode(["i", b"", packet]) for packet in packets)
    return [
        Target("tcp-hello", (hello + b"".join(map(_framed, packets[:3])), hello), _Greeted(key=None)),
        Target("tcp-hello-key", (hello + proof + _framed(packets[0]),), _Greeted(key=_KEY)),
        Target("tcp-welcome", (*welcomed, welcomed[0] + welcomed[2]), _Welcomed(key=None)),
        Target("tcp-welcome-key", welcomed, _Welcomed(key=_KEY)),
        Target("nats-envelope", envelopes, _Enveloped()),
        Target("report-answer", _ANSWERS, _Answered(_reported)),
        Target("webhook-answer", _ANSWERS, _Answered(_posted)),
    ]


_HELLO = {"version": 1, "group": "g", "sender": "a", "receiver": "b", "incarnation": "i", "nonce": b"n" * 16}
_STORED = b'{"stored":1,"repeated":0,"conflicts":0,"rejected":[{"at":0,"reason":"r","detail":"d"}]}'
_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
_ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(_STORED), _STORED),
    b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 429 Slow\r\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n%b" % _CHUNKED,
    b"HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 410 Gone\r\nConnection: close\r\n\r\ngone",
)


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


async def _taken(sender: str, data: bytes) -> None:  # noqa: ARG001 (as a transport calls it)
    decode_packet(data)


def _identity(process: str, peers: dict[str, str]) -> Identity:
    """`waiting`: it goes to those only that it is told to meet."""
    return Identity(group="g", process=process, incarnation="i", peers=peers, remember=lambda *_: True, waiting=True)


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._failures: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._failed)
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    def check(self) -> None:
        """AssertionError if it met something that nobody handled."""
        if self._failures:
            raise AssertionError(self._failures.pop())

    def _failed(self, _: asyncio.AbstractEventLoop, said: dict[str, Any]) -> None:
        self._failures.append(f"{said.get('message')}: {said.get('exception')!r}")


class _Greeted:
    """A member that listens: what a connection says to it, from the first byte on."""

    def __init__(self, *, key: bytes | None) -> None:
        self._key = key

    @cached_property
    def _listening(self) -> tuple[_Loop, int]:
        async def start() -> int:
            transport = TcpTransport(key=self._key)
            await transport.start(_identity("b", {"a": f"{_LOOPBACK}:1"}), f"{_LOOPBACK}:0", _taken, None)
            return transport.port

        loop = _Loop()
        return loop, loop.run(start())

    def __call__(self, data: bytes) -> None:
        loop, port = self._listening
        line = socket.create_connection((_LOOPBACK, port), timeout=_PATIENCE_S)
        with closing(line), suppress(ConnectionError):  # It may hang up before it has read all.
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            while line.recv(65_536):
                pass
        loop.check()


class _Welcomed:
    """A member that connects: what it is told by the one that it takes for a peer."""

    def __init__(self, *, key: bytes | None) -> None:
        self._key = key

    @cached_property
    def _loop(self) -> _Loop:
        return _Loop()

    def __call__(self, data: bytes) -> None:
        self._loop.run(self._met(data))
        self._loop.check()

    async def _met(self, data: bytes) -> None:
        over = asyncio.Event()

        async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                writer.write(data)
                writer.write_eof()
                await reader.read()  # Until it hangs up.
            writer.close()
            over.set()

        server = await asyncio.start_server(peer, _LOOPBACK, 0)
        transport = TcpTransport(key=self._key)
        await transport.start(_identity("b", {}), f"{_LOOPBACK}:0", _taken, None)
        tasks = asyncio.all_tasks()
        transport.meet("a", f"{_LOOPBACK}:{server.sockets[0].getsockname()[1]}")
        (connecting,) = asyncio.all_tasks() - tasks
        await asyncio.wait_for(over.wait(), _PATIENCE_S)
        await asyncio.sleep(0)
        gone = connecting.done()
        await transport.close()
        server.close()
        if gone:
            raise AssertionError("it has given up connecting to its peer")


class _Enveloped:
    """A member that reads a stream of a real broker: a packet of a peer, and then one that is right."""

    @cached_property
    def _member(self) -> tuple[_Loop, Callable[[bytes], Coroutine[Any, Any, None]]]:
        broker = EmbeddedBroker()
        broker.start()
        atexit.register(broker.stop)
        loop = _Loop()
        return loop, loop.run(_reading(broker.url))

    def __call__(self, data: bytes) -> None:
        loop, call = self._member
        loop.run(call(data))
        loop.check()


async def _reading(url: str) -> Callable[[bytes], Coroutine[Any, Any, None]]:
    heard, right = asyncio.Event(), b"right"

    async def take(sender: str, data: bytes) -> None:
        if data == right:
            heard.set()
        else:
            await _taken(sender, data)

    def token(name: str) -> str:
        return urlsafe_b64encode(name.encode()).rstrip(b"=").decode()

    transport = NatsTransport(f"{url}/fuzz")
    await transport.start(_identity("b", {"a": ""}), "", take, None)
    writing = await connect(url)
    subject = f"fuzz.{token('g')}.{token('b')}.{token('a')}"

    async def call(data: bytes) -> None:
        heard.clear()
        said = [data, msgspec.msgpack.encode(["i", b"", right])]
        await writing.send([Connection.command(subject, one, headers={}) for one in said])
        try:
            await asyncio.wait_for(heard.wait(), _PATIENCE_S)
        except TimeoutError:
            raise AssertionError("it does not hear what comes after this") from None

    return call


class _Answered:
    """Something that asks over HTTP, and what it does with the answer."""

    def __init__(self, ask: Callable[[str], None]) -> None:
        self._ask = ask
        self._answer = b""

    @cached_property
    def _url(self) -> str:
        server = socket.create_server((_LOOPBACK, 0), backlog=100)
        threading.Thread(target=self._serve, args=(server,), daemon=True).start()
        return f"http://{_LOOPBACK}:{server.getsockname()[1]}"

    def _serve(self, server: socket.socket) -> None:
        while True:
            line, _ = server.accept()
            with closing(line), suppress(OSError):
                line.settimeout(_PATIENCE_S)
                _read_request(line)
                line.sendall(self._answer)
                line.shutdown(socket.SHUT_WR)
                line.recv(1)  # Until it hangs up.

    def __call__(self, data: bytes) -> None:
        self._answer = data
        self._ask(self._url)


def _read_request(line: socket.socket) -> None:
    got = b""
    while b"\r\n\r\n" not in got:
        got += line.recv(65_536) or b"\r\n\r\n"
    head, _, body = got.partition(b"\r\n\r\n")
    size = next(int(one[15:]) for one in head.splitlines() if one.lower().startswith(b"content-length:"))
    while len(body) < size:
        body += line.recv(65_536) or b" " * size


def _reported(url: str) -> None:
    target = HttpTarget(url, timeout=_PATIENCE_S)
    with closing(target):
        answer = target.send([b'{"process":"a","index":1}'])
    assert isinstance(answer, Taken | Later | Refused | Split)
    if isinstance(answer, Later):
        assert answer.after is None or 0 <= answer.after <= 3600
        assert answer.error.isprintable()


def _posted(url: str) -> None:
    after = 0.0
    try:
        post(url, b"{}", {}, seconds_max=_PATIENCE_S, allow_private=True)
    except PostError as error:
        after = error.retry_after
    assert 0 <= after <= 3600
