"""Measures: clock offsets, synchrony, lateness, concurrency, hidden channels."""

from __future__ import annotations

from random import Random

import pytest

from beforehand.events import Event
from beforehand.history import ClockBounds, HiddenChannel, History, Lateness, Synchrony
from beforehand.history.offsets import _through_references
from random_histories import as_events, pasts, random_steps


def event(name: str, time: int | None, *, sends: str = "", receives: str = "", resource: str = "") -> Event:
    process, index = name.split(":")
    return Event(
        process=process,
        index=int(index),
        time=time,
        sends=tuple(sends.split()),
        receives=tuple(receives.split()),
        attributes={"resource": resource} if resource else {},
    )


def test_a_round_trip_bounds_an_offset_from_both_sides() -> None:
    # q runs 100 ahead. p → q takes 10 (seen as 110), q → p takes 20 (seen as −80).
    history = History(
        [
            event("p:1", 1000, sends="there"),
            event("q:1", 1110, receives="there"),
            event("q:2", 1200, sends="back"),
            event("p:2", 1120, receives="back"),
        ]
    )
    measures = history.measure()
    assert measures.references == ("p",)
    assert measures.clocks == {"p": ClockBounds(0, 0), "q": ClockBounds(80, 110)}
    assert (measures.epsilon_min_ns, measures.epsilon_max_ns) == (80, 110)
    assert measures.delta_ns == 110
    assert measures.synchrony == Synchrony(tightness_ns=0, steadiness_ns=0, uncertainty_ns=190)


def test_what_nothing_bounds_is_none() -> None:
    history = History([event("p:1", 0, sends="m"), event("q:1", 50, receives="m"), event("r:1", 9)])
    clocks = history.measure().clocks
    assert clocks["q"] == ClockBounds(None, 50)
    assert clocks["r"] == ClockBounds(0, 0)
    assert history.measure().epsilon_max_ns is None


def test_the_reference_is_the_process_with_most_messages() -> None:
    events = [event("hub:1", 0, sends="a b"), event("p:1", 5, receives="a"), event("q:1", 7, receives="b")]
    assert History(events).measure().references == ("hub",)


def test_clocks_that_no_constant_offsets_fit_give_none_and_a_note() -> None:
    # Seen from both sides the message takes negative time: a clock was set in between.
    history = History(
        [
            event("p:1", 1000, sends="there"),
            event("q:1", 900, receives="there"),
            event("q:2", 1000, sends="back"),
            event("p:2", 950, receives="back"),
            event("x:1", 0, sends="other"),
            event("y:1", 3, receives="other"),
        ]
    )
    measures = history.measure()
    assert measures.clocks["q"] == ClockBounds(None, None)
    assert measures.clocks["y"] == ClockBounds(None, 3)
    assert any("no constant offsets fit the clocks of p, q" in note for note in measures.notes)


@pytest.mark.parametrize("seed", range(30))
def test_the_true_offsets_lie_within_the_bounds(seed: int) -> None:
    random = Random(seed)
    steps = random_steps(random, processes=5, steps=120)
    offset = {f"p{i}": random.randint(-10_000, 10_000) for i in range(5)}
    for at, step in enumerate(steps):
        step.time = 1_000_000 + at * 100 + offset[step.process]
    measures = History(as_events(steps)).measure()
    (reference,) = measures.references
    true_epsilon = max(offset.values()) - min(offset.values())
    for process, bounds in measures.clocks.items():
        true = offset[process] - offset[reference]
        assert bounds.offset_min_ns is None or bounds.offset_min_ns <= true
        assert bounds.offset_max_ns is None or true <= bounds.offset_max_ns
    assert measures.epsilon_min_ns is not None
    assert measures.epsilon_min_ns <= true_epsilon
    assert measures.epsilon_max_ns is None or true_epsilon <= measures.epsilon_max_ns


def test_bounds_by_way_of_the_reference_agree_with_those_over_all_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(as_events(random_steps(Random(5), processes=6, steps=200, skew_ns=500)))
    exact = history.measure()
    monkeypatch.setattr("beforehand.history.offsets.ALL_PAIRS_MAX", 0)
    assert _through_references is not None
    assert history.measure().clocks == exact.clocks
    assert history.measure().references == exact.references


