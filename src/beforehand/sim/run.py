"""One simulated run, from its scenario to its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from beforehand.clocks import View
from beforehand.errors import BeforehandError, InputError
from beforehand.ordering import DeliveryProtocol
from beforehand.sim.record import Record
from beforehand.sim.scenario import Scenario
from beforehand.sim.stack import stack_of, traits_of
from beforehand.sim.verdict import Verdict, judge
from beforehand.sim.world import Application, World

__all__ = ["Outcome", "simulate"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run and what is to be thought of it."""

    scenario: Scenario
    record: Record
    verdict: Verdict


def simulate(
    scenario: Scenario,
    *,
    make: Callable[[str, View], DeliveryProtocol] | None = None,
    application: Application | None = None,
) -> Outcome:
    """Run a scenario. `make` builds the processes, by default what the scenario says; `application` reacts to what
    is delivered.

    A protocol that raises what it must not is a failure like any other, told in the verdict.
    """
    traits = traits_of(scenario)
    world = World(scenario, make or stack_of(scenario), application)
    world.record.lanes = scenario.protocol == "independent-sends"
    try:
        world.run()
    except InputError:
        raise
    except (
        BeforehandError,
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        failure = f"at {world.now} ns: {type(error).__name__}: {error}"
        return Outcome(scenario, world.record, Verdict(kept={}, failures=(failure,)))
    return Outcome(scenario, world.record, judge(world, traits))
