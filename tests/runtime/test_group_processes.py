"""Five members as five processes, over TCP and NATS, killed and restarted: one order, nothing lost or repeated."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bad_wires import bad_wires

import beforehand
from beforehand.events import Event
from beforehand.formats import write_events
from beforehand.history import History
from beforehand.ordering import PROTOCOLS
from beforehand.runtime import EmbeddedBroker
from beforehand.runtime.group_store import read_journal
from free_ports import free_addresses

NAMES = ("ada", "bob", "cy", "dee", "eve")
TOTAL = [
    name for name, protocol in PROTOCOLS.items() if protocol.traits.total and protocol.traits.destinations != "one"
]
TIMED = {"timed-delivery", "causal-merge"}  # They promise nothing about what is late: see below.


class Members:
    """The processes of one group."""

    def __init__(self, folder: Path, order: str, count: int, **given: Any) -> None:
        self.folder, self.order, self.count = folder, order, count
        self.given = {"peers": free_addresses(NAMES), "order": order, "count": count, **given}
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def state(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def start(self, name: str, **more: Any) -> None:
        given = {**self.given, "me": name, "state": str(self.state(name)), **more}
        script = Path(__file__).with_name("group_process.py")
        log = (self.folder / f"{name}.log").open("ab")
        self.running[name] = subprocess.Popen(
            [sys.executable, str(script), json.dumps(given)], stdout=log, stderr=log
        )
        log.close()

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            process.wait(timeout=60)

    def delivered(self, name: str) -> list[str]:
        return [event.receives[0] for event in self.events(name) if event.receives]

    def events(self, name: str) -> list[Event]:
        return read_journal(self.state(name)) if self.state(name).exists() else []

    def until(self, names: tuple[str, ...], each: int) -> None:
        """Until all of them have delivered so many messages of each of them."""
        deadline = time.monotonic() + 120
        while any(self.of(other, self.delivered(name)) < each for name in names for other in names):
            for name in names:
                assert self.running[name].poll() is None, (self.folder / f"{name}.log").read_text()[-2000:]
            assert time.monotonic() < deadline, {name: len(self.delivered(name)) for name in names}
            time.sleep(0.1)

    def of(self, sender: str, delivered: list[str]) -> int:
        return sum(message.startswith(f"{sender}.") for message in delivered)

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture(scope="module")
def recorded() -> dict[str, tuple[str, list[Event]]]:
    """What really happened in the runs of this file: per run its order, and its events."""
    return {}


def judge(members: Members, names: tuple[str, ...], recorded: dict[str, tuple[str, list[Event]]]) -> None:
    """The oracle of simulated runs: the history's own checks, on what really happened."""
    events = [event for name in names for event in members.events(name)]
    recorded[members.folder.name] = (members.order, events)
    for name in names:
        assert max(Counter(members.delivered(name)).values()) == 1, f"{name} delivered a message twice"
    found = History(events).check()
    kinds = {violation.kind for violation in found.violations}
    traits = PROTOCOLS[members.order].traits
    promised = {kind for kind in ("fifo", "causal", "total") if getattr(traits, kind)}
    assert not kinds & promised, [violation for violation in found.violations if violation.kind in promised][:3]


@pytest.mark.parametrize("order", [name for name in TOTAL if name not in TIMED])
@pytest.mark.parametrize("way", ["tcp", "nats"])
def test_members_that_are_killed_and_restarted_deliver_one_order(
    way: str, order: str, tmp_path: Path, broker: EmbeddedBroker, recorded: dict[str, tuple[str, list[Event]]]
) -> None:
    count, choose = 25, random.Random(order)
    stream = {} if way == "tcp" else {"stream": f"{broker.url}/{order.upper()}"}
    with Members(tmp_path, order, count, pause=0.01, key="k" * 32, **stream) as members:
        for name in NAMES:
            members.start(name)
        for _ in range(2):
            time.sleep(choose.uniform(0.3, 1.0))
            name = choose.choice(NAMES)
            members.kill(name)
            members.start(name)
        members.until(NAMES, count)
        members.stop()

        orders = {name: members.delivered(name) for name in NAMES}
        assert len(set(map(tuple, orders.values()))) == 1
        sent = {event.sends[0] for name in NAMES for event in members.events(name) if event.sends}
        assert set(orders["ada"]) == sent
        assert len(sent) == count * len(NAMES)
        judge(members, NAMES, recorded)


