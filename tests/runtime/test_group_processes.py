"""Five processes as members, over TCP and NATS, killed, restarted, evicted: one order, nothing lost or repeated.

A process is a member of one group per order, so one run of five processes shows all of them.
"""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
from bad_wires import bad_wires

import beforehand
from beforehand.events import Event
from beforehand.formats import write_events
from beforehand.ordering import PROTOCOLS
from beforehand.runtime import EmbeddedBroker
from beforehand.runtime.group_store import DELIVER, SET_ASIDE, read_journal
from beforehand.sim.journals import record_of
from beforehand.sim.verdict import Verdict, judge_record
from free_ports import free_addresses

NAMES: Final = ("ada", "bob", "cy", "dee", "eve")
COUNT: Final = 15  # Messages of each member, in each group.
TOTAL: Final = [
    name for name, protocol in PROTOCOLS.items() if protocol.traits.total and protocol.traits.destinations != "one"
]
"""`rendezvous` is left out: each of its messages has one destination, so no two logs have anything in common."""

WITH_VIEWS: Final = [name for name in TOTAL if PROTOCOLS[name].traits.views]
TIMED: Final = [name for name in TOTAL if name not in WITH_VIEWS]
"""They promise that what is delivered is in one order. That all is delivered they promise only while nothing takes
longer than the bound that they were given; what does is set aside, and told of."""

BOUND_MS: Final = 300  # Shorter than a member is away that is killed and restarted.
GENEROUS_MS: Final = 5_000  # Longer than anything takes on a busy machine, it is hoped.


def bounds(ms: int) -> dict[str, dict[str, int]]:
    return {
        "timed-delivery": {"delay_max": ms * 1_000_000, "uncertainty": 5_000_000},
        "causal-merge": {"epsilon": 5, "delta": ms},
    }


@dataclass(frozen=True)
class Log:
    """What the members of one group did."""

    order: str
    journals: Mapping[str, list[Event]]  # Of those who stayed.
    gone: Mapping[str, list[Event]]  # Of those who were killed for good, and evicted where there are views.
    acknowledged: Mapping[str, set[str]]  # What each of those who stayed was told was sent.
    stable: Mapping[str, set[str]]  # What each, those who are gone too, was told was executed for good.

    def delivered(self, name: str) -> list[str]:
        return [event.receives[0] for event in self.journals[name] if event.receives]

    def set_aside(self, name: str) -> list[str]:
        """As late: there is no other reason here."""
        asides = [event.name for event in self.journals[name] if event.name.startswith(SET_ASIDE)]
        assert all(aside.endswith(": late") for aside in asides), asides
        return [aside.removeprefix(f"{SET_ASIDE} ").removesuffix(": late") for aside in asides]

    def sent(self) -> set[str]:
        return {event.sends[0] for journal in self.journals.values() for event in journal if event.sends}

    def judge(self) -> None:
        """By the judge of simulated runs, on what really happened. And nothing is lost that was told was sent."""
        # A kill comes at most once between a message's sending and the note that it was acknowledged.
        assert all(len(self.acknowledged[name]) >= COUNT - 2 for name in self.journals)
        assert set().union(*self.acknowledged.values()) <= self.sent()
        assert len(self.sent()) == COUNT * len(self.journals)
        for name in self.journals:
            met = Counter([*self.delivered(name), *self.set_aside(name)])
            assert max(met.values()) == 1, f"{name} delivered a message twice, or delivered it and set it aside"
            assert self.sent() <= set(met), f"{name} lost {sorted(self.sent() - set(met))[:5]}"
        verdict = self.verdict()
        assert verdict.passed, verdict.failures

    def verdict(self) -> Verdict:
        traits = PROTOCOLS[self.order].traits
        journals = {**self.journals, **self.gone}
        return judge_record(record_of(journals, NAMES, traits, stopped=self.gone, acknowledged=self.stable), traits)

    def judge_one_order(self) -> None:
        """All that is asked of an order that waits for what is late."""
        self.judge()
        assert not any(self.set_aside(name) for name in self.journals)
        assert len({tuple(self.delivered(name)) for name in self.journals}) == 1


def promised(order: str) -> set[str]:
    return {kind for kind in ("fifo", "causal", "total") if getattr(PROTOCOLS[order].traits, kind)}


