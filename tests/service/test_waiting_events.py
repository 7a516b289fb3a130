"""Events that wait are held in memory, within a bound; what the store has counts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from service_stores import opened

from beforehand.events import Event
from beforehand.service import Ingest, Settings, Store
from beforehand.service.ledger import Pending
from beforehand.service.registry import Registry
from beforehand.service.schema import create
from beforehand.service.waiting import Waiting

SENT = Event(process="a", index=1, sends=("m",))
GOT = Event(process="b", index=1, receives=("m",), name="got")
BEHIND = [Event(process="b", index=index) for index in range(2, 12)]


class Undone(Exception):
    """A transaction that fails at its end."""


def fail(_: sqlite3.Connection) -> None:
    raise Undone


@pytest.mark.parametrize("kept", [1, 5, 20_000])
def test_what_waits_is_stamped_when_its_cause_comes_whatever_memory_holds(tmp_path: Path, kept: int) -> None:
    with opened(tmp_path, waiting_kept=kept) as service:
        assert service.ingest.report([GOT, *BEHIND]).waiting == 11
        assert service.ingest.report([SENT]).stamped == 12
        assert service.count("waits") == 0
        assert len(service.queries.past(BEHIND[-1].id)["events"]) == 11


def test_a_transaction_that_is_undone_wakes_nobody(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report([GOT, *BEHIND])
        with pytest.raises(Undone):
            service.ingest.take([SENT], fail)
        assert service.count("waits") == 11
        assert service.queries.event(GOT.id)["state"] == "waiting"

        assert service.ingest.report([SENT]).stamped == 12
        assert service.count("waits") == 0


def test_what_waited_in_a_transaction_that_is_undone_is_not_held(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        with pytest.raises(Undone):
            service.ingest.take([GOT, *BEHIND], fail)
        assert service.ingest.report([SENT]).stamped == 1
        assert service.ingest.report([GOT]).stamped == 1


def test_what_waits_outlives_its_writer(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db", settings=Settings()) as store:
        Ingest(store).report([GOT, *BEHIND])
    with Store(tmp_path / "store.db", settings=Settings()) as store:
        assert Ingest(store).report([SENT]).stamped == 12


def test_memory_holds_all_that_waits_or_nothing_of_it() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        create(db, "memory")
        registry = Registry()
        process = registry.process(db, registry.execution(db, ""), "p", 10)
        assert process is not None

        def waits(index: int, content: bytes = b"") -> Pending:
            return Pending(process, index, None, "", content)

        few = Waiting(2)
        assert few.is_whole(db)
        few.add((1, "m"), waits(1))
        few.add((process.id, 1), waits(2))
        assert [event.index for event in few.take([(process.id, 1), (1, "n")])] == [2]
        few.discard((process.id, 1))
        assert few.take([(1, "m")]) == []
        for index in (3, 4, 5):
            few.add((1, "m"), waits(index))
        assert few.take([(1, "m")]) == []  # One too many: now the table is asked.
        db.execute("INSERT INTO waits VALUES(1, 3, 1, NULL, NULL, 'm', 0, 0)")
        assert not few.is_whole(db)
        few.add((1, "m"), waits(6))
        assert few.take([(1, "m")]) == []
        db.execute("DELETE FROM waits")
        assert few.is_whole(db)

        heavy = Waiting(100, weight_max=5_000)
        assert heavy.is_whole(db)
        for index in range(1, 8):  # Their weight is given back.
            heavy.add((1, "m"), waits(index, bytes(4_000)))
            assert len(heavy.take([(1, "m")])) == 1
        heavy.add((1, "m"), waits(8, bytes(6_000)))
        assert heavy.take([(1, "m")]) == []
