"""The store: made on first use, one writer, readers that see one moment, cursors that skip nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import pytest
from service_stores import assert_agrees, events, opened

from beforehand.errors import InputError
from beforehand.events import Event, EventId
from beforehand.history import History
from beforehand.history.kernels import NO_TIME
from beforehand.service import Ingest, Settings, Store, schema
from random_histories import as_events, random_steps


def test_a_store_is_made_on_first_use_and_known_again(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        assert store.cursor == 0
    with Store(path) as store:
        assert store.changes(0) == []


def test_a_missing_time_is_what_it_is_in_a_history() -> None:
    assert schema.NO_TIME == NO_TIME


def test_what_is_no_store_is_refused_in_one_line(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t(x)")
    other.close()
    newer = sqlite3.connect(tmp_path / "newer.db")
    newer.close()
    Store(tmp_path / "newer.db").close()
    newer = sqlite3.connect(tmp_path / "newer.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    (tmp_path / "text.db").write_text("no database at all, but long enough to look like something " * 30)
    for name, said in [("other.db", "something else"), ("newer.db", "version 99"), ("text.db", "cannot be used")]:
        with pytest.raises(InputError, match=said) as refused:
            Store(tmp_path / name)
        assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="in a directory that is there"):
        Store(tmp_path / "nowhere" / "store.db")
    with pytest.raises(InputError, match="cannot be a store"):
        Store(tmp_path)


def test_a_second_writer_is_refused_until_the_first_has_gone(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db"), pytest.raises(InputError, match="another process writes"):
        Store(tmp_path / "store.db")
    Store(tmp_path / "store.db").close()


@pytest.mark.parametrize(
    "setting", [{"steps_max": 0}, {"stamps_kept": -1}, {"index_max": 2**60}, {"readers_max": 1.5}]
)
def test_settings_check_themselves(setting: dict[str, int]) -> None:
    with pytest.raises(InputError):
        Settings(**setting)


def test_a_store_that_is_closed_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    store.close()
    store.close()
    with pytest.raises(InputError, match="is closed"):
        store.changes(0)
    with pytest.raises(InputError, match="is closed"):
        Ingest(store).report(events("a1"))
    assert store.wait(0, timeout=60) is False  # It does not wait for what cannot come.


def test_power_safe_waits_for_the_disk_and_otherwise_not(tmp_path: Path) -> None:
    for safe, mode in ((False, 1), (True, 2)):
        with Store(tmp_path / "store.db", settings=Settings(power_safe=safe)) as store, store.transaction() as db:
            assert db.execute("PRAGMA synchronous").fetchone() == (mode,)
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_reader_sees_one_moment_and_cannot_write(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1"))
        with service.store.reading() as db:
            service.ingest.report(events("a2"))
            assert db.execute("SELECT count(*) FROM events").fetchone() == (1,)
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                db.execute("DELETE FROM events")
        with service.store.reading() as db:
            assert db.execute("SELECT count(*) FROM events").fetchone() == (2,)


def test_changes_tell_what_became_of_each_event_in_order(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1", "a3"))
        service.expire()
        service.ingest.report(events("a2"))
        service.ingest.settle()
        told = [
            (str(change.event), change.arrived, change.placed, change.completed)
            for change in service.store.changes(0)
        ]
        assert told == [
            ("a:1", True, True, True),
            ("a:3", True, False, False),
            ("a:3", False, True, False),  # Given up.
            ("a:2", True, True, True),
            ("a:3", False, False, True),
        ]
        assert service.store.changes(0)[0].event == EventId("", "a", 1)


def test_a_cursor_resumes_without_a_gap_and_without_repeating(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events(*(f"a{n}" for n in range(1, 30))))
        seen: list[int] = []
        cursor = 0
        for _ in range(8):
            found = service.store.changes(cursor, limit=4)
            seen += [change.event.index for change in found]
            cursor = found[-1].seq
        assert seen == list(range(1, 30))
        assert cursor == service.store.cursor


def test_waiting_returns_at_once_for_what_came_before_the_wait_and_when_more_comes(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        assert service.store.wait(0, timeout=0) is False
        cursor = service.ingest.report(events("a1")).cursor
        assert service.store.wait(0, timeout=60) is True
        woken = threading.Event()

        def follow() -> None:
            if service.store.wait(cursor, timeout=600):
                woken.set()

        thread = threading.Thread(target=follow)
        thread.start()
        service.ingest.report(events("a2"))
        assert woken.wait(20)  # Far less than the timeout: somebody told it.
        thread.join(60)


def test_many_threads_report_and_ask_while_one_follows(tmp_path: Path) -> None:
    random = Random(3)
    reports = as_events(random_steps(random, processes=6, steps=600))
    with opened(tmp_path, readers_max=2) as service:
        failed: list[BaseException] = []
        followed: list[EventId] = []

        def guarded(work: object, *values: object) -> None:
            try:
                work(*values)  # type: ignore[operator]
            except BaseException as error:  # noqa: BLE001
                failed.append(error)

        def report(part: list[Event]) -> None:
            for at in range(0, len(part), 7):
                service.ingest.report(part[at : at + 7])

        def ask() -> None:
            for _ in range(40):
                for one in service.queries.find(limit=3)["events"]:
                    service.queries.past(one["id"])

        def follow() -> None:
            cursor = 0
            while len(followed) < len(reports) and service.store.wait(cursor, timeout=60):
                for change in service.store.changes(cursor, limit=5):
                    followed.extend([change.event] if change.arrived else [])
                    cursor = change.seq

        work = [(report, reports[n::6]) for n in range(6)] + [(ask,)] * 3 + [(follow,)]
        threads = [threading.Thread(target=guarded, args=one) for one in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert failed == []
        assert sorted(followed) == sorted(event.id for event in reports)
        assert_agrees(service, History(reports), random, asked=4)


def test_the_core_loads_without_the_heavy_packages() -> None:
    heavy = ("duckdb", "numba", "numpy", "pandas", "pyarrow", "pyspark")
    code = f"import sys, beforehand.service; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
