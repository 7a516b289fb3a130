"""The publisher: stamps that mergers can use, never too many in a tick, and numbers that go on."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import pairwise

import pytest

from beforehand.clocks import BoundedStamp, LamportStamp, OffsetStamp
from beforehand.errors import BrokerError, InputError
from beforehand.formats.published import Arrived, RecordReader
from beforehand.ordering.merging import MergeSettings
from beforehand.runtime import (
    Connection,
    EmbeddedBroker,
    Publisher,
    StreamAddress,
    StreamReader,
    connect,
    ensure_stream,
)

MS = 1_000_000
SETTINGS = MergeSettings(epsilon_ns=5 * MS, delta_ns=1_000 * MS)


async def opened(url: str, stream: str) -> tuple[Connection, StreamAddress]:
    connection = await connect(url)
    address = StreamAddress.parse(f"{url}/{stream}")
    await ensure_stream(connection.jetstream(), address, [f"{stream}.>"])
    return connection, address


async def read_all(connection: Connection, address: StreamAddress, settings: MergeSettings) -> list[Arrived]:
    reader = StreamReader(connection, address)
    await reader.open()
    fetched = await reader.fetch()
    await reader.close()
    records = RecordReader(settings)
    got = [records.headers(m.subject, m.headers, m.payload, arrival=m.time_ns) for m in fetched.messages]
    assert all(isinstance(each, Arrived) for each in got)
    return [each for each in got if isinstance(each, Arrived)]


def test_messages_are_stored_as_they_were_published(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection, address = await opened(broker.url, "PUB")
        before = len(connection._subs)
        publisher = await Publisher.open(connection, address, "shop", SETTINGS)
        sent = [await publisher.publish("PUB.a", str(number).encode()) for number in range(30)]
        await publisher.close()
        assert len(connection._subs) == before  # It listens no longer.
        got = [arrived.message for arrived in await read_all(connection, address, SETTINGS)]
        assert got == sent
        assert [message.sequence for message in got] == list(range(1, 31))
        assert all(before.stamp.key < after.stamp.key for before, after in pairwise(got))
        await connection.close()

    asyncio.run(run())


@pytest.mark.parametrize("c_max_ns", [None, 2 * MS])
def test_no_more_than_k_messages_in_a_tick(broker: EmbeddedBroker, c_max_ns: int | None) -> None:
    settings = MergeSettings(epsilon_ns=5 * MS, delta_ns=1_000 * MS, events_per_tick=3, c_max_ns=c_max_ns)
    stream = "TICK" if c_max_ns is None else "TOCK"

    async def run() -> None:
        connection, address = await opened(broker.url, stream)
        publisher = await Publisher.open(connection, address, "shop", settings)
        for _ in range(30):
            await publisher.publish(f"{stream}.a", b"")
        await publisher.flush()
        got = await read_all(connection, address, settings)
        assert len(got) == 30
        assert max(Counter(arrived.message.stamp.r for arrived in got).values()) <= 3
        judged = [settings.rules.judge(a.message.stamp, arrival=settings.reading(a.arrival)) for a in got]
        assert set(judged) == {None}
        await connection.close()

    asyncio.run(run())


def test_what_is_observed_comes_before_what_is_published_then(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection, address = await opened(broker.url, "OBS")
        one = await Publisher.open(connection, address, "one", SETTINGS)
        two = await Publisher.open(connection, address, "two", SETTINGS)
        for _ in range(20):
            said = await one.publish("OBS.a", b"question")
            assert await two.observe(said.stamp)
            answer = await two.publish("OBS.a", b"answer")
            assert said.stamp.key < answer.stamp.key
            assert await one.observe(answer.stamp)
        # Ahead of our clock by less than ε: it is waited for.
        now = SETTINGS.reading(time.time_ns())
        stamp = answer.stamp
        assert isinstance(stamp, BoundedStamp)
        ahead = BoundedStamp(now + 5, 0, (0,) * 5 + (1,) + (0,) * 4, stamp.modulus)
        assert await two.observe(ahead)
        after = await two.publish("OBS.a", b"after")
        assert ahead.key < after.stamp.key
        # Beyond the bounds, or not of this kind.
        assert not await two.observe(BoundedStamp(now + 10**6, 0, ahead.kn, stamp.modulus))
        assert not await two.observe(OffsetStamp(now, 0))
        assert not await two.observe(LamportStamp(1, "x"))  # type: ignore[arg-type]
        await one.close()
        await two.close()
        await connection.close()

    asyncio.run(run())


def test_after_a_restart_stamps_and_numbers_go_on(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection, address = await opened(broker.url, "AGAIN")
        messages = []
        for _ in range(3):
            publisher = await Publisher.open(connection, address, "shop", SETTINGS)
            messages += [await publisher.publish("AGAIN.a", b"") for _ in range(5)]
            await publisher.flush()
        assert [message.sequence for message in messages] == list(range(1, 16))
        keys = [message.stamp.key for message in messages]
        assert keys == sorted(set(keys))
        chosen = await Publisher.open(connection, address, "shop", SETTINGS, first_sequence=100)
        assert (await chosen.publish("AGAIN.a", b"")).sequence == 100
        await connection.close()

    asyncio.run(run())


def test_after_a_restart_stamps_are_later_even_than_what_the_clock_knew_of_the_future(broker: EmbeddedBroker) -> None:
    settings = MergeSettings(epsilon_ns=200 * MS, delta_ns=1_000 * MS)

    async def run() -> None:
        connection, address = await opened(broker.url, "KNEW")
        old = await Publisher.open(connection, address, "shop", settings)
        width = settings.bounds.width
        now = settings.reading(time.time_ns())
        ahead = BoundedStamp(now + 190, 0, (0,) * width + (1,) + (0,) * (width - 1), settings.bounds.modulus)
        assert await old.observe(ahead)
        last = await old.publish("KNEW.a", b"")
        assert last.stamp.c > 0
        new = await Publisher.open(connection, address, "shop", settings)
        assert (await new.publish("KNEW.a", b"")).stamp.key > last.stamp.key
        await connection.close()

    asyncio.run(run())


def test_flush_waits_for_answers_and_few_are_in_flight(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection, address = await opened(broker.url, "FLIGHT")
        publisher = await Publisher.open(connection, address, "shop", SETTINGS, in_flight_max=3)
        for number in range(50):
            await publisher.publish("FLIGHT.a", b"")
            state = (await connection.jetstream().stream_info("FLIGHT")).state
            assert state.last_seq >= number + 1 - 3
            assert publisher.stored >= number + 1 - 3
        await publisher.flush()
        assert publisher.stored == publisher.sequence == 50
        assert (await connection.jetstream().stream_info("FLIGHT")).state.last_seq == 50
        await connection.close()

    asyncio.run(run())


@pytest.mark.parametrize("channel", ["", "NO.*", "NO.>", "NO..a", "NO.a b", "NO.\n", "other", "NO." + "x" * 300])
def test_a_channel_that_the_stream_does_not_take_is_refused(broker: EmbeddedBroker, channel: str) -> None:
    async def run() -> None:
        connection, address = await opened(broker.url, "NO")
        publisher = await Publisher.open(connection, address, "shop", SETTINGS)
        with pytest.raises(InputError):
            await publisher.publish(channel, b"")
        await connection.close()

    asyncio.run(run())


def test_names_payloads_and_streams_are_checked(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection, address = await opened(broker.url, "CHECK")
        for name in ("", " a", "a\n", "x" * 256):
            with pytest.raises(InputError, match="publisher"):
                await Publisher.open(connection, address, name, SETTINGS)
        with pytest.raises(InputError, match="from 1"):
            await Publisher.open(connection, address, "a", SETTINGS, first_sequence=0)
        with pytest.raises(BrokerError, match="no such stream"):
            await Publisher.open(connection, StreamAddress.parse(f"{broker.url}/NONE"), "a", SETTINGS)
        publisher = await Publisher.open(connection, address, "a", SETTINGS)
        with pytest.raises(InputError, match="payload"):
            await publisher.publish("CHECK.a", b"x" * (960 * 1024 + 1))
        await publisher.publish("CHECK.a", b"x" * (960 * 1024))
        await publisher.close()
        await connection.close()

    asyncio.run(run())


def test_a_message_that_was_not_taken_ends_the_publisher(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection, address = await opened(broker.url, "GONE")
        publisher = await Publisher.open(connection, address, "a", SETTINGS)
        await connection.jetstream().delete_stream("GONE")
        await publisher.publish("GONE.a", b"")
        with pytest.raises(BrokerError, match="not taken"):
            await publisher.flush()
        assert (publisher.stored, publisher.sequence) == (0, 1)
        with pytest.raises(BrokerError, match="not taken"):
            await publisher.publish("GONE.a", b"")
        await connection.close()

    asyncio.run(run())
