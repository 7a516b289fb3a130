"""Replicated state: equal copies, in one process and in five that are killed; a member that returns catches up."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_group import addresses, until

from beforehand.errors import InputError
from beforehand.runtime import ReplicatedMap, ReplicatedStateMachine

FIVE = ("a", "b", "c", "d", "e")


class Sum:
    """Adds up; a machine as simple as can be."""

    def __init__(self) -> None:
        self.total = 0

    def apply(self, operation: bytes) -> int:
        self.total += int(operation)
        return self.total

    def snapshot(self) -> bytes:
        return b"%d" % self.total

    def restore(self, snapshot: bytes) -> None:
        self.total = int(snapshot)


@pytest.mark.parametrize("order", ["single-phase", "lamport-total", "coordinator", "rotating-token", "skeen"])
def test_members_agree_on_what_each_operation_gave(order: str) -> None:
    async def run() -> None:
        peers, machines = addresses(), {name: Sum() for name in "abc"}
        async with AsyncExitStack() as stack:
            copies = [
                await stack.enter_async_context(ReplicatedStateMachine(name, peers, machine, order=order))
                for name, machine in machines.items()
            ]
            results = await asyncio.gather(*(copy.execute(b"1") for copy in copies for _ in range(10)))
            assert sorted(results) == list(range(1, 31))
            await until(lambda: [machine.total for machine in machines.values()] == [30, 30, 30])

    asyncio.run(run())


def test_a_map_is_shared_and_compare_and_set_has_one_winner() -> None:
    async def run() -> None:
        peers = addresses()
        async with AsyncExitStack() as stack:
            maps = [await stack.enter_async_context(ReplicatedMap(name, peers)) for name in peers]
            won = await asyncio.gather(*(one.compare_and_set("leader", None, one.group.me.encode()) for one in maps))
            assert sum(won) == 1
            leader = maps[won.index(True)].group.me.encode()
            assert [await one.read("leader") for one in maps] == [leader] * 3
            await maps[0].set("x", b"1")
            assert await maps[2].read("x") == b"1"
            assert dict(maps[2]) == {"leader": leader, "x": b"1"}
            assert await maps[1].delete("x")
            assert not await maps[1].delete("x")
            assert await maps[2].read("x") is None
            assert "x" not in maps[2]

    asyncio.run(run())


def test_what_is_no_operation_changes_nothing() -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        async with ReplicatedMap("a", peers) as a, ReplicatedMap("b", peers) as b:
            for rubbish in (
                b"\xc1",
                b"",
                b"\x93\xa3set\xa1\xff\xc4\x011",
                msgspec.msgpack.encode(["set", 1, 2]),
                msgspec.msgpack.encode(["drop"]),
            ):
                assert await a.group.execute(rubbish) is None
            await a.set("x", b"1")
            assert await b.read("x") == b"1"
            assert len(b) == 1

    asyncio.run(run())


def test_a_member_that_returns_has_its_checkpoint_and_catches_up(tmp_path: Path) -> None:
    async def run() -> None:
        peers = addresses(("a", "b"))
        given: dict[str, Any] = {"order": "lamport-total", "checkpoint_every": 4}
        async with ReplicatedStateMachine("a", peers, Sum(), state=tmp_path / "a.db", **given) as a:
            machine = Sum()
            async with ReplicatedStateMachine("b", peers, machine, state=tmp_path / "b.db", **given):
                await asyncio.gather(*(a.execute(b"1") for _ in range(10)))
                await until(lambda: machine.total == 10)
            missed = asyncio.gather(*(a.execute(b"1") for _ in range(5)))  # They wait for b.
            again = Sum()
            async with ReplicatedStateMachine("b", peers, again, state=tmp_path / "b.db", **given) as b:
                assert await missed == [11, 12, 13, 14, 15]
                await until(lambda: again.total == 15)
                assert b.applied < 15, "it began with a checkpoint"

    asyncio.run(run())


@pytest.mark.parametrize("order", ["fifo", "causal-broadcast", "rendezvous"])
def test_an_order_that_is_not_total_is_refused(order: str) -> None:
    with pytest.raises(InputError, match="replicas would differ"):
        ReplicatedMap("a", {"a": "127.0.0.1:1"}, order=order)


def test_five_members_under_random_kills_converge_and_lose_nothing_acknowledged(tmp_path: Path) -> None:
    peers, choose = addresses(FIVE), random.Random(11)
    running: dict[str, subprocess.Popen[bytes]] = {}
    done: dict[str, Path] = {}

    def start(name: str, at: int) -> None:
        where = {key: str(tmp_path / f"{name}.{key}") for key in ("state", "ended", "copy", "acknowledged")}
        done[name] = tmp_path / f"{name}.{at}.done"  # Of this life: an earlier one tells nothing of this one.
        others = [str(tmp_path / f"{other}.ended") for other in FIVE]
        given = {"me": name, "peers": peers, "start": at, "done": str(done[name]), "others": others, **where}
        with (tmp_path / f"{name}.log").open("ab") as log:
            running[name] = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("map_process.py")), json.dumps(given)],
                stdout=log,
                stderr=log,
            )

    try:
        for name in FIVE:
            start(name, 0)
        for at in range(1, 6):
            time.sleep(choose.uniform(0.3, 0.9))
            name = choose.choice(FIVE)
            running[name].kill()
            running[name].wait()
            start(name, at)
        deadline = time.monotonic() + 120
        while not all(told.exists() and told.stat().st_size >= 15 for told in done.values()):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        while not all((tmp_path / f"{name}.copy").exists() for name in FIVE):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in running.items():
            assert process.wait(60) == 0, (tmp_path / f"{name}.log").read_text()[-2000:]
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    copies = [json.loads((tmp_path / f"{name}.copy").read_text()) for name in FIVE]
    assert all(copy == copies[0] for copy in copies)
    told = [line for name in FIVE for line in (tmp_path / f"{name}.acknowledged").read_text().splitlines()]
    assert {line.split()[0] for line in told} == set(FIVE)
    for key in told:
        assert copies[0][1][key] == key.split()[2], f"{key} was acknowledged and is lost"
