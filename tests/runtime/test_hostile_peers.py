"""Peers that break the rules, over real sockets: each is refused or cut off with a reason, and the group goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from test_group import Log, addresses, until

from beforehand.ordering import Frame
from beforehand.runtime import EmbeddedBroker, Group, NatsTransport, TcpTransport
from beforehand.runtime.codec import encode
from beforehand.runtime.nats import Connection, connect
from beforehand.runtime.transports import nats, tcp

KEY = b"k" * 32
NOTHING = encode(Frame(number=0, packet=None, mark=0))  # A packet that any member may send.


class Peer:
    """One that speaks for itself: the sender's half of a connection to a."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.session = b""

    async def enter(self, sender: str, key: bytes = KEY) -> bytes:
        """All that was said to be let in."""
        hello = tcp._Hello(tcp.VERSION, "group/fifo", sender, "a", "i", b"n" * 16)
        said = tcp._framed(msgspec.msgpack.encode(hello))
        self.writer.write(said)
        welcome = tcp._decoded(await tcp._read(self.reader, 4096), tcp._Welcome)
        if welcome.refused:
            return welcome.refused.encode()
        self.session = tcp._session(key, hello, welcome.nonce)
        proof = tcp._framed(msgspec.msgpack.encode(tcp._Proof(tcp._mac(self.session, b"sender"))))
        self.writer.write(proof)
        return said + proof

    def frame(self, number: int, packet: bytes = NOTHING) -> bytes:
        return tcp._framed(packet + tcp._mac(self.session, number.to_bytes(8) + packet))

    async def refused(self) -> str:
        """Why the connection was ended."""
        async with asyncio.timeout(10):
            why = tcp._decoded(await tcp._read(self.reader, 4096), tcp._Welcome).refused
            assert await self.reader.read() == b""
            return why


@asynccontextmanager
async def peer(address: str) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection(*address.split(":"))
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


def attacked(attack: Callable[[Group, dict[str, str]], Awaitable[None]]) -> None:
    """Members a and b of a group of three; c is whoever attacks. Afterwards a hears b, and nothing else."""

    async def run() -> None:
        log, peers = Log(), addresses()
        async with (
            Group("a", peers, order="fifo", handler=log.handler("a"), transport=TcpTransport(key=KEY)) as a,
            Group("b", peers, order="fifo", transport=TcpTransport(key=KEY)) as b,
        ):
            await attack(a, peers)
            await b.send(b"still here", "a")
            await until(lambda: log.ids("a") == ["b.1"])

    asyncio.run(run())


Bad = Callable[[Peer], bytes]
OUT_OF_TURN = "forged, changed, repeated or out of its turn"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        pytest.param(lambda _: tcp._framed(NOTHING + b"0" * 16), OUT_OF_TURN, id="forged"),
        pytest.param(lambda c: c.frame(1)[:-1] + b"x", OUT_OF_TURN, id="changed"),
        pytest.param(lambda c: c.frame(1) + c.frame(1), OUT_OF_TURN, id="repeated"),
        pytest.param(lambda c: c.frame(2), OUT_OF_TURN, id="one left out"),
        pytest.param(lambda _: tcp._framed(b"short"), OUT_OF_TURN, id="shorter than its code"),
        pytest.param(lambda _: (2**31).to_bytes(4), "a frame of 2147483648 bytes: the limit is", id="oversize"),
        pytest.param(lambda c: c.frame(1, b"\xc1"), "not a packet", id="malformed"),
    ],
)
def test_what_a_member_must_not_send_ends_its_connection_with_the_reason(bad: Bad, said: str) -> None:
    async def attack(a: Group, peers: dict[str, str]) -> None:
        async with peer(peers["a"]) as c:
            await c.enter("c")
            c.writer.write(bad(c))
            assert said in await c.refused()
        assert sum(a.figures().transport.refused.values()) == 1

    attacked(attack)


def test_a_recorded_connection_is_not_let_in_a_second_time() -> None:
    async def attack(_: Group, peers: dict[str, str]) -> None:
        async with peer(peers["a"]) as c:
            recorded = await c.enter("c") + c.frame(1)
        async with peer(peers["a"]) as again:
            again.writer.write(recorded)
            await tcp._read(again.reader, 4096)  # Its welcome, with another nonce.
            assert "does not have the key" in await again.refused()

    attacked(attack)


