"""What `execute` has acknowledged: with `stable` it outlives every eviction; who waits for it is told the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from test_group import OPTIONS, Log, addresses, opened, until

from beforehand.errors import InputError, LocalProtocolError
from beforehand.ordering import PROTOCOLS, Message, Missing, Owed
from beforehand.runtime import ReplicatedMap
from beforehand.runtime.group import Group

TOTAL = [name for name, one in PROTOCOLS.items() if one.traits.total and one.traits.destinations != "one"]
WITH_VIEWS = [name for name in TOTAL if PROTOCOLS[name].traits.views]
AT_ONCE = ("single-phase", "lamport-total", "coordinator", "rotating-token")
"""Orders in which a member may deliver a message of its own that has not reached anybody."""


def cut_off(group: Group) -> None:
    """Nothing that it sends arrives any more."""
    group._transport.send = lambda to, data: None  # type: ignore[method-assign]


@asynccontextmanager
async def chatter(*groups: Group) -> AsyncIterator[None]:
    """These talk all the while, so that whoever needs to hear from them to deliver does."""

    async def talk(group: Group) -> None:
        while True:
            await group.send(b"chatter")
            await asyncio.sleep(0.01)

    talking = [asyncio.create_task(talk(group)) for group in groups]
    try:
        yield
    finally:
        for one in talking:
            one.cancel()
        for one in talking:
            with suppress(asyncio.CancelledError):
                await one


async def ends(call: Awaitable[Any], seconds: float = 0.5) -> bool:
    """Whether it ends within the time; it is not cancelled if it does not."""
    done, _ = await asyncio.wait([asyncio.ensure_future(call)], timeout=seconds)
    return bool(done)


@pytest.mark.parametrize("order", AT_ONCE)
def test_what_one_that_is_cut_off_executes_is_acknowledged_only_without_stable(order: str) -> None:
    async def run() -> None:
        log = Log()
        async with AsyncExitStack() as stack:
            groups = await opened(stack, log, addresses(), order=order)
            a, b, c = groups.values()
            await asyncio.gather(*(group.execute(b"hello", stable=True) for group in groups.values()))
            if order == "rotating-token":  # It has the token from here on.
                await a.execute(b"mine")
            async with chatter(b, c):
                cut_off(a)
                here = asyncio.create_task(a.execute(b"lost"))
                safe = asyncio.create_task(a.execute(b"not acknowledged", stable=True))
                assert await ends(here), "without stable it is executed here: what this tests"
                assert not await ends(safe)
                await a.close(timeout=0)
                with pytest.raises(LocalProtocolError, match="others may not have it: the group is closed"):
                    await safe
                await b.evict("a")
            await asyncio.gather(b.execute(b"end", stable=True), c.execute(b"end", stable=True))
        assert b"lost" in [message.payload for message in log.got["a"]]
        for name in "bc":
            assert not {b"lost", b"not acknowledged"} & {message.payload for message in log.got[name]}

    asyncio.run(run())


@pytest.mark.parametrize("order", WITH_VIEWS)
def test_what_is_acknowledged_as_stable_outlives_who_executed_it(order: str) -> None:
    async def run() -> None:
        log = Log()
        async with AsyncExitStack() as stack:
            groups = await opened(stack, log, addresses(), order=order)
            a, b, c = groups.values()
            async with chatter(b, c):
                calls = {asyncio.create_task(a.execute(b"%d" % at, stable=True)): b"%d" % at for at in range(20)}
                done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                cut_off(a)  # In the turn of the loop in which it was told so.
                acknowledged = {calls[call] for call in done}
                await a.close(timeout=0)
                await asyncio.gather(*calls, return_exceptions=True)
                await b.evict("a")
            await asyncio.gather(b.execute(b"end", stable=True), c.execute(b"end", stable=True))
        assert acknowledged
        for name in "bc":
            assert acknowledged <= {message.payload for message in log.got[name]}
        assert log.ids("b") == log.ids("c")

    asyncio.run(run())


def test_who_waits_for_a_silent_member_is_told_for_whom_and_goes_on_when_that_is_evicted() -> None:
    async def run() -> None:
        log = Log()
        async with AsyncExitStack() as stack:
            a, b, c = (await opened(stack, log, addresses(), order="coordinator")).values()
            await a.execute(b"hello", stable=True)
            cut_off(c)
            call = asyncio.create_task(a.execute(b"x", stable=True))
            await until(lambda: Missing(process="c", what=Owed.ACKNOWLEDGEMENT, number=2) in a.missing())
            await until(lambda: {owed.process for owed in a.missing()} == {"c"})
            assert not call.done()
            await b.evict("c")
            assert await call == 2
            assert not a.missing()
            await c.close(timeout=0)

    asyncio.run(run())


def test_a_call_that_waits_ends_when_this_member_is_evicted() -> None:
    async def run() -> None:
        log = Log()
        async with AsyncExitStack() as stack:
            a, b, _ = (await opened(stack, log, addresses(), order="coordinator")).values()
            await a.execute(b"hello", stable=True)
            send, there = a._transport.send, len(log.got["a"])
            cut_off(a)
            call = asyncio.create_task(a.execute(b"x", stable=True))
            await until(lambda: len(log.got["a"]) > there)
            await b.evict("a")
            a._transport.send = send  # type: ignore[method-assign]
            with pytest.raises(LocalProtocolError, match="others may not have it: 'a' is no longer a member"):
                await asyncio.wait_for(call, 30)

    asyncio.run(run())


def test_a_call_that_waits_ends_when_the_group_fails() -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))

        async def handle(message: Message) -> None:
            if message.payload == b"fail":
                raise ValueError

        async with (
            Group("a", peers, order="coordinator", handler=handle) as a,
            Group("b", peers, order="coordinator") as b,
        ):
            cut_off(b)
            call = asyncio.create_task(a.execute(b"x", stable=True))
            assert not await ends(call, 0.2)
            with pytest.raises(LocalProtocolError, match="the handler failed"):
                await a.execute(b"fail")
            with pytest.raises(LocalProtocolError, match="others may not have it: the handler failed"):
                await call

    asyncio.run(run())


def test_one_that_joined_is_waited_for_and_waits_for_others() -> None:
    async def run() -> None:
        log, peers = Log(), addresses()
        old = {name: peers[name] for name in "ab"}
        async with AsyncExitStack() as stack:
            a, b = (await opened(stack, log, old, order="single-phase")).values()
            await a.execute(b"hello", stable=True)
            await asyncio.gather(a.admit("c", peers["c"]), until(lambda: "c" in b.view))
            new = Group("c", peers, order="single-phase", handler=log.handler("c"), join=True)
            call = asyncio.create_task(a.execute(b"x", stable=True))
            assert not await ends(call, 0.2)
            c = await stack.enter_async_context(new)
            await call
            assert c.figures().delivered == 1
            await c.execute(b"y", stable=True)
            assert [group.figures().delivered for group in (a, b, c)] == [3, 3, 2]

    asyncio.run(run())


@pytest.mark.parametrize("order", [name for name in TOTAL if name not in WITH_VIEWS])
def test_orders_without_views_do_not_know_what_is_stable_and_say_so(order: str) -> None:
    why = f"{order} has no views, so it does not know what is stable: pass stable=False"
    options = OPTIONS[order]

    async def run() -> None:
        peers = addresses(("a",))
        async with Group("a", peers, order=order, options=options) as a:
            with pytest.raises(LocalProtocolError, match=why):
                await a.execute(b"x", stable=True)
        with pytest.raises(InputError, match=why):
            ReplicatedMap("a", peers, order=order, options=options)
        async with ReplicatedMap("a", peers, order=order, options={**options}, stable=False) as alone:
            await alone.set("x", b"1")
            assert alone["x"] == b"1"

    asyncio.run(run())


def test_a_member_alone_waits_for_nobody() -> None:
    async def run() -> None:
        async with ReplicatedMap("a", addresses(("a",))) as alone:
            await alone.set("x", b"1")
            assert await alone.read("x") == b"1"

    asyncio.run(run())
