"""Messages on a real broker: published now, and read back by plain means for the oracle."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import nats
from merge_cases import MS, Row
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from beforehand.clocks.bounded import BoundedClock, BoundedStamp
from beforehand.ordering.merging import MergeSettings

SETTINGS = MergeSettings(epsilon_ns=20 * MS, delta_ns=1_000 * MS)


def publish(url: str, stream: str, *, seed: int, count: int, bad: bool = True, subjects: int = 3) -> None:
    asyncio.run(_publish(url, stream, seed, count, bad, subjects))


async def _publish(url: str, stream: str, seed: int, count: int, bad: bool, subjects: int) -> None:
    connection = await nats.connect(url)
    jetstream = connection.jetstream()
    await jetstream.add_stream(StreamConfig(name=stream, subjects=[f"{stream}.>"]))
    chance = random.Random(seed)
    bounds = SETTINGS.bounds
    now = SETTINGS.reading(time.time_ns())
    clocks = [BoundedClock(f"{seed}-publisher-{number}", bounds, now=now) for number in range(3)]
    sequences = dict.fromkeys(clocks, 0)
    for number in range(count):
        clock = chance.choice(clocks)
        stamp = clock.tick(SETTINGS.reading(time.time_ns()))
        chance.choice(clocks).receive(stamp, SETTINGS.reading(time.time_ns()))
        sequences[clock] += 1
        headers = {
            "Beforehand-Publisher": clock.process,
            "Beforehand-Sequence": str(sequences[clock]),
            "Beforehand-Stamp": stamp.to_text(),
        }
        subject, data = f"{stream}.{chance.randrange(subjects)}", f"message {number}".encode()
        if bad and chance.random() < 0.1:
            headers, data = _spoilt(chance, headers, data)
        await connection.publish(subject, data, headers=headers)
        if chance.random() < 0.05:
            await connection.publish(subject, data, headers=headers)  # A repetition.
    await connection.flush()
    while (await jetstream.stream_info(stream)).state.messages < count:
        await asyncio.sleep(0.01)
    await connection.close()


def _spoilt(chance: random.Random, headers: dict[str, str], data: bytes) -> tuple[dict[str, str], bytes]:
    way = chance.randrange(6)
    if way == 0:
        return {**headers, "Beforehand-Stamp": "not-a-stamp"}, data
    if way == 1:
        return {**headers, "Beforehand-Sequence": "many"}, data
    if way == 2:
        return {"Foreign": "x"}, data
    if way == 3:  # An absurd clock. Its reading modulo B is taken for one of long ago, so it is late.
        clock = BoundedClock("astray", SETTINGS.bounds, now=SETTINGS.reading(time.time_ns()) + 10**7)
        return {**headers, "Beforehand-Stamp": clock.stamp().to_text()}, data
    if way == 4:  # A corrupted stamp: it knows of no event, not even of its own.
        bounds = SETTINGS.bounds
        empty = BoundedStamp(SETTINGS.reading(time.time_ns()), 0, (0,) * (2 * bounds.width), bounds.modulus)
        return {**headers, "Beforehand-Stamp": empty.to_text()}, data
    return {**headers, "Beforehand-Stamp": "A" * 4000}, data


def stored(url: str, stream: str) -> list[Row]:
    """All messages of a stream, as rows for the oracle."""
    return asyncio.run(_stored(url, stream))


async def _stored(url: str, stream: str) -> list[Row]:
    connection = await nats.connect(url)
    jetstream = connection.jetstream()
    last = (await jetstream.stream_info(stream)).state.last_seq
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    puller = await jetstream.pull_subscribe("", stream=stream, config=config)
    rows: list[Row] = []
    while len(rows) < last:
        for message in await puller.fetch(500, timeout=5):
            headers: dict[str, Any] = message.headers or {}
            sequence = headers.get("Beforehand-Sequence", "")
            arrival = int(message.reply.split(".")[7])
            rows.append(
                {
                    "channel": message.subject,
                    "publisher": headers.get("Beforehand-Publisher"),
                    "sequence": int(sequence) if sequence.isdigit() else None,
                    "stamp": headers.get("Beforehand-Stamp"),
                    "arrival": max(arrival, rows[-1]["arrival"] if rows else 0),
                    "payload": message.data,
                    "source": stream,
                    "offset": message.metadata.sequence.stream,
                    "headers": headers,
                }
            )
    await connection.close()
    return rows
