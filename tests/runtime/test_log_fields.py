"""Log records of a group: what machines find in them, and that each has it."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_group import addresses, until

from beforehand import runtime
from beforehand.ordering import Message
from beforehand.runtime import Group, TcpTransport
from beforehand.runtime.log_fields import EVENTS, FIELDS

ROOM = Path(runtime.__file__).parent
PAGE = ROOM.parent.parent.parent / "docs" / "reference" / "groups.md"


class Json(logging.Formatter):
    """Such as applications have: it knows the names of the fields and nothing else."""

    def format(self, record: logging.LogRecord) -> str:
        known = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        return json.dumps({"level": record.levelname.lower(), "text": record.getMessage(), **known})


@contextmanager
def logged() -> Iterator[list[dict[str, Any]]]:
    """The records of the groups within, read back from JSON when they have ended."""
    out, found = io.StringIO(), list[dict[str, Any]]()
    log, handler = logging.getLogger("beforehand.runtime"), logging.StreamHandler(out)
    handler.setFormatter(Json())
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        found += map(json.loads, out.getvalue().splitlines())


def of(records: list[dict[str, Any]], event: str, member: str) -> dict[str, Any]:
    """The first of these."""
    return next(each for each in records if each["event"] == event and each["member"] == member)


def test_a_json_formatter_finds_who_what_and_why_in_every_record(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        peers = addresses()

        async def fail(message: Message) -> None:
            raise ZeroDivisionError(message.id)

        async with (
            Group("a", peers, order="fifo", name="shop", transport=TcpTransport(key=b"k" * 32)) as a,
            Group("b", peers, order="fifo", name="shop", transport=TcpTransport(key=b"k" * 32), handler=fail) as b,
            Group("c", peers, order="fifo", name="shop", transport=TcpTransport(key=b"x" * 32)) as c,
        ):
            await until(lambda: "a: c at" in caplog.text)
            await a.send(b"x", "b")
            await until(lambda: b._failure is not None)
            await asyncio.gather(a.close(timeout=0), b.close(timeout=0), c.close(timeout=0))

    with logged() as records:
        asyncio.run(run())
    assert all(each["group"] == "shop/fifo" and each["event"] in EVENTS for each in records)
    failed = of(records, "handler-failed", "b")
    assert failed | {"text": ""} == {
        "level": "error",
        "text": "",
        "event": "handler-failed",
        "group": "shop/fifo",
        "member": "b",
        "message_id": "a.1",
        "reason": "ZeroDivisionError('a.1')",
    }
    keyless = next(each for each in records if each["member"] == "a" and each["level"] == "warning")
    assert (keyless["event"], keyless["peer"]) == ("connection-failed", "c")
    assert keyless["reason"] == "it does not have the key of the group"


def test_a_view_a_refused_stranger_and_a_packet_that_is_too_large_say_so_in_fields() -> None:
    async def run() -> None:
        peers = addresses()
        async with (
            Group("a", peers, order="lamport-total") as a,
            Group("b", peers, order="lamport-total") as b,
        ):
            await until(lambda: "b" in a.figures().transport.connected)
            a._transport.send("b", bytes(2**25))
            host, _, port = peers["a"].rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write((5000).to_bytes(4))
            await reader.read()
            writer.close()
            await a.evict("c")
            await until(lambda: "c" not in b.view)

    with logged() as records:
        asyncio.run(run())
    large = of(records, "packet-too-large", "a")
    assert (large["peer"], large["packet_bytes"], large["packet_bytes_max"]) == ("b", 2**25, 2**24)
    view = of(records, "view-installed", "b")
    assert (view["view"], view["members"]) == (1, ["a", "b"])
    assert of(records, "connection-refused", "a")["reason"] == "a frame of 5000 bytes: the limit is 4096"
    assert "c" in {each["peer"] for each in records if each["event"] == "connection-failed"}


def test_every_call_that_logs_gives_the_fields() -> None:
    calls = 0
    for path in sorted(ROOM.rglob("*.py")):
        tree = ast.parse(path.read_text())
        made = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _logs(node.func):
                extra = {keyword.arg: keyword.value for keyword in node.keywords}.get("extra")
                if isinstance(extra, ast.Name):
                    extra = made.get(extra.id)
                of_fields = isinstance(extra, ast.Call) and ast.unparse(extra.func) == "self._log_fields"
                assert of_fields, f"{path.name}:{node.lineno}: this record has no fields"
                calls += 1
    assert calls >= 10


def _logs(called: ast.expr) -> bool:
    """`log.warning` and such."""
    return (
        isinstance(called, ast.Attribute)
        and called.attr in {"debug", "info", "warning", "error", "exception", "critical", "log"}
        and ast.unparse(called.value) in {"log", "logger", "logging", "_log"}
    )


def test_the_reference_has_every_field_and_every_event() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("### Logs\n")[2].partition("\n### ")[0]
    fields, events = section.split("| `event` | Level |")
    first = [
        re.findall(r"`([a-z_-]+)`", line.split("|")[1]) for line in fields.splitlines() if line.startswith("| `")
    ]
    assert tuple(name for names in first for name in names) == FIELDS
    told = re.findall(r"^\| `([a-z-]+)` \|", events, re.MULTILINE)
    assert sorted(told) == list(EVENTS)
