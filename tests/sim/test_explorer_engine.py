"""The compiled search says what the search in Python says, to the last digit, and leaves findings to it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from test_explorer_finds import (
    BlindCausal,
    CarelessLink,
    DeafRendezvous,
    EchoingLink,
    ImpatientSkeen,
    LooseLink,
    RepeatingFifo,
    SleepyFifo,
    TakesAll,
    TiredLink,
)

from beforehand.ordering import PROTOCOLS, Fifo, LamportTotal, Skeen
from beforehand.sim.explorer import (
    Configuration,
    Counterexample,
    Exploration,
    Explorer,
    Faults,
    Part,
    Progress,
    Stack,
    departures,
    explorable,
    explore_part,
    faults_of,
    sendings,
    stacks,
)
from beforehand.sim.explorer.engine import Engine

EXPLORABLE = [protocol for protocol in PROTOCOLS.values() if explorable(protocol)]
IDS = [protocol.traits.name for protocol in EXPLORABLE]
A, B, C = 1, 2, 4


def figures(result: Exploration) -> tuple[int, int, int, int, bool]:
    return (result.states, result.transitions, result.finals, result.depth, result.complete)


def check_equal(stack: Stack, some: Any, *, states_max: int) -> None:
    explorer = Explorer(stack)
    engine = Engine(explorer)
    for lines in some:
        configuration = Configuration(operations=lines, faults=faults_of(stack))
        compiled: set[Any] = set()
        plain: set[Any] = set()
        one = engine.explore(configuration, states_max=states_max, finals=compiled)
        other = explorer.explore(configuration, states_max=states_max, finals=plain)
        assert engine.applies_to(configuration)
        assert figures(one) == figures(other), configuration
        assert compiled == plain


@pytest.mark.parametrize("protocol", EXPLORABLE, ids=IDS)
def test_figures_and_final_states_are_equal_with_one_message(protocol: Any) -> None:
    for stack in stacks(protocol):
        check_equal(stack, sendings(protocol.traits, 1), states_max=40_000)


@pytest.mark.parametrize("protocol", EXPLORABLE, ids=IDS)
def test_figures_and_final_states_are_equal_with_two_and_three_messages(protocol: Any) -> None:
    two = islice(sendings(protocol.traits, 2), 0, None, 23)
    three = islice(sendings(protocol.traits, 3), 100, None, 1201)
    check_equal(next(stacks(protocol)), [*two, *three], states_max=40_000)


@pytest.mark.parametrize("protocol", EXPLORABLE, ids=IDS)
def test_figures_and_final_states_are_equal_over_a_link_with_all_three_faults(protocol: Any) -> None:
    one = islice(sendings(protocol.traits, 1), 1, None, 7)
    two = islice(sendings(protocol.traits, 2), 1, None, 151)
    check_equal(Stack(protocol=protocol).linked(), [*one, *two], states_max=15_000)


@pytest.mark.parametrize("faults", [Faults(losses=2), Faults(repeats=2), Faults(crashes=2, crashing=A | C)])
def test_figures_are_equal_with_two_faults_of_a_kind(faults: Faults) -> None:
    explorer = Explorer(Stack(protocol=Skeen).linked())
    configuration = Configuration(operations=((A | B,), (), ()), faults=faults)
    one = Engine(explorer).explore(configuration)
    assert figures(one) == figures(explorer.explore(configuration))
    assert one.complete


def test_a_configuration_is_the_same_after_others_as_alone() -> None:
    stack = Stack(protocol=LamportTotal)
    large = Configuration(operations=((7, 7), (7,), ()))
    small = Configuration(operations=((7,), (), ()))
    engine = Engine(Explorer(stack))
    after = [figures(engine.explore(one)) for one in (large, small, large, small)]
    alone = [figures(Engine(Explorer(stack)).explore(one)) for one in (large, small)]
    assert after == [*alone, *alone]


PLANTED = [
    (Stack(protocol=RepeatingFifo), None),
    (Stack(protocol=SleepyFifo), None),
    (Stack(protocol=BlindCausal), None),
    (Stack(protocol=ImpatientSkeen), None),
    (Stack(protocol=DeafRendezvous), None),
    (Stack(protocol=TakesAll, link=CarelessLink), Faults(crashes=1)),
    (Stack(protocol=TakesAll, link=LooseLink), Faults(repeats=1)),
    (Stack(protocol=TakesAll, link=TiredLink), Faults(losses=1)),
    (Stack(protocol=TakesAll, link=EchoingLink), Faults()),
]


@pytest.mark.parametrize(("stack", "faults"), PLANTED, ids=[(s.link or s.protocol).__name__ for s, _ in PLANTED])
def test_a_planted_bug_yields_the_same_counterexample(stack: Stack, faults: Faults | None) -> None:
    engine = Engine(Explorer(stack))
    for messages in (1, 2, 3):
        for lines in sendings(stack.traits, messages):
            configuration = Configuration(operations=lines, faults=faults or faults_of(stack))
            result = engine.explore(configuration, states_max=50_000)
            if result.findings:
                alone = Explorer(stack).explore(configuration, states_max=50_000)
                assert result.findings == alone.findings
                assert figures(result) == figures(alone)
                return
    pytest.fail("nothing was found")


def test_a_campaign_ends_at_the_first_finding_and_hands_it_over() -> None:
    part = Part(name="planted", stack=Stack(protocol=ImpatientSkeen), messages=2, kind="bare")
    found: list[Counterexample] = []
    progress = Progress(part="planted")

    explore_part(part, progress, save=lambda _: None, found=found.append)

    assert [finding.kind for finding in found] == ["total"]
    assert progress.findings == 1
    assert progress.done < len(list(part.configurations()))
    assert found[0] == Explorer(part.stack).explore(found[0].configuration).findings[0]


def test_two_workers_come_to_what_one_comes_to_and_go_on_where_it_stopped() -> None:
    part = Part(name="fifo bare 2", stack=Stack(protocol=Fifo), messages=2, kind="bare")
    alone, shared = Progress(part=part.name), Progress(part=part.name)
    explore_part(part, alone, save=lambda _: None, found=lambda _: None)
    half = Progress(part=part.name, done=30)

    explore_part(part, shared, workers=2, save=lambda _: None, found=lambda _: None)
    explore_part(part, half, workers=2, save=lambda _: None, found=lambda _: None)

    assert replace(shared, seconds=0) == replace(alone, seconds=0)
    assert shared.done == half.done == 57
    assert 0 < half.states < shared.states


def test_a_finding_of_a_worker_ends_the_part() -> None:
    part = Part(name="planted", stack=Stack(protocol=ImpatientSkeen), messages=2, kind="bare")
    alone: list[Counterexample] = []
    shared: list[Counterexample] = []
    first, second = Progress(part="planted"), Progress(part="planted")

    explore_part(part, first, save=lambda _: None, found=alone.append)
    explore_part(part, second, workers=2, save=lambda _: None, found=shared.append)

    assert alone == shared
    assert first.done == second.done


def test_at_the_bound_of_memory_a_configuration_is_cut_short() -> None:
    configuration = Configuration(operations=((7, 7), (7,), ()))
    bounded = Engine(Explorer(Stack(protocol=LamportTotal)), memory_max=1 << 20).explore(configuration)
    assert not bounded.complete
    assert not bounded.findings
    assert bounded.states > 1_000


def test_members_that_leave_and_early_timers_are_for_the_search_in_python() -> None:
    explorer = Explorer(Stack(protocol=Fifo).linked(membership=True))
    (leaving,) = departures(((), (), ()), victim=2, by=0)
    early = Configuration(operations=((B,), (), ()), faults=Faults(early=1))
    for configuration in (leaving, early):
        assert not Engine(explorer).applies_to(configuration)
        assert figures(Engine(explorer).explore(configuration)) == figures(explorer.explore(configuration))
    assert not Engine(Explorer(Stack(protocol=Fifo))).applies_to(early)