@pytest.mark.parametrize("order", [*(name for name in TOTAL if name not in TIMED), "causal-broadcast"])
def test_members_behind_a_network_that_delays_and_cuts_lose_nothing(
    order: str, tmp_path: Path, recorded: dict[str, tuple[str, list[Event]]]
) -> None:
    count = 25
    with Members(tmp_path, order, count, pause=0.01) as members:
        true = members.given["peers"]
        with bad_wires(true, seed=len(order)) as places:
            for name in NAMES:
                members.start(name, peers={**places, name: true[name]})
            members.until(NAMES, count)
            members.stop()
        judge(members, NAMES, recorded)
        for name in NAMES:
            assert len(members.delivered(name)) == count * len(NAMES)
        if order in TOTAL:
            assert len({tuple(members.delivered(name)) for name in NAMES}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("order", [name for name in TOTAL if name not in TIMED])
def test_members_cut_off_from_their_broker_again_and_again_lose_nothing(
    order: str, tmp_path: Path, broker: EmbeddedBroker, recorded: dict[str, tuple[str, list[Event]]]
) -> None:
    count, (host, port) = 25, broker.url.removeprefix("nats://").split(":")
    with (
        bad_wires(dict.fromkeys(NAMES, f"{host}:{port}"), seed=len(order), cut=0.02) as places,
        Members(tmp_path, order, count, pause=0.01, key="k" * 32) as members,
    ):
        for name in NAMES:
            members.start(name, stream=f"nats://{places[name]}/CUT-{order.upper()}")
        members.until(NAMES, count)
        members.stop()
        assert len({tuple(members.delivered(name)) for name in NAMES}) == 1
        assert len(members.delivered("ada")) == count * len(NAMES)
        judge(members, NAMES, recorded)


@pytest.mark.parametrize("way", ["tcp", "nats"])
def test_a_member_that_stays_away_is_evicted_and_the_rest_goes_on(
    way: str, tmp_path: Path, broker: EmbeddedBroker, recorded: dict[str, tuple[str, list[Event]]]
) -> None:
    stream = {} if way == "tcp" else {"stream": f"{broker.url}/EVICTING"}
    stay = NAMES[:-1]
    with Members(tmp_path, "lamport-total", 20, pause=0.01, **stream) as members:
        gone = tmp_path / "gone"
        for name in NAMES:
            members.start(name, **({"evict": "eve", "evict when": str(gone)} if name == "ada" else {}))
        begun = time.monotonic() + 60
        while len(members.delivered("eve")) < 5:
            assert time.monotonic() < begun, {n: (members.folder / f"{n}.log").read_text()[-500:] for n in NAMES}
            time.sleep(0.05)
        members.kill("eve")
        gone.touch()
        of_eve = len([event for event in members.events("eve") if event.sends])
        members.until(stay, 20)
        deadline = time.monotonic() + 60
        while any("view 1: ada bob cy dee" not in [event.name for event in members.events(name)] for name in stay):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        members.stop()
        orders = {tuple(members.delivered(name)) for name in stay}
        assert len(orders) == 1
        delivered = orders.pop()
        for name in stay:
            assert members.of(name, list(delivered)) == 20
        assert members.of("eve", list(delivered)) <= of_eve
        judge(members, stay, recorded)


def test_what_really_happened_passes_the_check_of_the_pipeline(
    recorded: dict[str, tuple[str, list[Event]]], tmp_path: Path
) -> None:
    if not recorded:
        pytest.skip("no run of this file was judged: run all of it")
    events = [replace(event, execution=run) for run, (_, made) in recorded.items() for event in made]
    write_events(events, tmp_path / "runs.jsonl")

    analysis = beforehand.analyze(tmp_path / "runs.jsonl", to=tmp_path / "history", quiet=True, witnesses=10_000)

    assert analysis.executions == sorted(recorded)
    assert analysis.report["events"] == len(events)
    found = {(one.events[0].execution, one.kind) for one in analysis.check(limit=1_000_000).violations}
    for run, (order, _) in recorded.items():
        traits = PROTOCOLS[order].traits
        promised = {kind for kind in ("fifo", "causal", "total") if getattr(traits, kind)}
        assert not {kind for execution, kind in found if execution == run} & promised, run
