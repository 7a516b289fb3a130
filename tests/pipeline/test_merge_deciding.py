"""The table of decisions agrees with the plain code, on good, random, corrupted and hostile records."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from beforehand.clocks.bounded import BoundedStamp
from beforehand.clocks.lamport import LamportStamp
from beforehand.clocks.offset import OffsetStamp
from beforehand.clocks.wire import StampKind, Writer
from beforehand.formats.published import ARRIVAL_MAX, Arrived, RecordLimits, RecordReader
from beforehand.ordering.merging import MergeSettings
from beforehand.pipeline.merging.deciding import Decider
from beforehand.pipeline.merging.schemas import ARRIVED

MS = 1_000_000
LIMITS = RecordLimits(payload_bytes_max=20, aside_bytes_max=8)
SETTINGS = {
    "bounded": MergeSettings(epsilon_ns=5 * MS, delta_ns=20 * MS),
    "wide": MergeSettings(epsilon_ns=100 * MS, delta_ns=100 * MS, publishers=100, events_per_tick=3),
    "zero": MergeSettings(epsilon_ns=0, delta_ns=20 * MS),
    "bare": MergeSettings(epsilon_ns=0, delta_ns=3 * MS, publishers=4, events_per_tick=1),
    "many": MergeSettings(epsilon_ns=3 * MS, delta_ns=20 * MS, publishers=2**40, events_per_tick=2**15),
    "offset": MergeSettings(epsilon_ns=5 * MS, delta_ns=20 * MS, c_max_ns=10 * MS),
    "endless": MergeSettings(epsilon_ns=5 * MS, delta_ns=2**61, tick_ns=1, c_max_ns=1),
}


def stamp_near(chance: random.Random, settings: MergeSettings, arrival: int) -> str:
    """Mostly one that passes or nearly does."""
    bounds, tick = settings.bounds, arrival // settings.tick_ns
    slack = chance.choice([0, 0, 0, 1, 5])
    r = tick + chance.randint(-min(bounds.delta, 10**6) - slack, bounds.epsilon + slack)
    if settings.c_max_ns is not None:
        most = settings.rules.c_max or 0
        return OffsetStamp(max(r, 0), chance.choice([0, most, most + 1, chance.randint(0, most)])).to_text()
    width = bounds.width + chance.choice([0] * 30 + [1])
    modulus = bounds.modulus + chance.choice([0] * 30 + [1])
    c = chance.randrange(max(width, 1)) if chance.random() < 0.95 else chance.randint(0, 2 * width + 1)
    most = chance.choice([0, 1, 127, 128, bounds.count_max, bounds.count_max, bounds.count_max + 1])
    kn = [chance.choice([0, 0, 1, chance.randint(0, most)]) for _ in range(2 * width)]
    if chance.random() < 0.95 and c + width < len(kn):
        kn[c + width] = max(1, kn[c + width])
        kn[c + width + 1 :] = [0] * (len(kn) - c - width - 1)
    return BoundedStamp(r, c, tuple(kn), modulus).to_text(limit=100_000)


def mangled(chance: random.Random, text: str) -> str:
    way = chance.randrange(9)
    at = chance.randrange(len(text) + 1)
    if way == 0:
        return text[:at]
    if way == 1:
        return text[:at] + chance.choice("ABab09-_=+/ é\n") + text[at:]
    if way == 2:
        return text[:at] + chance.choice("ABCab09-_=+/é") + text[at + 1 :]
    if way == 3:
        return text + chance.choice(["A", "AA", "AAAA", "=", "=="])
    if way == 4:
        return chance.choice(["", "A", "AA", "F", "Fw", "GA", "GAA", "GAAA", "FwAAAAAA"])
    if way == 5:
        return "A" * chance.choice([1023, 1024, 1025, 5000])
    if way == 6:
        return LamportStamp(7, "p").to_text()
    if way == 7:
        return OffsetStamp(5, 2).to_text()
    # Not the shortest form: counts that should have been packed, or the other way round.
    writer = Writer(StampKind.BOUNDED)
    for value in (2**32, chance.randint(0, 2**32 - 1), 0, 5):
        writer.varint(value)
    packed = chance.choice([0, 1, 2, 7, 63, 64, 255])
    writer.raw(bytes([packed]) + chance.randbytes(chance.choice([2, 3, 10, 12, 79])))
    return __import__("beforehand.clocks.wire", fromlist=["to_text"]).to_text(writer.finish(limit=2000), limit=2000)


def record(chance: random.Random, settings: MergeSettings) -> dict[str, Any]:
    arrival = chance.choice([0, 5 * MS, ARRIVAL_MAX, 1_700_000_000_000 * MS + chance.randrange(10**9)])
    stamp: str | None = stamp_near(chance, settings, arrival)
    if chance.random() < 0.25:
        assert stamp is not None
        stamp = mangled(chance, stamp)
    row: dict[str, Any] = {
        "channel": chance.choice(["", "orders", "é" * 100]),
        "publisher": chance.choice(["p", "publisher-17", "é", "x" * 255]),
        "sequence": chance.choice([1, 2, 300, 2**63 - 1]),
        "stamp": stamp,
        "arrival": arrival,
        "payload": chance.choice([b"", None, b"data", b"\xff" * 20]),
    }
    if chance.random() < 0.15:
        name, values = chance.choice(
            [
                ("channel", [None, "a\0b", "c" * 256, " a", "a\n", "a\x85b", "a b"]),
                ("publisher", [None, "", "a\0b", "c" * 256, "a ", "a\r\nb: c", "a b", "\u200b"]),
                ("sequence", [None, 0, -1]),
                ("stamp", [None]),
                ("arrival", [None, -1, ARRIVAL_MAX + 1, 2**63 - 1]),
                ("payload", [b"x" * 21]),
            ]
        )
        row[name] = chance.choice(values)
    return row


def plain(rows: list[dict[str, Any]], settings: MergeSettings) -> list[dict[str, Any]]:
    """What `RecordReader` and `MergeRules` say of each."""
    reader, rules = RecordReader(settings, limits=LIMITS), settings.rules
    result = []
    for row in rows:
        read = reader.fields(**row)
        if isinstance(read, Arrived):
            reason = rules.judge(read.message.stamp, arrival=settings.reading(read.arrival))
            if reason is None:
                key, due = rules.key(read.message), rules.due(read.message.stamp)
                result.append({**row, "key": key, "due": due, "reason": None, "detail": None, "payload_bytes": None})
                continue
            read = read.set_aside(reason, settings, limits=LIMITS)
        names = ("channel", "publisher", "sequence", "stamp", "arrival", "payload", "detail", "payload_bytes")
        said = {name: getattr(read, name) for name in names}
        result.append({**said, "reason": read.reason.value, "key": None, "due": None})
    return result


def decided(rows: list[dict[str, Any]], settings: MergeSettings) -> list[dict[str, Any]]:
    table = pa.Table.from_pylist([{**row, "source": "s", "offset": 1} for row in rows], schema=ARRIVED)
    given = Decider(settings, limits=LIMITS).table(table).to_pylist()
    assert all((row.pop("source"), row.pop("offset")) == ("s", 1) for row in given)
    return given


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_a_table_of_records_is_decided_as_each_by_itself(name: str, seed: int) -> None:
    chance = random.Random(seed)
    rows = [record(chance, SETTINGS[name]) for _ in range(1_500)]

    expected = plain(rows, SETTINGS[name])

    assert decided(rows, SETTINGS[name]) == expected
    passed = sum(row["reason"] is None for row in expected)
    assert 100 < passed < 1_400  # Both ways were taken.


def test_rows_that_a_source_could_not_read_keep_what_it_said_of_them() -> None:
    row = {
        "payload": b"{",
        "reason": "malformed",
        "detail": "no JSON",
        "payload_bytes": 9,
        "source": "f",
        "offset": 3,
    }

    (given,) = Decider(SETTINGS["bounded"]).table(pa.Table.from_pylist([row], schema=ARRIVED)).to_pylist()

    assert {name: value for name, value in given.items() if value is not None} == row


def test_an_empty_table_is_decided_too() -> None:
    assert Decider(SETTINGS["bounded"]).table(ARRIVED.empty_table()).num_rows == 0


def test_a_sliced_table_is_decided_by_its_own_rows() -> None:
    chance = random.Random(9)
    rows = [record(chance, SETTINGS["bounded"]) for _ in range(50)]
    table = pa.Table.from_pylist([{**row, "source": "s", "offset": 1} for row in rows], schema=ARRIVED)

    whole, part = (Decider(SETTINGS["bounded"], limits=LIMITS).table(t) for t in (table, table.slice(20, 10)))

    assert part.to_pylist() == whole.to_pylist()[20:30]


@pytest.mark.parametrize("name", ["bounded", "wide", "zero", "bare", "many", "offset"])
def test_good_records_are_decided_by_the_kernel_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SETTINGS[name]
    chance = random.Random(4)
    rows = [record(chance, settings) for _ in range(1_000)]
    good = [row for row, said in zip(rows, plain(rows, settings), strict=True) if said["reason"] is None]
    monkeypatch.setattr(Decider, "_alone", lambda *_: pytest.fail("the plain code was asked"))

    assert [row["reason"] for row in decided(good, settings)] == [None] * len(good)
    assert len(good) > 100
