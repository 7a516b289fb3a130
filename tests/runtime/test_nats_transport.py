"""Packets over a real broker: what it does not take is not sent, and a connection that is lost comes back."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from test_group import Log, addresses, until

from beforehand.errors import BrokerError, InputError, LocalProtocolError
from beforehand.runtime import EmbeddedBroker, Group, NatsTransport, StreamAddress, StreamReader, connect
from beforehand.runtime.transports import nats


def test_a_payload_that_the_broker_would_not_take_is_refused_and_the_group_goes_on(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        log, peers = Log(), addresses(("a", "b"))
        place = f"{broker.url}/LARGE"
        async with (
            Group("a", peers, order="fifo", transport=NatsTransport(place)) as a,
            Group("b", peers, order="fifo", handler=log.handler("b"), transport=NatsTransport(place)) as b,
        ):
            with pytest.raises(LocalProtocolError, match="a payload of 1048576 bytes: the limit is 982016"):
                await a.send(bytes(1024 * 1024), "b")
            await a.send(bytes(982_016), "b")
            a._transport.send("b", bytes(1024 * 1024))  # As a view change might be.
            await a.send(b"still here", "b")
            await until(lambda: log.ids("b") == ["a.1", "a.2"])
            assert a.figures().transport.dropped == 1
            assert not b.figures().transport.refused

    asyncio.run(run())


def test_a_member_whose_way_back_is_barred_for_a_while_is_heard_again(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nats, "RETRY_S", 0.01)
    barred = [InputError("a.creds: no such credentials file"), BrokerError("nats://h:1: nothing listens there")]

    async def tried(*given: object, **options: object) -> nats.Connection:
        if barred:
            raise barred.pop(0)
        return await connect(*given, **options)  # type: ignore[arg-type]

    async def run() -> None:
        log, peers = Log(), addresses(("a", "b"))
        place = f"{broker.url}/BARRED"
        transport = NatsTransport(place)
        async with (
            Group("a", peers, order="fifo", handler=log.handler("a"), transport=transport) as a,
            Group("b", peers, order="fifo", transport=NatsTransport(place)) as b,
        ):
            await b.send(b"first", "a")
            await until(lambda: log.ids("a") == ["b.1"])
            monkeypatch.setattr(nats, "connect", tried)
            await transport._connection.close()
            await b.send(b"second", "a")
            await until(lambda: log.ids("a") == ["b.1", "b.2"])
            assert a.figures().transport.connected == {"b"}

    asyncio.run(run())
    assert "no such credentials file; trying again" in caplog.text


@pytest.mark.parametrize("order", ["fifo", "single-phase"])
def test_a_group_goes_on_when_its_broker_was_killed_and_is_back_on_its_store(tmp_path: Path, order: str) -> None:
    async def run() -> None:
        log, peers = Log(), addresses(("a", "b"))
        first = EmbeddedBroker(tmp_path / "streams")
        first.start()
        place, port = f"{first.url}/KILLED", int(first.url.rpartition(":")[2])
        try:
            async with AsyncExitStack() as stack:
                a, b = [
                    await stack.enter_async_context(
                        Group(name, peers, order=order, handler=log.handler(name), transport=NatsTransport(place))
                    )
                    for name in peers
                ]
                await a.send(b"before")
                await until(lambda: all(log.ids(name) == ["a.1"] for name in peers))
                assert first.pid is not None
                os.kill(first.pid, signal.SIGKILL)
                first.stop()
                meanwhile = [asyncio.create_task(group.send(b"meanwhile")) for group in (a, b)]
                await asyncio.sleep(1)
                assert "a.2" not in log.ids("b")
                with EmbeddedBroker(tmp_path / "streams", port=port):
                    await asyncio.gather(*meanwhile)
                    await until(lambda: all(len(log.got[name]) == 3 for name in peers), 60)
                    await b.send(b"after")
                    await until(lambda: all(len(log.got[name]) == 4 for name in peers))
                    assert a.figures().transport.connected == {"b"}
                    await asyncio.gather(a.close(), b.close())
        finally:
            first.stop()
        for name in peers:
            assert sorted(log.ids(name)) == ["a.1", "a.2", "b.1", "b.2"]
        if order == "single-phase":
            assert log.ids("a") == log.ids("b")

    asyncio.run(run())


def test_a_reader_that_cannot_be_opened_leaves_nothing_with_the_connection(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await connect(broker.url)
        before = len(connection._subs)
        with pytest.raises(BrokerError, match="there is no such stream"):
            await StreamReader(connection, StreamAddress.parse(f"{broker.url}/NOWHERE")).open()
        assert len(connection._subs) == before
        await connection.close()

    asyncio.run(run())
