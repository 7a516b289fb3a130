"""The explorer on joins: two members and a newcomer, every order of everything, a crash or a stop at any step."""

from __future__ import annotations

from typing import Any

import pytest
from mutants import build_entry, source_of
from planted_in_joins import JOINS

from beforehand.ordering import PROTOCOLS
from beforehand.sim.explorer import Explorer, Stack, admissions
from beforehand.sim.explorer.plan import explorable

A, B, C = 1, 2, 4
FITTING = [p for p in PROTOCOLS.values() if p.traits.views and explorable(p)]
SEEN = ("welcome: only the first member sends one", "link: no link with newcomers")


@pytest.mark.parametrize("protocol", FITTING, ids=lambda protocol: protocol.traits.name)
def test_an_admission_survives_a_crash_or_a_stop_at_every_step(protocol: Any) -> None:
    explorer = Explorer(Stack(protocol=protocol).linked(membership=True, newcomer=2))
    for configuration in admissions(((), (), ()), newcomer=2, by=0):
        result = explorer.explore(configuration, rest=True)
        assert not result.findings, result.findings[0]
        assert result.complete
        assert result.finals >= 1


@pytest.mark.parametrize("name", ["fifo", "single-phase"])
@pytest.mark.parametrize("sender", [0, 1, 2])
def test_a_message_that_meets_an_admission_is_delivered_by_all_of_its_view(name: str, sender: int) -> None:
    explorer = Explorer(Stack(protocol=PROTOCOLS[name]).linked(membership=True, newcomer=2))
    lines = tuple((A | B | C,) if at == sender else () for at in range(3))
    for configuration in admissions(lines, newcomer=2, by=0):
        result = explorer.explore(configuration, states_max=8_000)
        assert not result.findings, result.findings[0]


@pytest.mark.parametrize("bug", [bug for bug in JOINS if bug.name in SEEN], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: Any) -> None:
    changed = build_entry(bug.module, source_of(bug), "beforehand.sim.explorer")
    stack = changed.Stack(protocol=PROTOCOLS["fifo"]).linked(membership=True, newcomer=2)
    explorer = changed.Explorer(stack)
    findings = [
        finding
        for configuration in changed.admissions(((), (), ()), newcomer=2, by=0)
        for finding in explorer.explore(configuration, states_max=20_000, rest=True).findings
    ]
    assert findings
