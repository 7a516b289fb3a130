"""The simulator finds bugs in joining: each that is planted is caught by a scenario in which somebody joins."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from mutants import Bug, Simulate, with_bug
from planted_in_joins import JOINS

from beforehand.sim import Scenario, simulate
from beforehand.sim.drawing_joins import draw_with_joins

SEEDS = 60

drawn = cache(draw_with_joins)


def failure(run: Simulate, scenario: Scenario) -> str | None:
    try:
        verdict = run(scenario).verdict
    except Exception as error:  # noqa: BLE001 (whatever a bug raises, it has shown itself)
        return f"{type(error).__name__}: {error}"
    return None if verdict.passed else verdict.failures[0]


@pytest.mark.parametrize("bug", JOINS, ids=lambda bug: bug.name)
def test_a_planted_bug_in_joining_is_caught(bug: Bug) -> None:
    changed = with_bug(bug)
    for seed, protocol in product(range(SEEDS), bug.run):
        if failure(changed, drawn(protocol, seed)) is not None:
            assert failure(simulate, drawn(protocol, seed)) is None, "the true program fails in this scenario"
            return
    pytest.fail(f"no scenario shows it; it should break: {bug.breaks}")
