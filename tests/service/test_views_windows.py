"""Windows show what plain loops find, whatever the source: events with their places, counts per column, messages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from service_stores import events
from view_sources import WAYS, Picture, Way, histories, served

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import Event
from beforehand.service.views.lanes import Axis

HISTORIES = histories()


def key(message: dict[str, Any]) -> tuple[Any, ...]:
    return message["message"], message["to"]["lane"], message["to"]["index"]


def execution_of(name: str) -> str:
    return HISTORIES[name][0].execution


def windows(picture: Picture, random: Random) -> list[tuple[int, int, list[int] | None]]:
    found: list[tuple[int, int, list[int] | None]] = [(0, picture.span, None), (-50, picture.span + 50, None)]
    for _ in range(8):
        first, last = sorted(random.choice(picture.events)["x"] + random.randint(-2, 2) for _ in range(2))
        lanes = random.choice([None, sorted(random.sample(range(len(picture.processes)), 2))])
        found.append((first, last, lanes))
    return found


@pytest.mark.parametrize("axis", ["time", "steps"])
@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("way", WAYS)
def test_a_window_shows_the_events_of_the_history_and_their_messages(
    way: str, name: str, axis: str, tmp_path: Path
) -> None:
    picture = Picture(HISTORIES[name], axis, way)
    with served(way, HISTORIES[name], tmp_path) as one:
        for first, last, lanes in windows(picture, Random(name)):
            found = one.viewer.window(
                execution_of(name), first=first, last=last, lanes=lanes, events_max=5_000, axis=axis
            )
            expected = picture.inside(first, last, lanes if lanes is not None else range(len(picture.processes)))
            shown = [{k: v for k, v in event.items() if k != "state"} for event in found["events"]]
            assert shown == expected
            assert sorted(found["messages"], key=key) == sorted(picture.touching(expected), key=key)
            assert found["total"] == len(expected)


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("way", WAYS)
def test_columns_count_events_failures_and_messages(way: str, name: str, tmp_path: Path) -> None:
    axis = "steps" if name == "untimed" else "time"
    picture = Picture(HISTORIES[name], axis, way)
    random = Random(name)
    with served(way, HISTORIES[name], tmp_path) as one:
        for first, last, lanes in windows(picture, random):
            columns = random.choice([1, 7, 300])
            found = one.viewer.window(
                execution_of(name), first=first, last=last, lanes=lanes, columns=columns, events_max=0
            )
            inside = picture.inside(first, last, lanes if lanes is not None else range(len(picture.processes)))
            if not inside:
                assert found["detail"] == "events"
                continue
            bounds = [first + (last - first + 1) * at // columns for at in range(columns + 1)]
            counts: dict[int, Counter[int]] = {}
            failures: Counter[tuple[int, int]] = Counter()
            for event in inside:
                column = column_of(bounds, event["x"])
                counts.setdefault(event["lane"], Counter())[column] += 1
                failures[event["lane"], column] += event["failure"]
            expected = {
                str(lane): [[column, by[column], failures[lane, column]] for column in sorted(by)]
                for lane, by in counts.items()
            }
            assert found["counts"] == expected
            chosen = range(len(picture.processes)) if lanes is None else lanes
            flows = Counter(
                (message["from"]["lane"], message["to"]["lane"], column_of(bounds, message["from"]["x"]))
                for message in picture.messages
                if first <= message["from"]["x"] <= last
                and message["from"]["lane"] in chosen
                and message["to"]["lane"] in chosen
            )
            assert {tuple(flow[:3]): flow[3] for flow in found["flows"]} == flows
            assert [flow[3] for flow in found["flows"]] == sorted(flows.values(), reverse=True)


def column_of(bounds: list[int], x: int) -> int:
    return max(at for at in range(len(bounds) - 1) if bounds[at] <= x < bounds[at + 1])


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("way", WAYS)
def test_an_overview_counts_what_is_there(way: str, name: str, tmp_path: Path) -> None:
    axis = "steps" if name == "untimed" else "time"
    picture = Picture(HISTORIES[name], axis, way)
    with served(way, HISTORIES[name], tmp_path) as one:
        found = one.viewer.overview()
        assert found["execution"] == execution_of(name)
        failures = sum(event["failure"] for event in picture.events) if way == "memory" else None
        listed = {"execution": execution_of(name), "events": len(picture.events), "failures": failures}
        assert found["executions"] == [listed]
        assert (found["axis"], found["origin"], found["unit"]) == (axis, str(picture.origin), 1)
        assert (found["span"], found["events"]) == (picture.span, len(picture.events))
        assert found["failures"] == sum(event["failure"] for event in picture.events)
        for lane, process in enumerate(found["processes"]):
            mine = [event for event in picture.events if event["lane"] == lane]
            assert process == {
                "name": picture.processes[lane],
                "events": len(mine),
                "failures": sum(event["failure"] for event in mine),
                "first": mine[0]["x"],
                "last": mine[-1]["x"],
            }


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("way", WAYS)
def test_relations_tell_past_future_and_concurrent_of_every_event(way: str, name: str, tmp_path: Path) -> None:
    picture = Picture(HISTORIES[name], "steps" if name == "untimed" else "time", way)
    history, random = picture.history, Random(name)
    with served(way, HISTORIES[name], tmp_path) as one:
        for event in random.sample(list(history.columns.events), 25):
            found = one.viewer.relations(event.id)
            lanes = found["lanes"]
            assert [lane["lane"] for lane in lanes] == list(range(len(picture.processes)))
            for other in history.columns.events:
                lane = lanes[picture.processes.index(other.process)]
                told = "concurrent"
                if other.index <= lane["past_to"]:
                    told = "before"
                elif lane["future_from"] is not None and other.index >= lane["future_from"]:
                    told = "after"
                expected = history.compare(other, event)
                assert told == ("concurrent" if expected == "equal" else expected), (event.id, other.id)
            ends_are_there(picture, lanes)


def ends_are_there(picture: Picture, lanes: list[dict[str, Any]]) -> None:
    """What stands at the borders are events, and their places are those of the picture."""
    for lane in lanes:
        for index, x in ((lane["past_to"] or None, lane["past_x"]), (lane["future_from"], lane["future_x"])):
            at = None if index is None else picture.at[lane["lane"], index]
            assert x == (None if at is None else at["x"])


@pytest.mark.parametrize("way", WAYS)
def test_an_event_is_found_where_the_window_shows_it(way: str, tmp_path: Path) -> None:
    picture = Picture(HISTORIES["gaps"], "time", way)
    with served(way, HISTORIES["gaps"], tmp_path) as one:
        for event in picture.events[::7]:
            found = one.viewer.lookup(event["id"])
            assert {k: found[k] for k in event} == event
        with pytest.raises(UnknownEventError):
            one.viewer.lookup("a/b:c/p0:999")


@pytest.mark.parametrize("way", WAYS)
def test_states_tell_whose_past_is_not_all_here(way: str, tmp_path: Path) -> None:
    made = events("a1 !m @1", "a3 @2", "b1 ?m @3", "b2 ?n @4", "b3 !k @5", "c1 ?gone @6", "d1 @7", "d2 ?k @8")
    with served(way, made, tmp_path) as one:
        found = one.viewer.window("", events_max=100)
        states = {event["id"]: event["state"] for event in found["events"]}
        assert states == {
            "a:1": "complete",
            "a:3": "incomplete",
            "b:1": "complete",
            "b:2": "incomplete",
            "b:3": "incomplete",
            "c:1": "incomplete",
            "d:1": "complete",
            "d:2": "incomplete",
        }


@pytest.mark.parametrize("way", WAYS)
def test_a_span_of_centuries_is_given_in_larger_units(way: str, tmp_path: Path) -> None:
    far = 2**62
    made = [
        Event(process="a", index=1, time=-far),
        Event(process="b", index=1, time=far),
        Event(process="c", index=1),
    ]
    with served(way, made, tmp_path) as one:
        found = one.viewer.overview()
        assert found["origin"] == str(-far)
        assert found["unit"] > 1
        assert found["span"] == 2 * far // found["unit"] < 2**53
        drawn = one.viewer.window("")
        assert [(event["id"], event["x"]) for event in drawn["events"]] == [
            ("a:1", 0),
            ("b:1", found["span"]),
            ("c:1", 0),
        ]
        assert one.viewer.window("", first=1)["total"] == 1
        assert one.viewer.window("", last=found["span"] - 1)["total"] == 2


@pytest.mark.parametrize("way", WAYS)
def test_violations_stand_in_the_windows_that_show_one_of_their_events(way: str, tmp_path: Path) -> None:
    made = events("a1 !m @1", "a2 !n @2", "b1 ?n @3", "b2 ?m @4", "b3 @900")
    with served(way, made, tmp_path) as one:
        judged(one)
        found = one.viewer.window("", last=4)["violations"]
        assert {violation["kind"] for violation in found} == {"fifo", "causal"}
        assert all("b:2" in violation["events"] for violation in found)
        assert one.viewer.window("", first=500)["violations"] == []
        assert one.viewer.overview()["violations"] == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ["plain", "untimed"])
def test_an_axis_by_name_is_not_read_again_where_it_is_the_default(way: str, case: str, tmp_path: Path) -> None:
    with served(way, HISTORIES[case], tmp_path) as one:
        default = one.viewer.source.lanes("", None)
        assert default.axis == ("time" if case == "plain" else "steps")
        assert one.viewer.source.lanes("", default.axis) is default
        other: Axis = "steps" if case == "plain" else "time"
        assert one.viewer.source.lanes("", other).axis == other


def judged(one: Way) -> None:
    """A store is judged by a thread of its own."""
    one.viewer.overview()
    if one.service is not None:
        one.viewer.source.checks.wait()  # type: ignore[attr-defined]


def test_windows_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with served("memory", HISTORIES["plain"], tmp_path) as one:
        for wrong in (
            {"first": 5, "last": 4},
            {"lanes": [99]},
            {"lanes": [-1]},
            {"columns": 0},
            {"events_max": 9_999},
        ):
            with pytest.raises(InputError):
                one.viewer.window("", **wrong)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="no execution"):
            one.viewer.window("nothing")


def test_many_lanes_get_fewer_columns(tmp_path: Path) -> None:
    made = [Event(process=f"p{at:04}", index=1, time=at) for at in range(1_000)]
    with served("memory", made, tmp_path) as one:
        found = one.viewer.window("", columns=4_000, events_max=10)
        assert found["columns"] == 200
        assert sum(rows[0][1] for rows in found["counts"].values()) == 1_000
