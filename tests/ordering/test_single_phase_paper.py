"""What Sun and Maheshwari (1996) say of the single-phase protocol, in our words, by section."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from beforehand.clocks import View
from beforehand.ordering import Deliver, Level, Message, Transmit
from beforehand.ordering.single_phase import (
    Acknowledge,
    Identifiers,
    SinglePhase,
    SinglePhaseAcknowledgement,
    SinglePhaseOperation,
)

SCENARIOS = Path(__file__).parent.parent / "scenarios"


class Sites:
    """N sites joined by channels whose every delay is `delay`. The caller chooses among packets due at once."""

    def __init__(self, count: int, *, delay: int = 1, **options: Any) -> None:
        self.view = View(str(n) for n in range(count))
        self.sites = {name: SinglePhase(name, self.view, **options) for name in self.view.processes}
        self.delay, self.now = delay, 0
        self.flying: list[tuple[int, str, str, Any]] = []  # (sent at, from, to, packet), in the order of sending.
        self.here: dict[tuple[str, str], int] = {}  # When an operation arrived at a site, or was generated there.
        self.stamps: dict[str, str] = {}  # The paper's name of each operation.
        self.latency: dict[tuple[str, str], int] = {}  # (site, operation): from there to its execution.
        self.multicasts: Counter[str] = Counter()

    def generate(self, site: str) -> list[str]:
        return self._perform(site, self.sites[site].send(b"", now=self.now))

    def receive(self, site: str, sender: str) -> list[str]:
        at = next(i for i, flying in enumerate(self.flying) if flying[1:3] == (sender, site))
        sent, _, _, packet = self.flying.pop(at)
        assert sent + self.delay == self.now, "every delay is the same"
        if isinstance(packet, SinglePhaseOperation):
            self.here[site, packet.message.id] = self.now
        lines = self._perform(site, self.sites[site].receive(sender, packet, now=self.now))
        return [f"arrived {self._name(sender, packet)}", *lines]

    def run(self, *, until: int | None = None, rng: random.Random | None = None) -> None:
        """Let everything arrive when it is due, ties at random, or in the order of sending."""
        while self.flying and (until is None or self.flying[0][0] + self.delay <= until):
            self.now = self.flying[0][0] + self.delay
            due = [(to, sender) for sent, sender, to, _ in self.flying if sent + self.delay == self.now]
            self.receive(*(due[0] if rng is None else rng.choice(due)))
        self.now = self.now if until is None else until

    def state(self, site: str) -> str:
        snapshot = self.sites[site].snapshot()
        waiting = ", ".join(self.stamps[message.id] for _, message in snapshot.waiting)
        told = {told for at, told in enumerate(snapshot.told) if self.view.processes[at] != site}
        return f"LCV {list(snapshot.times)} MRMT {told.pop()} PMQ [{waiting}]"

    def _perform(self, site: str, effects: list[Any]) -> list[str]:
        lines = []
        for effect in sorted(effects, key=lambda effect: not isinstance(effect, Transmit)):
            match effect:
                case Transmit():
                    self.flying += [(self.now, site, to, effect.packet) for to in effect.to]
                    name = self._name(site, effect.packet)
                    if name.startswith("G"):
                        self.stamps[effect.packet.message.id] = name
                        self.here[site, effect.packet.message.id] = self.now
                    self.multicasts[name] += 1
                    lines.append(f"multicast {name}")
                case Deliver():
                    m = effect.message.id
                    self.latency[site, self.stamps[m]] = self.now - self.here[site, m]
                    lines.append(f"executed {self.stamps[m]} {self.now - self.here[site, m]} after")
        return lines

    def _name(self, site: str, packet: Any) -> str:
        match packet:
            case SinglePhaseOperation():
                return f"G({site},{packet.time})"
            case SinglePhaseAcknowledgement():
                return f"A({site},{packet.time})"
        return f"C({site})"


def transcript(text: str) -> str:
    """The commands of a scenario again, each with what comes of it."""
    sites, lines = None, []
    for line in text.splitlines():
        match line.split():
            case ["options", option]:
                sites = Sites(3, acknowledge=Acknowledge(option.removeprefix("acknowledge=")))
                lines.append(line)
            case [">", "time", now]:
                sites.now = int(now)
                lines.append(line)
            case [">", site, "generates"]:
                lines += [line, *(f"  {done}" for done in sites.generate(site)), f"  {sites.state(site)}"]
            case [">", site, "receives", "from", sender]:
                lines += [line, *(f"  {done}" for done in sites.receive(site, sender)), f"  {sites.state(site)}"]
            case [">", "end"]:
                assert not sites.flying
                lines += [line, *(f"  site {site}: {sites.state(site)}" for site in sites.sites)]
            case ["#", *_]:
                lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["single_phase_figure_2", "single_phase_figure_3"])
def test_the_worked_examples_run_as_the_text_says(name: str) -> None:
    text = (SCENARIOS / f"{name}.txt").read_text()
    assert transcript(text) == text


def test_figure_2_has_four_acknowledgements_and_needs_none() -> None:
    always, suppressed = Sites(3, acknowledge=Acknowledge.ALWAYS), Sites(3)
    for sites in (always, suppressed):
        sites.generate("0")
        sites.generate("1")
        sites.run()
    assert always.multicasts == {"G(0,1)": 1, "G(1,1)": 1, "A(0,1)": 1, "A(1,1)": 1, "A(2,1)": 2}
    assert suppressed.multicasts == {"G(0,1)": 1, "G(1,1)": 1}
    assert always.latency == suppressed.latency


def test_figure_3_ends_with_the_same_state_at_all_sites() -> None:
    sites = Sites(3)
    sites.generate("0")
    sites.generate("1")
    sites.run()
    sites.generate("1")
    sites.run()
    assert sites.multicasts == {"G(0,1)": 1, "G(1,1)": 1, "G(1,2)": 1, "A(0,2)": 1, "A(2,2)": 1}
    assert {sites.state(site) for site in "012"} == {"LCV [2, 2, 2] MRMT 2 PMQ []"}
    assert {sites.latency[site, "G(1,2)"] for site in "02"} == {1}  # d from arrival,
    assert sites.latency["1", "G(1,2)"] == 2  # and there and back for the origin.


def test_the_lowest_identifier_has_no_latency_and_no_acknowledgements_when_clocks_agree() -> None:
    # Sections 4.3 and 5; with rotating identifiers another site is lowest at each time.
    for identifiers, lowest in ((Identifiers.STATIC, "0"), (Identifiers.ROTATING, "3")):
        sites = Sites(4, identifiers=identifiers)
        sites.generate(lowest)
        sites.run()
        assert set(sites.latency.values()) == {0}
        assert sum(sites.multicasts.values()) == 1


def test_every_rotating_identifier_is_the_lowest_in_turn() -> None:
    # Section 3's dynamic identifiers. Each operation is sent when all clocks agree, by the site whose turn it is.
    sites = Sites(4, identifiers=Identifiers.ROTATING, start=12, floor=12)
    for time in range(13, 21):
        lowest = str(-time % 4)
        sites.sites = {
            name: SinglePhase(name, sites.view, identifiers=Identifiers.ROTATING, start=time - 1, floor=time - 1)
            for name in sites.view.processes
        }
        sites.generate(lowest)
        sites.run()
    assert set(sites.latency.values()) == {0}


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("identifiers", Identifiers)
@pytest.mark.parametrize("acknowledge", [Acknowledge.ALWAYS, Acknowledge.SUPPRESSED])
def test_latency_is_at_most_d_from_arrival_and_2d_at_the_origin(acknowledge, identifiers, seed: int) -> None:
    # Section 4.3, with the origin's way there and back.
    d, rng = 10, random.Random(seed)
    sites = Sites(4, delay=d, acknowledge=acknowledge, identifiers=identifiers)
    for _ in range(25):
        sites.run(until=sites.now + rng.randrange(12), rng=rng)
        sites.generate(rng.choice("0123"))
    sites.run(rng=rng)
    assert len(sites.latency) == 4 * 25
    for (site, name), latency in sites.latency.items():
        assert 0 <= latency <= (2 * d if name.startswith(f"G({site},") else d)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("acknowledge", [Acknowledge.ALWAYS, Acknowledge.SUPPRESSED])
def test_between_0_and_n_minus_1_acknowledgements_are_multicast_per_operation(acknowledge, seed: int) -> None:
    # Sections 4.3 and 5.
    rng = random.Random(seed)
    sites = Sites(5, delay=10, acknowledge=acknowledge)
    for _ in range(20):
        sites.run(until=sites.now + rng.randrange(30), rng=rng)
        sites.generate(rng.choice("01234"))
    sites.run(rng=rng)
    acknowledgements = sum(count for name, count in sites.multicasts.items() if name.startswith("A"))
    if acknowledge is Acknowledge.ALWAYS:
        assert acknowledgements == 4 * 20
    else:
        assert 0 <= acknowledgements < 4 * 20


def test_the_worst_case_of_suppression_is_n_minus_1() -> None:
    sites = Sites(5)
    sites.generate("4")
    sites.run()
    assert sum(sites.multicasts.values()) == 1 + 4


def test_heavier_traffic_needs_fewer_acknowledgements_per_operation() -> None:
    # Section 5: the protocol adapts itself to the load.
    def acknowledgements(pause: int) -> int:
        rng = random.Random(1)
        sites = Sites(4, delay=10)
        for _ in range(40):
            sites.run(until=sites.now + pause, rng=rng)
            sites.generate(rng.choice("0123"))
        sites.run(rng=rng)
        return sum(count for name, count in sites.multicasts.items() if name.startswith("A"))

    assert acknowledgements(1) < acknowledgements(5) < acknowledgements(50)


def test_point_to_point_acknowledging_costs_remote_sites_one_more_delay() -> None:
    # Section 6 announces such a scheme. In ours the origin confirms after 2d, so remote sites have it after 3d.
    sites = Sites(4, acknowledge=Acknowledge.POINT_TO_POINT)
    sites.generate("3")
    sites.run()
    assert sites.latency == {(site, "G(3,1)"): 2 for site in "0123"}


def _operation(site: int, time: int, number: int, view: View) -> SinglePhaseOperation:
    name = view.processes[site]
    message = Message(sender=name, number=number, to=view.processes, level=Level.CAUSAL_TOTAL)
    return SinglePhaseOperation(message=message, time=time)


def test_definition_8_decides_about_every_pending_operation() -> None:
    # All vectors of three sites with times up to 3: executed iff pm.ts ≤ LCV[i], or LCV[i] + 1 for greater sites.
    view = View("012")
    for origin in (0, 1):
        for time in (1, 2, 3):
            for heard in range(4):
                other = 1 - origin
                site = SinglePhase("2", view)
                if heard:
                    site.receive(str(other), _operation(other, heard, 1, view), now=0)
                effects = site.receive(str(origin), _operation(origin, time, 1, view), now=0)
                got = any(isinstance(e, Deliver) and e.message.sender == str(origin) for e in effects)
                own_first = heard == 0 or (time, origin) < (heard, other)
                expected = time <= heard + (origin < other)
                if own_first:
                    assert got == expected, (origin, time, heard)


@pytest.mark.parametrize("identifiers", Identifiers)
def test_definition_10_decides_about_every_acknowledgement(identifiers) -> None:
    # Site k, which has last multicast at MRMT, acknowledges m iff m.ts > MRMT + 1, or m.ts = MRMT + 1 and k is lower.
    view = View("0123")
    for k in range(4):
        for sid in range(4):
            for told in range(6):
                for time in range(1, 9):
                    if k == sid:
                        continue
                    site = SinglePhase(str(k), view, identifiers=identifiers)
                    for _ in range(told):
                        site.send(b"", now=0)
                    effects = site.receive(str(sid), _operation(sid, time, 1, view), now=0)
                    got = any(isinstance(effect, Transmit) for effect in effects)
                    lower = k < sid if identifiers is Identifiers.STATIC else (k + time) % 4 < (sid + time) % 4
                    assert got == (time > told + 1 or (time == told + 1 and lower))


def test_an_acknowledgement_does_not_move_the_clock() -> None:
    # Protocols 1 and 2, against definition 6.
    sites = Sites(3)
    site = sites.sites["0"]
    site.receive("1", SinglePhaseAcknowledgement(time=7), now=0)
    assert site.snapshot().times == (0, 7, 0)


def test_after_an_acknowledgement_its_time_is_that_of_the_operation() -> None:
    # Proof of theorem 4: m.ts = MRMT.
    view = View("012")
    site = SinglePhase("0", view)
    site.receive("2", _operation(2, 5, 1, view), now=0)
    assert site.snapshot().told == (5, 5, 5)
