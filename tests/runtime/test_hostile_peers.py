"""Peers that break the rules, over real sockets: each is refused or cut off with a reason, and the group goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from test_group import Log, addresses, until

from beforehand.ordering import PROTOCOLS, Frame
from beforehand.runtime import EmbeddedBroker, Group, NatsTransport, TcpTransport
from beforehand.runtime.codec import encode
from beforehand.runtime.nats import Connection, connect
from beforehand.runtime.transports import base, nats, tcp

KEY = b"k" * 32
NOTHING = encode(Frame(number=0, packet=None, mark=0))  # A packet that any member may send.


class Peer:
    """One that speaks for itself: the sender's half of a connection to a."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, order: str) -> None:
        self.reader, self.writer, self.order = reader, writer, order
        self.session = b""

    async def enter(self, sender: str, key: bytes = KEY) -> bytes:
        """All that was said to be let in."""
        hello = tcp._Hello(tcp.VERSION, f"group/{self.order}", sender, "a", "i", b"n" * 16)
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
async def peer(a: Group, address: str) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection(*address.split(":"))
    try:
        yield Peer(reader, writer, a.order)
    finally:
        writer.close()


@pytest.fixture(params=["fifo", "single-phase"])
def order(request: pytest.FixtureRequest) -> str:
    """One that waits for nobody, and a total one, which waits for all members."""
    return str(request.param)


def attacked(order: str, attack: Callable[[Group, dict[str, str]], Awaitable[None]]) -> None:
    """Members a and b of a group of three; c is whoever attacks. Afterwards a hears b, and nothing else.

    In a total order they evict c first: all wait for what it, who is no real member, would say.
    """

    async def run() -> None:
        log, peers = Log(), addresses()
        async with (
            Group("a", peers, order=order, handler=log.handler("a"), transport=TcpTransport(key=KEY)) as a,
            Group("b", peers, order=order, transport=TcpTransport(key=KEY)) as b,
        ):
            await attack(a, peers)
            await go_on(a, b)
            await b.send(b"still here")
            await until(lambda: log.ids("a") == ["b.1"])

    asyncio.run(run())


async def go_on(a: Group, b: Group) -> None:
    """Without c, if the order would wait for it."""
    if PROTOCOLS[a.order].traits.total:
        await a.evict("c")
        await until(lambda: "c" not in b.view)


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
def test_what_a_member_must_not_send_ends_its_connection_with_the_reason(order: str, bad: Bad, said: str) -> None:
    async def attack(a: Group, peers: dict[str, str]) -> None:
        async with peer(a, peers["a"]) as c:
            await c.enter("c")
            c.writer.write(bad(c))
            assert said in await c.refused()
        assert sum(a.figures().transport.refused.values()) == 1

    attacked(order, attack)


def test_a_recorded_connection_is_not_let_in_a_second_time(order: str) -> None:
    async def attack(a: Group, peers: dict[str, str]) -> None:
        async with peer(a, peers["a"]) as c:
            recorded = await c.enter("c") + c.frame(1)
        async with peer(a, peers["a"]) as again:
            again.writer.write(recorded)
            await tcp._read(again.reader, 4096)  # Its welcome, with another nonce.
            assert "does not have the key" in await again.refused()

    attacked(order, attack)


def test_one_that_is_not_on_the_list_gets_nothing_even_with_the_key(order: str) -> None:
    async def attack(a: Group, peers: dict[str, str]) -> None:
        async with peer(a, peers["a"]) as mallory:
            assert b"not a member that we know" in await mallory.enter("mallory")
            assert await mallory.reader.read() == b""

    attacked(order, attack)


def test_a_greeting_that_is_too_large_or_never_comes_ends_the_connection(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "HANDSHAKE_S", 0.2)

    async def attack(a: Group, peers: dict[str, str]) -> None:
        async with peer(a, peers["a"]) as large:
            large.writer.write((5000).to_bytes(4))
            assert "a frame of 5000 bytes: the limit is 4096" in await large.refused()
        async with peer(a, peers["a"]) as silent:
            assert "took too long" in await silent.refused()

    attacked(order, attack)


def test_of_many_that_do_not_say_who_they_are_the_last_are_refused_at_once(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "HANDSHAKES_MAX", 2)

    async def attack(a: Group, peers: dict[str, str]) -> None:
        async with peer(a, peers["a"]) as one, peer(a, peers["a"]), peer(a, peers["a"]) as third:
            assert "too many connections" in await third.refused()
            assert await one.enter("c")

    attacked(order, attack)


def test_strangers_with_ever_new_names_fill_no_memory(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "REASONS_MAX", 3)

    async def attack(a: Group, peers: dict[str, str]) -> None:
        for number in range(6):
            async with peer(a, peers["a"]) as stranger:
                assert b"not a member that we know" in await stranger.enter(f"mallory {number}")
        reasons = a.figures().transport.refused
        assert len(reasons) == 4
        assert reasons["other reasons"] == 3

    attacked(order, attack)


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
            try:
                await over.wait()
            finally:
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


