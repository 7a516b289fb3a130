"""What comes too late for an order that goes by the clock: not delivered, and told of everywhere a group tells."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from test_group import addresses, until

from beforehand.errors import LocalProtocolError
from beforehand.ordering import Message
from beforehand.ordering.effects import Discard, Reason
from beforehand.reporting import Reporter
from beforehand.runtime import Group, read_journal
from beforehand.runtime.transports.delayed import DelayedTransport
from beforehand.runtime.transports.tcp import TcpTransport


def test_what_is_late_is_counted_journalled_and_reported(tmp_path: Path) -> None:
    reported: list[bytes] = []

    async def run() -> None:
        peers, bounds = addresses(("a", "b")), {"epsilon": 5, "delta": 100}
        slow = DelayedTransport(TcpTransport(), {"b": 0.4})
        with Reporter(reported.extend, process="b") as reporter:
            async with (
                Group("a", peers, order="causal-merge", options=bounds, transport=slow) as a,
                Group(
                    "b",
                    peers,
                    order="causal-merge",
                    options=bounds,
                    state=tmp_path / "b.db",
                    journal=True,
                    reporter=reporter,
                ) as b,
            ):
                await a.send(b"to all")
                await until(lambda: b.figures().discarded["late"] == 1 and a.figures().delivered == 1)
                assert b.figures().delivered == 0

    asyncio.run(run())
    assert [event.name for event in read_journal(tmp_path / "b.db")] == ["set aside a.1: late"]
    [event] = [msgspec.json.decode(line) for line in reported]
    assert event["name"] == "set aside a.1: late"
    assert "receives" not in event


def test_execute_ends_with_an_error_when_its_own_message_is_set_aside() -> None:
    async def run() -> None:
        peers, bounds = addresses(("a", "b")), {"epsilon": 5, "delta": 60_000}

        async def handler(_: Message) -> None:
            raise AssertionError("nothing is delivered within a minute")

        async with Group("a", peers, order="causal-merge", options=bounds, handler=handler) as a:
            executing = asyncio.create_task(a.execute(b"x"))
            await until(lambda: a.figures().sent == 1)
            message = Message(sender="a", number=1, to=("a", "b"), payload=b"x")
            a._tell([Discard(message=message, reason=Reason.LATE)], [])
            with pytest.raises(LocalProtocolError, match=r"not executed: a\.1 was set aside as late"):
                await executing
            await a.close(timeout=0)

    asyncio.run(run())
