"""The simulator itself: it is repeatable, its faults happen, and its judge sees what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from beforehand.clocks import View
from beforehand.errors import InputError
from beforehand.formats.native import to_json
from beforehand.ordering import PROTOCOLS, Deliver, Fifo, ReliableLink, Transmit
from beforehand.sim import (
    ClockFault,
    Clog,
    Crash,
    Delay,
    DelayKind,
    Departure,
    Operation,
    Partition,
    Pause,
    Point,
    Scenario,
    draw,
    read_scenario,
    simulate,
    write_scenario,
)
from beforehand.sim.local_clock import EPOCH, LocalClock
from beforehand.sim.scenario import MILLISECOND

FAULTS: dict[str, dict[str, Any]] = {
    "loss": {"loss": 0.5},
    "partition": {"partitions": (Partition(side=("a",), at=0, until=50 * MILLISECOND),)},
    "crash": {"crashes": (Crash(process="b", call=2, point=Point.AFTER_PERSIST, down=5 * MILLISECOND),)},
}


def some(**changes: Any) -> Scenario:
    operations = tuple(
        Operation(process="abc"[at % 3], at=at * MILLISECOND // 2, to=("a", "b", "c")) for at in range(12)
    )
    defaults: dict[str, Any] = {"protocol": "fifo", "processes": ("a", "b", "c"), "operations": operations}
    return Scenario(**{**defaults, **changes})


def bytes_of(scenario: Scenario) -> bytes:
    return b"\n".join(map(to_json, simulate(scenario).record.events))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("protocol", ["fifo", "causal-broadcast", "skeen"])
def test_the_same_seed_gives_the_same_run_byte_for_byte(protocol: str, seed: int) -> None:
    assert bytes_of(draw(protocol, seed)) == bytes_of(draw(protocol, seed))


def test_another_seed_gives_another_run() -> None:
    assert bytes_of(draw("fifo", 1)) != bytes_of(draw("fifo", 2))


def test_a_saved_scenario_replays(tmp_path: Path) -> None:
    scenario = draw("skeen", 7)
    path = tmp_path / "scenario.json"
    path.write_bytes(write_scenario(scenario))

    assert read_scenario(path) == scenario
    assert bytes_of(read_scenario(path)) == bytes_of(scenario)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a scenario"),
        ("[]", "not a scenario"),
        ('{"other": ' + "[" * 100_000, "not a scenario"),
        ('{"protocol": "fifo", "processes": ["a"], "operations": []}', "2 to 64 processes"),
        ('{"protocol": "fifo", "processes": ["a", "b"], "operations": [], "loss": 0.5}', "needs the reliable link"),
        (
            '{"protocol":"fifo","processes":["a","b"],"operations":[{"process":"z","at":0,"to":["a"]}]}',
            "'z' is not a process",
        ),
    ],
)
def test_a_bad_scenario_is_refused_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        read_scenario(tmp_path / "s.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("departures", [(), (Departure(process="c", at=MILLISECOND, by="a"),)])
def test_members_of_a_protocol_without_views_stay(departures: tuple[Departure, ...]) -> None:
    scenario = some(
        protocol="timed-delivery",
        options=(("delay_max", MILLISECOND),),
        link=True,
        membership=True,
        departures=departures,
    )
    said = "^timed-delivery has no views: its members stay; leave `membership` out of the scenario$"
    with pytest.raises(InputError, match=said):
        simulate(scenario)


@pytest.mark.parametrize("protocol", [name for name, one in PROTOCOLS.items() if not one.traits.views])
def test_no_members_come_or_go_in_drawn_scenarios_of_a_protocol_without_views(protocol: str) -> None:
    drawn = [draw(protocol, seed) for seed in range(100)]
    assert not any(one.membership or one.departures or one.joins for one in drawn)
    assert any(one.link for one in drawn)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_happens_and_the_link_makes_up_for_it(fault: str) -> None:
    outcome = simulate(some(link=True, heal_at=100 * MILLISECOND, **FAULTS[fault]))
    assert outcome.verdict.failures == ()
    assert outcome.record.packets["resent"] > 0


def test_a_clogged_link_delivers_late_and_a_paused_process_too() -> None:
    clogged = simulate(some(clogs=(Clog(sender="a", to="b", at=0, until=80 * MILLISECOND),)))
    paused = simulate(some(pauses=(Pause(process="c", at=0, until=80 * MILLISECOND),)))
    for outcome in (clogged, paused):
        assert outcome.verdict.failures == ()
        assert max(outcome.record.latencies) > 50 * MILLISECOND


def test_an_asymmetric_partition_cuts_one_way_only() -> None:
    def delivered(symmetric: bool) -> list[str]:
        cut = Partition(side=("a",), at=0, until=300 * MILLISECOND, symmetric=symmetric)
        scenario = some(link=True, partitions=(cut,), heal_at=300 * MILLISECOND, settle=1)
        # What a sends is lost; what others send to a comes through only if the cut is not symmetric.
        world_end = simulate(scenario).record
        return [message for message in world_end.delivered.get("a", []) if not message.startswith("a.")]

    assert delivered(symmetric=True) == []
    assert delivered(symmetric=False) != []


def test_constant_delay_is_exactly_that() -> None:
    outcome = simulate(some(delay=Delay(kind=DelayKind.CONSTANT, longest=3 * MILLISECOND)))
    assert set(outcome.record.latencies_remote) == {3 * MILLISECOND}


@pytest.mark.parametrize(
    "fault",
    [
        None,
        ClockFault(process="a", offset=-7_000),
        ClockFault(process="a", drift_ppm=100_000),
        ClockFault(process="a", drift_ppm=-250_000, offset=3, steps=((50, -30), (90, 400))),
    ],
)
def test_a_clock_shows_a_reading_first_when_it_says_it_will(fault: ClockFault | None) -> None:
    clock = LocalClock(fault)
    for now in (0, 49, 50, 89, 200):
        for ahead in (0, 1, 17, 60, 1_000):
            reading = clock.read(now) + ahead
            at = clock.time_of(reading, now)
            assert at >= now
            assert clock.read(at) >= reading
            assert all(clock.read(t) < reading for t in range(now, at))
    assert LocalClock().read(5) == EPOCH + 5


class Spoiled:
    """A protocol with one thing wrong, to see that the judge sees it."""

    def __init__(self, within: Any) -> None:
        self._within = within

    def __getattr__(self, name: str) -> Any:
        return getattr(self._within, name)


class DeliversTwice(Spoiled):
    def receive(self, sender: str, packet: Any, *, now: int) -> list[Any]:
        effects = self._within.receive(sender, packet, now=now)
        return [effect for one in effects for effect in ([one, one] if isinstance(one, Deliver) else [one])]


class LosesEveryFifth(Spoiled):
    packets = 0

    def send(self, payload: bytes, to: Iterable[str], *, now: int) -> list[Any]:
        type(self).packets += 1
        effects = self._within.send(payload, to, now=now)
        return [e for e in effects if not (isinstance(e, Transmit) and self.packets % 5 == 0)]


class Hurries(Spoiled):
    def receive(self, sender: str, packet: Any, *, now: int) -> list[Any]:
        self._within.receive(sender, packet, now=now)
        return [Deliver(message=packet.message, place=())]


@pytest.mark.parametrize(
    ("spoiled", "says"),
    [(DeliversTwice, "2 times"), (LosesEveryFifth, "never delivered"), (Hurries, "fifo order")],
)
def test_the_judge_sees_what_is_wrong(spoiled: type[Spoiled], says: str) -> None:
    def make(name: str, view: View) -> Any:
        return spoiled(Fifo(name, view))

    outcome = simulate(some(delay=Delay(shortest=0, longest=20 * MILLISECOND)), make=make)
    assert any(says in failure for failure in outcome.verdict.failures), outcome.verdict.failures


class ForgetsToPersist(Spoiled):
    """What it sends is not in its snapshot: a crash loses it."""

    def snapshot(self) -> Any:
        return self._first

    def __init__(self, within: Any) -> None:
        super().__init__(within)
        self._first = within.snapshot()


def test_a_lost_snapshot_is_seen() -> None:
    def make(name: str, view: View) -> Any:
        return ForgetsToPersist(ReliableLink(Fifo(name, view), resend_after=4 * MILLISECOND))

    crash = Crash(process="a", call=6, point=Point.AFTER_PERSIST, down=MILLISECOND)
    outcome = simulate(some(link=True, crashes=(crash,), heal_at=100 * MILLISECOND), make=make)
    assert not outcome.verdict.passed
