"""Who sends and who receives messages, in memory: never more than a limit, and never what was undone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from service_stores import events, opened

from beforehand.service import Ingest, Store
from beforehand.service.messages import Messages


def test_a_message_is_asked_for_once() -> None:
    messages = Messages()

    assert sorted(messages.ask({(1, "a"), (1, "b")})) == [(1, "a"), (1, "b")]
    assert messages.ask({(1, "a"), (2, "a")}) == [(2, "a")]
    messages.shrink()
    assert messages.ask({(1, "a"), (2, "a")}) == []


@pytest.mark.parametrize("heavy", ["texts", "receivers"])
def test_beyond_its_weight_all_is_asked_for_again(heavy: str) -> None:
    messages = Messages(weight_max=10_000)
    messages.ask({(1, "a" * 3_000 if heavy == "texts" else "a")})
    messages.senders[1, "b"] = (1, 1)
    messages.weigh(1 if heavy == "texts" else 50)
    messages.shrink()

    assert not messages.senders
    assert len(messages.ask({(1, "a")})) == 1


def test_what_is_known_from_an_earlier_batch_decides_about_the_next(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 !m"))
        service.ingest.report(events("b1 ?m"))
        twice = service.ingest.report(events("a2 !m", "b2 ?m"))

        assert (twice.stored, twice.rejected) == (2, 2)
        reasons = [row[0] for row in service.store._db.execute("SELECT reason FROM rejected ORDER BY id")]
        assert reasons == ["duplicate-send", "duplicate-receive"]


def test_a_batch_that_was_undone_leaves_nothing_known_of_its_messages(tmp_path: Path) -> None:
    def full(_: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk is full")

    with Store(tmp_path / "store.db") as store:
        ingest = Ingest(store)
        with pytest.raises(sqlite3.OperationalError):
            ingest.take(events("a1 !m", "b1 ?m"), full)
        receipt = ingest.report(events("a1", "a2 !m", "b1", "b2 ?m"))

        assert (receipt.stored, receipt.rejected, receipt.waiting) == (4, 0, 0)
        assert store._db.execute("SELECT idx FROM sends").fetchall() == [(2,)]
        assert store._db.execute("SELECT idx FROM receives").fetchall() == [(2,)]
