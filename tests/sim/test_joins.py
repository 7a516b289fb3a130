"""Processes that join in simulated runs, and the judge of it: by the record, not by what the protocols think."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from beforehand.ordering import PROTOCOLS, Message
from beforehand.sim import (
    Departure,
    Join,
    Operation,
    Record,
    Scenario,
    draw,
    read_scenario,
    simulate,
    write_scenario,
)
from beforehand.sim.agreement import agreement
from beforehand.sim.composing import Wishes, compose
from beforehand.sim.drawing_joins import can_join, draw_with_joins
from beforehand.sim.scenario import MILLISECOND
from beforehand.sim.shrinking import shrink

NAMES = ("a", "b", "c")
EVERYBODY = (*NAMES, "d")


def joining(**given: object) -> Scenario:
    scenario = Scenario(
        protocol="single-phase",
        processes=NAMES,
        operations=(
            Operation(process="a", at=0, to=EVERYBODY),
            Operation(process="b", at=20 * MILLISECOND, to=EVERYBODY),
            Operation(process="d", at=0, to=EVERYBODY),
        ),
        link=True,
        membership=True,
        joins=(Join(process="d", at=10 * MILLISECOND, by="b", starts=12 * MILLISECOND),),
    )
    return replace(scenario, **given)  # type: ignore[arg-type]


def test_a_newcomer_delivers_what_is_sent_from_its_first_view_on() -> None:
    outcome = simulate(joining())
    assert outcome.verdict.failures == ()
    delivered = outcome.record.delivered
    assert delivered["a"][0] == "a.1"
    assert sorted(delivered["d"]) == ["b.1", "d.1"]
    assert delivered["d"] == delivered["a"][1:]
    assert outcome.record.views["d"] == [(1, EVERYBODY, 0)]


def test_one_that_was_to_be_admitted_and_never_is_a_member_is_a_failure() -> None:
    scenario = joining()
    world_without = replace(scenario, joins=(replace(scenario.joins[0], starts=scenario.heal_at * 100),))
    failures = simulate(world_without).verdict.failures
    assert any("d never became a member: b was to admit it" in failure for failure in failures)


def test_one_whose_admission_went_with_the_member_that_was_asked_is_none() -> None:
    gone = Departure(process="b", at=5 * MILLISECOND, by="a")
    outcome = simulate(joining(departures=(gone,), operations=joining().operations[:1]))
    assert outcome.verdict.failures == ()
    assert "d" not in outcome.record.views


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if can_join(name)])
def test_drawn_scenarios_with_joins_keep_every_promise(protocol: str) -> None:
    outcomes = [simulate(draw_with_joins(protocol, seed)) for seed in range(12)]
    assert [outcome.verdict.failures for outcome in outcomes] == [()] * 12
    joined = [name for outcome in outcomes for name in outcome.scenario.newcomers if name in outcome.record.views]
    assert len(joined) >= 6


def test_without_joins_a_seed_draws_what_it_always_drew() -> None:
    for protocol in PROTOCOLS:
        assert draw(protocol, 3).joins == ()
    for protocol in ("independent-sends", "timed-delivery", "causal-merge"):
        for seed in range(30):
            assert draw_with_joins(protocol, seed) == draw(protocol, seed)
    assert draw_with_joins("fifo", 3) == draw_with_joins("fifo", 3) != draw_with_joins("fifo", 4)


def test_a_scenario_with_joins_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(write_scenario(joining()))
    assert read_scenario(tmp_path / "one.json") == joining()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"link": False, "membership": False}, "needs the membership layer and the reliable link"),
        ({"joins": (Join(process="a", at=0, by="b"),)}, "who joins is new"),
        ({"joins": (Join(process="d", at=0, by="z"),)}, "'z' is not a process"),
    ],
)
def test_joins_that_cannot_be_are_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        joining(**given)


def test_who_returns_has_a_new_name_and_takes_part() -> None:
    scenario = compose("causal-broadcast", Wishes(processes=5, messages=30, seed=4, evict=1, join=2, loss=0.1))
    [departure] = scenario.departures
    assert scenario.newcomers == (f"{departure.process}.2", "new1")
    outcome = simulate(scenario)
    assert outcome.verdict.failures == ()
    assert all(len(outcome.record.delivered[name]) > 3 for name in scenario.newcomers)


def test_shrinking_leaves_joins_out_and_all_that_names_them() -> None:
    scenario = draw_with_joins("fifo", 8)
    assert scenario.joins
    small = shrink(scenario, lambda candidate: "a" in {o.process for o in candidate.operations})
    assert small.joins == ()
    assert len(small.operations) == 1


def test_the_judge_compares_a_newcomer_with_the_others_from_its_first_view_on() -> None:
    def record(here: list[str], there: list[str]) -> Record:
        made = Record(views={"a": [(1, ("a", "b"), 1), (2, ("a", "d"), 1), (3, ("a", "d"), 2)]})
        made.views["d"] = [(2, ("a", "d"), 0), (3, ("a", "d"), 1)]
        for number, to in ((1, ("a", "b")), (2, ("a", "d"))):
            message = Message(sender="a", number=number, to=to)
            made.sent[message.id] = (message, 0)
        made.delivered = {"a": here, "d": there}
        return made

    assert agreement(record(["a.1", "a.2"], ["a.2"])) == []
    assert agreement(record(["a.1", "a.2"], ["a.9"])) == [
        "a.2 was delivered before view 3 at one of a and d only",
    ]
    other = record(["a.1", "a.2"], ["a.2"])
    other.views["d"][0] = (2, ("a", "c", "d"), 0)
    assert agreement(other) == ["a installed view 2 of ('a', 'd'), d view 2 of ('a', 'c', 'd')"]
