"""Answers while reports are still missing, their documents, and questions that cannot be answered."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from pathlib import Path

import msgspec
import pytest
from service_stores import events, opened

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import Event, EventId
from beforehand.history import History
from beforehand.predicate import Predicate


def test_the_immediate_past_of_a_waiting_event_has_what_is_here_and_names_what_is_not(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("cart1 @1", "cart16 @2", "cart20 !m @3", "web1 ?m !w @4", "web2 ?x failed @5"))
        found = service.queries.past("web:2")
        assert (found["state"], found["complete"]) == ("waiting", False)
        assert [one["id"] for one in found["events"]] == ["cart:1", "cart:16", "cart:20", "web:1"]
        assert found["past"] == 4
        assert found["missing"] == ["cart:2–15", "cart:17–19"]
        assert found["unsent"] == [{"message": "x", "received": "web:2"}]


def test_what_a_clock_names_beyond_the_last_report_is_missing_too(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([*events("cart1"), Event(process="web", index=1, clock={"cart": 3, "web": 1})])
        assert service.queries.past("web:1")["missing"] == ["cart:2–3"]
        service.expire()
        found = service.queries.past("web:1")
        assert (found["state"], found["missing"]) == ("incomplete", ["cart:2–3"])
        assert service.queries.missing()["missing"] == ["cart:2–3"]


def test_the_complete_view_gives_nothing_until_all_is_here(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1", "b1 ?m"))
        found = service.queries.past("b:1", complete=True)
        assert (found["past"], found["events"], found["complete"]) == (None, None, False)
        assert found["notes"]
        service.ingest.report(events("a2 !m"))
        found = service.queries.past("b:1", complete=True)
        assert (found["past"], [one["id"] for one in found["events"]]) == (2, ["a:1", "a:2"])
        assert (found["missing"], found["unsent"], found["notes"]) == ([], [], [])


def test_a_past_is_chosen_by_predicate_and_process(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 failed @1", "a2 fine @2", "a3 !m failed @3", "b1 ?m failed @4", "b2 @5"))
        meant = Predicate.parse("name = failed")
        assert [one["id"] for one in service.queries.past("b:2", where=meant, last=2)["events"]] == ["a:3", "b:1"]
        assert [one["id"] for one in service.queries.past("b:2", process="a")["events"]] == ["a:1", "a:2", "a:3"]
        assert service.queries.past("b:2", last=0) == {
            "event": "b:2",
            "state": "complete",
            "complete": True,
            "past": 4,
            "events": [],
            "missing": [],
            "unsent": [],
            "notes": [],
        }
        with pytest.raises(InputError, match="no process 'z'"):
            service.queries.past("b:2", process="z")


def test_find_shows_waiting_events_at_their_own_time_and_says_their_state(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 @5", "b2 failed @9", "a2 @7"))
        found = service.queries.find()
        assert [(one["id"], one["state"]) for one in found["events"]] == [
            ("b:2", "waiting"),
            ("a:2", "complete"),
            ("a:1", "complete"),
        ]
        assert set(found["events"][0]) == {
            "id",
            "process",
            "index",
            "kind",
            "name",
            "time",
            "sends",
            "receives",
            "attributes",
            "state",
        }
        assert [one["id"] for one in service.queries.find(Predicate.parse("name ~ fail"))["events"]] == ["b:2"]
        assert [one["id"] for one in service.queries.order()["events"]] == ["a:1", "a:2"]


def test_a_page_ends_where_enough_was_looked_at_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.service.finding.SCANNED_MAX", 3)
    with opened(tmp_path) as service:
        service.ingest.report(events(*(f"a{n} @{n} {'rare' if n == 2 else ''}" for n in range(1, 9))))
        pages, cursor = [], None
        while True:
            page = service.queries.find(Predicate.parse("name = rare"), after=cursor)
            pages.append([one["id"] for one in page["events"]])
            cursor = page["cursor"]
            if cursor is None:
                break
        assert pages == [[], [], ["a:2"]]


def test_a_cursor_keeps_its_place_while_new_events_come(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 @1", "a2 @2", "a3 @3"))
        first = service.queries.find(limit=2)
        service.ingest.report(events("a4 @4", "b1 @0"))
        rest = service.queries.find(after=first["cursor"])
        assert [one["id"] for one in first["events"] + rest["events"]] == ["a:3", "a:2", "a:1", "b:1"]


def test_waiting_events_are_related_by_what_is_here(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 !m", "b2 ?m", "b3 !n", "c2 ?n"))
        found = service.queries.relate("a:1", "c:2")
        assert (found["relation"], found["chain"]) == ("before", ["a:1", "b:2", "b:3", "c:2"])
        assert service.queries.relate("c:2", "a:1")["relation"] == "after"
        assert service.queries.future("b:2")["events"] == []
        assert service.queries.cut_after("c:2")["cut"] == {"a": 1, "b": 3, "c": 2}


def test_a_message_that_was_cut_from_a_knot_leads_no_chain(tmp_path: Path) -> None:
    reports = events("f1 !x !y", "s1 ?x ?back", "s2 !cut", "g1 ?y !real", "e1 ?cut ?real", "e2 !back")
    with opened(tmp_path) as service:
        service.ingest.report(reports)
        service.expire()
        found = service.queries.relate("f:1", "e:1")
        assert found["chain"] == [str(one) for one in History(reports).chain("f:1", "e:1")] == ["f:1", "g:1", "e:1"]


def test_a_chain_through_a_clock_says_so(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([*events("a1", "a2"), Event(process="b", index=1, clock={"a": 2, "b": 1})])
        found = service.queries.relate("a:1", "b:1")
        assert found["chain"] == ["a:1", "a:2", "b:1"]
        assert found["reasons"] == ["a:1 came before a:2 on a", "b:1 reports a clock that knows a:2"]


def test_events_of_different_executions_are_concurrent_and_have_no_common_cut(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([Event(process="a", index=1, execution=x, time=1) for x in ("s", "u", "t")])
        assert [one["id"] for one in service.queries.find()["events"]] == ["u/a:1", "t/a:1", "s/a:1"]
        assert service.queries.relate("s/a:1", "t/a:1")["relation"] == "concurrent"
        with pytest.raises(InputError, match="different executions"):
            service.queries.cut_after("s/a:1", "t/a:1")
        for ask in (service.queries.order, service.queries.missing, service.queries.checks):
            with pytest.raises(InputError, match="several executions"):
                ask()
        with pytest.raises(InputError, match="no execution 'w'"):
            service.queries.find(execution="w")
        assert service.queries.cut_at(1, execution="s")["cut"] == {"a": 1}


def test_names_with_slashes_and_colons_are_found_and_ambiguous_ones_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([Event(process="a/b:c", index=1), Event(process="b:c", index=1, execution="a")])
        with pytest.raises(InputError, match="names two events"):
            service.queries.event("a/b:c:1")
        assert service.queries.event(EventId("a", "b:c", 1))["id"] == "a/b:c:1"
        for text in ("nothing", "a:0", ":1", "a:x", "a:99999999999999999999", "z:1", "\ud800:1"):
            with pytest.raises(UnknownEventError):
                service.queries.event(text)
        with pytest.raises(UnknownEventError, match="indexes up to 1"):
            service.queries.event(EventId("a", "b:c", 2))


BEYOND = urlsafe_b64encode(msgspec.msgpack.encode((2**64 - 1, 1, "a", 1, ""))).decode()


@pytest.mark.parametrize("cursor", ["x", "AAAA", "é", "kw==", "=" * 9, pytest.param(BEYOND, id="beyond 64 bits")])
def test_a_cursor_that_is_none_is_one_line(tmp_path: Path, cursor: str) -> None:
    with opened(tmp_path) as service, pytest.raises(InputError, match="is no cursor"):
        service.queries.find(after=cursor)


def test_pages_have_a_limit(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        for limit in (0, -1, 10_001):
            with pytest.raises(InputError, match="ask for"):
                service.queries.find(limit=limit)


def test_an_empty_store_has_empty_answers(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        assert service.queries.find() == {"events": [], "more": False, "cursor": None}
        assert service.queries.order()["events"] == []
        assert service.queries.missing()["missing"] == []
        assert service.queries.cut_at(5)["cut"] == {}
        assert service.queries.cut({})["cut"] == {}
        assert service.queries.checks()["violations"] == []


def test_a_cut_names_only_processes_that_are_here(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1"))
        with pytest.raises(InputError, match="no process"):
            service.queries.cut({"z": 1})
        with pytest.raises(InputError, match="negative"):
            service.queries.cut({"a": -1})


def test_the_search_back_through_waiting_events_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.service.view.SEARCH_MAX", 5)
    with opened(tmp_path) as service:
        service.ingest.report(events(*(f"a{n}" for n in range(2, 40))))
        assert "wait before it" in service.queries.past("a:39")["notes"][0]


def test_checks_of_more_events_than_are_judged_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.service.checking.CHECKED_MAX", 4)
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 !m @1", "a2 !n @2", "b1 ?n @3", "b2 ?m @4", "b3 @5"))
        found = service.queries.checks()
        assert found["counts"]["fifo"] == 0  # The send of m lies before the four newest.
        assert "newest 4" in found["notes"][0]
