"""The explorer: what it covers, that its reductions lose nothing, and the property matrix of all protocols."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from beforehand.history import History
from beforehand.ordering import PROTOCOLS, Fifo, LamportTotal, ReliableLink, Skeen
from beforehand.sim.explorer import (
    CAUSAL,
    TOTAL,
    Configuration,
    Explorer,
    Faults,
    Stack,
    departures,
    duels,
    explorable,
    explore_all,
    faults_of,
    leavings,
    matrix,
    parts,
    sendings,
    smallest,
    stacks,
    successions,
)
from beforehand.sim.explorer.__main__ import main

EXPLORABLE = [protocol for protocol in PROTOCOLS.values() if explorable(protocol)]
IDS = [protocol.traits.name for protocol in EXPLORABLE]
A, B, C = 1, 2, 4


def every(step: int, things: Any) -> Any:
    return islice(things, 0, None, step)


@pytest.mark.parametrize("protocol", EXPLORABLE, ids=IDS)
def test_promises_hold_in_every_run_of_one_message(protocol: Any) -> None:
    for stack in stacks(protocol):
        explorer = Explorer(stack)
        for lines in sendings(protocol.traits, 1):
            result = explorer.explore(Configuration(operations=lines, faults=faults_of(stack)))
            assert result.complete, result.findings[0]
            assert result.finals >= 1


@pytest.mark.parametrize("protocol", EXPLORABLE, ids=IDS)
def test_promises_hold_in_runs_of_two_and_three_messages(protocol: Any) -> None:
    """A stride through the configurations; the full set is for `make explore`."""
    chosen = [every(23, sendings(protocol.traits, 2)), every(1201, sendings(protocol.traits, 3))]
    stack = next(stacks(protocol))
    explorer = Explorer(stack)
    for lines in [lines for some in chosen for lines in some]:
        result = explorer.explore(Configuration(operations=lines, faults=faults_of(stack)), states_max=40_000)
        assert not result.findings, result.findings[0]


@pytest.mark.parametrize("protocol", EXPLORABLE, ids=IDS)
def test_promises_hold_over_a_link_with_a_loss_a_repetition_and_a_crash(protocol: Any) -> None:
    stack = Stack(protocol=protocol).linked()
    explorer = Explorer(stack)
    for lines in every(4, sendings(protocol.traits, 1)):
        configuration = Configuration(operations=lines, faults=faults_of(stack))
        result = explorer.explore(configuration, states_max=40_000, rest=True)
        assert not result.findings, result.findings[0]


@pytest.mark.parametrize("protocol", [p for p in EXPLORABLE if p.traits.views], ids=lambda p: p.traits.name)
def test_an_eviction_survives_a_crash_of_its_leader_at_every_step(protocol: Any) -> None:
    explorer = Explorer(Stack(protocol=protocol).linked(membership=True))
    for configuration in departures(((), (), ()), victim=2, by=0, crashes=1, crashing=A):
        result = explorer.explore(configuration)
        assert result.complete, result.findings[0]
        assert result.finals > 1
    lines = next(every(2, sendings(protocol.traits, 1)))
    for configuration in [
        *departures(lines, victim=2, by=0),
        *successions(lines, victim=2, by=0),
        *duels(lines, victim=2),
        *leavings(lines, leaver=2),
    ]:
        result = explorer.explore(configuration, states_max=20_000)
        assert not result.findings, result.findings[0]


def test_skeen_survives_a_crash_in_each_phase_and_the_eviction_of_a_sender_between_them() -> None:
    linked = Explorer(Stack(protocol=Skeen).linked())
    crashed = linked.explore(Configuration(operations=((A | B | C,), (), ()), faults=Faults(crashes=1)))
    assert crashed.complete
    assert crashed.states > 500

    group = Explorer(Stack(protocol=Skeen).linked(membership=True))
    for configuration in departures(((), (A | B,), (A | B,)), victim=2, by=0):
        evicted = group.explore(configuration, states_max=60_000)
        assert not evicted.findings


def test_matrix_refutes_what_is_not_promised_and_nothing_that_is() -> None:
    rows = matrix(EXPLORABLE, messages_max=3, messages_explored=1)

    for protocol, row in zip(EXPLORABLE, rows, strict=True):
        traits = protocol.traits
        promises = {"fifo": traits.fifo, "causal": traits.causal, "total": traits.total}
        assert row.breaches == ()
        assert row.verdicts == {order: "yes" if kept else "no" for order, kept in promises.items()}, row.protocol
        for order, counterexample in row.counterexamples.items():
            assert counterexample.confirmed
            assert History(counterexample.events).check().counts[order] > 0
            assert f"deliver {counterexample.events[0].sends[0]}" in counterexample.text()
            assert counterexample.svg().startswith("<svg")


def test_the_smallest_counterexample_is_the_textbook_one() -> None:
    found = smallest(Stack(protocol=Fifo), CAUSAL, messages_max=3)

    assert found is not None
    assert found.configuration.messages == 2
    assert found.text().splitlines()[1:] == [
        "a ─────────────● deliver b.1 ● send a.1 ─────────────────────────────▶",
        "b ──● send b.1 ──────────────────────────────────────────────────────▶",
        "c ──────────────────────────────────────● deliver a.1 ● deliver b.1 ─▶",
    ]
    assert found.steps[0] == "b: operate (send to a c): b sends b.1"


@pytest.mark.parametrize(
    ("protocol", "lines", "faults"),
    [
        (Fifo, ((B | C,), (C,), ()), Faults(losses=1)),
        (Fifo, ((B, B), (), ()), Faults(losses=1, repeats=1)),
        (Skeen, ((B | C,), (), ()), Faults(losses=1)),
        (Skeen, ((A | B,), (A | B,), ()), Faults()),
        (LamportTotal, ((B,), (), ()), Faults()),
    ],
)
def test_taking_acknowledgements_at_once_reaches_the_same_final_states(
    protocol: Any, lines: Any, faults: Faults
) -> None:
    explorer = Explorer(Stack(protocol=protocol).linked())
    configuration = Configuration(operations=lines, faults=faults)
    reduced: set[Any] = set()
    plain: set[Any] = set()

    few = explorer.explore(configuration, reduce=True, finals=reduced, states_max=None)
    many = explorer.explore(configuration, reduce=False, finals=plain, states_max=None)

    assert few.states < many.states
    assert reduced == plain


@pytest.mark.parametrize("name", ["unordered", "fifo", "causal-broadcast", "causal-unicast", "schiper-causal"])
def test_renaming_processes_changes_nothing_where_the_plan_relies_on_it(name: str) -> None:
    protocol = PROTOCOLS[name]
    explorer = Explorer(Stack(protocol=protocol))
    here = C | A if protocol.traits.destinations == "some" else A | B | C
    lines = ((A | B | C, B | C), (here,), ())
    swapped = ((), (here,), (A | B | C, A | B))  # a ↔ c.
    one = explorer.explore(Configuration(operations=lines, faults=Faults(repeats=1)))
    other = explorer.explore(Configuration(operations=swapped, faults=Faults(repeats=1)))
    assert (one.states, one.transitions, one.finals) == (other.states, other.transitions, other.finals)


def test_symmetric_sendings_are_one_of_each_class() -> None:
    assert len(list(sendings(Fifo.traits, 1))) == 21
    assert len(list(sendings(Fifo.traits, 1, symmetric=True))) == 5
    assert len(list(sendings(Fifo.traits, 2))) == 6 * 49
    assert len(list(sendings(Skeen.traits, 4))) == 15 * 7**4


def test_a_campaign_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    told: list[Any] = []
    first = explore_all(
        [Fifo], tmp_path, messages_max=2, kinds=["bare"], states_max=None, tell=told.append, found=told.append
    )
    log = tmp_path / "progress.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    cut = {**lines[-1], "done": 50, "states": 0, "complete": False}
    log.write_text("\n".join([*map(json.dumps, [*lines[:-1], cut]), '{"part": "fifo ba']))

    again = explore_all(
        [Fifo], tmp_path, messages_max=2, kinds=["bare"], states_max=None, tell=told.append, found=told.append
    )

    assert [p.done for p in first] == [p.done for p in again] == [5, 57]
    assert 0 < again[1].states < first[1].states
    assert again[0] == first[0]


def test_the_command_explores_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fifo", "--messages", "1", "--kind", "bare", "--to", str(tmp_path)]) == 0
    assert "5 configurations, 18 states" in capsys.readouterr().out
    assert main(["fifo", "--messages", "2", "--matrix"]) == 0
    assert capsys.readouterr().out.startswith("fifo               fifo: yes  causal: no  total: no\n")
    with pytest.raises(SystemExit):
        main(["no-such-protocol"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["timed-delivery", "--kind", "departures"], "timed-delivery goes by clocks"),
        (["causal-merge"], "causal-merge goes by clocks"),
        (["independent-sends", "--kind", "joins"], "independent-sends has no views: its members stay"),
    ],
)
def test_a_protocol_of_which_nothing_can_be_explored_is_told_of(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--to", str(tmp_path)])
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=list(PROTOCOLS))
def test_members_come_and_go_in_the_parts_of_protocols_with_views_only(protocol: Any) -> None:
    kinds = {part.kind for part in parts(protocol, messages_max=1)}
    assert kinds == {"bare", "link", *(["departures", "joins"] if protocol.traits.views else [])}


def test_a_limit_cuts_the_search_short_and_says_so() -> None:
    result = Explorer(Stack(protocol=Skeen)).explore(Configuration(operations=((7, 7), (7,), (7,))), states_max=1_000)
    assert not result.complete
    assert not result.findings


def test_counterexamples_of_total_order_name_a_cycle() -> None:
    found = smallest(Stack(protocol=Fifo), TOTAL, messages_max=2)
    assert found is not None
    assert found.configuration.messages == 2
    assert found.confirmed


def test_a_link_is_needed_for_a_membership() -> None:
    with pytest.raises(ValueError, match="reliable link"):
        Stack(protocol=Fifo, membership=ReliableLink)