class Members:
    """The processes, each a member of all groups; a group is known by its label."""

    def __init__(self, folder: Path, orders: Mapping[str, str], pause: float) -> None:
        """`orders` by the labels of their groups; a member sends to a group every `pause` seconds."""
        self.folder, self.orders = folder, orders
        self.ready = folder / "ready"
        self.given = {"count": COUNT, "pause": pause, "begin when": str(self.ready)}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.peers = {label: free_addresses(NAMES) for label in orders}

    def state(self, label: str, name: str) -> Path:
        return self.folder / f"{label}.{name}.db"

    def ends(self) -> dict[str, str]:
        """For a proxy before every member of every group."""
        return {f"{label} {name}": self.peers[label][name] for label in self.orders for name in NAMES}

    def behind(self, places: Mapping[str, str], label: str, name: str) -> dict[str, dict[str, str]]:
        """What a member is given so that this proxy is between it and the others."""
        others = {other: places[f"{label} {other}"] for other in NAMES}
        return {"peers": {**others, name: self.peers[label][name]}}

    def start(self, name: str, also: Callable[[str], dict[str, Any]] = lambda label: {}) -> None:
        """`also`: what it is given as a member of the group with this label."""
        groups = [
            {
                "order": order,
                "peers": self.peers[label],
                "state": str(self.state(label, name)),
                **self.given,
                **also(label),
            }
            for label, order in self.orders.items()
        ]
        script = Path(__file__).with_name("group_process.py")
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, str(script), json.dumps({"me": name, "groups": groups})], stdout=log, stderr=log
            )

    def begin(self) -> None:
        """All are open: let them send. What is sent to one that has not started yet may be late there."""
        wanted = len(self.orders) * len(NAMES)
        self.until(lambda: len([*self.folder.glob("*.open")]) == wanted, "not all have started")
        self.ready.touch()

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            process.wait(timeout=60)

    def met(self, label: str, name: str, sender: str = "") -> int:
        """How many messages it has delivered or set aside; of this sender, if one is named."""
        try:
            with closing(sqlite3.connect(f"file:{self.state(label, name)}?mode=ro", uri=True)) as database:
                wanted = "SELECT count(*) FROM journal WHERE kind IN (?, ?) AND what LIKE ?"
                found: int = database.execute(wanted, (DELIVER, SET_ASIDE, f"{sender}%")).fetchone()[0]
                return found
        except sqlite3.OperationalError:
            return 0  # It has not begun.

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 180
        while not holds():
            for name, process in self.running.items():
                assert process.poll() is None, (self.folder / f"{name}.log").read_text()[-2000:]
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    def until_all_met(self) -> None:
        """Until all that run have met all messages of each other."""
        for label in self.orders:
            for name in self.running:
                for sender in self.running:
                    self.until(
                        lambda of=(label, name, f"{sender}."): self.met(*of) >= COUNT,  # type: ignore[misc]
                        f"{label}: {name} lacks messages of {sender}",
                    )

    def logs(self) -> dict[str, Log]:
        """By label; those that run are stopped, the others are gone."""
        self.stop()
        gone = [name for name in NAMES if name not in self.running]
        return {
            label: Log(
                order,
                {name: read_journal(self.state(label, name)) for name in self.running},
                {name: read_journal(self.state(label, name)) for name in gone},
                {name: self.told(label, name, "acknowledged") for name in self.running},
                {name: self.told(label, name, "stable") for name in NAMES},
            )
            for label, order in self.orders.items()
        }

    def told(self, label: str, name: str, what: str) -> set[str]:
        """The last line is not whole if it was killed while it wrote that."""
        path = self.state(label, name).with_suffix(f".{what}")
        return set(path.read_text().split("\n")[:-1]) if path.exists() else set()

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
def recorded() -> dict[str, Log]:
    """What really happened in the runs of this file."""
    return {}


def over(way: str, broker: EmbeddedBroker, run: str, label: str) -> dict[str, str]:
    """What a member is given so that its group is on this transport."""
    return {"key": "k" * 32} | ({"stream": f"{broker.url}/{run}-{label.upper()}"} if way == "nats" else {})