def test_lecture_tightness_steadiness_and_uncertainty() -> None:
    # m to p and q takes 10 and 35; n to p takes 50.
    history = History(
        [
            event("s:1", 0, sends="m"),
            event("s:2", 100, sends="n"),
            event("p:1", 10, receives="m"),
            event("q:1", 35, receives="m"),
            event("p:2", 150, receives="n"),
        ]
    )
    assert history.measure().synchrony == Synchrony(tightness_ns=25, steadiness_ns=40, uncertainty_ns=40)


def test_the_share_of_late_messages_for_each_delta() -> None:
    events = [event("s:1", 0, sends=" ".join(f"m{i}" for i in range(10)))]
    events += [event(f"p:{i + 1}", 10 * (i + 1), receives=f"m{i}") for i in range(10)]
    lateness = History(events).measure().lateness
    assert lateness == (Lateness(50, 0.5), Lateness(90, 0.1), Lateness(100, 0.0))


@pytest.mark.parametrize("seed", range(10))
def test_concurrency_is_the_share_of_concurrent_pairs(seed: int) -> None:
    steps = random_steps(Random(seed), steps=40)
    ordered = sum(past.bit_count() for past in pasts(steps))
    assert History(as_events(steps)).measure().concurrency == pytest.approx(1 - ordered / (40 * 39 / 2))


def test_lecture_a_hidden_channel_is_suspected_where_time_knows_more_than_messages() -> None:
    # p and q know each other's clocks to within 20; both touch the valve, 1000 apart, and no message went between.
    events = [
        event("p:1", 0, sends="there"),
        event("q:1", 10, receives="there"),
        event("q:2", 20, sends="back"),
        event("p:2", 30, receives="back"),
        event("p:3", 100, resource="valve"),
        event("q:3", 1100, resource="valve"),
        event("p:4", 1105, resource="valve"),
    ]
    history = History(events)
    (hidden,) = history.measure().hidden_channels
    assert hidden == HiddenChannel("valve", history.event("p:3").id, history.event("q:3").id, 990)


def test_no_hidden_channel_where_a_message_explains_the_order() -> None:
    events = [
        event("p:1", 0, sends="m", resource="valve"),
        event("q:1", 5000, receives="m", resource="valve"),
    ]
    assert History(events).measure().hidden_channels == ()


def test_times_at_the_ends_of_the_range_are_left_out_with_a_note() -> None:
    history = History([event("p:1", -(2**63 - 1), sends="m"), event("q:1", 2**63 - 1, receives="m")])
    measures = history.measure()
    assert measures.delta_ns is None
    assert "1 receives lack a usable time at one end" in measures.notes


@pytest.mark.parametrize(("sent", "received"), [(None, 100), (100, None), (None, None)])
def test_a_message_without_a_time_at_one_end_is_left_out_with_a_note(sent: int | None, received: int | None) -> None:
    measures = History([event("a:1", sent, sends="m"), event("b:1", received, receives="m")]).measure()
    assert (measures.delta_ns, measures.epsilon_min_ns, measures.lateness) == (None, None, ())
    assert measures.clocks["b"] == ClockBounds(0, 0)
    assert "1 receives lack a usable time at one end" in measures.notes


def round_trip(p: str, q: str, *, at: int = 0) -> list[Event]:
    """Bounds q's clock to within 10 of p's."""
    return [
        event(f"{p}:1", at, sends=f"{p}{q}"),
        event(f"{q}:1", at + 10, receives=f"{p}{q}", sends=f"{q}{p}"),
        event(f"{p}:2", at + 20, receives=f"{q}{p}"),
    ]