def test_a_member_that_takes_nothing_is_cut_off_with_a_reason_and_may_come_again(
    order: str, caplog: pytest.LogCaptureFixture
) -> None:
    count, size = 100, 100_000  # Together less than a view change may carry.

    async def run() -> None:
        log, peers = Log(), addresses()
        entered, over = list[str](), asyncio.Event()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            hello = tcp._decoded(await tcp._read(reader, 4096), tcp._Hello)
            writer.write(tcp._framed(msgspec.msgpack.encode(tcp._Welcome(nonce=b"n" * 16))))
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            entered.append(hello.sender)
            try:
                await over.wait()
            finally:
                writer.transport.abort()  # type: ignore[attr-defined]

        host, _, port = peers["c"].rpartition(":")
        server = await asyncio.start_server(accept, host, int(port), limit=2**16)
        async with (
            Group("a", peers, order=order, transport=TcpTransport(stalled_s=1.5)) as a,
            Group("b", peers, order=order, handler=log.handler("b")) as b,
        ):
            await until(lambda: "a" in entered)
            for number in range(count):
                await a.send(b"%d" % number + bytes(size))
            reason = "it took nothing for 1.5 s: the connection is cut"
            await until(lambda: reason in a.figures().transport.refused)
            await until(lambda: entered.count("a") >= 2)
            assert "c" in a.view
            await go_on(a, b)
            await until(lambda: len(log.got["b"]) == count)
            await b.send(b"still here")
            await until(lambda: a.figures().delivered == count + 1)
            await asyncio.gather(a.close(timeout=0), b.close(timeout=0))
        over.set()
        server.close()
        await server.wait_closed()

    asyncio.run(run())
    cut = [each for each in caplog.records if "took nothing" in each.getMessage()]
    assert [(vars(each)["event"], vars(each)["peer"]) for each in cut] == [("connection-failed", "c")]


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
            await put("c", b"\x93\xa1\xff\xc4\x00\xc4\x00")  # An incarnation that is not UTF-8.
            await until(lambda: sum(reasons.values()) == 5)
            await put("b", true)  # What b did say, once more.
            await b.send(b"still here", "a")
            await until(lambda: log.ids("a") == ["b.1", "b.2"])
            assert sum(reasons.values()) == 5
            await line.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer", [b"\x81\xa7refused\xa1\xff", b"\xc1", b""], ids=["not UTF-8", "malformed", "empty"]
)
def test_one_that_answers_nonsense_in_a_members_place_does_not_keep_us_from_the_member(answer: bytes) -> None:
    async def nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(tcp._framed(answer))
        answered.set()
        writer.close()

    async def run() -> None:
        log, peers = Log(), addresses()
        async with Group("a", peers, order="fifo", transport=TcpTransport(key=KEY)) as a:
            impostor = await asyncio.start_server(nonsense, *peers["b"].split(":"))
            await asyncio.wait_for(answered.wait(), 20)
            impostor.close()
            await impostor.wait_closed()
            transport = TcpTransport(key=KEY)
            async with Group("b", peers, order="fifo", handler=log.handler("b"), transport=transport):
                await a.send(b"it is you", "b")
                await until(lambda: log.ids("b") == ["a.1"])
            await a.close(timeout=0)

    answered = asyncio.Event()
    asyncio.run(run())


def test_packets_on_a_stream_that_are_too_large_are_refused_by_the_broker_or_by_the_member(
    broker: EmbeddedBroker, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        log, peers = Log(), addresses()
        stream = f"OVERSIZE-{order}"
        place = f"{broker.url}/{stream}"
        async with (
            Group("a", peers, order=order, handler=log.handler("a"), transport=NatsTransport(place, key=KEY)) as a,
            Group("b", peers, order=order, transport=NatsTransport(place, key=KEY)) as b,
        ):
            subject = f"{stream}.{nats._token(f'group/{order}')}.{nats._token('a')}.{nats._token('c')}"
            host, _, port = broker.url.removeprefix("nats://").rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"CONNECT {}\r\n" + f"PUB {subject} {2**21}\r\n".encode())
            assert b"Maximum Payload Violation" in await asyncio.wait_for(reader.read(), 10)
            writer.close()

            with monkeypatch.context() as patched:  # A broker that takes more than a member does.
                patched.setattr(nats, "PACKET_BYTES_MAX", 100_000)
                line = await connect(broker.url)
                await line.send([Connection.command(subject, bytes(200_000), headers={})])
                reasons: dict[str, Any] = a.figures().transport.refused
                await until(lambda: [*reasons] == ["a packet of 200000 bytes: the limit is 100000"])
                await line.close()
            await go_on(a, b)
            await b.send(b"still here")
            await until(lambda: log.ids("a") == ["b.1"])

    asyncio.run(run())
