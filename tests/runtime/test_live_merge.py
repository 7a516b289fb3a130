"""The live merger on a real broker: it equals a sort, whenever it starts, whatever it is given, whoever kills it."""

from __future__ import annotations

import asyncio
import io
import json
import random
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from live_streams import MS, SETTINGS, Publishers, expected, headers_of, merged, plain, stored

from beforehand.clocks import BoundedClock, BoundedStamp
from beforehand.errors import BrokerError
from beforehand.formats.merged import MergedRecord
from beforehand.formats.published import Arrived, RecordReader
from beforehand.ordering.merging import MergeSettings
from beforehand.runtime import (
    EmbeddedBroker,
    LineOutput,
    LiveLimits,
    LiveMerger,
    MergeFigures,
    StreamAddress,
    StreamOutput,
    connect,
)
from beforehand.runtime.merge_output import Checkpoint, Outgoing, WriteConflictError


async def merge(
    url: str,
    source: str,
    target: str,
    *,
    stop: asyncio.Event | None = None,
    limits: LiveLimits | None = None,
    settings: MergeSettings = SETTINGS,
) -> MergeFigures:
    """Until stopped; without `stop` until nothing is left."""
    connection = await connect(url)
    try:
        output = StreamOutput(connection, StreamAddress.parse(f"{url}/{target}"))
        merger = LiveMerger(connection, StreamAddress.parse(f"{url}/{source}"), output, settings, limits=limits)
        return await merger.run(stop or asyncio.Event(), drain=stop is None)
    finally:
        await connection.close()


