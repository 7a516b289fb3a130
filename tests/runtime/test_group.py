"""Groups on loopback, in one process: orders, handlers, backpressure, views, and who is not let in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beforehand.errors import InputError, LocalProtocolError, NotInViewError
from beforehand.ordering import PROTOCOLS, Level, Message
from beforehand.reporting import Reporter
from beforehand.runtime.group import Group
from beforehand.runtime.group_figures import GroupLimits
from beforehand.runtime.group_store import read_journal
from beforehand.runtime.transports.tcp import TcpTransport
from free_ports import free_addresses

NAMES = ("a", "b", "c")
OPTIONS = {
    "timed-delivery": {"delay_max": 2_000_000_000},
    "causal-merge": {"epsilon": 5, "delta": 2_000},
}


def addresses(names: tuple[str, ...] = NAMES) -> dict[str, str]:
    return free_addresses(names)


class Log:
    """What each member was given, in order."""

    def __init__(self) -> None:
        self.got: dict[str, list[Message]] = {}

    def handler(self, name: str) -> Callable[[Message], Awaitable[int]]:
        mine = self.got.setdefault(name, [])

        async def handle(message: Message) -> int:
            mine.append(message)
            return len(mine)

        return handle

    def ids(self, name: str) -> list[str]:
        return [message.id for message in self.got[name]]


async def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


async def opened(stack: AsyncExitStack, log: Log, peers: dict[str, str], **given: Any) -> dict[str, Group]:
    return {
        name: await stack.enter_async_context(Group(name, peers, handler=log.handler(name), **given))
        for name in peers
    }


@pytest.mark.parametrize("order", PROTOCOLS)
def test_messages_of_all_reach_all_in_the_order_that_was_chosen(order: str) -> None:
    one = PROTOCOLS[order].traits.destinations == "one"

    async def run() -> None:
        log = Log()
        async with AsyncExitStack() as stack:
            groups = await opened(stack, log, addresses(), order=order, options=OPTIONS.get(order, {}))

            async def talk(at: int, group: Group) -> None:
                for number in range(10):
                    await group.send(b"%d" % number, NAMES[(at + 1) % 3] if one else None)

            await asyncio.gather(*(talk(at, group) for at, group in enumerate(groups.values())))
            await until(lambda: all(len(log.got[name]) == (10 if one else 30) for name in NAMES))
        if PROTOCOLS[order].traits.total and not one:
            assert log.ids("a") == log.ids("b") == log.ids("c")
        if PROTOCOLS[order].traits.fifo:
            for got in log.got.values():
                for sender in NAMES:
                    numbers = [message.number for message in got if message.sender == sender]
                    assert numbers == sorted(numbers)

    asyncio.run(run())


def test_execute_gives_what_the_handler_gave_in_its_place() -> None:
    async def run() -> None:
        log = Log()
        async with AsyncExitStack() as stack:
            groups = await opened(stack, log, addresses(), order="single-phase")
            results = await asyncio.gather(*(group.execute(name.encode()) for name, group in groups.items()))
            places = {name: log.ids(name).index(f"{name}.1") + 1 for name in NAMES}
        assert dict(zip(NAMES, results, strict=True)) == places
        assert sorted(results) == [1, 2, 3]

    asyncio.run(run())


def test_messages_can_be_iterated_and_a_closed_group_ends_the_iteration() -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        async with Group("a", peers) as a, Group("b", peers) as b:
            await a.send(b"one")
            await a.send(b"two", "b")
            got = []
            async for message in b:
                got.append(message.payload)
                if len(got) == 2:
                    break
            assert got == [b"one", b"two"]
            closing = asyncio.create_task(a.close())
            assert [message.payload async for message in a] == [b"one"]
            assert await closing
            with pytest.raises(LocalProtocolError, match="closed"):
                await a.send(b"three")

    asyncio.run(run())


def test_a_slow_member_holds_senders_up_and_nothing_is_lost() -> None:
    async def run() -> None:
        peers, got, gate = addresses(("a", "b")), [], asyncio.Event()

        async def slow(message: Message) -> None:
            await gate.wait()
            got.append(message.number)

        limits = GroupLimits(inbox_max=5)
        async with (
            Group("a", peers, order="fifo") as a,
            Group("b", peers, order="fifo", handler=slow, limits=limits) as b,
        ):
            for _ in range(60):
                await a.send(b"x", "b")
            await until(lambda: b.figures().put_off > 0)
            assert b.figures().inbox <= 5 + 64  # What the link had in order comes in one go.
            gate.set()
            await until(lambda: len(got) == 60)
            assert got == list(range(1, 61))

    asyncio.run(run())


def test_a_handler_may_answer_with_a_message() -> None:
    async def run() -> None:
        peers, heard = addresses(("a", "b")), []

        async with AsyncExitStack() as stack:
            groups: dict[str, Group] = {}

            async def answer(message: Message) -> None:
                if message.payload == b"ping" and message.sender == "a":
                    await groups["b"].send(b"pong")

            async def listen(message: Message) -> None:
                heard.append(message.payload)

            groups["a"] = await stack.enter_async_context(Group("a", peers, handler=listen))
            groups["b"] = await stack.enter_async_context(Group("b", peers, handler=answer))
            await groups["a"].send(b"ping")
            await until(lambda: heard == [b"ping", b"pong"])

    asyncio.run(run())


def test_a_handler_that_fails_stops_the_member_and_says_so() -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))

        async def fail(message: Message) -> None:
            raise ZeroDivisionError(message.id)

        async with Group("a", peers) as a, Group("b", peers, handler=fail) as b:
            await a.send(b"x")
            await until(lambda: b._failure is not None)
            with pytest.raises(LocalProtocolError, match=r"the handler failed at message a\.1: ZeroDivisionError"):
                await b.send(b"y")

    asyncio.run(run())


def test_a_member_is_evicted_and_another_leaves_and_the_rest_goes_on() -> None:
    async def run() -> None:
        log, peers = Log(), addresses(("a", "b", "c", "d"))
        async with AsyncExitStack() as stack:
            groups = await opened(stack, log, peers, order="lamport-total")
            await groups["a"].send(b"one")
            await until(lambda: all(len(got) == 1 for got in log.got.values()))
            await groups["d"].close()
            sending = asyncio.create_task(groups["b"].send(b"two"))
            await groups["a"].evict("d")
            await sending
            await until(lambda: all(log.ids(name) == ["a.1", "b.1"] for name in "abc"))
            await groups["c"].leave()
            assert groups["c"].departed
            await until(lambda: groups["a"].view.processes == groups["b"].view.processes == ("a", "b"))
            with pytest.raises(LocalProtocolError, match="no longer a member"):
                await groups["c"].send(b"late")
            with pytest.raises(NotInViewError):
                await groups["a"].evict("d")
            await groups["b"].send(b"three")
            await until(lambda: log.ids("a") == log.ids("b") == ["a.1", "b.1", "b.2"])

    asyncio.run(run())


@pytest.mark.parametrize("order", [name for name, one in PROTOCOLS.items() if not one.traits.views])
def test_members_of_an_order_without_views_stay_and_a_new_group_goes_on_without_one(order: str) -> None:
    async def run() -> None:
        log, later, peers = Log(), Log(), addresses()
        given = {"order": order, "options": OPTIONS.get(order, {})}
        said = f"^nobody leaves or enters a group of order {order}: its members stay; start a group of another name"
        async with AsyncExitStack() as stack:
            groups = await opened(stack, log, peers, **given)
            for change in (
                groups["a"].leave(),
                groups["a"].evict("c"),
                groups["a"].evict("nobody"),
                groups["a"].admit("d", "nowhere"),
            ):
                with pytest.raises(LocalProtocolError, match=said):
                    await change
            await groups["a"].send(b"one")
            await until(lambda: all(log.ids(name) == ["a.1"] for name in NAMES))
        with pytest.raises(InputError, match=f"^nobody can join a group of order {order}: its members stay; start a"):
            Group("d", {**peers, "d": "127.0.0.1:1"}, join=True, **given)
        async with AsyncExitStack() as stack:
            groups = await opened(stack, later, {name: peers[name] for name in "ab"}, name="without c", **given)
            await groups["b"].send(b"two")
            await until(lambda: later.ids("a") == later.ids("b") == ["b.1"])

    asyncio.run(run())


def test_it_says_whom_it_waits_for() -> None:
    async def run() -> None:
        peers = addresses()
        async with Group("a", peers, order="lamport-total") as a, Group("b", peers, order="lamport-total") as b:
            await a.send(b"x")
            await until(lambda: any(missing.process == "c" for missing in b.missing()))
            figures = b.figures()
            assert figures.pending == 1
            assert figures.oldest is not None
            assert figures.oldest.waits_for.process == "c"
            assert figures.transport.connected == {"a"}
            assert not await a.close(timeout=0.1), "c has not acknowledged anything"

    asyncio.run(run())


@pytest.mark.parametrize("order", ["lamport-total", "single-phase"])
def test_a_message_of_a_lower_level_does_not_wait_for_what_a_higher_one_waits_for(order: str) -> None:
    async def run() -> None:
        log, peers = Log(), addresses()
        async with (
            Group("a", peers, order=order) as a,
            Group("b", peers, order=order, handler=log.handler("b")) as b,
        ):
            quick = await a.send(b"quick", level=Level.FIFO)  # c, of whom a total order would have to hear, is away.
            await until(lambda: log.ids("b") == ["a.1"])
            slow = await a.send(b"slow")
            assert (quick.level, slow.level) == (Level.FIFO, Level.CAUSAL_TOTAL)
            await until(lambda: b.figures().pending == 1)
            with pytest.raises(LocalProtocolError, match="causal"):
                await a.send(b"x", level=Level.CAUSAL)  # It is not offered.
            await a.evict("c")
            await until(lambda: log.ids("b") == ["a.1", "a.2"])
            assert [message.level for message in log.got["b"]] == [Level.FIFO, Level.CAUSAL_TOTAL]

    asyncio.run(run())


def test_what_all_members_have_is_stable_and_what_one_lacks_is_not() -> None:
    async def run() -> None:
        log, peers = Log(), addresses()
        async with AsyncExitStack() as stack:
            groups = await opened(stack, log, peers, order="causal-broadcast")
            for _ in range(3):
                await groups["a"].send(b"x")
            await groups["b"].send(b"y")
            await until(lambda: all(len(log.got[name]) == 4 for name in NAMES))
            await until(lambda: all(stable_at(group) == {"a": 3, "b": 1} for group in groups.values()))
            await groups["c"].close()
            await groups["a"].send(b"not at c")
            await until(lambda: len(log.got["b"]) == 5)
            await groups["b"].send(b"nor this")
            await until(lambda: len(log.got["a"]) == 6)
            assert stable_at(groups["a"]) == stable_at(groups["b"]) == {"a": 3, "b": 1}
            await groups["a"].evict("c")
            await groups["a"].close(timeout=0)
            await groups["b"].close(timeout=0)

    asyncio.run(run())


def stable_at(group: Group) -> dict[str, int]:
    return {sender: number for sender, number in group.stable().items() if number}


def test_what_a_member_does_is_reported_as_events(tmp_path: Path) -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        lines: list[bytes] = []
        with Reporter(lines.extend, process="b") as reporter:
            async with Group("a", peers) as a, Group("b", peers, reporter=reporter) as b:
                await a.send(b"x")
                await until(lambda: b.figures().delivered == 1)
                await b.send(b"y")
        events = [msgspec.json.decode(line) for line in lines]
        received = [event["receives"] for event in events if event.get("receives")]
        assert received[0] == ["a.1"]
        assert ["b.1"] in [event.get("sends") for event in events]

    asyncio.run(run())


def test_a_member_with_state_goes_on_where_it_stopped(tmp_path: Path) -> None:
    async def run() -> None:
        log, peers = Log(), addresses(("a", "b"))
        state = tmp_path / "b.db"
        async with Group("a", peers, order="fifo", state=tmp_path / "a.db") as a:
            async with Group("b", peers, order="fifo", handler=log.handler("b"), state=state, journal=True):
                await a.send(b"one")
                await until(lambda: log.ids("b") == ["a.1"])
            await a.send(b"two")  # While b is away.
            async with Group("b", peers, order="fifo", handler=log.handler("b"), state=state, journal=True) as b:
                await until(lambda: log.ids("b") == ["a.1", "a.2"])
                assert (await b.send(b"hello", "a")).number == 1
        assert [event.name for event in read_journal(state)] == ["deliver a.1", "deliver a.2", "send b.1"]
        with pytest.raises(InputError, match="its process is b, not a"):
            await Group("a", peers, order="fifo", state=state).open()
        with pytest.raises(InputError, match="its order is fifo, not skeen"):
            await Group("b", peers, order="skeen", state=state).open()

    asyncio.run(run())


def test_a_member_that_comes_back_without_its_state_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        async with Group("a", peers) as a:
            async with Group("b", peers) as b:
                await b.send(b"x")
                await until(lambda: a.figures().delivered == 1)
            async with Group("b", peers):
                await until(lambda: "came back without its state" in caplog.text)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"group": "other/fifo"}, "it is of the group"),
        ({"sender": "mallory"}, "not a member that we know"),
        ({"receiver": "z"}, "not a member that we know"),
        ({"version": 9}, "version 9"),
        ({"nonce": 7}, "does not speak"),
        ({"more": 1}, "does not speak"),
    ],
)
def test_who_says_the_wrong_things_is_not_let_in(change: dict[str, Any], said: str) -> None:
    hello = {"version": 1, "group": "group/fifo", "sender": "b", "receiver": "a", "incarnation": "x", "nonce": b"n"}

    async def run() -> None:
        peers = addresses(("a", "b"))
        async with Group("a", peers, order="fifo") as a:
            reader, writer = await asyncio.open_connection(*peers["a"].split(":"))
            data = msgspec.msgpack.encode({**hello, **change})
            writer.write(len(data).to_bytes(4) + data)
            answer = await asyncio.wait_for(reader.read(4096), 5)
            assert said in msgspec.msgpack.decode(answer[4:])["refused"]
            assert await reader.read() == b""
            writer.close()
            assert sum(a.figures().transport.refused.values()) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    "packet",
    [b"\xc1", msgspec.msgpack.encode({"Level": ["fifo"]}), b"\xff\xff\xff\xff", msgspec.msgpack.encode([1] * 9)],
)
def test_a_member_that_sends_rubbish_is_cut_off_and_the_group_goes_on(packet: bytes) -> None:
    async def run() -> None:
        log, peers = Log(), addresses()
        async with (
            Group("a", peers, order="fifo", handler=log.handler("a")) as a,
            Group("b", peers, order="fifo") as b,
        ):
            rogue = TcpTransport()
            rogue_peers = {name: where for name, where in peers.items() if name != "c"}

            async def ignore(sender: str, data: bytes) -> None: ...

            from beforehand.runtime.transports.base import Identity

            identity = Identity(
                group="group/fifo", process="c", incarnation="i", peers=rogue_peers, remember=lambda *_: True
            )
            await rogue.start(identity, peers["c"], ignore, None)
            await until(lambda: "a" in rogue.figures.connected)
            rogue.send("a", packet)
            await until(lambda: sum(a.figures().transport.refused.values()) > 0)
            await b.send(b"still here", "a")
            await until(lambda: log.ids("a") == ["b.1"])
            await rogue.close()

    asyncio.run(run())


def test_without_the_key_nobody_gets_in(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        good, bad = b"g" * 32, b"b" * 32
        async with Group("a", peers, transport=TcpTransport(key=good)) as a:
            for transport, said in (
                (TcpTransport(key=bad), "does not have the key"),
                (TcpTransport(), "does not speak"),
            ):
                async with Group("b", peers, transport=transport) as b:
                    sending = asyncio.create_task(b.send(b"let me in"))
                    await until(lambda said=said: said in caplog.text)  # type: ignore[misc]
                    await sending
                assert a.figures().delivered == 0
            async with Group("b", peers, transport=TcpTransport(key=good)) as b:
                await b.send(b"x")
                await until(lambda: a.figures().delivered == 1)

    asyncio.run(run())


def test_beyond_loopback_a_key_or_tls_is_required() -> None:
    async def run() -> None:
        with pytest.raises(InputError, match=r"192\.0\.2\.1 is not this machine: .* a key or TLS"):
            await Group("a", {"a": "127.0.0.1:0", "b": "192.0.2.1:7001"}).open()
        with pytest.raises(InputError, match=r"0\.0\.0\.0 is not this machine"):
            await Group("a", {"a": "0.0.0.0:0"}).open()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Group("z", {"a": "127.0.0.1:1"}), "'z' is not among the members a"),
        (lambda: Group("a", {"a": "127.0.0.1:1"}, order="best"), "there is no order 'best'; there are: unordered"),
        (lambda: Group("a", {"a": "127.0.0.1:1"}, order="timed-delivery"), "does not take these members or options"),
        (lambda: TcpTransport(key=b"short"), "at least 32 bytes"),
    ],
)
def test_wrong_settings_are_one_line(make: Callable[[], object], said: str) -> None:
    async def run() -> None:
        with pytest.raises(InputError, match=said):
            make()

    asyncio.run(run())


@pytest.mark.parametrize(
    "address",
    [
        "here",
        "127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:70000",
        ":80",
        pytest.param("h" * 64 + ":80", id="a name that cannot be looked up"),
        "a\0b:80",
    ],
)
def test_an_address_that_is_none_is_told_of(address: str) -> None:
    async def run() -> None:
        with pytest.raises(InputError, match="write HOST:PORT"):
            await Group("a", {"a": address}).open()

    asyncio.run(run())


def test_a_taken_port_and_wrong_sends_are_told_of() -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        async with Group("a", peers) as a:
            with pytest.raises(InputError, match="a cannot listen at"):
                await Group("a", peers).open()
            with pytest.raises(LocalProtocolError, match="not bytes"):
                await a.send("text")  # type: ignore[arg-type]
            with pytest.raises(LocalProtocolError, match="the limit is"):
                await a.send(b"x" * (1024 * 1024 + 1))
            with pytest.raises(NotInViewError):
                await a.send(b"x", "nobody")

    asyncio.run(run())


def test_that_a_member_came_back_without_its_state_is_known_after_a_restart_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        async with Group("b", peers) as b, Group("a", peers, state=tmp_path / "a.db") as a:
            await b.send(b"x")
            await until(lambda: a.figures().delivered == 1)
        async with Group("a", peers, state=tmp_path / "a.db"), Group("b", peers):
            await until(lambda: "'b' came back without its state" in caplog.text)

    asyncio.run(run())
