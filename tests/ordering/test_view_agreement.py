"""Members that evict each other, living or not, in any order of arrivals: there is one history of views."""

from __future__ import annotations

import random
from collections import deque
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from beforehand.clocks import View
from beforehand.errors import BeforehandError, LocalProtocolError
from beforehand.ordering import (
    CausalBroadcast,
    Deliver,
    Fifo,
    Installed,
    LamportTotal,
    Membership,
    Skeen,
    Transmit,
    membership,
    view_change,
)

PROTOCOLS = (Fifo, CausalBroadcast, Skeen, LamportTotal)


class Quarrel:
    """Members over FIFO links whose next arrival is chosen at random. Its log is all that the checks read."""

    def __init__(self, seed: int, *, restarts: bool = True) -> None:
        self.rng = random.Random(seed)
        self.names = "abcdef"[: self.rng.randint(3, 6)]
        self.protocol = PROTOCOLS[seed % len(PROTOCOLS)]
        self.restarts = restarts
        self.now = 0
        self.members = {name: self.made(name) for name in self.names}
        self.links: dict[tuple[str, str], deque[Any]] = {}
        self.stopped: set[str] = set()
        self.views: dict[str, list[View]] = {name: [View(tuple(self.names))] for name in self.names}
        self.delivered: dict[str, list[list[str]]] = {name: [[]] for name in self.names}  # Per view.

    def made(self, name: str) -> Membership:
        def make(name: str, view: View, number: int) -> Any:
            return self.protocol(name, view, number=number)

        return Membership(name, View(tuple(self.names)), make, notice_interval=20)

    def perform(self, name: str, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Transmit():
                    for to in effect.to:
                        self.links.setdefault((name, to), deque()).append(effect.packet)
                case Deliver():
                    self.delivered[name][-1].append(effect.message.id)
                case Installed():
                    self.views[name].append(effect.view)
                    self.delivered[name].append([])
        if self.restarts and self.rng.random() < 0.05:
            snapshot = self.members[name].snapshot()
            self.members[name] = self.made(name)
            self.members[name].restore(snapshot)
            self.perform(name, self.members[name].tick(now=self.now))

    def living(self) -> list[str]:
        return [n for n in self.names if n not in self.stopped and not self.members[n].departed]

    def arrive(self) -> bool:
        open_links = [link for link, packets in sorted(self.links.items()) if packets and link[1] not in self.stopped]
        if not open_links:
            return False
        sender, to = self.rng.choice(open_links)
        packet = self.links[sender, to].popleft()
        self.perform(to, self.members[to].receive(sender, packet, now=self.now))
        return True

    def quarrel(self) -> None:
        name = self.rng.choice(self.living())
        others = [other for other in self.members[name].view.processes if other != name]
        chosen = self.rng.sample(others, self.rng.randint(1, max(1, len(others) // 2))) if others else []
        with suppress(LocalProtocolError):  # Those who would stay are no majority.
            self.perform(name, self.members[name].evict(chosen, now=self.now))

    def run(self, *, steps: int, stops: bool) -> None:
        for _ in range(steps):
            if not self.living():
                return
            self.now += 1
            chance = self.rng.random()
            if chance < 0.03:
                self.quarrel()
            elif chance < 0.12:
                name = self.rng.choice(self.living())
                self.perform(name, self.members[name].send(b"x", now=self.now))
            elif stops and chance < 0.125 and len(self.living()) > 1:
                self.stopped.add(self.rng.choice(self.living()))
            elif chance < 0.2:
                name = self.rng.choice(self.living())
                self.perform(name, self.members[name].tick(now=self.now))
            else:
                self.arrive()

    def settle(self) -> None:
        for _ in range(60):
            self.now += 1000
            for name in self.living():
                self.perform(name, self.members[name].tick(now=self.now))
            while self.arrive():
                pass

    def check(self) -> int:
        """One history of views, and one set of deliveries in each for those who saw its end. Returns its length."""
        members: dict[int, tuple[str, ...]] = {}
        ended: dict[int, set[tuple[str, ...]]] = {}
        for name in self.names:
            for view, delivered in zip(self.views[name], self.delivered[name], strict=True):
                assert members.setdefault(view.number, view.processes) == view.processes, "two views of one number"
                assert len(set(delivered)) == len(delivered), "delivered twice"
            here = [view for view in self.views[name] if name in view.processes]
            for view, delivered in list(zip(here, self.delivered[name], strict=False))[:-1]:
                ended.setdefault(view.number, set()).add(tuple(sorted(delivered)))
        assert all(len(sets) == 1 for sets in ended.values()), "deliveries of a view differ"
        return len(members)


def failure(seed: int) -> str | None:
    """What is wrong with one quarrel, if anything. In every second one nobody stops, and then it must end."""
    quarrel = Quarrel(seed)
    try:
        quarrel.run(steps=300, stops=seed % 2 == 0)
        quarrel.settle()
        quarrel.check()
    except (AssertionError, BeforehandError) as error:
        return str(error)
    waiting = [name for name in quarrel.living() if quarrel.members[name].flushing]
    return f"{waiting} wait for ever" if waiting and seed % 2 else None


@pytest.mark.parametrize("part", range(4))
def test_members_that_evict_each_other_never_split_the_group(part: int) -> None:
    failures = {seed: failure(seed) for seed in range(100 * part, 100 * part + 100)}
    assert set(failures.values()) == {None}, {seed: why for seed, why in failures.items() if why}


def test_quarrels_lead_to_other_views() -> None:
    views = 0
    for seed in range(50):
        quarrel = Quarrel(seed)
        quarrel.run(steps=300, stops=False)
        quarrel.settle()
        views += quarrel.check() - 1
    assert views > 50


@pytest.mark.parametrize(
    ("seed", "old", "new"),
    [
        pytest.param(
            40,
            "            if self._lack():\n                return None\n        end =",
            "        end =",
            id="installs without a second round",
        ),
        pytest.param(
            614,
            "        return tuple(p for p in self._prepare.members if p not in have)",
            "        lack = tuple(p for p in self._prepare.members if p not in have)\n"
            "        return lack if self._proposal is None or len(lack) > len(self._prepare.members) - 2 else ()",
            id="one that accepts is enough",
        ),
        pytest.param(80, "if known:", "if known and not known:", id="what was accepted is not taken over"),
        pytest.param(80, "end = max(known", "end = min(known", id="what was accepted first is taken over"),
        pytest.param(80, "        self.accepted = packet\n", "", id="what was accepted is not remembered"),
        pytest.param(
            80,
            "if packet.ballot < self.promised:\n            call.transmit((sender,), Outvoted",
            "if packet.ballot < self.promised and not packet.members:\n            call.transmit((sender,), Outvoted",
            id="a stale proposal is accepted",
        ),
        pytest.param(
            2447,
            "= snapshot.accepted, snapshot.proposal",
            "= None, snapshot.proposal",
            id="restore forgets what it accepted",
        ),
        pytest.param(
            7,
            "        call.transmit(others, Behind(view=self._view.number))\n",
            "",
            id="one that is left behind does not ask",
        ),
        pytest.param(
            9,
            "if sender in self.wanted and self.may_go_on_without(self.wanted):",
            "if sender in self.wanted:",
            id="one that is told to evict everybody follows nobody",
        ),
    ],
)
def test_a_planted_bug_shows(monkeypatch: pytest.MonkeyPatch, seed: int, old: str, new: str) -> None:
    source = Path(view_change.__file__).read_text()
    assert source.count(old) == 1
    changed = ModuleType(view_change.__name__)
    exec(compile(source.replace(old, new), view_change.__file__, "exec"), changed.__dict__)
    assert failure(seed) is None
    monkeypatch.setattr(membership, "ViewChange", changed.ViewChange)
    assert failure(seed) is not None