@pytest.fixture(scope="module", params=["tcp", "nats", "wires"])
def killed(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    broker: EmbeddedBroker,
    recorded: dict[str, Log],
) -> dict[str, Log]:
    """One is killed as it starts; two while messages flow; then one for good, which is evicted where there are views.

    It is evicted while another is away, which returns. Once it is the first of the view, which leads or coordinates,
    and once the last; and once a proxy between the members delays, and cuts connections.
    """
    way: str = request.param
    gone, choose = {"tcp": "ada", "nats": "eve", "wires": "bob"}[way], random.Random(way)
    folder = tmp_path_factory.mktemp(f"killed-{way}-")
    away = folder / "gone"

    def also(name: str, label: str) -> dict[str, Any]:
        evicting = {"evict": gone, "evict when": str(away)} if name == "cy" and label in WITH_VIEWS else {}
        wires = members.behind(places, label, name) if way == "wires" else {}
        return {**over(way, broker, "KILLED", label), **wires, **evicting, "options": bounds(BOUND_MS).get(label)}

    with (
        Members(folder, {order: order for order in TOTAL}, pause=0.2) as members,
        bad_wires(members.ends(), seed=5) if way == "wires" else nullcontext({}) as places,
    ):

        def start(name: str) -> None:
            members.start(name, lambda label: also(name, label))

        for name in NAMES:
            start(name)
        time.sleep(choose.uniform(0.3, 1.0))
        members.kill("dee")
        start("dee")
        members.begin()
        members.until(lambda: all(members.met(order, gone) for order in TOTAL), f"{gone} delivers nothing")
        two = choose.sample([name for name in NAMES if name != gone], 2)
        for name in two:
            members.kill(name)
        time.sleep(BOUND_MS / 1_000)  # What the others send now comes late.
        for name in two:
            start(name)
        before = {order: members.met(order, gone) for order in TOTAL}
        members.until(
            lambda: all(members.met(order, gone) > before[order] for order in TOTAL), "two restarted: nothing goes on"
        )
        members.until(
            lambda: all(members.told(order, gone, "stable") for order in WITH_VIEWS), f"{gone} is told of nothing"
        )
        members.kill(gone)
        members.kill("dee")
        away.touch()
        start("dee")
        members.until_all_met()
        logs = members.logs()
    recorded.update({f"killed-{way}-{order}": log for order, log in logs.items()})
    return logs


@pytest.fixture(scope="module", params=["tcp", pytest.param("nats", marks=pytest.mark.slow)])
def on_bad_wires(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    broker: EmbeddedBroker,
    recorded: dict[str, Log],
) -> dict[str, Log]:
    """Between the members, or between each and its broker, is a proxy that delays, and cuts connections."""
    way: str = request.param
    orders = {order: order for order in [*TOTAL, "causal-broadcast"]}
    with Members(tmp_path_factory.mktemp(f"wires-{way}-"), orders, pause=0.05) as members:
        ends = members.ends() if way == "tcp" else dict.fromkeys(NAMES, broker.url.removeprefix("nats://"))
        with bad_wires(ends, seed=3, cut=0.01 if way == "tcp" else 0.005) as places:

            def also(name: str, label: str) -> dict[str, Any]:
                given: dict[str, Any] = {"options": bounds(BOUND_MS).get(label)}
                if way == "nats":
                    return given | {"key": "k" * 32, "stream": f"nats://{places[name]}/WIRES-{label.upper()}"}
                return given | members.behind(places, label, name)

            for name in NAMES:
                members.start(name, lambda label, name=name: also(name, label))  # type: ignore[misc]
            members.begin()
            members.until_all_met()
            logs = members.logs()
    recorded.update({f"wires-{way}-{order}": log for order, log in logs.items()})
    return logs


@pytest.fixture(scope="module")
def quiet(
    tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedBroker, recorded: dict[str, Log]
) -> dict[str, Log]:
    """The orders that go by the clock, over both transports, with a bound that is kept."""
    orders = {f"{way}-{order}": order for way in ("tcp", "nats") for order in TIMED}
    with Members(tmp_path_factory.mktemp("quiet"), orders, pause=0.01) as members:

        def also(label: str) -> dict[str, Any]:
            options = {"options": bounds(GENEROUS_MS)[orders[label]]}
            return {**over(label.split("-")[0], broker, "QUIET", label), **options}

        for name in NAMES:
            members.start(name, also)
        members.begin()
        members.until_all_met()
        logs = members.logs()
    recorded.update({f"quiet-{label}": log for label, log in logs.items()})
    return logs


