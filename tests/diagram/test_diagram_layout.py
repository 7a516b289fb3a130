"""The layout on data: small literal histories, their columns, lanes and arrows."""

from __future__ import annotations

import pytest

from beforehand.diagram import ArrowKind, Axis, Layout, LayoutOptions, Marks, Role, layout
from beforehand.errors import InputError
from beforehand.events import Event, EventId


def event(process: str, index: int, sends: str = "", receives: str = "", **more: object) -> Event:
    return Event(process=process, index=index, sends=tuple(sends.split()), receives=tuple(receives.split()), **more)


def columns(result: Layout) -> dict[str, int]:
    return {str(place.id): place.column for place in result.places}


def kinds(result: Layout) -> list[tuple[str, tuple[str, ...]]]:
    return sorted((str(arrow.kind), arrow.messages) for arrow in result.arrows)


GARG = [
    event("P1", 1, sends="m1"),
    event("P1", 2, sends="m2"),
    event("P2", 1, receives="m2"),
    event("P2", 2, sends="m3"),
    event("P3", 1, receives="m3"),
    event("P3", 2, receives="m1"),
]


def test_column_is_one_step_right_of_the_latest_cause():
    result = layout(GARG)

    assert columns(result) == {"P1:1": 0, "P1:2": 1, "P2:1": 2, "P2:2": 3, "P3:1": 4, "P3:2": 5}


def test_no_events_give_an_empty_layout():
    result = layout([])

    assert (result.lanes, result.places, result.arrows, result.hidden) == ((), (), (), 0)


def test_order_of_the_events_given_does_not_matter():
    assert layout(GARG) == layout(reversed(GARG))


def test_lanes_are_ordered_by_first_column_then_by_name_as_people_count():
    events = [event("P10", 1, sends="m"), event("P2", 1), event("A", 1, receives="m")]

    assert [lane.process for lane in layout(events).lanes] == ["P2", "P10", "A"]


def test_wanted_processes_come_first_and_keep_empty_lanes():
    result = layout(GARG, options=LayoutOptions(processes=("P3", "P9")))

    assert [lane.process for lane in result.lanes] == ["P3", "P9", "P1", "P2"]


def test_events_of_two_executions_are_refused():
    with pytest.raises(InputError, match="one execution"):
        layout([event("P", 1), event("P", 2, execution="other")])


def test_an_event_given_twice_is_refused():
    with pytest.raises(InputError, match="P:1 was given twice"):
        layout([event("P", 1), event("P", 1)])


def test_a_cycle_loses_one_arrow_to_the_layering_and_it_is_called_backwards():
    events = [
        event("A", 1, receives="m2"),
        event("A", 2, sends="m1"),
        event("B", 1, receives="m1"),
        event("B", 2, sends="m2"),
    ]

    assert kinds(layout(events)) == [("backwards", ("m1",)), ("message", ("m2",))]


def test_a_message_received_before_its_send_on_the_own_lane_is_backwards():
    events = [event("A", 1, receives="m"), event("A", 2, sends="m")]

    result = layout(events)

    assert kinds(result) == [("backwards", ("m",))]
    assert columns(result) == {"A:1": 0, "A:2": 1}


def test_an_event_that_receives_what_it_sends_is_a_loop():
    result = layout([event("A", 1, sends="m", receives="m")])

    assert kinds(result) == [("backwards", ("m",))]
    assert len(result.arrows[0].points) == 4


def test_lost_and_unsent_messages_are_stubs_on_either_side():
    result = layout([event("A", 1, sends="gone", receives="ghost")])

    lost, unsent = sorted(result.arrows, key=lambda arrow: arrow.kind)
    place = result.places[0]
    assert (lost.kind, lost.points[1][0] > place.x) == (ArrowKind.UNRECEIVED, True)
    assert (unsent.kind, unsent.label, unsent.points[0][0] < place.x) == (ArrowKind.UNSENT, "?", True)


def test_a_multicast_has_an_arrow_to_each_receiver_and_an_arc_to_itself():
    events = [
        event("A", 1, sends="m"),
        event("A", 2, receives="m"),
        event("B", 1, receives="m"),
        event("C", 1, receives="m"),
    ]

    assert kinds(layout(events)) == [("message", ("m",)), ("message", ("m",)), ("own", ("m",))]


def test_messages_with_the_same_ends_share_an_arrow():
    result = layout([event("A", 1, sends="m1 m2"), event("B", 1, receives="m1 m2")])

    assert [(arrow.messages, arrow.label) for arrow in result.arrows] == [(("m1", "m2"), "×2")]