def test_one_that_is_not_on_the_list_gets_nothing_even_with_the_key() -> None:
    async def attack(_: Group, peers: dict[str, str]) -> None:
        async with peer(peers["a"]) as mallory:
            assert b"not a member that we know" in await mallory.enter("mallory")
            assert await mallory.reader.read() == b""

    attacked(attack)


def test_a_greeting_that_is_too_large_or_never_comes_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "HANDSHAKE_S", 0.2)

    async def attack(_: Group, peers: dict[str, str]) -> None:
        async with peer(peers["a"]) as large:
            large.writer.write((5000).to_bytes(4))
            assert "a frame of 5000 bytes: the limit is 4096" in await large.refused()
        async with peer(peers["a"]) as silent:
            assert "took too long" in await silent.refused()

    attacked(attack)


def test_of_many_that_do_not_say_who_they_are_the_last_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "HANDSHAKES_MAX", 2)

    async def attack(_: Group, peers: dict[str, str]) -> None:
        async with peer(peers["a"]) as one, peer(peers["a"]), peer(peers["a"]) as third:
            assert "too many connections" in await third.refused()
            assert await one.enter("c")

    attacked(attack)


def test_a_member_that_does_not_read_costs_a_bounded_queue_and_holds_nobody_else_up() -> None:
    count, size, most = 400, 100_000, 50

    async def run() -> None:
        log, peers = Log(), addresses()
        let_in, over = asyncio.Event(), asyncio.Event()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            hello = tcp._decoded(await tcp._read(reader, 4096), tcp._Hello)
            writer.write(tcp._framed(msgspec.msgpack.encode(tcp._Welcome(nonce=b"n" * 16))))
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            if hello.sender == "a":
                let_in.set()
            await over.wait()
            writer.transport.abort()  # type: ignore[attr-defined]

        host, _, port = peers["c"].rpartition(":")
        server = await asyncio.start_server(accept, host, int(port), limit=2**16)
        transport = TcpTransport(queue_packets_max=most)
        async with (
            Group("a", peers, order="fifo", transport=transport) as a,
            Group("b", peers, order="fifo", handler=log.handler("b")) as b,
        ):
            await let_in.wait()
            for number in range(count):
                await a.send(b"%d" % number + bytes(size))
            await until(lambda: len(log.got["b"]) == count)
            assert len(transport._peers["c"].queue) == most
            assert a.figures().transport.dropped >= count // 2
            assert [owed.process for owed in a.missing()] == ["c"]
            await b.send(b"still here", "a")
            await until(lambda: a.figures().delivered == count + 1)
            await a.close(timeout=0)
            await b.close(timeout=0)
        over.set()
        server.close()
        await server.wait_closed()

    asyncio.run(run())


def test_forged_repeated_and_foreign_packets_on_a_stream_are_refused_and_the_group_goes_on(
    broker: EmbeddedBroker,
) -> None:
    async def run() -> None:
        log, peers = Log(), addresses()
        place = f"{broker.url}/HOSTILE"
        async with (
            Group("a", peers, order="fifo", handler=log.handler("a"), transport=NatsTransport(place, key=KEY)) as a,
            Group("b", peers, order="fifo", transport=NatsTransport(place, key=KEY)) as b,
        ):
            await b.send(b"first", "a")
            await until(lambda: log.ids("a") == ["b.1"])
            line = await connect(broker.url)
            jetstream = line.jetstream()
            into = f"HOSTILE.{nats._token('group/fifo')}.{nats._token('a')}"
            true = (await jetstream.get_last_msg("HOSTILE", f"{into}.{nats._token('b')}")).data
            forged = msgspec.msgpack.encode(nats._Envelope("i", b"0" * 16, NOTHING))

            async def put(sender: str, data: bytes) -> None:
                await line.send([Connection.command(f"{into}.{nats._token(sender)}", data, headers={})])

            reasons: dict[str, Any] = a.figures().transport.refused
            await put("c", forged)
            await until(lambda: any("forged or changed" in why for why in reasons))
            await put("c", true)  # Of b, under the name of c.
            await until(lambda: sum(reasons.values()) == 2)
            await put("mallory", forged)
            await until(lambda: any("nobody that we know" in why for why in reasons))
            await put("c", b"\xc1")
            await until(lambda: any("does not speak" in why for why in reasons))
            await put("b", true)  # What b did say, once more.
            await b.send(b"still here", "a")
            await until(lambda: log.ids("a") == ["b.1", "b.2"])
            assert sum(reasons.values()) == 4
            await line.close()

    asyncio.run(run())
