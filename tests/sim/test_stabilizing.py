"""The stabilization campaign, reduced; what it is able to catch; and its judge, on histories written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import Bug
from planted_in_merging import BUGS, EQUIVALENT, KNOWN, catch, shows, with_bug

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.formats import read_events
from beforehand.sim.stabilizing import (
    Fault,
    Progress,
    draw_setting,
    judge_events,
    run_campaign,
    run_setting,
    summary,
    try_seed,
)
from beforehand.sim.stabilizing import campaign as campaigns
from beforehand.sim.stabilizing.__main__ import main

SEEDS = 20
"""Of each kind of fault. `make campaign-merge` runs 2,000."""


@pytest.mark.parametrize("fault", Fault)
def test_after_the_last_fault_all_is_right_again(fault: Fault) -> None:
    trials = [try_seed(fault, seed) for seed in range(SEEDS)]
    failed = {trial.setting.seed: trial.failures[:3] for trial in trials if not trial.passed}
    assert not failed, f"replay: python -m beforehand.sim.stabilizing --replay {fault} SEED"
    assert sum(trial.judged for trial in trials) > 25 * SEEDS


def test_faults_do_harm_before_that() -> None:
    # Otherwise nothing would be shown: somewhere messages sent after the last fault are still wrong, for a while.
    trials = [try_seed(Fault.INITIAL, seed) for seed in range(60)]
    wrong = [trial.recovered for trial in trials if trial.recovered]
    assert len(wrong) >= 3
    assert all(trial.recovered <= trial.setting.recovery for trial in trials)


def test_one_seed_decides_everything() -> None:
    setting = draw_setting(Fault.ALL, 5)
    assert draw_setting(Fault.ALL, 5) == setting
    assert run_setting(setting) == run_setting(setting)
    assert run_setting(setting) != run_setting(draw_setting(Fault.ALL, 6))


def test_the_time_to_recover_is_that_of_the_theorems() -> None:
    setting = draw_setting(Fault.NONE, 0)
    epsilon, delta = setting.bounds.epsilon, setting.bounds.delta
    assert epsilon > 0
    assert setting.recovery == 2 * (delta + 3 * epsilon - 1) + 1 + epsilon > delta + 4 * epsilon


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught_by_the_campaign(bug: Bug) -> None:
    fault, seed = KNOWN.get(bug.name, (bug.run[0], 0))
    if shows(with_bug(bug), fault, seed) is None:
        caught = catch(bug)
        assert caught is not None, f"no seed shows it; it should break: {bug.breaks}"
        fault, seed, _ = caught
    assert try_seed(Fault(fault), seed).passed, "the true program fails with this seed: that shows nothing of the bug"


@pytest.mark.parametrize("change", EQUIVALENT, ids=lambda bug: bug.name)
def test_a_change_that_breaks_nothing_is_not_caught(change: Bug) -> None:
    assert catch(change, 6) is None, f"it was thought to break nothing: {change.breaks}"


# The judge.


def happened(process: str, name: str, at: int, *, sends=(), receives=(), **attributes: str) -> Event:
    index = int(attributes.pop("index", "1"))
    return Event(
        process=process,
        index=index,
        time=at,
        name=name,
        sends=sends,
        receives=receives,
        attributes={"at": str(at), **attributes},
    )


def sent(message: str, at: int, to: str = "m n") -> Event:
    return happened(message[0], "send", at, sends=(message,), to=to)


def arrived(merger: str, message: str, at: int) -> Event:
    return happened(merger, "arrive", at, message=message)


def delivered(merger: str, message: str, at: int) -> Event:
    return happened(merger, "deliver", at, receives=(message,), was=str(at - 1))


def asked(*events: Event) -> list[str]:
    """ε = 2, δ = 5."""
    violations = judge_events(events, epsilon=2, delta=5, events_per_tick=1, after=9, until=100, healthy_after=9)
    return [violation.question for violation in violations]


GOOD = (
    sent("p1", 10),
    sent("q1", 10),
    sent("p2", 11),
    *(arrived(merger, message, 12) for merger in "mn" for message in ("p2", "p1", "q1")),
    *(delivered(merger, message, 18) for merger in "mn" for message in ("p1", "q1", "p2")),
)


def test_the_judge_finds_nothing_where_nothing_is_wrong() -> None:
    assert asked(*GOOD) == []


@pytest.mark.parametrize(
    ("events", "question"),
    [
        ((*GOOD[:12], *(delivered("n", message, 18) for message in ("q1", "p1", "p2"))), "order"),
        ((sent("p1", 10), sent("p2", 11), delivered("m", "p2", 18), delivered("m", "p1", 18)), "causal"),
        ((sent("p1", 10), arrived("m", "p1", 15)), "missing"),
        ((sent("p1", 10), delivered("m", "p1", 15), delivered("m", "p1", 15)), "twice"),
        ((sent("p1", 10, to="n"), delivered("m", "p1", 15)), "stray"),
        ((sent("p1", 10), arrived("m", "p1", 8), delivered("m", "p1", 20)), "waiting"),
        ((sent("p1", 10), arrived("m", "p1", 14), delivered("m", "p1", 20)), "waiting"),
        ((sent("p1", 10), delivered("m", "ghost.1", 15)), "invented"),
        ((sent("p1", 10), happened("q", "blocked", 10)), "blocked"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_judge_finds_each_kind_of_violation(events: tuple[Event, ...], question: str) -> None:
    assert asked(*events) == [question]


def test_the_judge_follows_causes_through_direct_messages() -> None:
    chain = (
        sent("p1", 10),
        sent("p2", 10, to="q"),
        happened("q", "receive", 11, receives=("p2",)),
        sent("q1", 11),
    )
    assert asked(*chain, delivered("m", "p1", 18), delivered("m", "q1", 18)) == []
    assert asked(*chain, delivered("m", "q1", 18), delivered("m", "p1", 18)) == ["causal"]


def test_what_came_late_or_was_sent_too_early_is_not_asked_for() -> None:
    assert asked(sent("p1", 10), arrived("m", "p1", 16)) == []
    assert asked(sent("p1", 9), arrived("m", "p1", 10)) == []
    assert asked(sent("p1", 10), happened("p", "blocked", 10)) == []  # It had had its event.


# The campaign.


def test_a_campaign_goes_on_where_it_stopped_and_keeps_what_failed(tmp_path: Path) -> None:
    first = run_campaign(tmp_path, [Fault.NONE, Fault.LOSS], 2, workers=1)
    assert {name: progress.done for name, progress in first.items()} == {"none": 2, "loss": 2}
    judged = first["none"].judged
    second = run_campaign(tmp_path, [Fault.NONE], 3, workers=1)
    assert second["none"].done == 3
    assert second["none"].judged > judged
    assert len(second["none"].recovered) == 3
    assert "| none | 3 |" in "\n".join(summary(second))
    campaigns._take(tmp_path, second["none"], Fault.NONE, Progress(done=4, failed=[3]))
    assert list(read_events(tmp_path / "none-3.jsonl")) == list(try_seed(Fault.NONE, 3).events)
    (tmp_path / "progress.json").write_text("[]")
    with pytest.raises(InputError):
        run_campaign(tmp_path, [Fault.NONE], 1, workers=1)


def test_the_command_replays_and_refuses(tmp_path: Path, capsys) -> None:
    assert main(["--replay", "loss", "0", "--to", str(tmp_path / "run.jsonl")]) == 0
    assert (tmp_path / "run.jsonl").stat().st_size > 1_000
    assert "messages judged" in capsys.readouterr().out
    for wrong in (["--replay", "rain", "0"], ["--replay", "loss", "x"], ["--seeds", "3"]):
        with pytest.raises(SystemExit) as stopped:
            main(wrong)
        assert stopped.value.code == 2
