"""Berry (1995), the event reporting service: sections 3.1, 3.4.2 and 4.3, in our words."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from random import Random

from service_stores import events, opened

from beforehand.events import Event
from beforehand.history import History
from random_histories import as_events, random_steps


def test_3_1_clocks_of_the_processes_do_not_decide_what_came_before(tmp_path: Path) -> None:
    """Skewed clocks can give a false order: the cause carries the later time."""
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 !m cause @900", "b1 ?m failure @100", "c1 unrelated @500"))
        found = service.queries.past("b:1")
        assert [one["name"] for one in found["events"]] == ["cause"]
        assert [one["name"] for one in service.queries.order()["events"]] == ["unrelated", "cause", "failure"]


def test_3_1_a_delayed_report_is_lacking_in_the_immediate_view_and_is_named(tmp_path: Path) -> None:
    """E1 is delayed; E2, which it led to, is reported first. Stamps alone cannot tell; indexes and messages can."""
    with opened(tmp_path) as service:
        service.ingest.report(events("p1 !m", "q2 ?m E2"))
        immediate = service.queries.past("q:2")
        assert [one["id"] for one in immediate["events"]] == ["p:1"]
        assert immediate["missing"] == ["q:1"]


def test_3_4_2_the_observer_delays_a_report_until_all_that_it_depends_on_has_come(tmp_path: Path) -> None:
    """With the delay, what a subscriber gets is complete (4.3)."""
    with opened(tmp_path) as service:
        service.ingest.report(events("p2 !m E2", "q1 ?m !n", "r1 ?n failure"))
        assert [change.completed for change in service.store.changes(0)] == [False, False, False]
        service.ingest.report(events("p1 E1"))
        completed = [str(change.event) for change in service.store.changes(0) if change.completed]
        assert completed == ["p:1", "p:2", "q:1", "r:1"]
        assert [one["id"] for one in service.queries.past("r:1", complete=True)["events"]] == ["p:1", "p:2", "q:1"]


def test_3_1_whoever_follows_gets_each_failure_with_the_last_25_before_it(tmp_path: Path) -> None:
    """Fifty reporters at once, out of order and twice; what a follower was given is what the whole history says."""
    random = Random(25)
    reports = [
        replace(event, name="failure of type X") if random.random() < 0.05 else event
        for event in as_events(random_steps(random, processes=50, steps=900, receive=0.8))
    ]
    failures = [event for event in reports if event.name]
    shuffled = [reports[at] for at in sorted(range(len(reports)), key=lambda at: at + random.randint(0, 200))]
    with opened(tmp_path) as service:
        given: dict[str, list[str]] = {}

        def report(part: list[Event]) -> None:
            for at in range(0, len(part), 6):
                service.ingest.report(part[at : at + 6])
            service.ingest.report(part)

        def follow() -> None:
            cursor = 0
            while len(given) < len(failures) and service.store.wait(cursor, timeout=60):
                for change in service.store.changes(cursor):
                    cursor = change.seq
                    if change.completed and service.queries.event(change.event).get("name") == "failure of type X":
                        found = service.queries.past(change.event, last=25, complete=True)
                        given[found["event"]] = [one["id"] for one in found["events"]]

        threads = [threading.Thread(target=report, args=(shuffled[n::50],)) for n in range(50)]
        threads.append(threading.Thread(target=follow))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        history = History(reports)
        assert given == {
            str(event.id): [str(one.id) for one in history.explain(event, last=25).events] for event in failures
        }
