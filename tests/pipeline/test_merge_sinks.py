"""What a merge writes counts once, however often a micro-batch is run; folders and streams are one merge's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pyarrow as pa
import pytest
from merge_broker import stored

from beforehand.errors import BrokerError, InputError
from beforehand.ordering.merging import MergeSettings
from beforehand.pipeline.merging.checkpoint import check_settings, claim_folder, held
from beforehand.pipeline.merging.folder_sink import MergedDataSource
from beforehand.pipeline.merging.lane import table_to_bytes
from beforehand.pipeline.merging.nats_sink import MergedNatsDataSource, prepare_stream, subject_of
from beforehand.pipeline.merging.reader import read_merged, read_set_aside
from beforehand.pipeline.merging.schemas import ASIDE, LANE_OUTPUT, MERGED
from beforehand.runtime.embedded_broker import EmbeddedBroker

SETTINGS = MergeSettings(epsilon_ns=1_000_000, delta_ns=1_000_000)


def merged_rows(channel: str, first: int, count: int) -> pa.Table:
    rows = [
        {
            "channel": channel,
            "position": position,
            "publisher": "p",
            "sequence": position,
            "stamp": "s",
            "arrival": 7,
            "payload": b"\xff" if position % 2 else b"text",
        }
        for position in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, schema=MERGED)


def lane(number: int, merged: pa.Table | None, asides: int = 0, before: int = 0) -> pa.RecordBatch:
    aside = [
        {"source": "s", "offset": n, "reason": "malformed", "detail": "no", "payload": b"x", "payload_bytes": 1}
        for n in range(asides)
    ]
    row: dict[str, Any] = {
        "lane": number,
        "merged": None if merged is None else table_to_bytes(merged),
        "aside": table_to_bytes(pa.Table.from_pylist(aside, schema=ASIDE)) if asides else None,
        "aside_before": before,
        "waiting": 2,
        "waiting_bytes": 20,
        "channels": 1,
        "time": 9,
    }
    return pa.RecordBatch.from_pylist([row], schema=LANE_OUTPUT)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with opened(tmp_path) as checkpoint:
        claim_folder(tmp_path / "out", checkpoint, form="parquet")
    return tmp_path / "out"


def opened(tmp_path: Path, **changed: Any) -> Any:
    given = {"settings": SETTINGS, "lanes": None, "lanes_default": 4, "source": "in", "sink": "out", **changed}
    return held(tmp_path / "c", **given)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_micro_batch_that_is_run_again_counts_once(folder: Path, form: str) -> None:
    writer = MergedDataSource({"path": str(folder), "form": form}).streamWriter(None, False)  # type: ignore[arg-type]
    entries = []
    for batch, first in ((0, 1), (1, 3), (1, 3), (2, 5)):  # The second one twice: killed before Spark knew of it.
        done = [writer.write(iter([lane(0, merged_rows("a", first, 2), asides=1)]))]
        writer.commit(done, batch)
        entries.append((folder / "commits" / f"{batch:012}.json").read_text())
    writer.write(iter([lane(0, merged_rows("a", 7, 2))]))  # Killed before its commit.
    (folder / "merged" / f".part.{form}").write_bytes(b"")

    records = list(read_merged(folder))

    assert [record.position for record in records] == [1, 2, 3, 4, 5, 6]
    assert entries[1] == entries[2]  # Who was reading goes on with the same files.
    assert [record.payload for record in records[:2]] == [b"\xff", b"text"]
    assert [record.reason.value for record in read_set_aside(folder)] == ["malformed"] * 3


def test_files_that_no_commit_names_are_removed_at_the_next_start(folder: Path, tmp_path: Path) -> None:
    writer = MergedDataSource({"path": str(folder)}).streamWriter(None, False)  # type: ignore[arg-type]
    writer.commit([writer.write(iter([lane(0, merged_rows("a", 1, 2))]))], 0)
    writer.write(iter([lane(0, merged_rows("a", 3, 2))]))

    with opened(tmp_path) as checkpoint:
        claim_folder(folder, checkpoint, form="parquet")

    assert len(list((folder / "merged").iterdir())) == 1
    assert len(list(read_merged(folder))) == 2


def test_a_missing_file_or_position_is_told_of(folder: Path) -> None:
    writer = MergedDataSource({"path": str(folder)}).streamWriter(None, False)  # type: ignore[arg-type]
    writer.commit([writer.write(iter([lane(0, merged_rows("a", 2, 2))]))], 0)
    with pytest.raises(InputError, match="channel 'a' has position 2 after 0"):
        list(read_merged(folder))
    for path in (folder / "merged").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="committed by the merge, but it cannot be read"):
        list(read_merged(folder))


@pytest.mark.parametrize("line", [b"[]", b'{"payload": 1}', b'{"channel": {}}', b"no JSON"])
def test_lines_that_somebody_damaged_are_told_of(folder: Path, line: bytes) -> None:
    writer = MergedDataSource({"path": str(folder), "form": "jsonl"}).streamWriter(None, False)  # type: ignore[arg-type]
    writer.commit([writer.write(iter([lane(0, merged_rows("a", 1, 2))]))], 0)
    for path in (folder / "merged").iterdir():
        path.write_bytes(line + b"\n")
    with pytest.raises(InputError, match="committed by the merge, but it cannot be read"):
        list(read_merged(folder))


def test_of_a_start_that_is_interrupted_nothing_is_left(tmp_path: Path) -> None:
    def start() -> None:
        with opened(tmp_path) as checkpoint:
            claim_folder(tmp_path / "out", checkpoint, form="parquet")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_is_held_by_one_and_for_its_settings_only(tmp_path: Path) -> None:
    with opened(tmp_path) as first:
        with pytest.raises(InputError, match="another merge runs with this checkpoint"), opened(tmp_path):
            pass
        assert first.lanes == 4
    other = MergeSettings(epsilon_ns=1_000_000, delta_ns=1_000_000, tick_ns=500_000)
    with (
        pytest.raises(InputError, match=r"started with --tick 1, not with --tick 0\.5: keep"),
        opened(tmp_path, settings=other),
    ):
        pass
    with pytest.raises(InputError, match="started with --lanes 4, not with --lanes 5"), opened(tmp_path, lanes=5):
        pass
    with (
        pytest.raises(InputError, match="with --to out, not with --to elsewhere"),
        opened(tmp_path, sink="elsewhere"),
    ):
        pass
    with opened(tmp_path, lanes_default=64) as again:
        assert (again.lanes, again.id) == (4, first.id)


def test_a_checkpoint_is_for_its_subjects_only(tmp_path: Path) -> None:
    with opened(tmp_path, subjects=("b", "a")):
        pass
    with opened(tmp_path, subjects=("a", "b")):  # Their order makes no difference.
        pass
    said = "started with --subject a --subject b, not with --subject a: keep it"
    with pytest.raises(InputError, match=said), opened(tmp_path, subjects=("a",)):
        pass
    with pytest.raises(InputError, match="not without --subject"), opened(tmp_path):
        pass
    given: dict[str, Any] = {"settings": SETTINGS, "lanes": None, "source": "in", "sink": "out"}
    with pytest.raises(InputError, match=said):
        check_settings(tmp_path / "c", subjects=("a",), **given)


def fail(tmp_path: Path, *, batches: int = 0) -> None:
    """A merge that fails after so many micro-batches."""
    with opened(tmp_path) as checkpoint:
        claim_folder(tmp_path / "out", checkpoint, form="parquet")
        (checkpoint.spark / "offsets").mkdir(parents=True, exist_ok=True)
        for batch in range(batches):
            (checkpoint.spark / "offsets" / str(batch)).write_text("")
        raise InputError("there is no such stream")


@pytest.mark.parametrize("there", [False, True])
def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "c").mkdir()
        (tmp_path / "out").mkdir()
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(InputError, match="no such stream"):
        fail(tmp_path)

    assert sorted(tmp_path.rglob("*")) == before


def test_a_merge_that_fails_after_it_began_stays_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such stream"):
        fail(tmp_path, batches=1)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="no such stream"):
        fail(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    assert tmp_path / "out" / "merge.json" in before
    with opened(tmp_path) as again:
        assert not again.fresh


def test_a_folder_of_another_merge_or_with_other_files_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with opened(tmp_path) as checkpoint:
        with pytest.raises(InputError, match="not empty and not a merge's"):
            claim_folder(tmp_path / "mine", checkpoint, form="parquet")
        with pytest.raises(InputError, match="writes parquet, not jsonl"):
            claim_folder(folder, checkpoint, form="jsonl")
        checkpoint.spark.mkdir()
    with opened(tmp_path) as checkpoint, pytest.raises(InputError, match="what the merge wrote before is gone"):
        claim_folder(tmp_path / "gone", checkpoint, form="parquet")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


def nats_options(broker: EmbeddedBroker, stream: str) -> dict[str, str]:
    return {"server": broker.url, "stream": stream, "prefix": stream.lower(), "id": "me"}


def positions(broker: EmbeddedBroker, stream: str, subject: str) -> list[int]:
    rows = [row for row in stored(broker.url, stream) if row["channel"] == subject]
    return [int(row["headers"]["Beforehand-Position"]) for row in rows]


def test_messages_that_the_stream_has_already_are_left_out(broker: EmbeddedBroker) -> None:
    given = nats_options(broker, "AGAIN")
    prepare_stream(given, fresh=True)
    writer = MergedNatsDataSource(given).streamWriter(None, False)  # type: ignore[arg-type]

    writer.write(iter([lane(3, merged_rows("a", 1, 700), asides=2)]))  # Killed after this: less is left to write.
    writer.write(iter([lane(3, merged_rows("a", 1, 900), asides=3), lane(1, merged_rows("b", 1, 2))]))
    prepare_stream(given, fresh=False)

    assert positions(broker, "AGAIN", "again.a") == list(range(1, 901))
    assert positions(broker, "AGAIN", "again.b") == [1, 2]
    assert positions(broker, "AGAIN", "again-set-aside.3") == [1, 2, 3]
    with pytest.raises(InputError, match="a stream of its own"):
        prepare_stream({**given, "id": "other"}, fresh=False)


@pytest.mark.parametrize(
    ("subject", "said"), [("crowded.a", "another writes to crowded.a"), ("crowded.b", "did not take")]
)
def test_what_another_writes_between_is_noticed(broker: EmbeddedBroker, subject: str, said: str) -> None:
    given = {**nats_options(broker, f"CROWDED-{subject[-1]}"), "prefix": f"{subject[-1]}.crowded"}
    prepare_stream(given, fresh=True)
    writer = MergedNatsDataSource(given).streamWriter(None, False)  # type: ignore[arg-type]

    def interrupted() -> Iterator[pa.RecordBatch]:
        yield lane(0, merged_rows("a", 1, 5))
        asyncio.run(intrude())
        yield lane(0, merged_rows("a", 6, 5))

    async def intrude() -> None:
        connection = await nats.connect(broker.url)
        place = f"{given['prefix']}.{subject[-1]}"
        await connection.jetstream().publish(place, b"", headers={"Beforehand-Position": "99"})
        await connection.close()

    with pytest.raises(BrokerError, match=said.replace("crowded.a", "a.crowded.a")):
        writer.write(interrupted())


def test_a_channel_that_is_no_subject_gets_one() -> None:
    assert subject_of("out", "orders.eu") == "out.orders.eu"
    assert subject_of("out", "") == "out.%"
    assert subject_of("out", "a b\r\nPUB x") == "out.%a%20b%0D%0APUB%20x"
    assert subject_of("out", "a..b") == "out.%a%2E%2Eb"
    assert subject_of("out", "%a") != subject_of("out", "a") != subject_of("out", "*")