def test_epsilon_is_bounded_from_above_only_if_all_clocks_are() -> None:
    assert History(round_trip("p", "q")).measure().epsilon_max_ns == 10
    # Another component, a process that talks to nobody, a component whose clocks no constant offsets fit.
    assert History([*round_trip("p", "q"), *round_trip("x", "y")]).measure().epsilon_max_ns is None
    assert History([*round_trip("p", "q"), event("lone:1", 10**15)]).measure().epsilon_max_ns is None
    drifted = [
        event("x:1", 1000, sends="a"),
        event("y:1", 0, receives="a", sends="b"),
        event("x:2", 900, receives="b"),
    ]
    measures = History([*round_trip("p", "q"), *drifted]).measure()
    assert measures.epsilon_max_ns is None
    assert measures.epsilon_min_ns == 0, "what contradicts itself proves nothing"


def test_a_clock_that_steps_back_between_a_send_and_its_own_receive_fits_no_offset() -> None:
    history = History([event("p:1", 100, sends="m"), event("p:2", 50, receives="m")])
    assert any("no constant offsets fit" in note for note in history.measure().notes)


def test_many_processes_that_talk_to_nobody_cost_nothing() -> None:
    lonely = [event(f"n{number}:1", number) for number in range(2_500)]
    measures = History([*lonely, *round_trip("p", "q")]).measure()
    assert measures.clocks["q"] == ClockBounds(-10, 10)
    assert measures.references == ("p",)


def test_by_way_of_the_reference_a_contradiction_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.history.offsets.ALL_PAIRS_MAX", 0)
    events = [
        event("x:1", 1000, sends="a"),
        event("y:1", 0, receives="a", sends="b"),
        event("x:2", 900, receives="b"),
    ]
    assert History(events).measure().clocks["y"] == ClockBounds(None, None)


@pytest.mark.parametrize("all_pairs_max", [500, 0])
def test_a_contradiction_far_from_the_reference_is_found(all_pairs_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # c and d contradict each other; neither is reached from the reference r, nor reaches it.
    monkeypatch.setattr("beforehand.history.offsets.ALL_PAIRS_MAX", all_pairs_max)
    events = [
        event("r:1", 0, sends="m0 m1 m2 m3"),
        *(event(f"x{i}:1", 10, receives=f"m{i}") for i in range(4)),
        event("c:1", 1000, sends="cd cx"),
        event("d:1", 0, receives="cd", sends="dc"),
        event("c:2", 900, receives="dc"),
        event("x0:2", 2000, receives="cx"),
    ]
    measures = History(events).measure()
    assert any("no constant offsets fit" in note for note in measures.notes)
    assert measures.clocks["x1"] == ClockBounds(None, None)
    assert measures.epsilon_min_ns is None


def test_beyond_a_number_of_processes_clocks_are_not_bounded_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("beforehand.history.offsets.PROCESSES_MAX", 1)
    events = [*round_trip("p", "q"), event("p:3", 50, resource="r"), event("q:3", 5000, resource="r")]
    measures = History(events).measure()
    assert measures.clocks["p"] == ClockBounds(None, None)
    assert measures.hidden_channels == ()
    assert any("more than 1" in note for note in measures.notes)


def test_a_hidden_channel_is_not_suspected_against_happened_before() -> None:
    # q:1 → p:2, though q's clock was wrong at q:1 and shows a later time.
    events = [
        event("q:1", 1000, resource="r"),
        event("q:2", 10, sends="m"),
        event("p:1", 15, receives="m", sends="n"),
        event("q:3", 20, receives="n"),
        event("p:2", 20, resource="r"),
    ]
    assert History(events).measure().hidden_channels == ()


def test_how_far_apart_depends_on_which_of_the_two_clocks_may_be_ahead() -> None:
    # p → q takes 10 at least, q → p nothing bounds well: q's clock is at most 10 ahead of p's, p's up to 990 of q's.
    events = [
        event("p:1", 0, sends="m"),
        event("q:1", 10, receives="m", sends="n"),
        event("p:2", 1000, receives="n"),
        event("p:3", 2000, resource="r"),
        event("q:2", 2500, resource="r"),
        event("p:4", 3000, resource="r"),
    ]
    (hidden,) = History(events).measure().hidden_channels
    assert (str(hidden.earlier), str(hidden.later), hidden.apart_ns) == ("p:3", "q:2", 490)
