"""What simulated mergers deliver, the batch, the stream and its lanes give for the same arrivals."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from merge_cases import MS, Row, shown
from test_merge_lane import table
from test_merge_stream import run, write_files, written

from beforehand.ordering import MergeSettings
from beforehand.pipeline.merging.lane import Lane
from beforehand.sim.stabilizing.setting import Fault, Setting, draw_setting
from beforehand.sim.stabilizing.world import InFlight, World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTER = 10_000 * MS  # Later than anything is due.


class Watched(World):
    """A world that keeps what arrives at each merger, as records of a channel of its own."""

    def __init__(self, setting: Setting) -> None:
        bounds = setting.bounds
        self.settings = MergeSettings(
            epsilon_ns=bounds.epsilon * MS,
            delta_ns=bounds.delta * MS,
            publishers=bounds.processes,
            events_per_tick=bounds.events_per_tick,
        )
        self.rows: list[Row] = []
        super().__init__(setting)

    def _arriving(self, name: str, now: int) -> list[InFlight]:
        arriving = super()._arriving(name, now)
        for message in arriving:
            stamp = replace(message.stamp, modulus=self.settings.bounds.modulus)
            self.rows.append(
                {
                    "channel": name,
                    "publisher": message.publisher,
                    "sequence": message.sequence,
                    "stamp": stamp.to_text(),
                    "arrival": now * MS,
                    "payload": message.id.encode(),
                    "source": "s",
                    "offset": len(self.rows),
                }
            )
        return arriving

    def delivered(self) -> dict[str, list[bytes]]:
        """Per merger, in the order of its deliveries."""
        found: dict[str, list[bytes]] = {}
        for event in self.events:
            if event.name == "deliver":
                found.setdefault(event.process, []).append(event.receives[0].encode())
        return found


def watched(fault: Fault, seed: int) -> Watched:
    """A run whose last messages are all delivered; arrivals are in the order of the records."""
    world = Watched(replace(draw_setting(fault, seed), activity=0.9, talk=0.3))
    world.run()
    world.rows.sort(key=lambda row: row["arrival"])
    return world


def given(rows: list[tuple[Any, ...]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for channel, position, _, _, payload in sorted(rows):
        found.setdefault(channel, []).append(payload)
        assert position == len(found[channel])
    return found


def beginnings(whole: dict[str, list[bytes]], parts: dict[str, list[bytes]]) -> None:
    """A run ends while messages still wait; what it delivered is the beginning of all that arrived in time."""
    assert sum(map(len, parts.values())) > 10
    for channel, part in parts.items():
        assert whole[channel][: len(part)] == part


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.LOSS, Fault.DUPLICATION])
@pytest.mark.parametrize("seed", range(8))
def test_lanes_release_what_simulated_mergers_deliver(fault: Fault, seed: int) -> None:
    world = watched(fault, seed)
    chance = random.Random(seed)
    lane, merged, at = Lane(world.settings), [], 0
    while at < len(world.rows):
        part = world.rows[at : at + chance.choice((1, 5, 40))]
        at += len(part)
        out, _ = lane.advance(table(part, world.settings), time_ns=part[-1]["arrival"])
        merged += out.to_pylist()
    out, _ = lane.advance(table([], world.settings), time_ns=world.rows[-1]["arrival"] + AFTER)

    beginnings(given(list(map(shown, [*merged, *out.to_pylist()]))), world.delivered())


def test_the_batch_and_the_stream_give_what_simulated_mergers_deliver(spark: SparkSession, tmp_path: Path) -> None:
    from beforehand.pipeline.merge import decided, merged
    from beforehand.pipeline.merging.file_source import FilesDataSource

    world = watched(Fault.DUPLICATION, 3)
    write_files(tmp_path / "in", world.rows, 3)

    run(spark, source=tmp_path / "in", sink=tmp_path / "out", checkpoint=tmp_path / "c", settings=world.settings)
    spark.dataSource.register(FilesDataSource)
    frame = decided(spark.read.format("beforehand-files").load(str(tmp_path / "in")), settings=world.settings)
    batch = [row.asDict() | {"payload": bytes(row.payload)} for row in merged(frame).collect()]

    assert given(list(map(shown, batch))) == given(written(tmp_path / "out"))
    beginnings(given(written(tmp_path / "out")), world.delivered())
