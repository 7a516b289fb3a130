"""Newcomers in groups on loopback: who gets in, what it is given, and what is told if nobody lets it in."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from test_group import Log, addresses, opened, until
from test_replicated import Sum

from beforehand.errors import InputError, LocalProtocolError
from beforehand.runtime import (
    EmbeddedBroker,
    Group,
    GroupLimits,
    NatsTransport,
    ReplicatedMap,
    ReplicatedStateMachine,
)
from beforehand.runtime.group_stack import changing
from beforehand.runtime.state_packets import PIECE_BYTES_MAX, StateTaken

FOUR = ("a", "b", "c", "d")


def three(peers: dict[str, str]) -> dict[str, str]:
    return {name: peers[name] for name in "abc"}


@pytest.mark.parametrize("order", ["causal-broadcast", "single-phase", "coordinator", "fifo", "skeen"])
def test_a_newcomer_hears_what_is_sent_after_it_came_and_is_heard(order: str) -> None:
    async def run() -> None:
        log, peers = Log(), addresses(FOUR)
        async with AsyncExitStack() as stack:
            groups = await opened(stack, log, three(peers), order=order)
            await groups["a"].send(b"before")
            new = Group("d", peers, order=order, handler=log.handler("d"), join=True)
            opening = asyncio.create_task(new.open())
            await groups["b"].admit("d", peers["d"])
            await opening
            stack.push_async_callback(new.close)
            assert new.view == groups["b"].view
            await asyncio.gather(new.send(b"here I am"), groups["c"].send(b"welcome"))
            await until(lambda: all(len(log.got[name]) == 3 for name in "abc") and len(log.got["d"]) == 2)
            assert {message.payload for message in log.got["d"]} == {b"here I am", b"welcome"}

    asyncio.run(run())


def test_a_newcomer_may_be_admitted_before_it_starts_and_knows_one_member_only() -> None:
    async def run() -> None:
        log, peers = Log(), addresses(FOUR)
        async with AsyncExitStack() as stack:
            groups = await opened(stack, log, three(peers))
            await groups["a"].admit("d", peers["d"])
            few = {"d": peers["d"], "c": peers["c"]}
            new = await stack.enter_async_context(Group("d", few, handler=log.handler("d"), join=True))
            await new.send(b"to all")
            await until(lambda: all(log.ids(name) == ["d.1"] for name in FOUR))

    asyncio.run(run())


def test_one_that_nobody_admits_is_told_what_to_do() -> None:
    async def run() -> None:
        peers = addresses(("a", "d"))
        async with Group("a", {"a": peers["a"]}):
            new = Group("d", peers, join=True)
            with pytest.raises(TimeoutError, match=r"'d' is no member yet: call `admit\('d', '127.0.0.1:\d+'\)`"):
                await new.open(timeout=0.3)
            with pytest.raises(LocalProtocolError, match="closed"):
                await new.send(b"x")

    asyncio.run(run())


def test_names_and_addresses_that_cannot_be_are_told_of() -> None:
    async def run() -> None:
        peers = addresses()
        async with AsyncExitStack() as stack:
            groups = await opened(stack, Log(), peers)
            with pytest.raises(LocalProtocolError, match="'b' is a member already"):
                await groups["a"].admit("b", peers["b"])
            with pytest.raises(InputError, match="no address"):
                await groups["a"].admit("d", "nowhere")
            with pytest.raises(InputError, match="needs a key or TLS"):
                await groups["a"].admit("d", "192.0.2.1:7000")
            await groups["c"].leave()
            await until(lambda: "c" not in groups["a"].view)
            with pytest.raises(LocalProtocolError, match=r"was a member before.*'c\.2'"):
                await groups["a"].admit("c", peers["c"])
        with pytest.raises(InputError, match="nobody can join a group of order causal-merge"):
            Group("d", {"d": peers["a"]}, order="causal-merge", options={"epsilon": 5, "delta": 100}, join=True)

    asyncio.run(run())


@pytest.mark.parametrize("way", ["tcp", "nats"])
def test_a_newcomer_begins_with_the_state_that_the_others_had(way: str, broker: EmbeddedBroker) -> None:
    def transport() -> dict[str, Any]:
        return {} if way == "tcp" else {"transport": NatsTransport(f"{broker.url}/JOINING")}

    async def run() -> None:
        peers, machines = addresses(FOUR), {name: Sum() for name in FOUR}
        async with AsyncExitStack() as stack:
            copies = [
                await stack.enter_async_context(
                    ReplicatedStateMachine(name, three(peers), machines[name], **transport())
                )
                for name in "abc"
            ]
            await asyncio.gather(*(copy.execute(b"1") for copy in copies for _ in range(10)))
            busy = asyncio.gather(*(copy.execute(b"1") for copy in copies for _ in range(30)))
            await copies[0].group.admit("d", peers["d"])
            new = ReplicatedStateMachine("d", peers, machines["d"], join=True, **transport())
            await stack.enter_async_context(new)
            assert machines["d"].total >= 30
            await busy
            assert await new.execute(b"1") == 121
            await until(lambda: [machine.total for machine in machines.values()] == [121] * 4)
            assert new.applied < 121, "it did not apply what was before"

    asyncio.run(run())


def test_a_large_state_comes_in_pieces_and_one_above_the_limit_is_refused() -> None:
    async def run() -> None:
        peers = addresses(("a", "b", "c"))
        large = bytes(range(256)) * 4096
        assert len(large) > 3 * PIECE_BYTES_MAX
        async with AsyncExitStack() as stack:
            limits = GroupLimits(payload_bytes_max=4 * 1024 * 1024)
            a = await stack.enter_async_context(ReplicatedMap("a", {"a": peers["a"]}, limits=limits))
            await a.set("large", large)
            await a.group.admit("b", peers["b"])
            b = await stack.enter_async_context(ReplicatedMap("b", peers, join=True))
            assert b["large"] == large
            await a.group.admit("c", peers["c"])
            c = ReplicatedMap("c", peers, join=True, limits=GroupLimits(state_bytes_max=1000))
            with pytest.raises(LocalProtocolError, match="the limit is 1000"):
                await c.group.open(timeout=10)

    asyncio.run(run())


def test_what_is_kept_for_a_newcomer_is_forgotten_when_it_has_it_or_is_gone(tmp_path: Path) -> None:
    async def run() -> None:
        peers = addresses(("a", "b", "c", "x"))
        async with AsyncExitStack() as stack:
            a = ReplicatedMap("a", {"a": peers["a"]}, state=tmp_path / "a.db")
            await stack.enter_async_context(a)
            await a.set("k", b"v")
            await a.group.admit("b", peers["b"])
            store = a.group._store
            assert store is not None
            await until(lambda: [view for view, _ in store.states()] == [1])
            b = ReplicatedMap("b", peers, join=True, state=tmp_path / "b.db")
            await stack.enter_async_context(b)
            assert dict(b) == {"k": b"v"}
            await until(lambda: store.states() == [])
            await until(lambda: b.group._store is not None and b.group._store.taken is None)
            await a.group.admit("c", peers["c"])
            await until(lambda: len(store.states()) == 1)
            await a.group.evict("c")
            await until(lambda: store.states() == [])

    asyncio.run(run())


def test_members_and_newcomers_restarted_from_their_state_know_each_other(tmp_path: Path) -> None:
    async def run() -> None:
        peers, log = addresses(("a", "b", "c")), Log()

        async def member(stack: AsyncExitStack, name: str, known: str, **more: Any) -> Group:
            told = {one: peers[one] for one in known}
            group = Group(name, told, handler=log.handler(name), state=tmp_path / f"{name}.db", **more)
            await group.open()
            stack.push_async_callback(group.close, 0.1)  # Some of the others are closed already.
            return group

        async with AsyncExitStack() as stack:
            a, _ = [await member(stack, name, "ab") for name in "ab"]
            await a.admit("c", peers["c"])
            c = await member(stack, "c", "ac", join=True)
            assert c.view == a.view
        async with AsyncExitStack() as stack:
            a, b = [await member(stack, name, "ab") for name in "ab"]
            c = await member(stack, "c", "ac")  # Without `join`: it is a member.
            # b may have been closed before it heard of the view.
            await until(lambda: all(group.view.processes == ("a", "b", "c") for group in (a, b, c)))
            await c.send(b"again")
            await b.send(b"also")
            await until(lambda: all(len(log.got[name]) == 2 for name in "abc"))

    asyncio.run(run())


def test_a_newcomer_that_was_stopped_before_its_welcome_is_welcomed_when_it_is_back(tmp_path: Path) -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        async with ReplicatedMap("a", {"a": peers["a"]}) as a:
            await a.set("k", b"v")
            first = ReplicatedMap("b", peers, join=True, state=tmp_path / "b.db")
            with pytest.raises(TimeoutError):
                await first.group.open(timeout=0.2)
            await a.group.admit("b", peers["b"])
            async with ReplicatedMap("b", peers, join=True, state=tmp_path / "b.db") as b:
                assert dict(b) == {"k": b"v"}
                await b.set("k", b"w")
            async with ReplicatedMap("b", peers, join=True, state=tmp_path / "b.db") as b:
                assert await b.read("k") == b"w"

    asyncio.run(run())


def test_messages_can_be_iterated_by_a_newcomer() -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        async with Group("a", {"a": peers["a"]}) as a:
            await a.admit("b", peers["b"])
            async with Group("b", peers, join=True) as b:
                await a.send(b"1")
                await b.send(b"2")
                heard = {(await anext(b)).payload, (await anext(b)).payload}
                assert heard == {b"1", b"2"}
                assert {(await anext(a)).payload, (await anext(a)).payload} == {b"1", b"2"}

    asyncio.run(run())


def test_a_state_of_no_bytes_is_given_kept_and_restored(tmp_path: Path) -> None:
    async def run() -> None:
        peers, given = addresses(("a", "b")), []

        def member(name: str, known: dict[str, str], **more: Any) -> Group:
            async def handle(_: object) -> None:
                return None

            state = tmp_path / f"{name}.db"
            return Group(
                name,
                known,
                handler=handle,
                state=state,
                snapshot=bytes,
                restored=lambda s: given.append((name, s)),
                **more,
            )

        async with member("a", {"a": peers["a"]}) as a:
            await a.admit("b", peers["b"])
            async with member("b", peers, join=True) as b:
                assert given == [("b", b"")]
                ours, theirs = a._store, b._store
                assert ours is not None
                assert theirs is not None
                await until(lambda: ours.states() == [] and theirs.taken is None)
            async with member("b", peers):
                assert given == [("b", b""), ("b", b"")]

    asyncio.run(run())


def test_one_that_is_not_yet_at_the_start_of_a_view_keeps_no_state_of_it_for_ever() -> None:
    """The newcomer has the state of another and says so before this one comes to take its own."""

    async def run() -> None:
        peers, go_on = addresses(("a", "b", "c")), asyncio.Event()

        async def handle(_: object) -> None:
            return None

        async def wait(_: object) -> None:
            await go_on.wait()

        shared: dict[str, Any] = {"order": "single-phase", "snapshot": lambda: b"state", "restored": lambda _: None}
        two = {name: peers[name] for name in "ab"}
        async with AsyncExitStack() as stack:
            a = await stack.enter_async_context(Group("a", two, handler=handle, **shared))
            b = await stack.enter_async_context(Group("b", two, handler=wait, **shared))
            await a.send(b"that b is busy with")
            await a.admit("c", peers["c"])
            c = await stack.enter_async_context(Group("c", peers, handler=handle, join=True, **shared))
            keeping = c._newcomers._fetcher
            await until(lambda: keeping._keeping == {"b"})
            assert b._inbox.turns(), "b was there already: this tests nothing"
            go_on.set()
            await until(lambda: keeping._keeping == set())
            assert b._newcomers._keeper._held == {}

    asyncio.run(run())


@pytest.mark.parametrize("begun", [True, False])
def test_of_a_view_that_has_not_begun_or_has_just_begun_nothing_is_said_to_be_dropped(begun: bool) -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))

        async def handle(_: object) -> None:
            return None

        async with Group(
            "a", {"a": peers["a"]}, handler=handle, snapshot=lambda: b"state", restored=lambda _: None
        ) as a:
            said: list[bytes] = []
            a._newcomers._keeper._send = lambda _, data: said.append(data)  # type: ignore[misc]
            if begun:
                a._member.call(lambda now: changing(a._member.protocol).admit({"b": peers["b"]}, now=now))
                assert a.view.number == 1
            a._newcomers.take("b", StateTaken(view=1))
            assert said == []
            if begun:
                await until(lambda: 1 in a._newcomers._keeper._held)
                a._newcomers.take("b", StateTaken(view=1))
                assert len(said) == 1
                assert a._newcomers._keeper._held == {}

    asyncio.run(run())
