"""What holds for every layout, on random histories, and how long a large one takes."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.diagram import ArrowKind, Axis, LayoutOptions, layout
from beforehand.diagram.text import width_of
from beforehand.events import Event


def event(process: str, index: int, sends: str = "", receives: str = "", **more: object) -> Event:
    return Event(process=process, index=index, sends=tuple(sends.split()), receives=tuple(receives.split()), **more)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Acyclic: a message is received only by events made after its send."""
    steps = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), max_size=40))
    counts: dict[str, int] = {}
    sent: list[str] = []
    events: list[Event] = []
    for number, (process_number, receive_count, sends) in enumerate(steps):
        process = f"p{process_number}"
        counts[process] = counts.get(process, 0) + 1
        picks = draw(st.lists(st.sampled_from(sent), max_size=receive_count, unique=True)) if sent else []
        message = f"m{number}" if sends else ""
        name = draw(st.sampled_from(["", "x", "a long name", "a very long name that cannot fit"]))
        time_ns = draw(st.none() | st.integers(0, 1_000))
        events.append(event(process, counts[process], message, " ".join(picks), name=name, time=time_ns))
        if message:
            sent.append(message)
    return events


@given(histories(), st.sampled_from([None, 1, 3]), st.integers(1, 50))
def test_every_message_arrow_points_right_and_no_two_events_share_a_place(
    events: list[Event], collapse_local: int | None, events_max: int
):
    result = layout(events, options=LayoutOptions(collapse_local=collapse_local, events_max=events_max))

    x = {place.id: place.x for place in result.places}
    both_ends = [arrow for arrow in result.arrows if arrow.send and arrow.receive]
    assert all(x[arrow.receive] > x[arrow.send] for arrow in both_ends)
    assert not [arrow for arrow in result.arrows if arrow.kind is ArrowKind.BACKWARDS]
    for one, other in pairwise(result.places):
        assert one.lane < other.lane or one.x + 12 < other.x
    assert result.hidden + sum(place.count for place in result.places) == len(events)


@given(histories())
def test_on_the_time_axis_an_arrow_points_left_only_if_it_is_called_backwards(events: list[Event]):
    result = layout(events, options=LayoutOptions(axis=Axis.CLOCKS))

    x = {place.id: place.x for place in result.places}
    for arrow in result.arrows:
        if arrow.send and arrow.receive:
            assert (x[arrow.receive] < x[arrow.send]) == (arrow.kind is ArrowKind.BACKWARDS)
    by_lane = sorted(result.places, key=lambda place: (place.lane, place.x))
    for one, other in pairwise(by_lane):
        assert one.lane < other.lane or one.x + 20 < other.x


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 5)), max_size=30))
def test_any_tangle_of_messages_is_laid_out(steps: list[tuple[int, int, int]]):
    counts: dict[str, int] = {}
    events = []
    for process_number, sends, receives in steps:
        process = f"p{process_number}"
        counts[process] = counts.get(process, 0) + 1
        events.append(event(process, counts[process], f"m{sends}", f"m{receives}"))

    result = layout(events)

    x = {place.id: place.x for place in result.places}
    for arrow in result.arrows:
        if arrow.send and arrow.receive and arrow.kind is not ArrowKind.BACKWARDS:
            assert x[arrow.receive] > x[arrow.send]


@pytest.mark.parametrize("axis", Axis)
@given(events=histories())
def test_labels_on_one_side_of_a_lane_never_overlap(axis: Axis, events: list[Event]):
    result = layout(events, options=LayoutOptions(axis=axis))

    ends: dict[tuple[int, str], float] = {}
    for place in sorted(result.places, key=lambda place: place.x):
        if place.label:
            half = width_of(place.label, 11) / 2
            key = (place.lane, place.label_side)
            assert place.x - half > ends.get(key, result.left)
            ends[key] = place.x + half


@pytest.mark.parametrize("events_max", [2_000, 100_000])
def test_a_hundred_thousand_events_take_seconds(events_max: int):
    generator = random.Random(7)
    counts: dict[str, int] = {}
    waiting: list[str] = []
    events: list[Event] = []
    for number in range(100_000):
        process = f"p{generator.randrange(50)}"
        counts[process] = counts.get(process, 0) + 1
        receives = waiting.pop(generator.randrange(len(waiting))) if waiting and number % 2 else ""
        sends = "" if receives else f"m{number}"
        if sends:
            waiting.append(sends)
        events.append(event(process, counts[process], sends, receives))

    began = time.process_time()
    result = layout(events, options=LayoutOptions(events_max=events_max))

    assert len(result.places) == events_max
    assert time.process_time() - began < 30  # About 4 s here; quadratic passes would take minutes.


def test_a_chain_of_messages_through_fifty_thousand_processes_does_not_recurse():
    events = [event(f"p{number:05}", 1, sends=f"m{number}", receives=f"m{number + 1}") for number in range(50_000)]

    result = layout(events, options=LayoutOptions(events_max=10))

    assert result.hidden == 49_990
