"""From a place in the journal to the notices after it: nothing left out, nothing twice, whatever the pages."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from service_stores import Service, events, feed, opened

from beforehand.errors import InputError, PredicateError
from beforehand.events import Event
from beforehand.service.subscriptions import Following, Interest, Subscriptions
from beforehand.service.subscriptions.following import NOTICE_BYTES_MAX, owes
from random_histories import as_events, random_steps


def told(service: Service, interest: Interest, *, after: int = 0, limit: int = 50) -> list[tuple[int, str]]:
    """All notices from a cursor on: cursors and events."""
    following = Following(service.store, interest, after=after)
    found: list[tuple[int, str]] = []
    while True:
        page = following.page(limit)
        found += [(one.cursor, one.document["event"]["id"]) for one in page.notices]
        if following.cursor == service.store.cursor:
            return found


@pytest.mark.parametrize("completeness", ["complete", "immediate"])
def test_pages_of_any_size_from_any_cursor_give_the_same_notices(tmp_path: Path, completeness: str) -> None:
    random = Random(2)
    reports = as_events(random_steps(random, processes=5, steps=150))
    with opened(tmp_path) as service:
        feed(service, random.sample(reports, len(reports)), random, late=0.1)
        service.expire()
        interest = Interest(where="not kind = receive", past=1, completeness=completeness)
        whole = told(service, interest, limit=10_000)
        expected = {str(one.id) for one in reports if not one.receives}
        assert {name for _, name in whole} == expected
        assert len(whole) == len(expected)
        assert [cursor for cursor, _ in whole] == sorted(cursor for cursor, _ in whole)
        for limit in (1, 2, 7):
            assert told(service, interest, limit=limit) == whole
        for _ in range(10):
            after = random.randint(0, service.store.cursor)
            assert told(service, interest, after=after, limit=3) == [one for one in whole if one[0] > after]


def test_a_notice_waits_while_stamps_are_raised_and_not_for_ever(tmp_path: Path) -> None:
    now = [0.0]
    with opened(tmp_path, steps_max=1) as service:
        service.ingest.report(events("b1 ?m", *[f"b{n}" for n in range(2, 40)]))
        service.expire()  # The send of m is given up,
        after = service.store.cursor
        following, impatient = (
            Following(service.store, Interest(), after=after, clock=lambda: now[0]) for _ in range(2)
        )
        service.ingest.report(events("a1 !m", "b40"))  # and comes: what is behind it is raised, in steps.
        with service.store.reading() as db:
            assert owes(db)
        page = following.page()
        assert ([one.document["event"]["id"] for one in page.notices], page.held) == (["a:1"], True)
        assert following.page().held
        assert impatient.page().held
        now[0] = 10.0
        (notice,) = impatient.page().notices
        assert (notice.document["event"]["id"], notice.document["complete"]) == ("b:40", False)
        service.ingest.settle()
        (notice,) = following.page().notices
        assert (notice.document["event"]["id"], notice.document["complete"]) == ("b:40", True)
        assert (notice.document["past"], len(notice.document["events"])) == (40, 25)


def test_a_predicate_that_cannot_be_told_is_no_reason_to_be_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: Interest, __: Event) -> bool:
        raise PredicateError("the search takes too long")

    with opened(tmp_path) as service:
        service.ingest.report(events("a1"))
        monkeypatch.setattr(Interest, "wants", unknown)
        (notice,) = Following(service.store, Interest(where="name ~ 'x'"), after=0).page().notices
        assert notice.document["unjudged"] == "the search takes too long"


def test_a_notice_is_bounded_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([Event(process="a", index=n, name="x" * 60_000) for n in range(1, 101)])
        interest = Interest(past=1_000)
        following = Following(service.store, interest, after=service.store.cursor - 1)
        (notice,) = following.page().notices
        assert len(notice.body) <= NOTICE_BYTES_MAX
        kept = len(notice.document["events"])
        assert 0 < kept < 99
        assert notice.document["events"][-1]["id"] == "a:99"
        assert notice.document["past"] == 99
        assert f"only the last {kept} events are shown" in notice.document["notes"][-1]
        assert len(Following(service.store, interest, after=50).page().notices) < 5  # A page is bounded too.


def test_a_cursor_of_another_store_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1"))
        Following(service.store, Interest(), after=1).check()
        for wrong in (-1, 2):
            with pytest.raises(InputError, match="another store"):
                Following(service.store, Interest(), after=wrong).check()


def test_only_events_of_the_execution_that_is_meant_are_told(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([Event(execution=x, process="a", index=1) for x in ("", "day", "night")])
        assert [name for _, name in told(service, Interest(execution="night"))] == ["night/a:1"]
        assert [name for _, name in told(service, Interest(execution=""))] == ["a:1"]


def test_registered_subscriptions_and_their_cursors_survive_and_only_move_forward(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        kept = Subscriptions(service.store)
        service.ingest.report(events("a1", "a2", "a3"))
        made = kept.add(
            Interest(where="name = x", past=7, completeness="immediate", execution="e"), name="n", after=1
        )
        kept.advance(made.id, 3, sent=2)
        kept.advance(made.id, 2)
    with opened(tmp_path) as service:
        (found,) = Subscriptions(service.store).list()
        assert (found.cursor, found.sent, found.name, found.interest) == (3, 2, "n", made.interest)


def test_a_store_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1", "a2 !m", "b1 ?m"))
        with service.store.transaction() as db:  # As the first version made it.
            for table in ("subscriptions", "traces", "spans", "lanes", "marks"):
                db.execute(f"DROP TABLE {table}")
            for column in ("removed", "pruned"):
                db.execute(f"ALTER TABLE processes DROP COLUMN {column}")
            db.execute("PRAGMA user_version = 1")
    with opened(tmp_path) as service:
        assert [one["id"] for one in service.queries.past("b:1")["events"]] == ["a:1", "a:2"]
        assert Subscriptions(service.store).list() == []
        service.ingest.report(events("a3"))
    with opened(tmp_path) as service, service.store.transaction() as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(InputError, match="version 99"), opened(tmp_path):
        pass
