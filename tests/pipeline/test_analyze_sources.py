"""Every source that `analyze` reads, small: native events over splits and files, Parquet, maps, vector-clock logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analyses import Analysis, analyzed
from beforehand.events import Event, Rejection
from beforehand.formats import FieldMap, read_events
from beforehand.formats.opening import replacing
from beforehand.pipeline import inputs
from beforehand.pipeline.inputs import InputFile, InputOptions, parse_tasks
from beforehand.pipeline.schemas import NATIVE
from beforehand.pipeline.tasks.parse import lines_between

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write(path: Path, *lines: str | bytes) -> Path:
    data = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    with replacing(path) as stream:
        stream.write(data)
    return path


# Native events, split by bytes.

UNNUMBERED = [
    '{"process": "p", "sends": ["m1"], "name": "one"}',
    "",
    "no event at all",
    '{"process": "q", "receives": ["m1"], "name": "uno"}\r',
    '{"process": "p", "recieves": ["m2"]}',
    b'{"process": "p", "name": "\xe9"}',
    '{"process": "p", "name": "' + "long " * 30 + '"}',
    '{"process": "p", "name": "three"}',
    "   ",
    "[]",
    '{"process": "q", "name": "due"}',
    "last line without an end",
]
GIVEN = ['{"process": "g", "index": 7, "name": "seven"}', '{"process": "g", "index": 3, "name": "three"}']


@pytest.fixture(scope="module")
def native(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Analysis]:
    folder = tmp_path_factory.mktemp("native [1] ü%20 +")
    write(folder / "a.jsonl", *UNNUMBERED)
    write(folder / "b.jsonl", '{"process": "p", "name": "four"}', *GIVEN, "{", '{"process": "p", "name": "five"}', "")
    write(folder / "c.jsonl.gz", '{"process": "p", "name": "six"}', "{broken", '{"process": "z"}')
    write(
        folder / "d.jsonl.zst", '{"process": "z", "index": 4}', '{"process": "z"}', '{"process": "p", "name": "end"}'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "SPLIT_BYTES", 64)
        return folder, analyzed(folder, folder / "_history")


def test_lines_without_index_are_numbered_in_the_order_of_files_and_offsets(native: tuple[Path, Analysis]) -> None:
    _, analysis = native
    assert [(process, index, name.split(" ")[0]) for _, process, index, name in analysis.ids] == [
        ("g", 3, "three"),
        ("g", 7, "seven"),
        ("p", 1, "one"),
        ("p", 2, "long"),
        ("p", 3, "three"),
        ("p", 4, "four"),
        ("p", 5, "five"),
        ("p", 6, "six"),
        ("p", 7, "end"),
        ("q", 1, "uno"),
        ("q", 2, "due"),
        ("z", 1, ""),
        ("z", 2, ""),
    ]


def test_rejections_of_split_files_have_their_true_lines_and_offsets(native: tuple[Path, Analysis]) -> None:
    folder, analysis = native
    expected = [item for item in read_events(list(folder.glob("*.*"))) if isinstance(item, Rejection)]
    names = [(r.reason, r.file and r.file.rsplit("/", 1)[-1], r.line, r.offset) for r in expected]
    found = [(row["reason"], row["file"], row["line"], row["offset"]) for row in analysis.rejected]
    assert found == names
    assert [line for _, line in analysis.refused("a.jsonl")] == [3, 5, 6, 10, 12]
    assert analysis.refused("c.jsonl.gz") == [("not-json", 2)]
    assert analysis.refused("d.jsonl.zst") == [("index-mixed", 1)]
    assert analysis.rejected[0]["text"] == "no event at all"


def test_the_whole_of_a_split_input_is_what_reading_it_at_once_gives(native: tuple[Path, Analysis]) -> None:
    folder, analysis = native
    expected = sorted(
        (item.process, item.index, item.sends, item.receives, item.name)
        for item in read_events(list(folder.glob("*.*")))
        if isinstance(item, Event)
    )
    found = [(e["process"], e["index"], tuple(e["sends"]), tuple(e["receives"]), e["name"]) for e in analysis.events]
    assert found == expected


def test_a_file_is_counted_under_its_name(native: tuple[Path, Analysis]) -> None:
    folder, analysis = native
    assert [(one["path"], one["format"], one["events"]) for one in analysis.report["inputs"]] == [
        (str(folder / "a.jsonl"), "native", 5),
        (str(folder / "b.jsonl"), "native", 4),
        (str(folder / "c.jsonl.gz"), "native", 2),
        (str(folder / "d.jsonl.zst"), "native", 3),
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 31, 64, 1000])
def test_every_line_lies_in_exactly_one_split(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "lines", "a", "", "bc", "d" * 40, "e", "", "")
    monkeypatch.setattr(inputs, "SPLIT_BYTES", size)

    tasks = parse_tasks([InputFile(0, str(path), path.stat().st_size, "native")], InputOptions())
    limits = inputs_limits()
    lines = [line for task in tasks for line in lines_between(path, task.start, task.end, limits=limits)]

    assert [(line.offset, line.data) for line in lines] == [
        (0, b"a"),
        (2, b""),
        (3, b"bc"),
        (6, b"d" * 40),
        (47, b"e"),
        (49, b""),
    ]


def inputs_limits() -> Any:
    from beforehand.formats import LIMITS_DEFAULT

    return LIMITS_DEFAULT


# Native events as Parquet.


def event(process: str | None, index: int | None, **more: Any) -> dict[str, Any]:
    usual = {"execution": "", "sends": [], "receives": [], "time": None, "name": "", "attributes": [], "clock": None}
    return {"process": process, "index": index, **usual, **more}


def test_parquet_is_read_and_its_bad_rows_are_told(spark: SparkSession, tmp_path: Path) -> None:
    nullable = pa.schema([pa.field(field.name, field.type) for field in NATIVE])
    rows = [
        event("p", 1, sends=["m"], time=5, name="one", attributes=[("k", "v")], clock=[("p", 1)]),
        event(None, 1),
        event("", 2),
        event("p", None),
        event("p", 0),
        event("p", 2, sends=["x", "x"]),
        event("p", 3, receives=[""]),
        event("p", 4, attributes=[("k", None)]),
        event("p", 5, clock=[("p", -1)]),
        event("p", 6, execution=None, sends=None, receives=None, attributes=None, name=None),
    ]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=nullable), tmp_path / "in" / "all columns [1].parquet")
    few = pa.table(
        {"process": ["q", "q"], "index": pa.array([1, 2], pa.int32()), "receives": [["m"], []], "x": [1, 2]}
    )
    pq.write_table(few, tmp_path / "in" / "few.parquet")
    pq.write_table(pa.table({"process": ["r"]}), tmp_path / "in" / "no-index.parquet")
    pq.write_table(pa.table({"process": ["r"], "index": ["1"]}), tmp_path / "in" / "wrong.parquet")
    (tmp_path / "in" / "cut.parquet").write_bytes((tmp_path / "in" / "few.parquet").read_bytes()[:-20])

    analysis = analyzed(tmp_path / "in", tmp_path / "history")

    assert analysis.ids == [("", "p", 1, "one"), ("", "p", 6, ""), ("", "q", 1, ""), ("", "q", 2, "")]
    assert analysis.events[0]["attributes"] == {"k": "v"}
    assert (analysis.report["receives"], analysis.report["unsent"]) == (1, 0)
    bad = [row for row in analysis.rejected if row["file"] == "all columns [1].parquet"]
    assert [(row["reason"], row["offset"]) for row in bad] == [("not-an-event", offset) for offset in range(1, 9)]
    assert bad[2]["detail"] == "row 3: index is missing: events in Parquet need one"
    assert analysis.refused("cut.parquet") == [("unusable-file", None)]
    assert analysis.refused("no-index.parquet") == [("unusable-file", None)]
    assert analysis.refused("wrong.parquet") == [("unusable-file", None)]


# Any JSON Lines or CSV, by a map.


def test_json_lines_by_a_map(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"svc": "web", "ts": 1_000, "msg": "order", "out": "m1", "user": "u"},
        {"svc": "db", "ts": 2_000, "msg": "store", "in": "m1", "level": "ERROR"},
        {"ts": 3_000, "msg": "nobody"},
        {"svc": "web", "ts": "late", "msg": "when"},
        {"svc": "web", "ts": 4_000, "msg": "done"},
    ]
    path = write(tmp_path / "app.log", *map(json.dumps, rows))
    fields = FieldMap(
        process=("svc",),
        time=("ts",),
        time_unit="ms",
        name=("msg",),
        sends=("out",),
        receives=("in",),
        level=("level",),
    )
    monkeypatch.setattr(inputs, "SPLIT_BYTES", 100)

    analysis = analyzed(path, tmp_path / "history", fields=fields)

    assert [(*row[1:3], row[3]) for row in analysis.ids] == [
        ("db", 1, "store"),
        ("web", 1, "order"),
        ("web", 2, "done"),
    ]
    assert [e["time"] for e in analysis.events] == [2_000_000_000, 1_000_000_000, 4_000_000_000]
    assert analysis.report["failures"][0]["event"] == "db:1"
    assert analysis.events[1]["attributes"] == {"user": "u"}
    assert [line for _, line in analysis.refused("app.log")] == [3, 4]


def test_csv_by_a_map_and_a_file_with_another_header(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.csv", "host,what,id,type", 'a,"two\nlines",m,send', "b,got it,m,receive", "b,short", "a,end,,")
    write(folder / "b.csv", "host,what", "c,never")
    fields = FieldMap(format="csv", process=("host",), name=("what",), kind=("type",), message=("id",))

    analysis = analyzed(folder, tmp_path / "history", fields=fields)

    assert analysis.ids == [("", "a", 1, "two\nlines"), ("", "a", 2, "end"), ("", "b", 1, "got it")]
    assert analysis.report["receives"] == 1
    assert analysis.refused("a.csv") == [("not-csv", 5)]
    (refused,) = [row for row in analysis.rejected if row["file"] == "b.csv"]
    assert refused["reason"] == "unusable-file"
    assert "the header has" in refused["detail"]


def test_spans_by_a_map(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {"t": "01", "s": "0a", "svc": "front", "op": "GET /", "from": 10, "to": 100, "k": "client"},
        {"t": "01", "s": "0b", "up": "0a", "svc": "back", "op": "GET /", "from": 30, "to": 80, "k": "server"},
        {"t": "01", "s": "0b", "svc": "back", "op": "a log record", "at": 50},
        {"t": "02", "s": "0c", "svc": "back", "op": "alone", "from": 1, "to": 2, "k": "internal"},
        {"t": "02", "svc": "back", "op": "of no span", "at": 9},
        {"s": "0d", "svc": "back", "from": 1, "to": 2},
    ]
    path = write(tmp_path / "spans.jsonl", *map(json.dumps, rows))
    fields = FieldMap(
        trace=("t",), span=("s",), parent=("up",), process=("svc",), name=("op",), kind=("k",),
        start=("from",), end=("to",), time=("at",), time_unit="ms",
    )  # fmt: skip

    analysis = analyzed(path, tmp_path / "history", fields=fields)

    front = [(e["process"], e["time"] // 1_000_000) for e in analysis.events if e["execution"].endswith("1")]
    assert front == [("back", 30), ("back", 50), ("back", 80), ("front", 10), ("front", 100)]
    assert [e["name"] for e in analysis.events if e["execution"].endswith("2")].count("of no span") == 1
    assert (analysis.report["executions"], analysis.report["receives"]) == (2, 2)
    assert [line for _, line in analysis.refused("spans.jsonl")] == [6]


# Vector-clock logs.


def test_shiviz_with_a_regex_and_several_executions(spark: SparkSession, tmp_path: Path) -> None:
    log = write(
        tmp_path / "shiviz.log",
        "== first ==",
        '5 a {"a":1} ask',
        '9 b {"b":1, "a":1} answer',
        "what is this",
        "== second ==",
        '6 a {"a":1} ask again',
    )

    analysis = analyzed(
        log,
        tmp_path / "history",
        regex=r"^(?<timestamp>\d+) (?<host>\w+) (?<clock>\{.*\}) (?<event>.*)$",
        delimiter="^== (?<trace>.*) ==$",
        time_unit="ms",
    )

    assert analysis.ids == [("first", "a", 1, "ask"), ("first", "b", 1, "answer"), ("second", "a", 1, "ask again")]
    assert [e["time"] for e in analysis.events] == [5_000_000, 9_000_000, 6_000_000]
    assert analysis.report["violations"]["clock"] == 0
    assert (analysis.report["receives"], analysis.report["inferred"]) == (1, 1)
    assert analysis.refused("shiviz.log") == [("unmatched", 4)]
