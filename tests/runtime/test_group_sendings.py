"""Calls that wait for their message: which one is whose."""

from __future__ import annotations

import asyncio

from beforehand.ordering import Message
from beforehand.runtime.group_sendings import Sending, Sendings


def test_what_was_for_all_of_an_old_view_is_known_again_when_a_newcomer_gets_it_too() -> None:
    async def run() -> None:
        sendings, loop = Sendings(to_all=True), asyncio.get_running_loop()
        first = Sending(b"x", frozenset("ab"), loop.create_future())
        sendings.add(first)
        sendings.sent(Message(sender="a", number=1, to=("a", "b", "c"), payload=b"x"))
        assert first.done.result().number == 1

    asyncio.run(run())


def test_of_two_with_one_payload_the_one_that_went_there_is_meant() -> None:
    async def run() -> None:
        sendings, loop = Sendings(to_all=False), asyncio.get_running_loop()
        first = Sending(b"x", frozenset("b"), loop.create_future())
        second = Sending(b"x", frozenset("c"), loop.create_future())
        sendings.add(first)
        sendings.add(second)
        sendings.sent(Message(sender="a", number=1, to=("c",), payload=b"x"))
        assert second.done.done()
        assert not first.done.done()

    asyncio.run(run())
