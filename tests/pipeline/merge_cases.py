"""Messages of publishers that know of each other, with repetitions and bad records, and an oracle that only sorts."""

from __future__ import annotations

import random
from typing import Any

from beforehand.clocks.bounded import BoundedClock
from beforehand.formats.published import Arrived, RecordReader
from beforehand.ordering.merging import MergeSettings

MS = 1_000_000
START = 1_700_000_000_000 * MS
SETTINGS = MergeSettings(epsilon_ns=5 * MS, delta_ns=40 * MS)

Row = dict[str, Any]


def messages(
    seed: int,
    count: int,
    *,
    channels: int = 3,
    bad: bool = False,
    settings: MergeSettings = SETTINGS,
    step_ns: int = 2 * MS,
) -> list[Row]:
    """In the order of arrival. Most arrive within δ; some late, some twice; with `bad`, some are no records."""
    chance = random.Random(seed)
    bounds = settings.bounds
    clocks = {
        f"publisher-{i}": BoundedClock(f"publisher-{i}", bounds, now=START // settings.tick_ns) for i in range(4)
    }
    sequences = dict.fromkeys(clocks, 0)
    rows: list[Row] = []
    now = START + 20 * MS
    for number in range(count):
        now += chance.randint(0, step_ns)
        name = chance.choice(list(clocks))
        stamp = clocks[name].tick(settings.reading(now))
        other = chance.choice(list(clocks))
        if other != name:
            got = clocks[other].receive(stamp, settings.reading(now))
            assert got is not None  # Held and refused ones are as good here.
        sequences[name] += 1
        delay = chance.randint(0, settings.delta_ns // 2)
        if chance.random() < 0.02:
            delay = settings.delta_ns * 3  # Late.
        row: Row = {
            "channel": f"channel.{chance.randrange(channels)}",
            "publisher": name,
            "sequence": sequences[name],
            "stamp": stamp.to_text(),
            "arrival": now + delay,
            "payload": f"message {number}".encode(),
        }
        rows.append(row)
        if chance.random() < 0.05:
            rows.append({**row, "arrival": row["arrival"] + chance.randint(0, settings.delta_ns)})
        if bad and chance.random() < 0.05:
            rows.append(spoilt(chance, row, settings))
    rows.sort(key=lambda row: row["arrival"])
    for number, row in enumerate(rows):
        row["source"], row["offset"] = "s", number
    return rows


def spoilt(chance: random.Random, row: Row, settings: MergeSettings) -> Row:
    """Not a stamp, a corrupted stamp, an absurd clock, oversize."""
    stamp = row["stamp"]
    way = chance.randrange(4)
    if way == 0:
        return {**row, "stamp": "not a stamp"}
    if way == 1:
        at = chance.randrange(10, len(stamp))
        return {**row, "stamp": stamp[:at] + chance.choice("ABCDEFGH0123") + stamp[at + 1 :]}
    if way == 2:
        clock = BoundedClock("astray", settings.bounds, now=settings.reading(row["arrival"]) + 10**6)
        return {**row, "publisher": "astray", "stamp": clock.stamp().to_text()}
    return {**row, "stamp": "A" * 3000}


def oracle(rows: list[Row], settings: MergeSettings = SETTINGS) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """By plain code: what is released (channel, position, publisher, sequence, payload), and why others are not."""
    reader, rules = RecordReader(settings), settings.rules
    first: dict[tuple[str, bytes], Row] = {}
    aside: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: (row["arrival"], row["source"], row["offset"])):
        names = ("channel", "publisher", "sequence", "stamp", "arrival", "payload")
        read = reader.fields(**{name: row[name] for name in names})
        if isinstance(read, Arrived):
            why = rules.judge(read.message.stamp, arrival=settings.reading(row["arrival"]))
            key = (row["channel"], rules.key(read.message)) if why is None else None
            if key is not None and key not in first:
                first[key] = row
                continue
            reason = "repeated" if why is None else why.value
        else:
            reason = read.reason.value
        aside[reason] = aside.get(reason, 0) + 1
    merged = []
    position: dict[str, int] = {}
    for (channel, _), row in sorted(first.items()):
        position[channel] = position.get(channel, 0) + 1
        merged.append((channel, position[channel], row["publisher"], row["sequence"], row["payload"]))
    return merged, aside


def shown(row: Row) -> tuple[Any, ...]:
    """A released row as the oracle gives it."""
    return (row["channel"], row["position"], row["publisher"], row["sequence"], row["payload"])
