"""Small executions out of packs: the same answers as in memory, untidy ones included."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import Event, EventId
from beforehand.history import Cut
from beforehand.pipeline.stored import StoredHistory
from beforehand.predicate import Predicate
from history_directories import Case, make_pack_directory


def comparable(cut: Cut) -> tuple[object, ...]:
    return dict(cut.cut), cut.front, sorted(cut.in_flight), sorted(cut.unreceived), cut.consistent


def test_every_question_about_a_small_execution_is_answered_as_in_memory(pack_case: Case) -> None:
    stored = StoredHistory.open(pack_case.path)
    random = Random(1)
    for history in pack_case.histories.values():
        events = list(history.columns.events)
        for event in events[::3]:
            assert stored.event(event.id) == event
            assert stored.stamp(event) == history.stamp(event)
            assert stored.explain(event) == history.explain(event)
            assert comparable(stored.cut_after(event)) == comparable(history.cut_after(event))
            other = random.choice(events)
            relation = stored.relate(event, other)
            assert relation.relation == history.compare(event, other)
            assert list(relation.chain) == (history.chain(event, other) or history.chain(other, event))
            found = stored.around(event, 8)
            for one in (*found.events, *found.beyond):
                assert (one.id in (found.marks.past or ())) == history.happened_before(one.id, event)
        assert list(stored.order(execution=history.execution)) == history.order()
        assert comparable(stored.cut_at(1_002_000, execution=history.execution)) == comparable(
            history.cut_at(1_002_000)
        )


def test_messages_that_were_sent_twice_stay_with_the_send_that_came_first(pack_case: Case) -> None:
    history = pack_case.histories["untidy"]
    assert {one.reason for one in history.rejections} == {"duplicate-send", "duplicate-receive", "cycle"}
    stored = StoredHistory.open(pack_case.path).history("untidy")
    for event in history.columns.events:
        assert stored.stamp(event) == history.stamp(event)
    assert sorted(stored.cut_after(*history.columns.events).unreceived) == sorted(
        history.cut_after(*history.columns.events).unreceived
    )


def test_events_are_found_across_executions(pack_case: Case) -> None:
    stored = StoredHistory.open(pack_case.path)
    where = Predicate.parse("attributes.level = error and name ~ pay")
    expected = {event.id for history in pack_case.histories.values() for event in history.order() if where(event)}
    assert {event.id for event in stored.find(where, limit=1_000)} == expected
    assert expected


def test_an_id_may_lack_its_execution_only_if_that_has_no_name_or_is_the_only_one(
    pack_case: Case, tmp_path: Path
) -> None:
    stored = StoredHistory.open(pack_case.path)
    assert stored.find_id("p1:1") == EventId("", "p1", 1)
    assert stored.find_id("trace/4:x/p1:1") == EventId("trace/4:x", "p1", 1)
    with pytest.raises(UnknownEventError, match="there are 14 executions"):
        stored.find_id("p77:1")
    alone = make_pack_directory([[Event(execution="t/1", process="p/q:r", index=1)]], tmp_path, packs=5)
    one = EventId("t/1", "p/q:r", 1)
    for text in ("p/q:r:1", "t/1/p/q:r:1"):
        assert StoredHistory.open(alone.path).find_id(text) == one


def test_an_id_that_names_two_events_is_refused(tmp_path: Path) -> None:
    executions = [
        [Event(execution="a", process="b/c", index=1)],
        [Event(execution="a/b", process="c", index=1)],
    ]
    stored = StoredHistory.open(make_pack_directory(executions, tmp_path, packs=2).path)
    with pytest.raises(InputError, match="it names two events"):
        stored.find_id("a/b/c:1")
    assert stored.event(EventId("a/b", "c", 1)).process == "c"


def test_a_pack_that_is_gone_is_noticed(tmp_path: Path) -> None:
    executions = [[Event(execution=f"t{n}", process="p", index=1)] for n in range(9)]
    case = make_pack_directory(executions, tmp_path, packs=3)
    stored = StoredHistory.open(case.path)
    next(stored.directory.events.glob("pack-*.parquet")).unlink()
    with pytest.raises(InputError, match="events instead of 9"):
        list(stored.order())
