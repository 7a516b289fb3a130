"""Files that are dropped on the page: every format becomes a history; traps give one line and leave nothing."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.formats import to_json
from beforehand.history import History
from beforehand.service import Settings, imports
from beforehand.service.http import Limits
from beforehand.service.http.errors import HttpError
from beforehand.service.imports import Imports
from beforehand.service.parts import serve_store
from beforehand.service.served import Hosts
from history_directories import event_row, random_events

SHIVIZ = r"""(?<host>\S*) (?<clock>{.*})\n(?<event>.*)

alice {"alice":1}
Ask
bob {"bob":1,"alice":1}
Heard
"""
GOVECTOR = """alice {"alice":1}
Initialization Complete
bob {"bob":1}
Initialization Complete
alice {"alice":2}
Ask
bob {"bob":2, "alice":2}
Heard
"""
TRACING = """{"TracerIdentity":"a","TraceID":1,"Tag":"Ask","Body":{},"VectorClock":{"a":1}}
{"TracerIdentity":"b","TraceID":1,"Tag":"Heard","Body":{},"VectorClock":{"a":1,"b":1}}
"""
ZIPKIN = json.dumps(
    [
        {"traceId": "1" * 16, "id": "a" * 16, "name": "call", "timestamp": 1, "duration": 9, "kind": "CLIENT",
         "localEndpoint": {"serviceName": "web"}},
        {"traceId": "1" * 16, "id": "b" * 16, "parentId": "a" * 16, "name": "serve", "timestamp": 3, "duration": 4,
         "kind": "SERVER", "localEndpoint": {"serviceName": "cart"}},
    ]
)  # fmt: skip
OTLP = json.dumps(
    {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "web"}}]},
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "0" * 31 + "1",
                                "spanId": "0" * 15 + "1",
                                "name": "call",
                                "startTimeUnixNano": "1",
                                "endTimeUnixNano": "5",
                            }
                        ]
                    }
                ],
            }
        ]
    }
)
JAEGER = json.dumps(
    {
        "data": [
            {
                "traceID": "1",
                "spans": [
                    {"traceID": "1", "spanID": "2", "operationName": "call", "startTime": 1, "duration": 3,
                     "processID": "p1", "references": []}
                ],
                "processes": {"p1": {"serviceName": "web"}},
            }
        ]
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def importing() -> Imports:
    return Imports(events_max=2_000, parse_seconds_max=20)


def native(events: list[Event]) -> bytes:
    return b"".join(to_json(event) + b"\n" for event in events)


@pytest.mark.parametrize(
    ("name", "content", "format_", "count"),
    [
        ("a.log", SHIVIZ, "shiviz", 2),
        ("g.txt", GOVECTOR, "govector", 4),
        ("t.log", TRACING, "tracing", 2),
        ("z.json", ZIPKIN, "zipkin", 4),
        ("o.json", OTLP, "otlp", 2),
        ("j.json", JAEGER, "jaeger", 2),
    ],
)
def test_every_format_is_told_and_read(name: str, content: str, format_: str, count: int, importing: Imports) -> None:
    found = importing.take(name, content.encode())
    assert (found["name"], found["format"], found["events"], found["rejected"]) == (name, format_, count, 0)
    viewer = importing.viewer(found["source"])
    assert viewer.overview()["events"] == count
    assert importing.questions(found["source"]).find()["events"]


@pytest.mark.parametrize("squeeze", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_native_events_come_through_whole_whatever_the_name_says(squeeze: object, importing: Imports) -> None:
    events = random_events(7, processes=4, steps=120, execution="x")
    found = importing.take("events", squeeze(native(events)))  # type: ignore[operator]
    assert (found["format"], found["events"], found["executions"]) == ("native", 120, 1)
    history, queries = History(events), importing.questions(found["source"])
    for event in Random(1).sample(events, 20):
        assert queries.event(event.id)["stamp"] == history.stamp(event)
        assert queries.event(event.id)["attributes"] == dict(event.attributes)


def test_parquet_is_read_where_pyarrow_is(importing: Imports) -> None:
    events = [replace(event, clock=None) for event in random_events(8, processes=3, steps=40)]
    target = io.BytesIO()
    rows = [{key: value for key, value in event_row(event).items() if key != "clock"} for event in events]
    kinds = {"attributes": pa.map_(pa.string(), pa.string())}
    fields = [
        pa.field(name, kinds.get(name, pa.Table.from_pylist(rows).schema.field(name).type))
        for name in rows[0]
        if name != "attributes"
    ]
    schema = pa.schema([*fields, pa.field("attributes", kinds["attributes"])])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), target)
    found = importing.take("events.parquet", target.getvalue())
    assert (found["format"], found["events"]) == ("parquet", 40)


def test_what_is_refused_is_counted_and_said(importing: Imports) -> None:
    events = [Event(process="a", index=1, sends=("m",)), Event(process="b", index=1, receives=("m",))]
    again = [Event(process="a", index=1, name="again")]
    found = importing.take("mixed", native(events) + b"{broken\n" + native(again))
    assert (found["events"], found["rejected"]) == (2, 2)
    assert found["findings"][0].startswith("1 × not-json")
    assert "duplicate-event" in found["findings"][1]
    refused = importing.questions(found["source"]).rejected()["rejected"]
    assert [(one["reason"], one["file"]) for one in refused] == [("not-json", "mixed"), ("duplicate-event", None)]


def deep(levels: int) -> bytes:
    return b'{"process":"a","index":1,"attributes":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}}\n"


HOSTILE = {
    "nothing": (lambda: b"", "is empty"),
    "blanks": (lambda: b"  \n \n", "nothing but blanks"),
    "noise": (lambda: Random(1).randbytes(300_000), "no known format"),
    "zeros": (lambda: b"\0" * 200_000, ""),
    "csv": (lambda: b"a,b,c\n1,2,3\n4,5,6\n", "CSV with columns a, b, c"),
    "text": (lambda: b"hello world\n" * 50, "no known format"),
    "broken JSON": (lambda: b'{"process": "a", "index"', ""),
    "deep JSON": (lambda: b"[" * 3_000_000, ""),
    "deep event": (lambda: deep(100_000), ""),
    "gzip bomb": (lambda: gzip.compress(b"\0" * (64 << 20), 9), ""),
    "gzip of lines": (lambda: gzip.compress(b'{"process":"a"}\n' * (1 << 20)), "more than 2000 events"),
    "cut gzip": (lambda: gzip.compress(b'{"process":"a","index":1}\n' * 9_000)[:200], ""),
    "zstd bomb": (lambda: zstandard.compress(b"\0" * (64 << 20)), ""),
    "cut Parquet": (lambda: b"PAR1" + b"\0" * 100, "not a whole Parquet file"),
    "many events": (lambda: b'{"process":"a"}\n' * 2_001, "more than 2000 events"),
    "endless regex": (
        lambda: b"(?<host>(a+)+)b (?<clock>{.*})\\n(?<event>.*)\n\n" + b"a" * 60 + b" {\n" * 10_000,
        "",
    ),
    "huge indexes": (
        lambda: native([Event(process=p, index=2**63 - 1) for p in "abc"]),
        "indexes that add up to more",
    ),
    "half a character": (lambda: b'{"process":"\\ud800","index":1}\n', ""),
    "UTF-16": (lambda: "hello wörld\n".encode("utf-16"), "UTF-16"),
    "long line": (lambda: b'{"process":"' + b"a" * (5 << 20) + b'","index":1}\n', ""),
}


@pytest.mark.parametrize("trap", HOSTILE)
def test_a_trap_gives_one_clear_line(trap: str, importing: Imports) -> None:
    make, said = HOSTILE[trap]
    with pytest.raises(InputError) as error:
        importing.take("trap\n<script>.bin", make())
    line = str(error.value)
    assert said in line
    assert "\n" not in line
    assert len(line) < 1_000
    assert "/tmp" not in line
    line.encode()


def test_a_reader_that_does_not_end_is_stopped() -> None:
    with pytest.raises(InputError, match=r"took more than 0.01 seconds and was stopped"):
        Imports(parse_seconds_max=0.01).take("slow", SHIVIZ.encode())


def test_an_unknown_format_is_named(importing: Imports) -> None:
    with pytest.raises(InputError, match="no format 'nonsense': formats are native"):
        importing.take("x", SHIVIZ.encode(), chosen="nonsense")
    assert importing.take("x", SHIVIZ.encode(), chosen="shiviz")["events"] == 2


def test_many_processes_are_refused_before_their_stamps_are_made() -> None:
    lines = b"".join(b'{"process":"p%d","index":1}\n' % at for at in range(8_000))
    with pytest.raises(InputError, match="of many processes"):
        Imports().take("wide", lines)


def test_imports_make_room_for_newer_ones_and_end_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "KEPT_MAX", 2)
    now = 0.0
    kept = Imports(clock=lambda: now)
    first, second = (kept.take("a", SHIVIZ.encode())["source"] for _ in range(2))
    kept.questions(first)
    third = kept.take("a", SHIVIZ.encode())["source"]
    with pytest.raises(HttpError, match="there is no import"):
        kept.questions(second)
    assert kept.viewer(first).overview()["events"] == 2
    now = imports.SECONDS_MAX - 1
    kept.viewer(third)
    now = imports.SECONDS_MAX + 1
    kept.questions(third)
    with pytest.raises(HttpError):
        kept.viewer(first)
    kept.close()


def test_imports_that_nobody_asks_for_give_their_memory_back(tmp_path: Path) -> None:
    now = 0.0
    kept = Imports(clock=lambda: now)
    first, second = (kept.take("a", SHIVIZ.encode())["source"] for _ in range(2))
    now = imports.SECONDS_MAX
    kept.questions(second)
    now += 1
    kept.forget_old()
    assert list(kept._kept) == [second] != [first]
    kept.close()
    assert kept.take("a", SHIVIZ.encode())["events"] == 2  # It was being read when the service ended:
    assert not kept._kept  # nobody will close it later.
    with ExitStack() as stack:
        _, chores = serve_store(tmp_path / "s.db", stack, hosts=Hosts(), limits=Limits(), settings=Settings())
        assert "forgetting imports" in [chore.name for chore in chores]


def test_imports_keep_no_more_events_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "EVENTS_KEPT_MAX", 3)
    kept = Imports()
    first = kept.take("a", SHIVIZ.encode())["source"]
    second = kept.take("a", SHIVIZ.encode())["source"]
    with pytest.raises(HttpError):
        kept.questions(first)
    kept.questions(second)
    kept.close()


def test_nothing_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = Imports()
    kept.take("a", SHIVIZ.encode())
    with pytest.raises(InputError):
        kept.take("a", b"hello")
    assert list(tmp_path.iterdir()) == []
    kept.close()


@pytest.mark.parametrize("chosen", ["\0", "nonsense", "x" * 1_000])
def test_a_format_that_there_is_not_is_refused_before_anything_is_read(importing: Imports, chosen: str) -> None:
    with pytest.raises(InputError, match=r"no format .*: formats are native"):
        importing.take("a.log", GOVECTOR.encode(), chosen=chosen)


@pytest.mark.parametrize("value", [1, None])
def test_parquet_whose_attributes_are_no_texts_is_refused_for_that(importing: Imports, value: int | None) -> None:
    kind = pa.map_(pa.string(), pa.int64())
    table = pa.table(
        {"process": ["a"], "index": [1], "attributes": pa.array([[("x", value)]], type=kind)},
    )
    target = io.BytesIO()
    pq.write_table(table, target)

    with pytest.raises(InputError, match=r"row 0 is no event .attributes are texts"):
        importing.take("events.parquet", target.getvalue())
