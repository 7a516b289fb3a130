"""Lines and Parquet of published messages as rows; what is no record comes with its reason."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from merge_cases import SETTINGS, messages

from beforehand.clocks.lamport import LamportStamp
from beforehand.clocks.offset import OffsetStamp
from beforehand.formats.published import ARRIVAL_MAX, Arrived, RecordReader
from beforehand.pipeline.merging.file_reading import last_arrivals, read_file

UNTIL = ARRIVAL_MAX


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [row for batch in read_file(path) for row in batch.to_pylist()]


def test_lines_are_taken_apart_as_the_record_reader_does(tmp_path: Path) -> None:
    chance = random.Random(1)
    lines = []
    for row in messages(1, 150):
        fields = {name: row[name] for name in ("channel", "publisher", "sequence", "stamp", "arrival")}
        line = json.dumps({**fields, "payload": row["payload"].decode()})
        way = chance.randrange(12)
        if way == 0:
            line = line[: chance.randrange(len(line))] or "{"
        elif way == 1:
            line = line.replace(
                '"sequence": ', chance.choice(['"sequence": "', '"sequence": 1.0e', '"number": ', '"sequence": -'])
            )
        elif way == 2:
            line = line[:-1] + ', "stamp": "again"}'
        elif way == 3:
            line = line[:-1] + ', "payload_base64": "eA=="}'
        elif way == 4:
            line = line.replace('"channel": "channel', '"channel": "\\u0063hannel')
        elif way == 5:
            line = json.dumps({**fields, "arrival": "2026-01-31T12:00:00.5Z", "payload_base64": "/w=="})
        elif way == 6:
            line = json.dumps({**fields, "sequence": 2**63, "arrival": -1})
        lines.append(line)
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n\n")

    rows = rows_of(path)

    reader = RecordReader(SETTINGS)
    assert [row["offset"] for row in rows] == list(range(1, len(lines) + 1))
    refused = 0
    for row, line in zip(rows, lines, strict=True):
        read = reader.line(line.encode())
        if isinstance(read, Arrived):
            message = read.message
            expected = (read.channel, message.publisher, message.sequence, read.stamp, read.arrival, message.payload)
            assert row["reason"] is None
        else:
            expected = (read.channel, read.publisher, read.sequence, None, read.arrival, read.payload)
            assert (row["reason"], row["detail"]) == (read.reason.value, read.detail)
            row["stamp"] = None  # Judged with other settings at the source.
            refused += 1
        names = ("channel", "publisher", "sequence", "stamp", "arrival", "payload")
        assert tuple(row[name] for name in names) == expected
    assert 20 < refused < 120


def test_a_line_that_is_too_long_is_set_aside_and_the_rest_is_read(tmp_path: Path) -> None:
    (row,) = messages(1, 1)
    fields = {name: row[name] for name in ("channel", "publisher", "sequence", "stamp", "arrival")}
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"payload": "' + b"x" * 3_000_000 + b'"}\n' + json.dumps(fields).encode())

    long, good = rows_of(path)

    assert (long["reason"], long["payload_bytes"], len(long["payload"])) == ("oversize", 3_000_015, 1024)
    assert (good["reason"], good["sequence"], good["payload"]) == (None, 1, b"")


@pytest.mark.parametrize("arrival", [pa.int64(), pa.timestamp("ns"), pa.string()])
def test_parquet_may_tell_arrivals_in_three_ways(tmp_path: Path, arrival: Any) -> None:
    times = [1_700_000_000_000_000_001, 1_700_000_000_000_000_000]
    values = ["2023-11-14T22:13:20.000000001Z", "2023-11-14T22:13:20Z"] if arrival == pa.string() else times
    table = pa.table(
        {
            "publisher": ["p", "q"],
            "sequence": pa.array([1, 2], pa.int32()),
            "stamp": [OffsetStamp(1, 0).to_text(), None],
            "arrival": pa.array(values, arrival),
            "payload_base64": ["/w==", None],
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)

    rows = rows_of(path)

    assert [row["arrival"] for row in rows] == times
    assert [(row["channel"], row["payload"]) for row in rows] == [("", b"\xff"), ("", None)]
    assert last_arrivals(path, until_ns=times[0]) == (times[0], 0)
    assert last_arrivals(path, until_ns=times[1]) == (0, times[0])  # The second is no record: it has no stamp.


def test_parquet_that_cannot_be_read_is_one_bad_record(tmp_path: Path) -> None:
    broken, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    broken.write_bytes(b"PAR1 not really")
    good = {"publisher": ["p"], "sequence": [1], "stamp": [OffsetStamp(1, 0).to_text()], "arrival": [7]}
    pq.write_table(pa.table({**good, "colour": ["red"]}), other)

    for path in (broken, other):
        (row,) = rows_of(path)
        assert (row["reason"], row["source"]) == ("malformed", path.name)
        assert last_arrivals(path, until_ns=UNTIL) == (0, 0)


def line(arrival: Any, **changed: Any) -> str:
    fields = {"publisher": "p", "sequence": 1, "stamp": OffsetStamp(1, 0).to_text(), "arrival": arrival, **changed}
    return json.dumps(fields)


def test_the_last_arrival_is_one_of_a_record(tmp_path: Path) -> None:
    (good,) = messages(1, 1)
    lines = [
        line(5),
        "nonsense",
        '{"a":' * 5_000 + "1" + "}" * 5_000,
        '{"arrival": 8, "stamp": ' + "[" * 100_000,
        *(line(wrong) for wrong in ("x", 1e99, 2**63 - 1, 2**70, -1, None, True, [7])),
        line(9, stamp="garbage"),
        line(9, stamp=None),
        line(9, stamp=LamportStamp(1, "a").to_text()),
        line(9, sequence=0),
        line(9, colour="red"),
        line(9)[:-1] + ', "arrival": 9}',
        line("1970-01-01T00:00:00.000000006Z", stamp=good["stamp"]),
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))

    assert last_arrivals(path, until_ns=UNTIL) == (6, 0)
    assert last_arrivals(path, until_ns=5) == (5, 6)
    assert last_arrivals(path, until_ns=4) == (0, 6)
    assert {row["reason"] for row in rows_of(path)} == {None, "malformed"}


@pytest.mark.parametrize(
    "arrival", [pa.array([1.5]), pa.array([True]), pa.array([[1]]), pa.array([b"x"]), pa.array([2**63], pa.uint64())]
)
def test_a_column_of_arrivals_of_another_type_is_one_bad_record_and_moves_no_time(
    tmp_path: Path, arrival: Any
) -> None:
    path = tmp_path / "a.parquet"
    stamp = OffsetStamp(1, 0).to_text()
    pq.write_table(pa.table({"publisher": ["p"], "sequence": [1], "stamp": [stamp], "arrival": arrival}), path)

    (row,) = rows_of(path)

    assert row["reason"] == "malformed"
    assert last_arrivals(path, until_ns=UNTIL) == (0, 0)