def test_an_event_may_receive_several_messages_and_send_at_once():
    events = [
        event("A", 1, sends="m1"),
        event("B", 1),
        event("B", 2, sends="m2"),
        event("C", 1, receives="m1 m2", sends="m3"),
        event("A", 2, receives="m3"),
    ]

    assert columns(layout(events)) == {"A:1": 0, "A:2": 3, "B:1": 0, "B:2": 1, "C:1": 2}


def test_messages_named_by_no_source_are_marked_as_inferred():
    result = layout([event("A", 1, sends="~1"), event("B", 1, receives="~1")])

    assert [arrow.inferred for arrow in result.arrows] == [True]


def test_arrows_end_at_the_border_of_the_event_not_at_its_centre():
    result = layout([event("A", 1, sends="m"), event("B", 1, receives="m")])

    receive = result.places[1]
    (x, y) = result.arrows[0].points[-1]
    assert 6 <= ((x - receive.x) ** 2 + (y - receive.y) ** 2) ** 0.5 <= 8


def test_an_arrow_bows_around_an_event_that_it_would_run_through():
    # A:2 to C:2 crosses lane B at the very place of B:3.
    events = [
        event("A", 1),
        event("A", 2, sends="m"),
        *(event("B", index) for index in range(1, 6)),
        *(event("C", index, receives="m" if index == 4 else "") for index in range(1, 5)),
    ]

    arrow = layout(events).arrows[0]

    assert len(arrow.points) == 3


def test_long_runs_of_local_events_become_one_place_with_a_count():
    events = [event("A", index) for index in range(1, 6)] + [event("A", 6, sends="m"), event("A", 7)]

    result = layout(events, options=LayoutOptions(collapse_local=4))

    assert [(str(place.id), place.count, place.column) for place in result.places] == [
        ("A:1", 5, 0),
        ("A:6", 1, 1),
        ("A:7", 1, 2),
    ]


def test_a_run_of_exactly_the_limit_is_not_collapsed():
    result = layout([event("A", 1), event("A", 2)], options=LayoutOptions(collapse_local=2))

    assert [place.count for place in result.places] == [1, 1]


def test_marked_events_and_the_cut_interrupt_a_run():
    events = [event("A", index) for index in range(1, 9)]
    marks = Marks(notes={EventId("", "A", 3): "look"}, cut={"A": 6})

    result = layout(events, marks=marks, options=LayoutOptions(collapse_local=1))

    assert [(place.id.index, place.count) for place in result.places] == [(1, 2), (3, 1), (4, 3), (7, 2)]


def test_cap_keeps_the_first_events_and_counts_the_others():
    events = [event("A", index) for index in range(1, 11)]

    result = layout(events, options=LayoutOptions(events_max=3))

    assert [place.id.index for place in result.places] == [1, 2, 3]
    assert result.hidden == 7
    assert result.warnings == ("7 of 10 events are not drawn.",)
    assert [gap.count for gap in result.gaps] == [7]


def test_cap_keeps_what_is_nearest_to_the_selected_event():
    events = [event("A", index) for index in range(1, 11)]

    result = layout(events, marks=Marks(selected=EventId("", "A", 6)), options=LayoutOptions(events_max=3))

    assert [place.id.index for place in result.places] == [5, 6, 7]
    assert [place.column for place in result.places] == [0, 1, 2]
    assert [gap.count for gap in result.gaps] == [4, 3]


def test_cap_without_selection_keeps_the_violating_message():
    events = [
        *(event("A", index) for index in range(1, 9)),
        event("A", 9, sends="bad"),
        event("B", 1, receives="bad"),
    ]

    result = layout(events, marks=Marks(violating_messages=["bad"]), options=LayoutOptions(events_max=2))

    assert [(str(arrow.kind), arrow.violation) for arrow in result.arrows] == [("message", True)]


def test_messages_that_leave_the_drawn_part_are_stubs():
    events = [event("A", 1, sends="m"), event("B", 1, receives="m"), event("B", 2, sends="n"),
              event("A", 2, receives="n")]  # fmt: skip

    first = layout(events, options=LayoutOptions(events_max=1))
    last = layout(events, marks=Marks(selected=EventId("", "A", 2)), options=LayoutOptions(events_max=1))

    assert kinds(first) == [("onward", ("m",))]
    assert kinds(last) == [("incoming", ("n",))]


