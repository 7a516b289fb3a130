"""Streams with messages of simulated publishers, and what must come of them, by plain means.

The oracle reads the streams with nats-py alone, decides late and future by the formulas of the paper, and sorts.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import nats
from nats.js.api import StreamConfig

from beforehand.clocks import BoundedClock, BoundedStamp
from beforehand.ordering.merging import MergeSettings

MS = 1_000_000
SETTINGS = MergeSettings(epsilon_ns=10 * MS, delta_ns=150 * MS)
Row = tuple[str, str, int, bytes]  # Channel, publisher, sequence, payload.


def headers_of(publisher: str, sequence: int, stamp: BoundedStamp | str) -> dict[str, str]:
    text = stamp if isinstance(stamp, str) else stamp.to_text()
    return {"Beforehand-Publisher": publisher, "Beforehand-Sequence": str(sequence), "Beforehand-Stamp": text}


class Publishers:
    """Some publishers that answer each other, on one connection."""

    def __init__(self, connection: Any, stream: str, *, seed: int, channels: int = 2, count: int = 4) -> None:
        self.connection = connection
        self.stream = stream
        self.chance = random.Random(seed)
        self.channels = [f"{stream}.{number}" for number in range(channels)]
        now = SETTINGS.reading(time.time_ns()) - 1
        self.clocks = [BoundedClock(f"publisher-{number}", SETTINGS.bounds, now=now) for number in range(count)]
        self.sequences = Counter[str]()
        self.sent = 0

    async def make(self) -> Publishers:
        await self.connection.jetstream().add_stream(StreamConfig(name=self.stream, subjects=[f"{self.stream}.>"]))
        return self

    async def publish(self, count: int, *, spoilt: float = 0.0, repeated: float = 0.0) -> None:
        for _ in range(count):
            clock = self.chance.choice(self.clocks)
            channel = self.chance.choice(self.channels)
            now = SETTINGS.reading(time.time_ns())
            away = self.chance.choice([-400, 60]) if self.chance.random() < spoilt else 0
            stamp = clock.tick(now)
            self.chance.choice(self.clocks).receive(stamp, now)
            if away:  # Late, or from the future.
                stamp = BoundedStamp(stamp.r + away, stamp.c, stamp.kn, stamp.modulus)
            self.sequences[clock.process] += 1
            sequence = self.sequences[clock.process]
            payload = f"{clock.process} {sequence}".encode()
            headers = headers_of(clock.process, sequence, stamp)
            await self.connection.publish(channel, payload, headers=headers)
            self.sent += 1
            if self.chance.random() < repeated:
                await self.connection.publish(channel, payload, headers=headers)
                self.sent += 1
        await self.connection.flush()


async def stored(connection: Any, stream: str) -> list[Any]:
    """All messages of a stream, one by one."""
    jetstream = connection.jetstream()
    state = (await jetstream.stream_info(stream)).state
    return [await jetstream.get_msg(stream, number) for number in range(state.first_seq, state.last_seq + 1)]


async def expected(connection: Any, stream: str) -> tuple[dict[str, list[Row]], Counter[str]]:
    """What a merger must release per channel, and how many it must set aside for which reason."""
    bounds = SETTINGS.bounds
    waiting: dict[Any, Row] = {}
    aside = Counter[str]()
    arrival = 0
    for message in await stored(connection, stream):
        arrival = max(arrival, round(message.time.timestamp() * 1e6) * 1_000)
        tick = arrival // MS
        headers = message.headers
        publisher, sequence = headers["Beforehand-Publisher"], int(headers["Beforehand-Sequence"])
        stamp = BoundedStamp.from_text(headers["Beforehand-Stamp"], near=tick, ahead=bounds.epsilon)
        if tick > stamp.r + bounds.delta:
            aside["late"] += 1
            continue
        if stamp.r > tick + bounds.epsilon:
            aside["future"] += 1
            continue
        key = (message.subject, stamp.sort_key(publisher, sequence))
        if key in waiting:
            aside["repeated"] += 1
            continue
        waiting[key] = (message.subject, publisher, sequence, message.data)
    rows: dict[str, list[Row]] = {}
    for key in sorted(waiting):
        rows.setdefault(key[0], []).append(waiting[key])
    return rows, aside


async def merged(connection: Any, stream: str) -> tuple[dict[str, list[Row]], Counter[str]]:
    """What the output stream has; checks that positions are 1, 2, 3, …"""
    rows: dict[str, list[Row]] = {}
    aside = Counter[str]()
    for message in await stored(connection, stream):
        if message.subject.startswith(f"{stream}-set-aside."):
            aside[message.headers["Beforehand-Reason"]] += 1
            continue
        channel = message.subject.removeprefix(f"{stream}.")
        rows.setdefault(channel, []).append(
            (
                channel,
                message.headers["Beforehand-Publisher"],
                int(message.headers["Beforehand-Sequence"]),
                message.data,
            )
        )
        assert int(message.headers["Beforehand-Position"]) == len(rows[channel])
    return rows, aside


async def plain(url: str) -> Any:
    return await nats.connect(url)