@pytest.mark.parametrize("order", WITH_VIEWS)
def test_members_killed_and_restarted_and_those_left_when_one_is_evicted_deliver_one_order(
    order: str, killed: dict[str, Log]
) -> None:
    log = killed[order]
    log.judge_one_order()
    for name, journal in log.journals.items():
        views = [place for place, event in enumerate(journal) if event.name.startswith("view ")]
        assert [journal[place].name for place in views] == [f"view 1: {' '.join(sorted(log.journals))}"], name
        assert any(event.receives for event in journal[views[0] :]), "nothing went on after the eviction"
    for name in NAMES:
        assert log.stable[name], f"{name} was told of nothing that it was executed for good"


@pytest.mark.parametrize("order", WITH_VIEWS)
def test_the_judge_finds_what_is_planted_in_what_really_happened(order: str, killed: dict[str, Log]) -> None:
    log = killed[order]
    (gone,) = log.gone
    name, journal = next(iter(log.journals.items()))
    places = [place for place, event in enumerate(journal) if event.receives]
    view = next(place for place, event in enumerate(journal) if event.name.startswith("view "))
    later = next(place for place in places if place > view)
    first = next(place for place in places if place + 1 in places)  # Else its own, swapped, may precede its sending.
    stable = next(place for place in places if journal[place].receives[0] in log.stable[gone])

    def planted(events: list[Event]) -> str:
        events = [replace(event, index=index) for index, event in enumerate(events, start=1)]
        return " ".join(replace(log, journals={**log.journals, name: events}).verdict().failures)

    def swapped(one: int, other: int) -> list[Event]:
        events = [*journal]
        events[one], events[other] = events[other], events[one]
        return events

    assert "total order" in planted(swapped(first, first + 1))
    assert "before view 1 at one of" in planted([*journal[:view], *journal[view + 1 : later + 1], journal[view]])
    lost = planted([*journal[:stable], *journal[stable + 1 :]])
    assert f"{name} never delivered {journal[stable].receives[0]}, which {gone} was told is stable" in lost


@pytest.mark.parametrize("order", TIMED)
def test_what_comes_late_to_members_killed_and_restarted_is_set_aside_and_told_of(
    order: str, killed: dict[str, Log]
) -> None:
    log = killed[order]
    log.judge()
    if order == "causal-merge":  # The other delivers what is late, if it can still do so in order.
        assert any(log.set_aside(name) for name in log.journals), "nothing was late: this tested nothing"


@pytest.mark.parametrize("order", [*WITH_VIEWS, "causal-broadcast"])
def test_members_behind_a_network_that_delays_and_cuts_lose_nothing(order: str, on_bad_wires: dict[str, Log]) -> None:
    log = on_bad_wires[order]
    if order in TOTAL:
        log.judge_one_order()
    else:
        log.judge()
        assert not any(log.set_aside(name) for name in log.journals)


@pytest.mark.parametrize("order", TIMED)
def test_what_a_network_delays_for_too_long_is_set_aside_and_told_of(
    order: str, on_bad_wires: dict[str, Log]
) -> None:
    on_bad_wires[order].judge()


@pytest.mark.parametrize("way", ["tcp", "nats"])
@pytest.mark.parametrize("order", TIMED)
def test_orders_by_the_clock_deliver_one_order_while_their_bound_is_kept(
    order: str, way: str, quiet: dict[str, Log]
) -> None:
    quiet[f"{way}-{order}"].judge_one_order()


def test_what_really_happened_passes_the_check_of_the_pipeline(recorded: dict[str, Log], tmp_path: Path) -> None:
    if not recorded:
        pytest.skip("no run of this file was judged: run all of it")
    events = [
        replace(event, execution=run)
        for run, log in recorded.items()
        for journal in log.journals.values()
        for event in journal
    ]
    write_events(events, tmp_path / "runs.jsonl")

    analysis = beforehand.analyze(tmp_path / "runs.jsonl", to=tmp_path / "history", quiet=True, witnesses=10_000)

    assert analysis.executions == sorted(recorded)
    assert analysis.report["events"] == len(events)
    found = {(one.events[0].execution, one.kind) for one in analysis.check(limit=1_000_000).violations}
    for run, log in recorded.items():
        assert not {kind for execution, kind in found if execution == run} & promised(log.order), run
