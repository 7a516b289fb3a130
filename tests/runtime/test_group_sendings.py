"""Calls that wait for their message: which one is whose."""

from __future__ import annotations

import asyncio

from beforehand.clocks import View
from beforehand.ordering import Fifo, Message, SinglePhase
from beforehand.runtime.group_sendings import Sending, Sendings


def test_what_was_for_all_of_an_old_view_is_known_again_when_a_newcomer_gets_it_too() -> None:
    async def run() -> None:
        sendings = Sendings(SinglePhase("a", View("ab")))
        first = Sending(b"x", frozenset("ab"))
        sendings.add(first)
        sendings.sent(Message(sender="a", number=1, to=("a", "b", "c"), payload=b"x"))
        assert first.done.result().number == 1

    asyncio.run(run())


def test_of_two_with_one_payload_the_one_that_went_there_is_meant() -> None:
    async def run() -> None:
        sendings = Sendings(Fifo("a", View("abc")))
        first = Sending(b"x", frozenset("b"))
        second = Sending(b"x", frozenset("c"))
        sendings.add(first)
        sendings.add(second)
        sendings.sent(Message(sender="a", number=1, to=("c",), payload=b"x"))
        assert second.done.done()
        assert not first.done.done()

    asyncio.run(run())


def test_a_cancelled_call_to_one_who_left_does_not_break_the_change_of_view() -> None:
    async def run() -> None:
        sendings = Sendings(Fifo("a", View("abc")))
        cancelled = Sending(b"x", frozenset("c"))
        waits = Sending(b"y", frozenset("c"))
        sendings.add(cancelled)
        sendings.add(waits)
        cancelled.done.cancel()
        sendings.let_go(View("ab"))
        assert "all whom it should go to have left" in str(waits.done.exception())

    asyncio.run(run())


def test_who_executes_what_is_set_aside_does_not_wait_for_ever() -> None:
    async def run() -> None:
        sendings = Sendings(SinglePhase("a", View("ab")))
        waits = Sending(b"x", None, executes=True)
        sendings.add(waits)
        message = Message(sender="a", number=1, to=("a", "b"), payload=b"x")
        sendings.sent(message)
        sendings.set_aside(message, "late")
        assert str(waits.executed.exception()) == "not executed: a.1 was set aside as late"

    asyncio.run(run())
