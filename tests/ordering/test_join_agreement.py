"""Members that admit and evict each other, living or not, in any order of arrivals: there is one history of views."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from test_view_agreement import Quarrel

from beforehand.clocks import View
from beforehand.errors import BeforehandError, LocalProtocolError
from beforehand.ordering import Membership


class Crowd(Quarrel):
    """A quarrel that others join, some of whom are evicted in turn."""

    def __init__(self, seed: int) -> None:
        """In every second one members are restarted, many times in one instant: then it need not come to an end."""
        super().__init__(seed, restarts=seed % 2 == 0)
        self.first = str(self.names)

    def made(self, name: str) -> Membership:
        def make(name: str, view: View, number: int) -> Any:
            return self.protocol(name, view, number=number)

        if name in getattr(self, "first", self.names):
            return Membership(name, View(tuple(self.names[:6])), make, notice_interval=20)
        return Membership.joining(name, make, notice_interval=20)

    def living(self) -> list[str]:
        return [name for name in super().living() if self.members[name].welcomed]

    def quarrel(self) -> None:
        if self.rng.random() < 0.5 or len(self.names) > 12:
            super().quarrel()
            return
        name = chr(ord("p") + len(self.names) - len(self.first))
        by = self.rng.choice(self.living())
        with suppress(LocalProtocolError):
            effects = self.members[by].admit([name], now=self.now)
            self.names += name
            self.members[name] = self.made(name)
            self.views[name], self.delivered[name] = [], []
            self.perform(by, effects)


def crowded(seed: int) -> Crowd:
    crowd = Crowd(seed)
    crowd.run(steps=300, stops=seed % 2 == 0)
    crowd.settle()
    return crowd


@pytest.mark.parametrize("part", range(4))
def test_members_that_admit_and_evict_each_other_never_split_the_group(part: int) -> None:
    failures = {}
    for seed in range(100 * part, 100 * part + 100):
        try:
            crowd = crowded(seed)
            crowd.check()
        except (AssertionError, BeforehandError) as error:
            failures[seed] = str(error)
            continue
        # One that was evicted hears of it if somebody whom it knows is still there.
        waiting = [
            name
            for name in crowd.living()
            if crowd.members[name].flushing
            and any(
                crowd.members[p].welcomed and p in crowd.living()
                for p in crowd.members[name].view.processes
                if p != name
            )
        ]
        lost = {
            name
            for member in crowd.living()
            for name in crowd.members[member].view.processes
            if not crowd.members[name].welcomed and not crowd.members[member].flushing
        }
        if seed % 2 and (waiting or lost):
            failures[seed] = f"{waiting} wait for ever, {lost} were never welcomed"
    assert failures == {}


def test_crowds_grow() -> None:
    joined = sum(
        len([name for name in crowd.names if name not in crowd.first and crowd.members[name].welcomed])
        for crowd in map(crowded, range(1, 40, 2))
    )
    assert joined > 20
