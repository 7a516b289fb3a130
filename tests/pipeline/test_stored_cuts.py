"""Cuts, witnesses and temporal order out of a history directory equal those of the history in memory."""

from __future__ import annotations

from random import Random

import pytest

from beforehand.errors import InputError
from beforehand.history import Cut
from beforehand.pipeline.stored import StoredHistory, clock_witness, overtaken_witness
from beforehand.pipeline.stored.checking import temporal_violations
from history_directories import Case

PLANS = ["whole", "blocks", "few", "many"]


def comparable(cut: Cut) -> tuple[object, ...]:
    """Messages of a cut have another order in memory: that of the input."""
    return dict(cut.cut), cut.front, sorted(cut.in_flight), sorted(cut.unreceived), cut.consistent


@pytest.mark.parametrize("plan", PLANS)
def test_the_cut_at_a_time_is_that_of_the_history_in_memory(plan: str, cut_cases: dict[str, Case]) -> None:
    random = Random(1)
    stored = StoredHistory.open(cut_cases[plan].path)
    for history in cut_cases[plan].histories.values():
        times = [event.time for event in history.columns.events if event.time is not None] or [0]
        for time in [min(times) - 1, max(times), *(random.choice(times) + random.randint(-1, 1) for _ in range(15))]:
            found = stored.cut_at(time, execution=history.execution)
            assert comparable(found) == comparable(history.cut_at(time))
            assert found.consistent


@pytest.mark.parametrize("plan", PLANS)
def test_the_cut_after_events_is_that_of_the_history_in_memory(plan: str, cut_cases: dict[str, Case]) -> None:
    random = Random(2)
    stored = StoredHistory.open(cut_cases[plan].path)
    for history in cut_cases[plan].histories.values():
        for _ in range(15):
            events = [random.choice(history.columns.events) for _ in range(random.randint(1, 4))]
            found = stored.cut_after(*events)
            assert comparable(found) == comparable(history.cut_after(*events))
            assert found.consistent


@pytest.mark.parametrize("plan", PLANS)
def test_any_cut_is_described_as_in_memory(plan: str, cut_cases: dict[str, Case]) -> None:
    random = Random(3)
    stored = StoredHistory.open(cut_cases[plan].path)
    kinds = set()
    for history in cut_cases[plan].histories.values():
        last = {
            process: max(history.stamp(e)[process] for e in history.columns.events if e.process == process)
            for process in history.processes
        }
        for reach in (0.0, 0.02, 0.5, 1.0, 1.2):
            for _ in range(6):
                cut = {p: int(random.uniform(0.8, 1) * reach * last[p]) for p in last if random.random() < 0.95}
                found = stored.describe(cut, execution=history.execution)
                assert comparable(found) == comparable(history.cut(cut))
                kinds.add(found.consistent)
    assert kinds == {True, False}


def test_the_untidy_history_has_every_kind_of_bad_structure(cut_cases: dict[str, Case]) -> None:
    rejections = cut_cases["few"].histories["untidy"].rejections
    assert {one.reason for one in rejections} == {"duplicate-send", "duplicate-receive", "cycle"}


def test_a_cut_is_of_one_execution(cut_cases: dict[str, Case]) -> None:
    stored = StoredHistory.open(cut_cases["few"].path)
    with pytest.raises(
        InputError, match=r"there are 4 executions: say which one with execution=; there are .* events.*, …$"
    ):
        stored.cut_at(0)
    with pytest.raises(InputError, match="different executions"):
        stored.cut_after("skewed/p1:2", "untimed/p1:2")
    with pytest.raises(InputError, match="no execution 'nope'"):
        stored.cut_at(0, execution="nope")
    with pytest.raises(InputError, match="'nobody', which is no process"):
        stored.describe({"nobody": 1}, execution="skewed")


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", ["fifo", "causal"])
def test_overtaken_receives_have_the_witnesses_of_a_check_in_memory(
    plan: str, kind: str, cut_cases: dict[str, Case]
) -> None:
    case = cut_cases[plan]
    stored = StoredHistory.open(case.path)
    for execution, history in case.histories.items():
        places = sorted(tuple(place) for block in case.found[execution] for place in block[kind])
        found = [overtaken_witness(stored, execution, kind, *place) for place in places]
        expected = [one for one in history.check(limit=10_000).violations if one.kind == kind]
        assert found == expected
        assert found


@pytest.mark.parametrize("plan", PLANS)
def test_wrong_clocks_have_the_witnesses_of_a_check_in_memory(plan: str, cut_cases: dict[str, Case]) -> None:
    case = cut_cases[plan]
    stored = StoredHistory.open(case.path)
    for execution, history in case.histories.items():
        first: dict[int, int] = {}
        for block in case.found[execution]:
            for member, index in block["clock"]:
                first.setdefault(member, index)
        found = [clock_witness(stored, execution, member, first[member]) for member in sorted(first)]
        assert found == [one for one in history.check(limit=10_000).violations if one.kind == "clock"]
        assert found


def test_a_receive_that_was_not_overtaken_has_no_witness(cut_cases: dict[str, Case]) -> None:
    case = cut_cases["blocks"]
    stored, history = StoredHistory.open(case.path), case.histories[""]
    columns = history.columns
    late = {tuple(place) for block in case.found[""] for place in block["causal"]}
    row = next(r for r in columns.receive_row if (int(columns.process[r]), int(columns.index[r]), 0) not in late)
    with pytest.raises(InputError, match=r"no message overtook|has no receive"):
        overtaken_witness(stored, "", "causal", int(columns.process[row]), int(columns.index[row]), 0)


@pytest.mark.parametrize("delta_ns", [0, 1_000, 20_000, 10**9])
def test_temporal_order_is_judged_as_in_memory(delta_ns: int, cut_cases: dict[str, Case]) -> None:
    case = cut_cases["few"]
    count, violations, _ = temporal_violations(StoredHistory.open(case.path).scanner, delta_ns, 10_000)
    expected = [
        one
        for execution in sorted(case.histories)
        for one in case.histories[execution].check(delta_ns=delta_ns, limit=10_000).violations
        if one.kind == "temporal"
    ]
    assert count == len(expected)
    assert violations == expected
