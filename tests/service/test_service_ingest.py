"""Batches: what is stored, repeated, in conflict or rejected; waiting, waking, giving up."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from service_stores import Service, events, opened

from beforehand.errors import InputError
from beforehand.events import Event, Rejection


def states(service: Service) -> dict[str, str]:
    return {one["id"]: one["state"] for one in service.queries.find(limit=1_000)["events"]}


def test_a_report_is_stored_once_and_said_to_be_repeated_after(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        first = service.ingest.report(events("a1 !m", "b1 ?m"))
        again = service.ingest.report(events("b1 ?m", "a1 !m", "a1 !m"))
        assert (first.stored, first.repeated) == (2, 0)
        assert (again.stored, again.repeated, again.conflicts, again.rejected) == (0, 3, 0, 0)
        assert service.count("events") == 2


def test_an_event_twice_in_one_batch_is_stored_once(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        receipt = service.ingest.report(events("a1 !m", "a1 !m", "a1 other"))
        assert (receipt.stored, receipt.repeated, receipt.conflicts) == (1, 1, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"name": "else"},
        {"time": 8},
        {"sends": ("m", "n")},
        {"receives": ("k",)},
        {"attributes": {"x": "2"}},
        {"clock": {"a": 1}},
    ],
)
def test_a_report_that_differs_is_a_conflict_kept_and_shown_and_the_first_one_stays(
    tmp_path: Path, other: dict[str, object]
) -> None:
    first = Event(process="a", index=1, sends=("m",), time=7, name="one", attributes={"x": "1"})
    with opened(tmp_path) as service:
        service.ingest.report([first])
        receipt = service.ingest.report([replace(first, **other)])  # type: ignore[arg-type]
        repeated = service.ingest.report([replace(first, **other)])  # type: ignore[arg-type]
        assert (receipt.stored, receipt.repeated, receipt.conflicts) == (0, 0, 1)
        assert (repeated.repeated, repeated.conflicts) == (1, 0)  # The same conflict again is no new one.
        shown = service.queries.event("a:1")
        assert (shown["name"], shown["time"], shown["sends"]) == ("one", 7, ["m"])
        assert len(shown["conflicts"]) == 1
        assert [change.conflicted for change in service.store.changes(0)] == [False, True]


def test_clocks_that_differ_only_in_a_zero_are_a_conflict_too(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([Event(process="a", index=1, clock={"a": 1})])
        receipt = service.ingest.report([Event(process="a", index=1, clock={"a": 1, "b": 0})])
        assert receipt.conflicts == 1


def test_conflicts_of_one_event_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    with opened(tmp_path, conflicts_max=2) as service:
        receipt = service.ingest.report([Event(process="a", index=1, name=str(n)) for n in range(5)])
        assert receipt.conflicts == 4
        assert service.count("conflicts") == 2
        with service.store.reading() as db:
            assert db.execute("SELECT value FROM counts WHERE name = 'conflicts_dropped'").fetchone() == (2,)


def test_an_event_waits_for_the_event_before_it(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a2"))
        assert states(service) == {"a:2": "waiting"}
        service.ingest.report(events("a1"))
        assert states(service) == {"a:1": "complete", "a:2": "complete"}


def test_an_event_waits_for_the_send_and_then_for_what_the_send_waits_for(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("b1 ?m"))
        service.ingest.report(events("a2 !m"))
        assert states(service) == {"b:1": "waiting", "a:2": "waiting"}
        receipt = service.ingest.report(events("a1"))
        assert receipt.stamped == 3
        assert service.queries.event("b:1")["stamp"] == {"a": 2, "b": 1}


def test_an_event_waits_for_what_its_clock_names(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([Event(process="b", index=1, clock={"a": 2, "b": 1})])
        service.ingest.report(events("a1"))
        assert states(service)["b:1"] == "waiting"
        service.ingest.report(events("a2"))
        assert states(service)["b:1"] == "complete"


def test_a_clock_makes_the_send_of_a_message_unnecessary(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([Event(process="b", index=1, receives=("never reported",), clock={"b": 1})])
        assert states(service) == {"b:1": "complete"}


def test_before_the_deadline_nothing_is_given_up_and_after_it_what_is_missing_is(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("b2 ?m"))
        service.now += 999
        assert service.ingest.settle() == 0
        service.now += 1
        assert service.ingest.settle() == 1
        assert states(service) == {"b:2": "incomplete"}
        assert service.queries.event("b:2")["stamp"] == {"b": 2}


def test_after_a_loss_the_next_events_do_not_wait_for_a_deadline_each(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1", "a3"))
        service.expire()
        service.ingest.report(events("a4 !m", "b1 ?m"))
        assert states(service) == {"a:1": "complete", "a:3": "incomplete", "a:4": "incomplete", "b:1": "incomplete"}


def test_a_late_report_raises_what_is_behind_it_and_completes_it(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("c1 !k", "a2 !m", "b1 ?m"))
        service.expire()
        assert service.queries.event("b:1")["stamp"] == {"a": 2, "b": 1}
        service.ingest.report(events("a1 ?k @99"))
        service.ingest.settle()
        shown = service.queries.event("b:1")
        assert (shown["stamp"], shown["past_size"], shown["causal_time"]) == ({"a": 2, "b": 1, "c": 1}, 4, 99)
        assert set(states(service).values()) == {"complete"}


def test_late_causes_of_one_batch_teach_each_other_whatever_way_they_came(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("e1 ?k !m", *(f"a{n}" for n in range(2, 41))))
        service.expire()
        service.ingest.report(events("z1 !k", "a1 ?m"))
        service.ingest.settle()
        assert service.queries.event("a:1")["stamp"] == {"a": 1, "e": 1, "z": 1}
        assert service.queries.event("a:40")["stamp"] == {"a": 40, "e": 1, "z": 1}
        assert set(states(service).values()) == {"complete"}


def test_what_was_given_up_stays_incomplete_while_its_late_cause_waits_itself(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("b1 ?m", "c2"))
        service.expire()
        service.ingest.report(events("a2 !m"))
        service.ingest.report(events("c1"))  # Raises stamps, after which every process is looked at again.
        service.ingest.settle()
        assert states(service) == {"a:2": "waiting", "b:1": "incomplete", "c:1": "complete", "c:2": "complete"}
        assert service.queries.past("b:1")["unsent"] == []  # It is here, only not in its place yet.
        service.ingest.report(events("a1"))
        service.ingest.settle()
        assert set(states(service).values()) == {"complete"}


def test_a_clock_that_was_left_out_as_equal_comes_back_as_it_was_when_its_stamp_is_raised(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([*events("c1 !k"), Event(process="a", index=2, clock={"a": 2})])
        service.ingest.report([Event(process="a", index=3, clock={"a": 3})])
        service.expire()
        service.ingest.report(events("a1 ?k"))
        service.ingest.settle()
        for index in (2, 3):
            shown = service.queries.event(f"a:{index}")
            assert (shown["stamp"], shown["clock"]) == ({"a": index, "c": 1}, {"a": index})
        assert service.queries.checks()["counts"]["clock"] == 2  # They lack what came late.


def test_while_stamps_are_raised_new_events_wait_and_then_know_everything(tmp_path: Path) -> None:
    with opened(tmp_path, steps_max=1) as service:
        service.ingest.report(events("b1", "c1 !k", *(f"a{n}" for n in range(2, 40)), "a40 !m"))
        service.expire()
        service.ingest.report(
            events("a1 ?k")
        )  # One process is raised per transaction: b, which knows nothing, first.
        service.ingest.report(events("b2 ?m"))
        assert service.count("raises") == 1
        service.ingest.settle()
        assert service.queries.event("b:2")["stamp"] == {"a": 40, "b": 2, "c": 1}


def test_messages_sent_or_received_twice_are_rejected_and_their_events_stay(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 !m", "b1 ?m"))
        service.ingest.report(events("c1 !m", "b2 ?m"))
        found = service.queries.rejected()["rejected"]
        assert [(one["reason"], one["message"], one["events"]) for one in found] == [
            ("duplicate-send", "m", ["a:1", "c:1"]),
            ("duplicate-receive", "m", ["b:1", "b:2"]),
        ]
        assert service.count("events") == 4


def test_a_cycle_waits_until_the_deadline_and_is_then_rejected(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 ?n", "a2 !m", "b1 ?m", "b2 !n", "b3 !k", "c1 ?k"))
        assert set(states(service).values()) == {"waiting"}
        service.expire()
        assert set(states(service).values()) == {"complete"}
        assert [one["reason"] for one in service.queries.rejected()["rejected"]] == ["cycle", "cycle"]
        assert service.queries.event("c:1")["stamp"] == {"b": 3, "c": 1}


def test_a_late_message_that_would_close_a_cycle_is_rejected_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 ?m", "a2 !n", "b1 ?n"))
        service.expire()
        service.ingest.report(events("b2 !m"))
        service.ingest.settle()
        (rejected,) = service.queries.rejected()["rejected"]
        assert (rejected["reason"], rejected["message"], rejected["events"]) == ("cycle", "m", ["a:1", "b:2"])
        assert service.queries.event("a:1")["stamp"] == {"a": 1}
        assert service.queries.event("b:2")["stamp"] == {"a": 2, "b": 2}


def test_clocks_that_name_each_other_are_a_finding_and_the_events_stay(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(
            [Event(process="a", index=1, clock={"a": 1, "b": 1}), Event(process="b", index=1, clock={"a": 1, "b": 1})]
        )
        service.expire()
        assert set(states(service).values()) == {"complete"}
        assert service.queries.checks()["counts"]["clock"] == 2


def test_a_clock_that_lacks_what_its_causes_know_is_a_finding_and_the_stamp_has_it(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 !m", "b1 ?m !n"))
        service.ingest.report([Event(process="c", index=1, receives=("n",), clock={"b": 1, "c": 1})])
        assert service.queries.event("c:1")["stamp"] == {"a": 1, "b": 1, "c": 1}
        assert service.queries.event("c:1")["clock"] == {"b": 1, "c": 1}
        (found,) = [one for one in service.queries.checks()["violations"] if one["kind"] == "clock"]
        assert found["events"] == ["c:1"]
        assert "'a': 1" in found["why"]


def test_what_is_beyond_a_limit_is_rejected_and_the_rest_of_the_batch_is_stored(tmp_path: Path) -> None:
    with opened(tmp_path, index_max=100, event_bytes_max=200, processes_max=3) as service:
        receipt = service.ingest.report(
            [
                Event(process="a", index=101),
                Event(process="a", index=1, clock={"a": 1, "b": 101}),
                Event(process="a", index=1, name="x" * 201),
                Event(process="a", index=1, attributes={"x": "y" * 201}),
                Event(process="a", index=1, name="\ud800"),
                Event(process="a", index=1),
                Event(process="b", index=1, clock={"b": 1, "c": 0}),
                Event(process="d", index=1),
            ]
        )
        assert (receipt.stored, receipt.rejected) == (2, 6)
        assert [one["reason"] for one in service.queries.rejected()["rejected"]] == [
            "index-too-large",
            "index-too-large",
            "event-too-large",
            "event-too-large",
            "not-utf8",
            "too-many-processes",
        ]


def test_a_batch_beyond_the_limit_is_refused_whole(tmp_path: Path) -> None:
    with opened(tmp_path, batch_events_max=2) as service:
        with pytest.raises(InputError, match="at most 2"):
            service.ingest.report(events("a1", "a2", "a3"))
        assert service.count("events") == 0


def test_what_a_reader_rejected_is_kept_once(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        line = Rejection(reason="not-json", detail="the line is not JSON", text="{\ud800", line=3)
        service.ingest.report([line, *events("a1")])
        service.ingest.report([line])
        (found,) = service.queries.rejected()["rejected"]
        assert (found["reason"], found["line"], found["text"]) == ("not-json", 3, "{?")


def test_a_batch_that_fails_in_the_middle_leaves_nothing_behind_also_in_memory(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1"))
        with pytest.raises(AttributeError):
            service.ingest.report([*events("a2 !m", "b1 ?m"), "no event"])  # type: ignore[list-item]
        assert service.count("events") == 1
        receipt = service.ingest.report(events("b1 ?m", "a2 !m"))
        assert (receipt.stored, receipt.repeated, receipt.stamped) == (2, 0, 2)


def test_a_full_disk_loses_nothing_but_the_batch_that_had_no_room(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1"))
        with service.store.transaction() as db:
            (pages,) = db.execute("PRAGMA page_count").fetchone()
            db.execute(f"PRAGMA max_page_count = {pages + 2}")
        large = [Event(process="a", index=n, name="x" * 1_000) for n in range(2, 200)]
        with pytest.raises(sqlite3.OperationalError, match="full"):
            service.ingest.report(large)
        assert service.count("events") == 1
        with service.store.transaction() as db:
            db.execute("PRAGMA max_page_count = 1000000")
        assert service.ingest.report(large).stored == 198
        assert service.queries.event("a:199")["state"] == "complete"


def test_a_knot_among_too_many_waiting_events_is_untied_circle_by_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beforehand.service.settling.KNOT_MAX", 3)
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 ?n", "a2 !m", "b1 ?m", "b2 !n", "c1 ?k", "c2 !l", "d1 ?l", "d2 !k"))
        service.expire()
        assert set(states(service).values()) == {"complete"}
        assert sorted(one["message"] for one in service.queries.rejected()["rejected"]) == ["k", "l", "m", "n"]


def test_a_store_opened_again_goes_on_where_it_was(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 !m", "a2", "b1 ?m", "c2 ?k"))
    with opened(tmp_path) as service:
        again = service.ingest.report(events("a1 !m", "c2 ?k", "a3 !k", "c1"))
        assert (again.stored, again.repeated) == (2, 2)
        assert service.queries.event("c:2")["stamp"] == {"a": 3, "c": 2}
        assert set(states(service).values()) == {"complete"}


def test_stamps_stand_as_differences_with_a_full_one_every_32nd(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("b1 !m", "a1 ?m", *(f"a{n}" for n in range(2, 100))))
        with service.store.reading() as db:
            sql = """SELECT idx FROM events e JOIN processes p ON p.id = e.process
                     WHERE p.name = 'a' AND "full" ORDER BY idx"""
            assert [index for (index,) in db.execute(sql)] == [1, 33, 65, 97]
            empty = 'SELECT count(*) FROM events WHERE NOT "full" AND stamp IS NOT NULL'
            assert db.execute(empty).fetchone() == (0,)
        assert service.queries.event("a:64")["stamp"] == {"a": 64, "b": 1}


def test_settling_stops_between_transactions_and_goes_on_where_it_was(tmp_path: Path) -> None:
    reports = [Event(process="a", index=index) for index in range(1, 60)]
    with opened(tmp_path, steps_max=5) as service:
        service.ingest.report(reports[1:])
        service.ingest.report(reports[:1])
        waiting = service.count("waits")
        assert waiting > 20
        assert service.ingest.settle(stopping=lambda: True) == 0
        asked = iter([False, False, True])
        assert 0 < service.ingest.settle(stopping=lambda: next(asked)) < waiting
        assert 0 < service.count("waits") < waiting
        service.ingest.settle()
        assert service.count("waits") == 0
