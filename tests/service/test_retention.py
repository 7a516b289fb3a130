"""Retention: what goes is a consistent cut, and what stays says what it would say if nothing had gone."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from service_stores import Service, events, opened

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.history import History
from beforehand.service.retention import Retention, RetentionSettings
from beforehand.service.subscriptions import Following, Interest
from random_histories import as_events, random_steps

SECOND = 1_000_000_000
DAY = 86_400 * SECOND


def retaining(service: Service, **settings: int) -> Retention:
    given = {"least_ns": 0, **settings}
    service.now = max(service.now, DAY)
    return Retention(service.store, service.ingest, settings=RetentionSettings(**given), clock=lambda: service.now)


def removed_all(service: Service, retention: Retention) -> int:
    """All steps until nothing more goes."""
    count = 0
    for _ in range(200):
        gone = retention.step()
        service.ingest.settle()
        count += gone
        with service.store.reading() as db:
            if not gone and retention._due(db, service.now) is None:
                return count
    raise AssertionError("it does not end")


def here(service: Service) -> set[tuple[str, int]]:
    with service.store.reading() as db:
        sql = "SELECT p.name, e.idx FROM events e JOIN processes p ON p.id = e.process"
        return set(db.execute(sql).fetchall())


def assert_stays_right(service: Service, history: History, random: Random, *, exact: bool) -> None:
    """Of the events that are here, all is as in the whole history; `exact`: to the last number."""
    left = here(service)
    run = [event for event in history.order() if (event.process, event.index) in left]
    order = [one["id"] for one in service.queries.order(limit=10_000)["events"]]
    places = {name: at for at, name in enumerate(order)}
    assert sorted(places) == sorted(str(event.id) for event in run)
    if exact:
        assert order == [str(event.id) for event in run]
    with service.store.reading() as db:
        floor = dict(db.execute("SELECT name, removed FROM processes").fetchall())

    def kept(found: list[Event]) -> list[str]:
        names = [str(one.id) for one in found if (one.process, one.index) in left]
        return sorted(names, key=places.__getitem__)

    for event in history.order():  # A consistent cut: with what went, went its past.
        if (event.process, event.index) not in left:
            assert kept(history.past(event)) == []
    for event in random.sample(run, min(25, len(run))):
        shown, stamp = service.queries.event(event.id), history.stamp(event)
        entries = {name: index for name, index in shown["stamp"].items() if index > floor[name]}
        assert entries == {name: index for name, index in stamp.items() if index > floor[name]}
        found, past = service.queries.past(event.id, last=10_000), history.past(event)
        assert [one["id"] for one in found["events"]] == kept(past)
        assert all(places[name] < places[str(event.id)] for name in kept(past))
        assert found["past"] == len(kept(past))
        assert (found["complete"], found["missing"], found["unsent"]) == (True, [], [])
        if exact:
            assert shown["stamp"] == stamp
            assert shown["causal_time"] == history.causal_time(event)
            assert shown["past_size"] == history.past_size(event)
            assert found.get("removed", 0) == len(past) - len(kept(past))
        future = service.queries.future(event.id, limit=10_000)
        assert ([one["id"] for one in future["events"]], future["future"]) == (
            kept(history.future(event)),
            len(history.future(event)),
        )
        apart = service.queries.concurrent(event.id, limit=10_000)
        others = kept(history.concurrent(event))
        assert ([one["id"] for one in apart["events"]], apart["concurrent"]) == (others, len(others))
        other = random.choice(run)
        assert service.queries.relate(event.id, other.id)["relation"] == history.compare(event, other)
    if run:
        assert service.queries.cut_after(random.choice(run))["consistent"]
        times = [event.time for event in run if event.time is not None]
        if times:
            assert service.queries.cut_at(random.choice(times))["consistent"]


@pytest.mark.parametrize("seed", range(6))
def test_what_stays_is_as_if_nothing_had_gone(tmp_path: Path, seed: int) -> None:
    """All reports come, then the older ones go, by and by."""
    random = Random(seed)
    reports = as_events(random_steps(random, processes=6, steps=250, receive=0.8))
    history = History(reports)
    shuffled = [reports[at] for at in sorted(range(len(reports)), key=lambda at: at + random.randint(0, 30))]
    with opened(tmp_path, deadline_ns=100 * DAY) as service:
        retention = retaining(service, age_ns=1_000 * SECOND, step_events=random.choice([7, 40, 5_000]))
        for at in range(0, len(shuffled), 10):
            service.ingest.report(shuffled[at : at + 10])
            service.now += 2 * SECOND
            retention.step()
        gone = 0
        service.now += 940 * SECOND
        for _ in range(3):
            service.now += random.randint(5, 20) * SECOND
            gone += removed_all(service, retention)
            assert_stays_right(service, history, random, exact=True)
        assert gone > 20
        service.now += DAY
        gone += removed_all(service, retention)
        assert gone == len(reports)
        assert service.count("events") == service.count("sends") == service.count("receives") == 0
        assert service.count("journal") == 1


@pytest.mark.parametrize("seed", range(6))
def test_what_comes_while_others_go_has_its_right_place_among_what_is_here(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = as_events(random_steps(random, processes=6, steps=250, receive=0.8))
    history = History(reports)
    shuffled = [reports[at] for at in sorted(range(len(reports)), key=lambda at: at + random.randint(0, 30))]
    with opened(tmp_path, deadline_ns=100 * DAY) as service:
        retention = retaining(service, age_ns=14 * SECOND, step_events=random.choice([7, 40, 5_000]))
        gone = 0
        for at in range(0, len(shuffled), 20):
            service.ingest.report(shuffled[at : at + 20])
            service.now += 2 * SECOND
            gone += retention.step()
            service.ingest.settle()
        with service.store.reading() as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert gone > 20
        late = {event["received"] for event in service.queries.missing()["unsent"]}
        if not late and not service.count("rejected") and not service.count("waits"):
            # No report came after something that it led to was gone.
            assert_stays_right(service, history, random, exact=False)


def test_events_with_clocks_stay_right_though_their_clocks_name_what_is_gone(tmp_path: Path) -> None:
    random = Random(3)
    reports = as_events(random_steps(random, processes=5, steps=200, receive=0.8))
    history = History(reports)
    clocked = [
        Event(process=e.process, index=e.index, time=e.time, name=e.name, clock=history.stamp(e))
        for e in history.order()
    ]
    with opened(tmp_path) as service:
        retention = retaining(service, age_ns=5 * SECOND)
        for at in range(0, len(clocked), 10):
            service.ingest.report(clocked[at : at + 10])
            service.now += SECOND
            retention.step()
        assert 0 < service.count("events") < len(reports)
        left = here(service)
        for event in clocked:
            if (event.process, event.index) in left:
                shown = service.queries.event(event.id)
                assert shown["stamp"] == history.stamp(event.id)
                assert shown["clock"] == history.stamp(event.id)
        assert service.queries.checks()["counts"]["clock"] == 0


def test_what_follows_something_young_stays_and_what_it_follows_may_go(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        retention = retaining(service, age_ns=10 * SECOND)
        service.ingest.report(events("a1", "a3 !m", "b1 ?m", "c1"))
        service.expire()  # a:2 is given up.
        retention.step()
        service.now += 9 * SECOND
        service.ingest.report(events("a2 late"))
        service.ingest.settle()
        retention.step()
        service.now += 2 * SECOND
        removed_all(service, retention)
        # b:1 and a:3 are older, but a:2, which led to them, is not.
        assert here(service) == {("a", 2), ("a", 3), ("b", 1)}
        found = service.queries.past("b:1")
        assert [one["id"] for one in found["events"]] == ["a:2", "a:3"]
        assert found["removed"] == 1
        assert found["notes"] == ["1 older events of the past were removed by retention"]


def test_a_report_of_what_was_removed_is_rejected_and_the_process_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        retention = retaining(service, age_ns=10 * SECOND)
        service.ingest.report(events("z1", "a1", "a2 !m"))
        retention.step()
        service.now += 11 * SECOND
        removed_all(service, retention)
        receipt = service.ingest.report(events("a1", "a3", "b1 ?m"))
        assert (receipt.stored, receipt.rejected) == (2, 1)
        assert service.queries.rejected()["rejected"][0]["reason"] == "removed"
        assert service.queries.event("a:3")["state"] == "complete"
        assert service.queries.past("a:3")["removed"] == 2
        assert service.queries.past("b:1")["unsent"] == [{"message": "m", "received": "b:1"}]


def test_what_was_given_up_holds_nobody_back_once_it_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        retention = retaining(service, age_ns=10 * SECOND)
        service.ingest.report(events("a2", "a3", "b1 ?never"))
        service.expire()
        retention.step()
        service.now += 8 * SECOND
        service.ingest.report(events("a4", "b2"))
        assert service.queries.event("a:4")["state"] == "incomplete"
        service.now += 3 * SECOND
        removed_all(service, retention)
        assert here(service) == {("a", 4), ("b", 2)}
        assert service.queries.event("a:4")["state"] == "complete"
        assert service.queries.missing()["missing"] == service.queries.missing()["unsent"] == []
        assert service.ingest.report(events("a1")).rejected == 1


def test_the_oldest_go_when_there_are_too_many_but_none_that_is_younger_than_it_may_be(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        retention = retaining(service, events_max=100, least_ns=60 * SECOND)
        for n in range(0, 300, 10):
            service.ingest.report(events(*[f"a{n + i}" for i in range(1, 11)]))
            retention.step()
            service.now += 8 * SECOND
        assert 95 <= service.count("events") <= 120
        assert min(index for _, index in here(service)) > 150
        many = retaining(service, events_max=1, least_ns=60 * SECOND)
        service.ingest.report(events("b1"))
        removed_all(service, many)
        assert service.count("events") > 60


def test_the_bytes_in_use_are_bounded(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        retention = retaining(service, bytes_max=1_000_000)
        for n in range(60):
            service.ingest.report([Event(process="a", index=n * 10 + i + 1, name="x" * 4_000) for i in range(10)])
            service.now += 10 * SECOND
            retention.step()
        removed_all(service, retention)
        with service.store.reading() as db:
            pages, free = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count"))
        assert 500_000 < (pages - free) * 4_096 <= 1_000_000
        assert service.queries.event("a:600")["index"] == 600


def test_a_subscriber_that_is_behind_is_told_of_the_gap_and_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        retention = retaining(service, age_ns=10 * SECOND)
        service.ingest.report(events("z1", *[f"a{n}" for n in range(1, 51)]))
        retention.step()
        following = Following(service.store, Interest(past=0), after=0)
        assert len(following.page(10).notices) == 10
        behind = following.cursor
        service.now += 9 * SECOND
        service.ingest.report(events("a51"))
        service.now += 2 * SECOND
        removed_all(service, retention)
        page = following.page(10)
        assert [notice.is_gap for notice in page.notices] == [True, False]
        assert page.notices[0].document["gap"] == {"after": behind, "upto": 51}
        assert page.notices[1].document["event"]["id"] == "a:51"
        assert page.notices[1].document["notes"] == ["50 older events of the past were removed by retention"]
        assert following.page(10).notices == []


def test_cursors_never_go_back_though_all_events_are_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        retention = retaining(service, age_ns=10 * SECOND)
        service.ingest.report(events("a1", "a2", "a3"))
        before = service.store.cursor
        retention.step()
        service.now += 11 * SECOND
        assert removed_all(service, retention) == 3
        assert service.store.cursor == before
    with opened(tmp_path) as service:
        assert service.store.cursor == before
        assert service.ingest.report(events("a4")).cursor == before + 1


def test_executions_without_events_are_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        retention = retaining(service, age_ns=10 * SECOND)
        for n in range(20):
            service.ingest.report([Event(execution=f"trace-{n}", process="web", index=1)])
        retention.step()
        service.now += 11 * SECOND
        assert removed_all(service, retention) == 20
        assert service.count("executions") == service.count("processes") == 1
        service.ingest.report([Event(execution="trace-3", process="web", index=1)])
        assert service.queries.event("trace-3/web:1")["state"] == "complete"


def test_a_run_goes_on_over_parts_of_the_journal_in_which_nothing_can_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beforehand.service.retention._JOURNAL_AT_ONCE", 10)
    with opened(tmp_path) as service:
        retention = retaining(service, age_ns=10 * SECOND)
        service.ingest.report(events(*[f"a{n}" for n in range(2, 60)]))
        service.expire()  # a:1 is given up, and comes in the end: until that is old too, nothing can go.
        service.ingest.report(events("a1"))
        service.ingest.settle()
        retention.step()
        service.now += 11 * SECOND
        assert retention.run(20) == 59
        assert service.count("events") == 0


def test_nothing_goes_unless_it_is_asked_for(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        retention = retaining(service)
        service.ingest.report(events("a1"))
        service.now += 1_000 * DAY
        assert retention.step() == 0
        with pytest.raises(InputError, match="events_max"):
            RetentionSettings(events_max=0)


def restarting(random: Random, generations: int) -> list[Event]:
    """A system whose workers are replaced again and again: each generation has names of its own."""
    reports: list[Event] = []
    main, sent = 0, 0
    for generation in range(generations):
        names = [f"worker-{generation}-{n}" for n in range(3)]
        counts = dict.fromkeys(names, 0)
        open_: list[str] = []
        for _ in range(20):
            time = len(reports) if random.random() < 0.8 else None
            if random.random() < 0.4:
                main += 1
                sends = (f"m{(sent := sent + 1)}",)
                receives = (open_.pop(),) if open_ and random.random() < 0.7 else ()
                reports.append(Event(process="main", index=main, sends=sends, receives=receives, time=time))
                told = sends[0]
                name = random.choice(names)
                counts[name] += 1
                back = f"m{(sent := sent + 1)}"
                open_.append(back)
                reports.append(Event(process=name, index=counts[name], receives=(told,), sends=(back,), time=time))
            else:
                name = random.choice(names)
                counts[name] += 1
                reports.append(Event(process=name, index=counts[name], time=time))
    return reports


@pytest.mark.parametrize("clocks", [False, True])
def test_entries_of_retired_processes_are_pruned_and_precedence_stays(tmp_path: Path, *, clocks: bool) -> None:
    random = Random(12)
    reports = restarting(random, 40)
    history = History(reports)
    if clocks:
        given = [
            Event(process=one.process, index=one.index, time=one.time, clock=history.stamp(one)) for one in reports
        ]
    else:
        given = reports
    with opened(tmp_path, processes_max=90) as service:  # Fewer than there ever are.
        retention = retaining(service, age_ns=30 * SECOND)
        for at in range(0, len(given), 10):
            receipt = service.ingest.report(given[at : at + 10])
            assert receipt.rejected == 0, service.queries.rejected()
            service.now += SECOND
            retention.step()
            service.ingest.settle()
        assert service.ingest.report(given[-10:]).repeated == 10
        with service.store.reading() as db:
            (pruned,) = db.execute("SELECT count(*) FROM processes WHERE pruned").fetchone()
            assert db.execute("SELECT processes FROM executions").fetchone()[0] < 60
        assert pruned > 60
        left = [one for one in reports if (one.process, one.index) in here(service)]
        assert len(left) > 100
        assert max(len(service.queries.event(one.id)["stamp"]) for one in left) < 50
        assert service.queries.checks()["counts"]["clock"] == (0 if clocks else None)  # None: there are none.
        for one in left:
            assert service.queries.event(one.id)["state"] == "complete"
            for other in random.sample(left, 8):
                assert service.queries.relate(one.id, other.id)["relation"] == history.compare(one, other)
        run = [one["id"] for one in service.queries.order(limit=10_000)["events"]]
        places = {name: at for at, name in enumerate(run)}
        for one in left:
            for before in history.past(one):
                if str(before.id) in places:
                    assert places[str(before.id)] < places[str(one.id)]
        # One that is back has entries again.
        service.ingest.report([Event(process="worker-0-0", index=100, clock={"worker-0-0": 100, "main": 1})])
        service.expire()
        assert service.queries.event("worker-0-0:100")["stamp"]["worker-0-0"] == 100


def test_late_causes_are_raised_right_after_pruning(tmp_path: Path) -> None:
    """A report that comes after its deadline, in an execution whose stamps were pruned: order and precedence hold."""
    random = Random(5)
    reports = restarting(random, 30)
    history = History(reports)
    with opened(tmp_path) as service:
        retention = retaining(service, age_ns=40 * SECOND)
        kept_back: list[Event] = []
        for at in range(0, len(reports), 10):
            batch = reports[at : at + 10]
            late = [one for one in batch if at > len(reports) - 150 and random.random() < 0.15]
            kept_back += late
            service.ingest.report([one for one in batch if one not in late])
            service.now += SECOND
            service.ingest.settle()
            retention.step()
        service.expire()
        assert kept_back
        for one in random.sample(kept_back, len(kept_back)):
            assert service.ingest.report([one]).stored == 1
            service.ingest.settle()
        with service.store.reading() as db:
            assert db.execute("SELECT count(*) FROM processes WHERE pruned").fetchone()[0] > 20
        left = [one for one in reports if (one.process, one.index) in here(service)]
        for one in left:
            for other in random.sample(left, 8):
                assert service.queries.relate(one.id, other.id)["relation"] == history.compare(one, other)
        places = {one["id"]: at for at, one in enumerate(service.queries.order(limit=10_000)["events"])}
        assert len(places) == len(left)
        for one in left:
            for before in history.past(one):
                if str(before.id) in places:
                    assert places[str(before.id)] < places[str(one.id)]
