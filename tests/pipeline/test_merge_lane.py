"""A lane does what `MergeBuffer` does, however its input is cut."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from merge_cases import MS, SETTINGS, START, Row, messages, oracle, shown

from beforehand.clocks.bounded import BoundedStamp
from beforehand.formats.published import Arrived, RecordReader
from beforehand.ordering.merging import MergeBuffer, MergeSettings
from beforehand.pipeline.merging.deciding import Decider
from beforehand.pipeline.merging.lane import Lane
from beforehand.pipeline.merging.schemas import ARRIVED

END = 10**6 * MS  # Longer than anything waits.


def table(rows: list[Row], settings: MergeSettings = SETTINGS) -> pa.Table:
    return Decider(settings).table(pa.Table.from_pylist(rows, schema=ARRIVED))


def run(lane: Lane, rows: list[Row], sizes: list[int], *, end: bool = True) -> tuple[list[Row], list[Row], Lane]:
    """Feed the rows in micro-batches, through bytes each time; at the end let all time pass."""
    merged: list[Row] = []
    aside: list[Row] = []
    at = 0
    for size in [*sizes, len(rows)]:
        part = rows[at : at + size]
        at += size
        time = part[-1]["arrival"] if part else None
        out, side = lane.advance(table(part), time_ns=time)
        merged += out.to_pylist()
        aside += side.to_pylist()
        kept = Lane(
            SETTINGS, waiting_max=lane._waiting_max, bytes_max=lane._bytes_max, channels_max=lane._channels_max
        )
        kept.restore(lane.to_bytes())
        lane = kept
    if end:
        out, side = lane.advance(table([]), time_ns=rows[-1]["arrival"] + END)
        merged += out.to_pylist()
        aside += side.to_pylist()
    return merged, aside, lane


def by_channel(merged: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(map(shown, merged), key=lambda row: row[:2])


def counted(aside: list[Row]) -> dict[str, int]:
    result: dict[str, int] = {}
    for row in aside:
        result[row["reason"]] = result.get(row["reason"], 0) + 1
    return result


@pytest.mark.parametrize("seed", range(8))
def test_micro_batches_of_any_size_release_what_a_sort_gives(seed: int) -> None:
    rows = messages(seed, 300, bad=seed % 2 == 1)
    chance = random.Random(seed)
    sizes = [chance.choice([0, 1, 7, 50]) for _ in range(30)]

    merged, aside, lane = run(Lane(SETTINGS), rows, sizes)

    expected, reasons = oracle(rows)
    assert by_channel(merged) == expected
    assert counted(aside) == reasons
    assert lane.waiting.num_rows == 0


@pytest.mark.parametrize("seed", range(4))
def test_each_channel_releases_step_by_step_what_a_merge_buffer_does(seed: int) -> None:
    rows = messages(seed + 20, 200, channels=1)
    reader, lane, buffer = RecordReader(SETTINGS), Lane(SETTINGS), MergeBuffer[Row](SETTINGS.rules)

    for row in rows:
        names = ("channel", "publisher", "sequence", "stamp", "arrival", "payload")
        read = reader.fields(**{name: row[name] for name in names})
        assert isinstance(read, Arrived)
        time = SETTINGS.reading(row["arrival"])
        reason = buffer.offer(read.message, row, arrival=time)
        expected = [released.item["payload"] for released in buffer.advance(time)]
        merged, aside = lane.advance(table([row]), time_ns=row["arrival"])
        assert merged.column("payload").to_pylist() == expected
        assert aside.column("reason").to_pylist() == ([] if reason is None else [reason.value])
        assert lane.waiting.num_rows == len(buffer)


def test_each_channel_remembers_its_own_last_place() -> None:
    rows = messages(8, 100, channels=5)
    lane = Lane(SETTINGS)
    lane.advance(table(rows[:50]), time_ns=rows[50]["arrival"])
    lane.advance(table(rows[50:]), time_ns=rows[-1]["arrival"] + END)

    keys: dict[str, list[bytes]] = {}
    for row in table(rows).to_pylist():
        if row["reason"] is None:
            keys.setdefault(row["channel"], []).append(row["key"])
    found = {row["channel"]: (row["position"], row["last_key"]) for row in lane.channels.to_pylist()}
    assert found == {channel: (len(set(each)), max(each)) for channel, each in keys.items()}
    assert len(found) == 5


def test_a_repetition_that_arrived_first_stays_although_it_was_read_later() -> None:
    (row,) = messages(1, 1)[:1]
    later, earlier = {**row, "arrival": row["arrival"] + MS, "payload": b"later"}, {**row, "payload": b"earlier"}
    lane = Lane(SETTINGS)
    lane.advance(table([later]), time_ns=None)

    _, aside = lane.advance(table([earlier]), time_ns=None)
    merged, _ = lane.advance(table([]), time_ns=row["arrival"] + END)

    assert (merged.column("payload").to_pylist(), aside.column("payload").to_pylist()) == ([b"earlier"], [b"later"])
    assert aside.column("reason").to_pylist() == ["repeated"]


def test_time_alone_releases_and_not_a_tick_early() -> None:
    (row,) = messages(1, 1, channels=1)
    lane = Lane(SETTINGS)
    lane.advance(table([row]), time_ns=row["arrival"])
    due = lane.waiting.column("due")[0].as_py() * MS

    before, _ = lane.advance(table([]), time_ns=due - 1)
    after, _ = lane.advance(table([]), time_ns=due)

    assert (before.num_rows, after.num_rows) == (0, 1)


def test_what_is_read_after_its_place_was_passed_is_set_aside() -> None:
    rows = messages(2, 40, channels=1)
    lane = Lane(SETTINGS)
    lane.advance(table(rows[1:]), time_ns=rows[-1]["arrival"] + END)

    merged, aside = lane.advance(table(rows[:1]), time_ns=rows[-1]["arrival"] + END)

    assert (merged.num_rows, aside.column("reason").to_pylist()) == (0, ["passed"])


def test_above_the_bound_of_a_channel_the_latest_arrivals_are_set_aside() -> None:
    rows = messages(3, 30, channels=1, step_ns=1000)
    lane = Lane(SETTINGS, waiting_max=5)

    _, aside, lane = run(lane, rows[:12], [3, 4, 5], end=False)

    assert lane.waiting.num_rows == 5
    kept = {row["offset"] for row in lane.waiting.to_pylist()}
    full = [row["offset"] for row in aside if row["reason"] == "full"]
    assert full
    assert max(kept) < min(full)


def test_bytes_and_channels_are_bounded_too() -> None:
    rows = messages(4, 20, channels=1, step_ns=1000)
    few_bytes, few_channels = Lane(SETTINGS, bytes_max=1_000), Lane(SETTINGS, channels_max=1)

    _, aside = few_bytes.advance(table(rows), time_ns=None)
    two = [{**rows[0], "channel": "a"}, {**rows[0], "channel": "b"}, {**rows[1], "channel": "a"}]
    _, refused = few_channels.advance(table(two), time_ns=None)

    assert set(aside.column("reason").to_pylist()) <= {"full", "repeated"}
    assert 0 < few_bytes.waiting.num_rows < len(rows) - 5
    assert [(row["channel"], row["reason"]) for row in refused.to_pylist()] == [("b", "full")]
    assert few_channels.waiting.num_rows == 2


def test_a_payload_that_is_set_aside_is_cut_and_keeps_its_length() -> None:
    (row,) = messages(1, 1)
    long = {**row, "stamp": "none", "payload": b"x" * 5_000}

    _, aside = Lane(SETTINGS).advance(table([long]), time_ns=None)

    (given,) = aside.to_pylist()
    assert (given["payload"], given["payload_bytes"]) == (b"x" * 1024, 5_000)


def test_after_time_went_back_the_order_is_right_again() -> None:
    rows = messages(5, 60, channels=1)
    astray = messages(6, 20, channels=1)
    hour = 3_600_000 * MS
    lane = Lane(SETTINGS)

    # The broker's clock was an hour ahead, and so were all readings: some were released, others wait.
    def ahead(row: Row) -> Row:
        near = SETTINGS.reading(row["arrival"])
        stamp = BoundedStamp.from_text(row["stamp"], near=near, ahead=5)
        moved = BoundedStamp(stamp.r + hour // MS, stamp.c, stamp.kn, stamp.modulus)
        return {**row, "arrival": row["arrival"] + hour, "stamp": moved.to_text()}

    moved = [ahead(row) for row in astray]
    lane.advance(table(moved), time_ns=moved[15]["arrival"] + 30 * MS)
    assert lane.waiting.num_rows > 0
    assert lane.channels.column("position")[0].as_py() > 0
    position = lane.channels.column("position")[0].as_py()

    merged, aside, _ = run(lane, rows, [20, 20])

    expected, _ = oracle(rows)
    assert [row[2:] for row in by_channel(merged)] == [row[2:] for row in expected]
    assert [row["position"] for row in merged] == list(range(position + 1, position + 1 + len(expected)))
    assert "corrupted" in counted(aside)
    assert rows[0]["arrival"] > START