async def until(condition: Any, *, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def count_of(connection: Any, stream: str) -> int:
    try:
        state = (await connection.jetstream().stream_info(stream)).state
    except Exception:  # noqa: BLE001 (not made yet)
        return 0
    return int(state.last_seq)


def test_what_it_releases_is_what_a_sort_gives(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "SORT", seed=1).make()
        await publishers.publish(400, spoilt=0.1, repeated=0.1)

        figures = await merge(broker.url, "SORT", "SORTED")

        rows, aside = await merged(connection, "SORTED")
        assert (rows, aside) == await expected(connection, "SORT")
        assert set(aside) == {"late", "repeated"}  # Modulo B, what is ahead of time is taken for the past.
        assert figures.delivered + sum(aside.values()) == figures.read == publishers.sent
        assert figures.set_aside == aside
        await connection.close()

    asyncio.run(run())


def test_lines_have_the_same_order_as_a_stream(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await connect(broker.url)
        publishers = await Publishers(connection, "LINES", seed=2, channels=1).make()
        await publishers.publish(50, spoilt=0.2)
        lines, aside = io.BytesIO(), io.BytesIO()
        source = StreamAddress.parse(f"{broker.url}/LINES")

        await LiveMerger(connection, source, LineOutput(lines, aside), SETTINGS).run(asyncio.Event(), drain=True)

        records = [MergedRecord.from_line(line) for line in lines.getvalue().splitlines()]
        rows, counts = await expected(connection, "LINES")
        assert [(r.channel, r.publisher, r.sequence, r.payload) for r in records] == rows["LINES.0"]
        assert [record.position for record in records] == list(range(1, len(records) + 1))
        assert Counter(json.loads(line)["reason"] for line in aside.getvalue().splitlines()) == counts
        await connection.close()

    asyncio.run(run())


def test_mergers_started_at_different_times_write_identical_sequences(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "TIMES", seed=3).make()
        stop = asyncio.Event()
        early = asyncio.create_task(merge(broker.url, "TIMES", "EARLY", stop=stop))
        for _ in range(15):
            await publishers.publish(20, spoilt=0.05, repeated=0.05)
            await asyncio.sleep(0.02)
        middle = asyncio.create_task(merge(broker.url, "TIMES", "MIDDLE", stop=stop))
        for _ in range(15):
            await publishers.publish(20, spoilt=0.05, repeated=0.05)
            await asyncio.sleep(0.02)
        await merge(broker.url, "TIMES", "LATE")

        async def all_written() -> bool:
            counts = [await count_of(connection, stream) for stream in ("EARLY", "MIDDLE", "LATE")]
            return counts == [publishers.sent] * 3

        await until(all_written)
        stop.set()
        await asyncio.gather(early, middle)
        right = await expected(connection, "TIMES")
        assert await merged(connection, "EARLY") == right
        assert await merged(connection, "MIDDLE") == right
        assert await merged(connection, "LATE") == right
        await connection.close()

    asyncio.run(run())


def test_an_idle_publisher_stalls_nobody(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "IDLE", seed=4, count=2).make()
        stop = asyncio.Event()
        task = asyncio.create_task(merge(broker.url, "IDLE", "BUSY", stop=stop))
        await publishers.publish(1)  # One message of one publisher, and then silence.

        async def written() -> bool:
            return await count_of(connection, "BUSY") == 1

        await until(written)
        [message], [released] = await stored(connection, "IDLE"), await stored(connection, "BUSY")
        waited = released.time - message.time
        # Due at r + δ + ε; the grace of ε is waited for too. Not before, and not long after on a busy machine.
        assert 0.169 <= waited.total_seconds() < 2
        stop.set()
        await task
        await connection.close()

    asyncio.run(run())


def spoilt_messages(stamp: BoundedStamp) -> list[tuple[dict[str, str] | None, bytes, str]]:
    good = stamp.to_text()
    corrupted = BoundedStamp(stamp.r, stamp.c, (0,) * len(stamp.kn), stamp.modulus)
    absurd = BoundedStamp(stamp.r + 10**9, 0, stamp.kn, stamp.modulus)
    other = BoundedStamp(stamp.r, 0, (1, 1), stamp.modulus)
    return [
        (None, b"no headers", "malformed"),
        ({"Beforehand-Publisher": "x"}, b"half", "malformed"),
        (headers_of("x", 1, "not a stamp"), b"", "malformed"),
        (headers_of("x", 1, good[:-2]), b"", "malformed"),
        (headers_of("x", 1, good + "AA"), b"", "malformed"),
        (headers_of("x", 1, "A" * 2000), b"", "oversize"),
        (headers_of("x", -1, good), b"", "malformed"),
        (headers_of("x" * 300, 1, good), b"", "oversize"),
        (headers_of("x\ufffd\x01", 1, good), b"", "malformed"),
        (headers_of("x", 1, corrupted), b"", "corrupted"),
        (headers_of("x", 1, absurd), b"", "late"),  # Modulo B it can only be in the past.
        (headers_of("x", 1, other), b"", "other bounds"),
        (headers_of("x", 1, good), b"y" * (960 * 1024 + 1), "oversize"),
        ({**headers_of("x", 1, good), "Status": "404", "Description": "No Messages"}, b"ok", ""),
        ({**headers_of("x", 2, good), "Nats-Msg-Id": "a:1", "Beforehand-Position": "7"}, b"ok", ""),
    ]


def test_bad_records_go_aside_with_a_reason_and_the_merge_goes_on(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "BAD", seed=5, channels=1).make()
        now = SETTINGS.reading(time.time_ns())
        stamp = BoundedClock("x", SETTINGS.bounds, now=now - 1).tick(now)
        reasons = Counter[str]()
        for headers, payload, reason in spoilt_messages(stamp):
            await connection.publish("BAD.0", payload, headers=headers)
            reasons[reason] += 1
        await publishers.publish(20)

        await merge(broker.url, "BAD", "GOOD")

        rows, aside = await merged(connection, "GOOD")
        ok = reasons.pop("")
        assert aside == reasons
        assert len(rows["BAD.0"]) == 20 + ok
        records = [
            json.loads(message.data)
            for message in await stored(connection, "GOOD")
            if "-set-aside" in message.subject
        ]
        assert all(record["detail"] and len(record.get("payload", "")) <= 1024 for record in records)
        await connection.close()

    asyncio.run(run())


def test_raw_headers_that_no_client_would_send_go_aside(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "RAW", seed=6, channels=1).make()
        now = SETTINGS.reading(time.time_ns())
        stamp = BoundedClock("x", SETTINGS.bounds, now=now - 1).tick(now).to_text().encode()
        good = b"Beforehand-Publisher: x\r\nBeforehand-Sequence: 1\r\nBeforehand-Stamp: %b\r\n" % stamp
        blocks = [
            good + b"Beforehand-Sequence: 2\r\n",  # Twice.
            good.replace(b"Publisher: x", b"Publisher: \xff\xfe"),
            good.replace(b"Publisher: x", b"Publisher: x\ny"),
            good.replace(b"Beforehand-", b"beforehand-"),
            b": : :\r\n\r\n:\r\n",
            b"Beforehand-Publisher",
            b"\xff" * 5000 + b"\r\n",
            good + b"X: " + b"z" * 60_000 + b"\r\n",  # Large, but right.
        ]
        host, port = broker.url.removeprefix("nats://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b'CONNECT {"headers":true,"verbose":false}\r\n')
        for block in blocks:
            headers = b"NATS/1.0\r\n" + block + b"\r\n"
            writer.write(b"HPUB RAW.0 %d %d\r\n%b\r\n" % (len(headers), len(headers), headers))
        writer.write(b"PING\r\n")
        await writer.drain()
        await reader.readuntil(b"PONG")
        writer.close()
        await publishers.publish(5)

        await merge(broker.url, "RAW", "COOKED")

        rows, aside = await merged(connection, "COOKED")
        assert aside == {"malformed": 7}
        assert len(rows["RAW.0"]) == 6
        await connection.close()

    asyncio.run(run())


def test_at_its_bounds_it_sets_aside_and_goes_on(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "FULL", seed=7, channels=3).make()
        await publishers.publish(60)

        few = LiveLimits(waiting_max=20)
        await merge(broker.url, "FULL", "FEW", limits=few)
        await merge(broker.url, "FULL", "NARROW", limits=LiveLimits(channels_max=1))
        await merge(broker.url, "FULL", "SMALL", limits=LiveLimits(waiting_bytes_max=100))

        for target in ("FEW", "NARROW", "SMALL"):
            rows, aside = await merged(connection, target)
            assert set(aside) == {"full"}
            assert sum(map(len, rows.values())) + aside["full"] == 60
            assert rows
        await connection.close()

    asyncio.run(run())


def merger_process(url: str, source: str, target: str, *more: str) -> subprocess.Popen[bytes]:
    command = [
        "merge",
        "--live",
        "--from",
        f"{url}/{source}",
        "--to",
        f"{url}/{target}",
        "--epsilon",
        "10",
        "--delta",
        "150",
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "beforehand", *command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_killed_and_restarted_nothing_is_lost_repeated_or_reordered(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        chance = random.Random(8)
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "KILL", seed=8).make()
        kills = 0
        for _ in range(3):
            process = merger_process(broker.url, "KILL", "KILLED")
            before = await count_of(connection, "KILLED")

            async def writing(before: int = before) -> bool:
                await publishers.publish(40, spoilt=0.1, repeated=0.1)
                return await count_of(connection, "KILLED") > before

            await until(writing)
            for _ in range(chance.randrange(10)):
                await publishers.publish(chance.randrange(80), spoilt=0.1, repeated=0.1)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += process.returncode == -signal.SIGKILL
        await publishers.publish(50)
        process = merger_process(broker.url, "KILL", "KILLED", "--once", "--json")
        out, err = process.communicate(timeout=60)

        assert process.returncode == 0, err
        assert kills == 3
        assert json.loads(out)["waiting"] == 0
        rows, aside = await merged(connection, "KILLED")
        right, right_aside = await expected(connection, "KILL")
        assert rows == right
        # A repetition that was read after its first was written by an earlier process says `passed`.
        assert sum(aside.values()) == sum(right_aside.values())
        assert aside["late"] == right_aside["late"]
        await connection.close()

    asyncio.run(run())


def test_it_goes_on_when_the_broker_was_away(tmp_path: Path) -> None:
    async def run() -> None:
        first = EmbeddedBroker(tmp_path)
        first.start()
        port = int(first.url.rpartition(":")[2])
        connection = await plain(first.url)
        publishers = await Publishers(connection, "AWAY", seed=9).make()
        await publishers.publish(50)
        stop = asyncio.Event()
        task = asyncio.create_task(merge(first.url, "AWAY", "BACK", stop=stop))

        async def begun() -> bool:
            return await count_of(connection, "BACK") > 0

        await until(begun)
        await publishers.publish(50)
        await asyncio.to_thread(first.stop)
        with EmbeddedBroker(tmp_path, port=port):
            again = await plain(first.url)
            publishers.connection = again
            await publishers.publish(50)

            async def written() -> bool:
                return await count_of(again, "BACK") == 150

            await until(written)
            stop.set()
            await task
            assert await merged(again, "BACK") == await expected(again, "AWAY")
            await again.close()
        await connection.close()

    asyncio.run(run())


def test_two_mergers_on_one_output_do_not_mix(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "PAIR", seed=10).make()
        stop = asyncio.Event()
        tasks = [asyncio.create_task(merge(broker.url, "PAIR", "SHARED", stop=stop)) for _ in range(2)]
        for _ in range(10):
            await publishers.publish(20)
            await asyncio.sleep(0.03)

        async def written() -> bool:
            return await count_of(connection, "SHARED") == 200

        await until(written)
        stop.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)

        # One of them may have given up, with a line that says why; the order is right in either case.
        assert sum(isinstance(each, BrokerError) for each in ended) <= 1
        assert await merged(connection, "SHARED") == await expected(connection, "PAIR")
        await connection.close()

    asyncio.run(run())


def test_what_another_wrote_in_between_is_not_followed(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await connect(broker.url)
        publishers = await Publishers(connection, "BETWEEN", seed=13, channels=1).make()
        await publishers.publish(3)
        reader = RecordReader(SETTINGS)
        output = StreamOutput(connection, StreamAddress.parse(f"{broker.url}/DISTURBED"))
        await output.open(reader, "a merge")
        batch = []
        for position, message in enumerate(await stored(connection, "BETWEEN"), 1):
            arrival = round(message.time.timestamp() * 1e9)
            arrived = reader.headers(message.subject, message.headers, message.data, arrival=arrival)
            assert isinstance(arrived, Arrived)
            batch.append(Outgoing(arrived, position, position))
        await connection.jetstream().publish("DISTURBED.x", b"a stranger's")

        await output.write(batch, Checkpoint())
        with pytest.raises(WriteConflictError):
            await output.flush()

        assert [message.data for message in await stored(connection, "DISTURBED")] == [b"a stranger's"]
        await connection.close()

    asyncio.run(run())


def test_an_output_goes_on_with_the_same_input_and_settings_only(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "FIRST", seed=14).make()
        await publishers.publish(5)
        await merge(broker.url, "FIRST", "KEPT")

        longer = MergeSettings(epsilon_ns=SETTINGS.epsilon_ns, delta_ns=SETTINGS.delta_ns + MS)
        with pytest.raises(BrokerError, match="use another stream"):
            await merge(broker.url, "FIRST", "KEPT", settings=longer)
        await connection.jetstream().delete_stream("FIRST")
        again = await Publishers(connection, "FIRST", seed=14).make()
        await again.publish(20)
        with pytest.raises(BrokerError, match="made anew"):
            await merge(broker.url, "FIRST", "KEPT")
        await connection.close()

    asyncio.run(run())


def test_restarted_at_its_bound_it_loses_nothing(broker: EmbeddedBroker) -> None:
    """From every beginning of its output, which is what a kill can leave, with the same bound and with others."""

    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "FILLED", seed=15, channels=2).make()
        await publishers.publish(40, spoilt=0.1, repeated=0.1)
        await merge(broker.url, "FILLED", "WHOLE", limits=LiveLimits(waiting_max=3))
        whole = await stored(connection, "WHOLE")
        jetstream = connection.jetstream()
        given = Counter(message.data for message in await stored(connection, "FILLED"))
        for count in range(1, len(whole), 4):
            name = f"PART{count}"
            await jetstream.add_stream(name=name, subjects=[f"{name}.>", f"{name}-set-aside.>"])
            for message in whole[:count]:
                headers = {k: v for k, v in message.headers.items() if not k.startswith("Nats-")}
                await jetstream.publish(message.subject.replace("WHOLE", name, 1), message.data, headers=headers)
            await merge(broker.url, "FILLED", name, limits=LiveLimits(waiting_max=3 + count % 3))
            seen = Counter[bytes]()
            for message in await stored(connection, name):
                if "-set-aside." in message.subject:
                    record = json.loads(message.data)
                    text = record.get("payload")
                    seen[b64decode(record["payload_base64"]) if text is None else text.encode()] += 1
                else:
                    seen[message.data] += 1
            assert not given - seen, (count, given - seen)
        await connection.close()

    asyncio.run(run())


def test_a_channel_may_be_named_like_the_side_output(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "ODD", seed=16, channels=1).make()
        await publishers.publish(3)
        await connection.jetstream().publish("ODD.x", b"no record")
        await connection.jetstream().publish("ODD.y", b"no record")
        messages = await stored(connection, "ODD")
        headers = {k: v for k, v in messages[0].headers.items() if k.startswith("Beforehand-")}
        await connection.jetstream().add_stream(name="EVEN", subjects=["set-aside"])
        await connection.jetstream().publish("set-aside", b"1", headers=headers)
        await connection.jetstream().publish("set-aside", b"no record")
        figures = await merge(broker.url, "EVEN", "EVENED")
        assert (figures.delivered + sum(figures.set_aside.values()), figures.restarts) == (2, 0)
        await connection.close()

    asyncio.run(run())


def test_a_subject_that_is_no_text_goes_aside_and_the_merge_goes_on(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "BYTES", seed=17, channels=1).make()
        await publishers.publish(2)
        host, port = broker.url.rpartition("/")[2].split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b'CONNECT {"verbose":false,"headers":true}\r\nPUB BYTES.\xff\xfe 3\r\nabc\r\nPING\r\n')
        await writer.drain()
        await until(lambda: _count_is(connection, "BYTES", 3))
        writer.close()
        await publishers.publish(2)
        figures = await merge(broker.url, "BYTES", "TEXTS")
        assert figures.set_aside["malformed"] == 1
        assert figures.delivered + figures.set_aside["late"] == 4  # On a slow machine some are late.
        await connection.close()

    asyncio.run(run())


async def _count_is(connection: Any, stream: str, count: int) -> bool:
    return await count_of(connection, stream) == count


def test_an_output_of_others_is_refused(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "OTHERS", seed=11).make()
        await publishers.publish(3)
        await connection.jetstream().add_stream(name="FOREIGN", subjects=["FOREIGN.>", "FOREIGN-set-aside.>"])
        await connection.jetstream().publish("FOREIGN.x", b"hello")
        with pytest.raises(BrokerError, match="not a merger's"):
            await merge(broker.url, "OTHERS", "FOREIGN")
        await merge(broker.url, "OTHERS", "MINE")
        other = MergeSettings(epsilon_ns=20 * MS, delta_ns=150 * MS)
        with pytest.raises(BrokerError, match="another subject, epsilon"):
            await merge(broker.url, "OTHERS", "MINE", settings=other)
        await connection.jetstream().purge_stream("MINE")
        with pytest.raises(BrokerError, match="positions are unknown"):
            await merge(broker.url, "OTHERS", "MINE")
        with pytest.raises(BrokerError, match="no such stream"):
            await merge(broker.url, "NOWHERE", "MINE-2")
        await connection.close()

    asyncio.run(run())


def test_rows_of_the_oracle_are_not_empty(broker: EmbeddedBroker) -> None:
    async def run() -> None:
        connection = await plain(broker.url)
        publishers = await Publishers(connection, "ORACLE", seed=12).make()
        await publishers.publish(10)
        rows, aside = await expected(connection, "ORACLE")
        await connection.close()
        released = sum(map(len, rows.values()))
        assert released > 0
        assert released + aside["late"] == 10  # On a slow machine some are late.

    asyncio.run(run())
