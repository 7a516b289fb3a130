"""A member on asyncio: what it sends for what came in one turn of the loop."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

from beforehand.clocks import View
from beforehand.ordering import Fifo, Frame, ReliableLink, Transmit
from beforehand.runtime.codec import decode_packet
from beforehand.runtime.group_store import GroupStore
from beforehand.runtime.member import Member


def frames(count: int) -> list[Frame]:
    """From b to a."""
    b = ReliableLink(Fifo("b", View("ab")))
    effects = [effect for number in range(count) for effect in b.send(b"%d" % number, ["a"], now=0)]
    return [effect.packet for effect in effects if isinstance(effect, Transmit)]


async def one_turn(came: list[Frame], *, answer: bool) -> tuple[list[tuple[str, Frame]], int]:
    out: list[tuple[str, Any]] = []
    delivered: list[Any] = []
    member = Member(
        ReliableLink(Fifo("a", View("ab"))),
        transmit=lambda to, data: out.append((to, decode_packet(data))),
        happened=lambda _, new: delivered.extend(new),
        failed=lambda error: out.append(("failed", error)),
    )
    member.start()
    for frame in came:
        member.call(lambda now, frame=frame: member.protocol.receive("b", frame, now=now))  # type: ignore[misc]
    if answer:
        member.call(lambda now: member.protocol.send(b"answer", ["b"], now=now))
    member.commit()
    member.stop()
    return out, len(delivered)


def test_what_came_in_one_turn_is_acknowledged_once() -> None:
    out, delivered = asyncio.run(one_turn(frames(50), answer=False))
    assert [(to, frame.number, frame.mark) for to, frame in out] == [("b", 0, 50)]
    assert delivered == 50


def test_a_packet_of_the_same_turn_carries_the_acknowledgement() -> None:
    out, _ = asyncio.run(one_turn(frames(3), answer=True))
    assert [(to, frame.number, frame.mark) for to, frame in out] == [("b", 1, 3)]


def test_what_was_worked_off_does_not_hold_up_what_comes_next(tmp_path: Path) -> None:
    out: list[tuple[str, Frame]] = []

    async def run() -> None:
        member = Member(
            ReliableLink(Fifo("a", View("ab"))),
            transmit=lambda to, data: out.append((to, decode_packet(data))),
            happened=lambda *_: None,
            failed=lambda _: None,
        )
        with closing(GroupStore(tmp_path / "a.db", group="group", process="a", order="fifo")) as member.store:
            member.start()
            member.commit()
            member.worked_off(0)  # To be written within some milliseconds.
            member.call(lambda now: member.protocol.send(b"answer", ["b"], now=now))
            await asyncio.sleep(0)
            assert [to for to, _ in out] == ["b"]
            member.stop()

    asyncio.run(run())
