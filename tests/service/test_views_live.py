"""Views follow a live store: after every batch they show what a fresh look at the whole store shows."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from service_stores import Service, events, opened

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.service.deadlines import OverdueError, within
from beforehand.service.views import Viewer, cache
from beforehand.service.views import stores as following
from beforehand.service.views.cache import LanesCache
from beforehand.service.views.lanes import Lanes
from beforehand.service.views.stores import StoreSource
from history_directories import random_events


def assert_same(found: Lanes, fresh: Lanes) -> None:
    assert found.generation == fresh.generation
    assert (found.cursor, found.count, found.span) == (fresh.cursor, fresh.count, fresh.span)
    for lane, other in zip(found.lanes, fresh.lanes, strict=True):
        assert lane.process == other.process
        assert np.array_equal(lane.index, other.index)
        assert np.array_equal(lane.x, other.x)
        assert np.array_equal(lane.failing, other.failing)

    def edges(lanes: Lanes) -> list[tuple[int, ...]]:
        parts = (getattr(lanes.edges, name).tolist() for name in ("sender", "send", "receiver", "receive", "x"))
        return sorted(zip(*parts, strict=True))

    assert edges(found) == edges(fresh)


def fresh_look(service: Service, execution: str, axis: str) -> Lanes:
    source = StoreSource(service.store)
    try:
        return source.lanes(execution, axis)  # type: ignore[arg-type]
    finally:
        source.close()


@pytest.mark.parametrize("axis", ["time", "steps"])
@pytest.mark.parametrize("seed", range(6))
def test_views_equal_a_fresh_look_after_every_batch(seed: int, axis: str, tmp_path: Path) -> None:
    random = Random(seed)
    made = [
        replace(event, clock=None)
        for event in random_events(seed, processes=random.choice([2, 5, 9]), steps=150, untimed=0.2 * (seed % 2))
    ]
    reports = list(made)
    # Most come nearly in order; some very late, so that what was given up is raised.
    late = random.sample(reports, 20)
    reports = [event for event in reports if event not in late] + late
    with opened(tmp_path) as service:
        source = StoreSource(service.store, clock=lambda: float(service.now))
        try:
            at = 0
            while at < len(reports):
                size = random.randint(1, 25)
                service.ingest.report(reports[at : at + size])
                at += size
                if random.random() < 0.3:
                    service.expire()
                if random.random() < 0.7:
                    assert_same(source.lanes("", axis), fresh_look(service, "", axis))  # type: ignore[arg-type]
            while service.expire():
                pass
            assert_same(source.lanes("", axis), fresh_look(service, "", axis))  # type: ignore[arg-type]
        finally:
            source.close()


def test_only_what_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([Event(process="a", index=at, time=at) for at in range(1, 2_001)])
        service.ingest.report([Event(process="b", index=at, time=at) for at in range(1, 2_001)])
        source = StoreSource(service.store)
        try:
            before = source.lanes("", None)
            service.ingest.report([Event(process="a", index=2_001, time=2_001)])
            read: list[int] = []
            whole = following._Look._lane

            def counted(look: object, number: int, *rest: object) -> object:
                read.append(number)
                return whole(look, number, *rest)  # type: ignore[arg-type]

            monkeypatch.setattr(following._Look, "_lane", counted)
            after = source.lanes("", None)
            assert len(read) == 1
            assert after.lanes[1] is before.lanes[1]
            assert after.lanes[0].index.size == 2_001
            assert source.lanes("", None) is after
        finally:
            source.close()


def test_events_that_were_removed_are_not_shown_any_more(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 !m @1", "a2 @2", "b1 ?m @3", "b2 @4"))
        source = StoreSource(service.store)
        try:
            assert source.lanes("", None).count == 4
            with service.store.transaction() as db:  # What retention does.
                db.execute("DELETE FROM events WHERE process = 1 AND idx = 1")
                db.execute("UPDATE processes SET events = 1 WHERE id = 1")
                db.execute("UPDATE executions SET events = 3")
            assert_same(source.lanes("", None), fresh_look(service, "", "time"))
            shown = Viewer(source).window("", events_max=10)
            assert [event["id"] for event in shown["events"]] == ["a:2", "b:1", "b:2"]
            assert shown["messages"] == []
        finally:
            source.close()


def test_a_new_process_changes_the_generation(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("b1 @5"))
        viewer = Viewer(StoreSource(service.store))
        first = viewer.overview()
        service.ingest.report(events("b2 @6"))
        assert viewer.window("")["generation"] == first["generation"]
        service.ingest.report(events("a1 @7"))
        second = viewer.overview()
        assert second["generation"] != first["generation"]
        assert [process["name"] for process in second["processes"]] == ["a", "b"]
        viewer.close()


def test_events_that_wait_stand_at_their_own_time_and_never_go_back(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 @100", "a2 ?m @150", "a3 @120", "a4 @300"))
        viewer = Viewer(StoreSource(service.store))
        shown = viewer.window("")["events"]
        assert [(event["x"], event["state"]) for event in shown] == [
            (0, "complete"),
            (50, "waiting"),
            (50, "waiting"),
            (200, "waiting"),
        ]
        relations = viewer.relations("a:1")["lanes"]
        assert relations[0]["future_from"] == 2
        viewer.close()


def test_the_axis_becomes_time_when_the_first_time_comes(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1", "a2"))
        viewer = Viewer(StoreSource(service.store))
        assert viewer.overview()["axis"] == "steps"
        service.ingest.report(events("a3 @7"))
        assert viewer.overview()["axis"] == "time"
        viewer.close()


def test_failures_are_found_whatever_their_case_and_neighbours(tmp_path: Path) -> None:
    said = ["ERROR", "info", "eRr", "true", "", "errors", "Fatal\0", "fatal"]
    with opened(tmp_path) as service:
        service.ingest.report(
            [Event(process="a", index=at, attributes={"x\0": "\0", "level": said[at - 1]}) for at in range(1, 9)]
        )
        source = StoreSource(service.store)
        # Lengths of 255 and 65,535 are written with the byte 0xff.
        long = [{"y": "9:" * 127 + "1", "level": "error"}, {"y": "x" * 65_400}, {"y": "x" * 255, "status": "failed"}]
        wide = {str(at): "" for at in range(255)}
        many = [*long, {**wide, "level": "error"}, {"level": "error", **wide}, wide]
        service.ingest.report([Event(process="b", index=at, attributes=one) for at, one in enumerate(many, 3)])
        assert source.lanes("", None).lanes[0].failing.tolist() == [0, 2, 3, 7]
        assert source.lanes("", None).lanes[1].failing.tolist() == [0, 2, 3, 4]
        source.close()


def test_lanes_that_are_not_looked_at_make_room() -> None:
    made: list[str] = []

    def lanes(name: str) -> Lanes:
        made.append(name)
        lane = following.Lane("p", np.arange(1, 1_001), np.arange(1_000), np.arange(0))
        none = np.empty(0, np.int64)
        return Lanes(name, "time", [lane], following.edges_between([lane], none, none, none, none))

    kept = LanesCache(bytes_max=40_000)
    for name in ("a", "b", "a", "c", "a", "b"):
        kept.get((name, "time"), lambda _, name=name: lanes(name), lambda _: True)
    assert made == ["a", "b", "c", "b"]
    kept.close()


def test_who_joins_a_reading_that_began_before_gets_a_newer_one() -> None:
    kept, gate, begun, world = LanesCache(), threading.Event(), threading.Event(), [1]
    none = np.empty(0, np.int64)

    def make(_: Lanes | None) -> Lanes:
        seen = world[0]
        begun.set()
        gate.wait()
        return Lanes("", "time", [], following.edges_between([], none, none, none, none), seen)

    def get(least: int) -> int:
        found = kept.get(("", "time"), make, lambda lanes: lanes.cursor is not None and lanes.cursor >= least)
        assert found.cursor is not None
        return found.cursor

    first = threading.Thread(target=get, args=(1,))
    first.start()
    begun.wait()
    world[0] = 2
    threading.Timer(0.05, gate.set).start()
    assert get(2) == 2
    first.join()
    kept.close()


def test_a_reading_that_takes_too_long_is_there_for_the_next_who_asks(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 @1"))
        source = StoreSource(service.store)
        with within(0), pytest.raises(OverdueError):
            source.lanes("", None)
        assert source.lanes("", None).count == 1
        source.close()


def test_executions_beyond_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "EVENTS_MAX", 2)
    with opened(tmp_path) as service:
        service.ingest.report(events("a1", "a2", "a3"))
        source = StoreSource(service.store)
        with pytest.raises(InputError, match="3 events, more than the 2"):
            source.lanes("", None)
        source.close()


def test_many_may_look_while_events_come(tmp_path: Path) -> None:
    problems: list[BaseException] = []
    done = threading.Event()
    with opened(tmp_path) as service:
        viewer = Viewer(StoreSource(service.store))

        def look() -> None:
            seen = 0
            try:
                while not done.is_set():
                    found = viewer.overview()["events"]
                    assert found >= seen
                    seen = found
                    if found:
                        assert viewer.window("")["total"] >= seen
            except BaseException as error:  # noqa: BLE001
                problems.append(error)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for at in range(1, 60):
            service.ingest.report([Event(process=f"p{at % 7}", index=at // 7 + 1, time=at, sends=(f"m{at}",))])
            assert viewer.overview()["events"] == at
        done.set()
        for thread in threads:
            thread.join()
        viewer.close()
    assert problems == []