def test_roles_come_from_the_marks():
    marks = Marks(
        selected=EventId("", "P2", 1),
        past=[EventId("", "P1", 1), EventId("", "P1", 2)],
        future={EventId("", "P2", 2), EventId("", "P3", 1), EventId("", "P3", 2)},
    )

    result = layout([*GARG, event("P4", 1)], marks=marks)

    assert {str(place.id): place.role for place in result.places} == {
        "P1:1": Role.PAST,
        "P1:2": Role.PAST,
        "P2:1": Role.SELECTED,
        "P2:2": Role.FUTURE,
        "P3:1": Role.FUTURE,
        "P3:2": Role.FUTURE,
        "P4:1": Role.CONCURRENT,
    }


def test_without_a_known_future_nothing_is_called_concurrent():
    result = layout(GARG, marks=Marks(selected=EventId("", "P2", 1), past=[EventId("", "P1", 1)]))

    assert Role.CONCURRENT not in {place.role for place in result.places}


def test_the_cut_passes_after_what_is_inside_and_before_the_rest():
    result = layout(GARG, marks=Marks(cut={"P1": 1, "P2": 2}))

    x = {str(place.id): place.x for place in result.places}
    front = [point[0] for point in result.front]
    assert x["P1:1"] < front[0] < x["P1:2"]
    assert x["P2:2"] < front[1]
    assert front[2] < x["P3:1"]


def test_notes_are_numbered_from_left_to_right():
    notes = {EventId("", "P3", 1): "late", EventId("", "P1", 2): "early", EventId("", "P9", 1): "unknown"}

    result = layout(GARG, marks=Marks(notes=notes))

    assert [(note.number, note.text) for note in result.notes] == [(1, "early"), (2, "late")]


def test_time_axis_shows_a_receive_before_its_send_as_backwards():
    events = [event("A", 1, sends="m", time=2_000), event("B", 1, receives="m", time=1_000)]

    result = layout(events, options=LayoutOptions(axis=Axis.CLOCKS))

    send, receive = result.places
    assert kinds(result) == [("backwards", ("m",))]
    assert receive.x < send.x


def test_time_axis_puts_equal_times_in_causal_order():
    events = [event("B", 1, sends="m", time=5), event("A", 1, receives="m", time=5)]

    result = layout(events, options=LayoutOptions(axis=Axis.CLOCKS))

    x = {place.id.process: place.x for place in result.places}
    assert kinds(result) == [("message", ("m",))]
    assert x["B"] < x["A"]


def test_time_axis_estimates_missing_times_between_neighbours():
    events = [
        event("A", 1, time=0),
        event("A", 2),
        event("A", 3, time=1_000),
        event("B", 1, time=400),
        event("B", 2, time=600),
    ]

    result = layout(events, options=LayoutOptions(axis=Axis.CLOCKS))

    x = {str(place.id): place.x for place in result.places}
    assert [place.untimed for place in result.places] == [False, True, False, False, False]
    assert x["B:1"] < x["A:2"] < x["B:2"]


def test_time_axis_shows_a_clock_that_steps_back():
    events = [event("A", 1, time=2_000), event("A", 2, time=1_000)]

    result = layout(events, options=LayoutOptions(axis=Axis.CLOCKS))

    first, second = result.places
    assert kinds(result) == [("backwards", ())]
    assert second.x < first.x


def test_time_axis_places_a_process_without_times_after_its_causes():
    events = [
        event("A", 1, time=0),
        event("A", 2, sends="m", time=1_000),
        event("B", 1),
        event("B", 2, receives="m"),
    ]

    result = layout(events, options=LayoutOptions(axis=Axis.CLOCKS))

    x = {str(place.id): place.x for place in result.places}
    assert kinds(result) == [("message", ("m",))]
    assert x["B:1"] < x["A:2"] < x["B:2"]


def test_time_axis_without_any_time_falls_back_and_says_so():
    result = layout(GARG, options=LayoutOptions(axis=Axis.CLOCKS))

    assert result.axis is Axis.STEPS
    assert result.warnings == ("No event has a time: drawn in causal order.",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"events_max": 0},
        {"collapse_local": 0},
        {"axis": "tiem"},
        {"processes": ("A", "A")},
        {"lane_height": 1},
        {"column_width": float("nan")},
    ],
)
def test_options_refuse_nonsense(wrong: dict[str, object]):
    with pytest.raises(ValueError):  # noqa: PT011 - the enum words its own.
        LayoutOptions(**wrong)
