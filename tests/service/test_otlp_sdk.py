"""An unmodified OpenTelemetry SDK, in a process of its own, reports to a real server."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from event_streams import listening
from servers import running

from beforehand.service.otlp import CollectorSettings

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")


def test_its_spans_are_events_in_the_right_order(tmp_path: Path) -> None:
    script = Path(__file__).parent / "opentelemetry_program.py"
    settings = CollectorSettings(quiet_ns=300_000_000)
    failed = "name = checkout and attributes.level = error"
    with (
        running(tmp_path, collecting=settings) as service,
        listening(service.port, "/api/stream", where=failed) as stream,
    ):
        url = f"http://127.0.0.1:{service.port}/"
        done = subprocess.run(
            [sys.executable, str(script), url], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "Failed to export" not in done.stderr, done.stderr
        notice = stream.notice()
        assert notice["complete"], notice
        past = notice["events"]
        trace = notice["event"]["id"].partition("/")[0]
        shown = [(one["process"], one["attributes"]["phase"], one["name"]) for one in past]
        assert shown == [
            ("web", "start", "checkout"),
            *[
                step
                for number in range(3)
                for step in [
                    ("web", "start", f"POST /add {number}"),
                    ("cart", "start", "add"),
                    ("cart", "start", "query"),
                    ("cart", "log", "stock is low"),
                    ("cart", "end", "query"),
                    ("cart", "end", "add"),
                    ("web", "end", f"POST /add {number}"),
                ]
            ],
        ]
        ids = {(one["process"], one["attributes"]["phase"], one["name"], one["index"]): one["id"] for one in past}
        calls = [ids["web", "start", "POST /add 0", 2], ids["cart", "start", "add", 1], ids["cart", "end", "add", 5]]
        returned = ids["web", "end", "POST /add 0", 3]
        for first, second in zip(calls, [*calls[1:], returned], strict=True):
            assert service.found("/api/relate", first=first, second=second)["relation"] == "before"
        assert service.found("/api/checks", execution=trace)["violations"] == []
        end = time.monotonic() + 20
        while not (lone := service.found("/api/find", where="name = 'outside of any span'")["events"]):
            assert time.monotonic() < end, "the log record without a trace is not here"
            time.sleep(0.05)
        assert [one["id"] for one in lone] == ["otlp-logs/cart:1"]
        assert service.found("/api/rejected")["rejected"] == []
