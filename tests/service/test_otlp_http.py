"""OTLP over HTTP: answers as the specification demands, and whatever comes in, never a 5xx of ours."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest
from servers import Running, running, tokens_for
from test_otlp_collector import CALL, TRACE, body, log

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}

pb = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")


def requests() -> list[bytes]:
    """Real requests in protobuf, as the SDK makes them."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import SpanKind

    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "web"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("web")
    with tracer.start_as_current_span("checkout", attributes={"n": 1, "list": [1.5, 2.5], "ok": True}) as outer:
        outer.add_event("begun", {"why": "click"})
        with tracer.start_as_current_span("call", kind=SpanKind.CLIENT):
            pass
    provider.shutdown()
    made: bytes = encode_spans(exporter.get_finished_spans()).SerializeToString()
    return [made]


def test_what_is_kept_is_answered_with_an_empty_message_of_the_same_kind(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        answer = service.ask("POST", "/v1/traces", requests()[0], PROTOBUF)
        assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"", "application/x-protobuf")
        answer = service.ask("POST", "/v1/traces", body(*CALL), JSON)
        assert (answer.status, answer.json, answer.headers["content-type"]) == (200, {}, "application/json")
        packed = gzip.compress(log("x", 5))
        answer = service.ask("POST", "/v1/logs", packed, {**JSON, "Content-Encoding": "gzip"})
        assert (answer.status, answer.json) == (200, {})
        assert service.ask("POST", "/v1/traces", b"", PROTOBUF).status == 200


def test_what_is_refused_of_a_request_is_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    bad = [{**CALL[0], "scopeSpans": [{"spans": [7, {"traceId": "", "spanId": "ab" * 8, "name": "n"}]}]}]
    with running(tmp_path) as service:
        answer = service.ask("POST", "/v1/traces", body(*CALL, *bad), JSON)
        assert answer.status == 200
        partial = answer.json["partialSuccess"]
        assert partial["rejectedSpans"] == "2"
        assert partial["errorMessage"].startswith("2 were refused, the first: ")
        assert {one["reason"] for one in service.found("/api/rejected")["rejected"]} == {"not-a-span", "no-trace"}
        odd = service.ask("POST", "/v1/traces", body({**CALL[0], "resource": 7}), JSON).json["partialSuccess"]
        assert odd == {"rejectedSpans": "0", "errorMessage": "resource is 7, not an object: left out"}
        message = pb.ExportTraceServiceRequest.FromString(requests()[0])
        message.resource_spans[0].scope_spans[0].spans[0].trace_id = b""
        answer = service.ask("POST", "/v1/traces", message.SerializeToString(), PROTOBUF)
        assert answer.status == 200
        found = pb.ExportTraceServiceResponse.FromString(answer.body)
        assert found.partial_success.rejected_spans == 1
        assert "trace id" in found.partial_success.error_message


def test_errors_have_the_status_message_that_otlp_asks_for(tmp_path: Path) -> None:
    from google.rpc import status_pb2  # type: ignore[import-untyped]

    with running(tmp_path) as service:
        answer = service.ask("POST", "/v1/traces", b"\x01\x02", PROTOBUF)
        assert (answer.status, answer.headers["content-type"]) == (400, "application/x-protobuf")
        assert "can be read" in status_pb2.Status.FromString(answer.body).message
        answer = service.ask("POST", "/v1/traces", b"{", JSON)
        assert (answer.status, answer.json["code"]) == (400, 3)
        assert answer.json["message"] == answer.json["error"]
        answer = service.ask("POST", "/v1/traces", body(*CALL), {"Content-Type": "text/plain"})
        assert answer.status == 415
        answer = service.ask("POST", "/v1/traces", b"junk", {**JSON, "Content-Encoding": "gzip"})
        assert answer.status == 400
        answer = service.ask("POST", "/v1/traces", b"junk", {**JSON, "Content-Encoding": "br"})
        assert answer.status == 415


def test_reporting_spans_needs_the_scope_of_reporting(tmp_path: Path) -> None:
    tokens = tokens_for(tmp_path)
    with running(tmp_path) as service:
        for path in ("/v1/traces", "/v1/logs"):
            for scope, status in [("report", 200), ("admin", 200), ("read", 403)]:
                assert service.as_(tokens[scope]).ask("POST", path, body(*CALL), JSON).status == status
            assert service.as_(None).ask("POST", path, body(*CALL), JSON).status == 401


def test_random_bytes_and_mutated_requests_never_give_a_5xx(tmp_path: Path) -> None:
    random = Random(77)
    real = [*requests(), body(*CALL), log("text", 5, traceId=TRACE)]

    def mutated(data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(random.randint(1, 8)):
            at = random.randrange(len(changed))
            match random.randrange(4):
                case 0:
                    changed[at] = random.randrange(256)
                case 1:
                    del changed[at : at + random.randint(1, 20)]
                case 2:
                    changed[at:at] = random.randbytes(random.randint(1, 20))
                case _:
                    changed[at:at] = changed[at : at + random.randint(1, 60)]
            changed = changed or bytearray(b"\0")
        return bytes(changed)

    with running(tmp_path) as service:
        seen: dict[int, int] = {}
        for number in range(400):
            data = random.randbytes(random.randint(0, 200)) if number % 4 == 0 else mutated(random.choice(real))
            headers = dict(random.choice([PROTOBUF, JSON]))
            if random.random() < 0.2:
                data, headers["Content-Encoding"] = random.choice([gzip.compress(data), data]), "gzip"
            answer = service.ask("POST", random.choice(["/v1/traces", "/v1/logs"]), data, headers)
            assert answer.status in (200, 400), (answer.status, answer.body, data)
            seen[answer.status] = seen.get(answer.status, 0) + 1
        assert min(seen.values()) > 20
        close_all(service)
        assert service.get("/healthz").status == 200


def close_all(service: Running) -> None:
    """Whatever was kept becomes events without an error."""
    collector, store = service.service.served.collector, service.service.served.store
    assert store is not None
    with store.transaction() as db:
        db.execute("UPDATE traces SET due = 0, begun = 0, heard = 0")
    collector.settle()
    with store.reading() as db:
        assert db.execute("SELECT count(*) FROM spans WHERE record IS NOT NULL").fetchone() == (0,)


def test_a_deep_or_endless_request_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        deep = b'{"resourceSpans":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
        assert service.ask("POST", "/v1/traces", deep, JSON).status == 400
        bomb = gzip.compress(bytes(200 << 20))
        assert service.ask("POST", "/v1/traces", bomb, {**JSON, "Content-Encoding": "gzip"}).status == 413
        nested = json.dumps({"resourceSpans": [{"resource": {"attributes": "x" * 1_000_000}}]}).encode()
        assert service.ask("POST", "/v1/traces", nested, JSON).status in (200, 400)
