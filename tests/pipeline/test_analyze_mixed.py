"""A directory of mixed formats is one analysis: traces in three protocols that are joined over files, and logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from analyses import Analysis, analyzed
from span_worlds import message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C, D = ("aa" * 16, "bb" * 16, "cc" * 16, "dd" * 16)
GO_A = 'a {"a":1}\nINFO start\na {"a":2}\nINFO send it\n'
GO_B = 'b {"b":1, "a":2}\nERROR got it and failed\n'
TRACING = '{"TracerIdentity": "t", "TraceID": 7, "Tag": "Begin", "Body": {"n": 1}, "VectorClock": {"t": 1}}\n'


def span(trace: str, number: int, name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        **more,
    }


def otlp(service: str, *spans: dict[str, Any]) -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


def log(service: str, trace: str, number: int, text: str, time: int) -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    record = {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "timeUnixNano": str(time),
        "severityNumber": 17,
        "severityText": "ERROR",
        "body": {"stringValue": text},
    }
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]}


def jaeger() -> dict[str, Any]:
    spans = [
        {"traceID": C, "spanID": "01", "processID": "p1", "operationName": "jay", "startTime": 10, "duration": 90},
        {
            "traceID": C,
            "spanID": "02",
            "processID": "p2",
            "operationName": "kay",
            "startTime": 30,
            "duration": 20,
            "references": [{"refType": "CHILD_OF", "traceID": C, "spanID": "01"}],
        },
        {"traceID": C, "processID": "p2", "startTime": 30, "duration": 20},
    ]
    processes = {"p1": {"serviceName": "jaeger-one"}, "p2": {"serviceName": "jaeger-two"}}
    return {"data": [{"traceID": C, "spans": spans, "processes": processes}]}


def zipkin() -> list[dict[str, Any]]:
    shared = {"traceId": D, "id": "0000000000000001", "name": "get"}
    ends = {"timestamp": 1_000, "duration": 500, "localEndpoint": {"serviceName": "zip-client"}, "kind": "CLIENT"}
    other = {"timestamp": 1_100, "duration": 300, "localEndpoint": {"serviceName": "zip-server"}, "kind": "SERVER"}
    return [{**shared, **ends}, {**shared, **other, "shared": True}]


@pytest.fixture(scope="module")
def mixed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    folder = tmp_path_factory.mktemp("mixed")
    front = otlp("front", span(A, 1, "ask", 100, 900, kind=3))
    back = otlp("back", span(A, 2, "answer", 200, 800, kind=2, parentSpanId=f"{1:016x}"))
    later = otlp("queue", span(B, 3, "later", 950, 990, kind=5, links=[{"traceId": A, "spanId": f"{2:016x}"}]))
    (folder / "one.json").write_text(json.dumps(front, indent=2))
    lines = [json.dumps(back), "broken {", json.dumps(log("back", A, 2, "it hurts", 500))]
    (folder / "two.jsonl").write_text("\n".join(lines))
    (folder / "three.pb").write_bytes(message(later))
    (folder / "four.json").write_text(json.dumps(jaeger()))
    (folder / "five.json").write_text(json.dumps(zipkin()))
    (folder / "go-a.log").write_text(GO_A)
    (folder / "go-b.log").write_text(GO_B)
    (folder / "tracing.log").write_text(TRACING)
    (folder / "native.jsonl").write_text('{"process": "n", "execution": "own"}\n')
    (folder / "LICENSE").write_text("Permission is granted to nobody.\nAt all.\n")
    return analyzed(folder, folder / "_history")


def of(mixed: Analysis, execution: str) -> list[tuple[str, str]]:
    return [(e["process"], e["name"]) for e in mixed.events if e["execution"] == execution]


def test_each_file_is_read_by_its_format(mixed: Analysis) -> None:
    found = {one["path"].rsplit("/", 1)[-1]: one["format"] for one in mixed.report["inputs"]}
    assert found == {
        "LICENSE": "unusable",
        "five.json": "zipkin",
        "four.json": "jaeger",
        "go-a.log": "govector",
        "go-b.log": "govector",
        "native.jsonl": "native",
        "one.json": "otlp",
        "three.pb": "otlp",
        "tracing.log": "tracing",
        "two.jsonl": "otlp",
    }


def test_traces_joined_by_links_over_files_are_one_execution(mixed: Analysis) -> None:
    assert {e["execution"] for e in mixed.events} == {"", "own", A, C, D}
    joined = [e for e in mixed.events if e["execution"] == A]
    assert [e["process"] for e in joined] == ["back", "back", "back", "front", "front", "queue", "queue"]
    (received,) = [e for e in joined if e["process"] == "queue" and e["receives"]]
    assert received["past_size"] > 2  # It knows of back, which knows of front.


def test_a_log_record_of_another_line_stands_in_its_span(mixed: Analysis) -> None:
    (record,) = [e for e in mixed.events if e["name"] == "it hurts"]
    assert (record["execution"], record["process"], record["index"]) == (A, "back", 2)
    assert f"{A}/back:2" in [failure["event"] for failure in mixed.report["failures"]]


def test_govector_logs_of_several_files_are_one_log(mixed: Analysis) -> None:
    assert of(mixed, "") == [("a", "start"), ("a", "send it"), ("b", "got it and failed"), ("t", "Begin")]
    (received,) = [e for e in mixed.events if e["execution"] == "" and e["receives"]]
    assert received["sources"] == [{"sender": 0, "send_index": 2}]
    assert mixed.report["violations"]["clock"] == 0


def test_jaeger_and_zipkin_calls_become_messages(mixed: Analysis) -> None:
    assert {process for process, _ in of(mixed, C)} == {"jaeger-one", "jaeger-two"}
    assert {process for process, _ in of(mixed, D)} == {"zip-client", "zip-server"}
    assert sum(len(e["receives"]) for e in mixed.events if e["execution"] in (C, D)) == 4


def test_what_is_refused_says_in_which_file_and_line(mixed: Analysis) -> None:
    assert mixed.refused("two.jsonl") == [("not-json", 2)]
    assert mixed.refused("LICENSE") == [("unusable-file", None)]
    assert [line for _, line in mixed.refused("four.json")] == [1]
    assert mixed.report["rejected"] == 3


def test_counts_add_up(mixed: Analysis) -> None:
    report = mixed.report
    assert (report["executions"], report["events"]) == (5, len(mixed.events))
    assert report["unsent"] == 0
    assert {one["path"].rsplit("/", 1)[-1]: one["events"] for one in report["inputs"]}["two.jsonl"] == 2
