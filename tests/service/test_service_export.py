"""What a store exports is what it has: the pipeline gets the same order and the same stamps from it."""

from __future__ import annotations

import http.client
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from servers import running
from service_stores import events, feed, opened

from beforehand.cli.command import beforehand
from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.formats import read_events, write_events
from beforehand.history import History
from beforehand.service import export
from beforehand.service.export import exported, opened_to_read
from random_histories import as_events, random_steps


def exported_to(folder: Path, *arguments: str) -> list[Event]:
    target = folder / "out.jsonl"
    done = CliRunner().invoke(
        beforehand, ["export", str(folder / "store.db"), "--as", "native", "--to", str(target), *arguments]
    )
    assert done.exit_code == 0, done.output
    return [event for event in read_events(target) if isinstance(event, Event)]


def test_the_history_of_an_export_has_the_order_and_the_stamps_of_the_store(tmp_path: Path) -> None:
    random = Random(4)
    for execution in ("", "night"):
        reports = [
            replace(event, execution=execution)
            for event in as_events(random_steps(random, processes=6, steps=300, receive=0.8))
        ]
        with opened(tmp_path) as service:
            feed(service, random.sample(reports, len(reports)), random)
            service.expire()
            given = exported_to(tmp_path, "--execution", execution)
            assert [str(one.id) for one in given] == [
                one["id"] for one in service.queries.order(limit=10_000, execution=execution)["events"]
            ]
            history = History(given)
            assert [one.id for one in history.order()] == [one.id for one in given]
            assert sorted(given, key=lambda one: one.id) == sorted(reports, key=lambda one: one.id)
            for one in given[::7]:
                assert service.queries.event(one.id)["stamp"] == history.stamp(one)
    assert len(exported_to(tmp_path)) == 2 * len(reports)


def test_messages_that_were_rejected_are_left_out_and_waiting_events_are_not(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("b1 !m", "a1 !m", "c1 ?m", "d2 waits"))
        given = {str(one.id): one for one in exported_to(tmp_path)}
        assert (given["b:1"].sends, given["a:1"].sends) == (("m",), ())
        assert History(given.values()).stamp(given["c:1"].id) == {"b": 1, "c": 1}
        assert given["d:2"].name == "waits"


def test_messages_that_were_rejected_are_looked_up_once_and_not_with_every_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_CHUNK", 1)
    asked: list[str] = []
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 !m", "b1 !m", "c1 !n", "d1 !n", "e1", "e2", "e3"))
        with service.store.reading() as db:
            db.set_trace_callback(asked.append)
            lines = [(str(event.id), event.sends) for event in exported(db)]
            db.set_trace_callback(None)
    assert [sends for _, sends in lines] == [("m",), (), ("n",), (), (), (), ()]
    assert sum("FROM rejected" in sql for sql in asked) == 1
    assert sum("FROM sends" in sql for sql in asked) == 4


def test_an_export_is_of_one_moment_though_reports_go_on(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events(*[f"a{n}" for n in range(1, 3_001)]))
        with opened_to_read(tmp_path / "store.db") as db:
            found = exported(db)
            first = next(found)
            service.ingest.report(events("a3001", "b1", "0a1"))
            assert [first.index, *(one.index for one in found)] == list(range(1, 3_001))


def test_what_is_no_store_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_bytes(b"x" * 5_000)
    with pytest.raises(InputError, match="cannot be read as a store"), opened_to_read(tmp_path / "no.db"):
        pass
    (tmp_path / "empty.db").write_bytes(b"")
    with pytest.raises(InputError, match="something else"), opened_to_read(tmp_path / "empty.db"):
        pass
    done = CliRunner().invoke(beforehand, ["export", str(tmp_path / "no.db"), "--as", "shiviz", "--to", "x"])
    assert done.exit_code == 2
    with opened(tmp_path):
        target = tmp_path / "x"
        arguments = ["--as", "native", "--to", str(target), "--execution", "no"]
        done = CliRunner().invoke(beforehand, ["export", str(tmp_path / "store.db"), *arguments])
    assert str(done.exception) == "there is no execution 'no' in this store"
    assert not target.exists()


def test_a_store_is_not_replaced_by_its_own_export(tmp_path: Path) -> None:
    with opened(tmp_path):
        store = tmp_path / "store.db"
        kept = store.stat()
        done = CliRunner().invoke(beforehand, ["export", str(store), "--as", "native", "--to", str(store)])
        assert (done.exit_code, store.stat().st_ino) == (2, kept.st_ino)
    assert "is what is exported: name another file" in done.output


def test_over_http_all_lines_come_and_can_be_read(tmp_path: Path) -> None:
    reports = as_events(random_steps(Random(8), processes=5, steps=4_000))
    with running(tmp_path) as service:
        service.report(reports)
        answer = service.get("/api/export")
        assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
        (tmp_path / "got.jsonl").write_bytes(answer.body)
        got = [event for event in read_events(tmp_path / "got.jsonl") if isinstance(event, Event)]
        assert [one.id for one in got] == [one.id for one in History(reports).order()]
        assert service.get("/api/export", execution="no").status == 400


def test_a_client_that_goes_away_frees_the_reader(tmp_path: Path) -> None:
    reports = [Event(process="a", index=n, name="x" * 2_000) for n in range(1, 5_001)]
    with running(tmp_path) as service:
        service.report(reports)
        for _ in range(6):  # More than may be open at a time, and than there are readers.
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
            for _ in range(200):
                connection.request("GET", "/api/export")
                response = connection.getresponse()
                if response.status == 200:
                    break
                assert response.status == 503
                response.read()
            assert len(response.read(100_000)) == 100_000
            response.close()
            connection.close()
        assert service.get("/api/find").status == 200


def test_an_export_can_be_analyzed(tmp_path: Path) -> None:
    """Through the formats that the pipeline reads: what was written is read back equal."""
    reports = as_events(random_steps(Random(5), processes=4, steps=60))
    with opened(tmp_path) as service:
        service.ingest.report(reports)
        write_events(exported_to(tmp_path), tmp_path / "again.jsonl")
        assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
