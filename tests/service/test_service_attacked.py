"""What a stranger with a token, or a careless one without, may cost: memory, threads, disk and secrets."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import tracemalloc
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from event_streams import listening
from servers import running, serving_process, tokens_for
from service_stores import assert_agrees, events, opened

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.history import History
from beforehand.predicate import Predicate
from beforehand.service import Ingest, Queries, Store, checking, finding, queries, stamps
from beforehand.service.http import exporting, subscribing
from beforehand.service.http.combining import Combined
from beforehand.service.http.errors import HttpError
from beforehand.service.http.limits import Limits
from beforehand.service.http.reports import parsed
from beforehand.service.imports import Imports
from beforehand.service.otlp import Collector
from beforehand.service.retention import Retention, RetentionSettings
from beforehand.service.served import Served
from beforehand.service.serving import Options, _hosts
from beforehand.service.stamps import Stamp, Stamps
from beforehand.service.subscriptions import Deliverer, Following, Interest, Subscriptions
from beforehand.service.subscriptions.addresses import is_public
from beforehand.service.tokens import access_path
from beforehand.service.work import BusyError, Work
from random_histories import as_events, random_steps

LARGE = "x" * 50_000


# Who may still listen.


def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    tokens = tokens_for(tmp_path)
    with (
        running(tmp_path, token=tokens["admin"]) as service,
        listening(service.port, "/api/stream", token=tokens["read"], timeout=10) as stream,
    ):
        identity = tokens["read"].split("_")[1]
        assert service.ask("DELETE", f"/api/tokens?id={identity}").status == 200
        service.report(events("a1 secret"))

        with pytest.raises(EOFError):
            stream.next()


def test_a_stream_that_needed_no_token_ends_when_one_is_needed(tmp_path: Path) -> None:
    with running(tmp_path) as service, listening(service.port, "/api/stream", timeout=10) as stream:
        made = service.post("/api/tokens", {"name": "me", "scope": "admin"}).json
        service.token = made["token"]
        service.report(events("a1 secret"))

        with pytest.raises(EOFError):
            stream.next()


def test_a_stream_ends_when_its_subscription_is_removed(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        made = service.post("/api/subscriptions", {}).json["id"]
        with listening(service.port, f"/api/subscriptions/{made}/events", timeout=10) as stream:
            assert service.ask("DELETE", f"/api/subscriptions?id={made}").status == 200
            service.report(events("a1"))

            with pytest.raises(EOFError):
                stream.next()


def test_a_store_is_one_by_whatever_name_it_is_called(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.symlink_to(tmp_path / "store.db")
    with Store(tmp_path / "store.db"):
        with pytest.raises(InputError, match="another process writes"):
            Store(other)
        assert access_path(other) == access_path(tmp_path / "store.db")


def test_a_store_that_nobody_can_make_is_refused_in_one_line(tmp_path: Path) -> None:
    lost = tmp_path / "lost.db"
    lost.symlink_to(tmp_path / "nowhere" / "store.db")
    for path in (lost, tmp_path / ("n" * 250)):
        with pytest.raises(InputError, match="cannot write beside the store"):
            Store(path)


def test_a_store_is_made_for_its_owner_only_and_stays_as_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store(path) as store:
        Ingest(store).report(events("a1"))
        assert {file.stat().st_mode & 0o077 for file in (path, tmp_path / "store.db-wal")} == {0}
    path.chmod(0o640)
    with Store(path) as store:
        Ingest(store).report(events("a2"))
        assert path.stat().st_mode & 0o777 == 0o640


def test_a_service_elsewhere_is_called_by_its_address_beside_the_names_that_it_was_told(tmp_path: Path) -> None:
    told = ("events.example.com",)
    for host, name in (
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "[2001:db8::7]"),
        ("Shop.Example", "shop.example"),
    ):
        names = _hosts(Options(store=tmp_path / "store.db", host=host, allow_hosts=told)).names
        assert names is not None
        assert {name, *told} <= names
    names = _hosts(Options(store=tmp_path / "store.db", host="0.0.0.0", allow_hosts=told)).names
    assert names is not None
    assert "0.0.0.0" not in names


@pytest.mark.parametrize("address", ["fec0::1", "feff::1", "::ffff:0.0.0.0", "64:ff9b:1::1"])
def test_webhooks_do_not_call_what_was_private_once(address: str) -> None:
    assert not is_public(address)


# Memory.

COSTLY = " or ".join(f'name ~ "(?:{"(a)" * 57}){{{1_030 + n}}}"' for n in range(40))  # 1 GB and 5 s, one by one.


def test_a_predicate_of_many_costly_patterns_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        for path in ("/api/find", "/api/stream"):
            begun = time.process_time()
            answer = service.get(path, where=COSTLY)
            assert time.process_time() - begun < 3
            assert answer.status == 400
            assert "multiply too far" in answer.error


def test_a_predicate_is_parsed_where_it_keeps_nobody_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed_in: list[str] = []

    class Parsing(Interest):
        def __post_init__(self) -> None:
            parsed_in.append(threading.current_thread().name)
            super().__post_init__()

    monkeypatch.setattr(subscribing, "Interest", Parsing)
    with (
        running(tmp_path) as service,
        listening(service.port, "/api/stream", where="name = x"),
    ):
        loops = [thread.name for thread in threading.enumerate() if thread.name.startswith("Thread-")]

    assert len(parsed_in) == 1
    assert parsed_in[0] not in loops


def test_subscriptions_are_listed_without_parsing_their_predicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as service:
        kept = Subscriptions(service.store)
        made = kept.add(Interest(where="name = x"))
        parse = Predicate.parse

        def refuse(text: str) -> Predicate:
            raise AssertionError(text)

        monkeypatch.setattr(Predicate, "parse", refuse)
        (found,) = kept.list()
        assert found.document() == made.document()
        assert found == made
        monkeypatch.setattr(Predicate, "parse", parse)
        assert found.interest.wants(events("a1 x")[0])
        assert not found.interest.wants(events("a1 y")[0])


def test_stamps_with_many_entries_are_kept_by_their_size() -> None:
    kept = Stamps(1_000, entries_max=100)
    shared = dict.fromkeys(range(10), 1)
    for index in range(500):
        kept.put((1, index), Stamp(shared, 10, 0))
    for index in range(40):
        kept.put((2, index), Stamp(dict.fromkeys(range(10), index), 10, 0))
    assert kept.is_full
    kept.flushed()

    assert not kept.is_full
    assert sum((2, index) in kept for index in range(40)) == 10
    assert (2, 39) in kept
    kept.forget()
    assert not kept.is_full


@pytest.mark.parametrize("seed", range(4))
def test_a_transaction_that_does_not_fit_in_memory_gives_the_same_answers(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamps, "ENTRIES_MAX", 5)
    random = Random(seed)
    reports = as_events(random_steps(random, processes=6, steps=300))
    random.shuffle(reports)
    with opened(tmp_path) as service:
        service.ingest.report(reports[:250])
        service.expire()
        service.ingest.report(reports[250:])
        service.expire()

        assert_agrees(service, History(reports), random, asked=5)


def test_an_array_of_countless_things_is_refused_before_it_is_taken_apart() -> None:
    content = b"[" + b"1," * 2_000_000 + b"1]"
    tracemalloc.start()
    try:
        with pytest.raises(HttpError) as refused:
            parsed(content, "application/json", 100)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert refused.value.status == 413
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "body",
    [
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 25_000 + b"{}]}]}]}",
        b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + b'{"body":{}},' * 25_000 + b"{}]}]}]}",
    ],
)
def test_a_request_of_countless_records_is_refused(tmp_path: Path, body: bytes) -> None:
    with running(tmp_path) as service:
        answer = service.ask("POST", "/v1/traces", body, {"Content-Type": "application/json"})

        assert answer.status == 413
        assert "20000" in answer.json["error"]
        assert service.found("/api/status")["rejected"] == 0


def test_one_request_of_opentelemetry_is_no_larger_unpacked_than_it_may_be_packed(tmp_path: Path) -> None:
    import gzip

    with running(tmp_path, limits=Limits(body_bytes_max=10_000)) as service:
        body = gzip.compress(b'{"resourceSpans":[' + b" " * 20_000 + b"]}")
        answer = service.ask(
            "POST", "/v1/traces", body, {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        )

    assert answer.status == 413


def test_reports_that_wait_are_bounded_by_their_bytes_too(tmp_path: Path) -> None:
    async def report_three(combined: Combined) -> list[Any]:
        calls = [combined.report(events(f"a{n}"), size=60) for n in (1, 2, 3)]
        return await asyncio.gather(*calls, return_exceptions=True)

    with Store(tmp_path / "store.db") as store:
        combined = Combined(Ingest(store), Work(Limits()), events_max=100, waiting_max=10, waiting_bytes_max=130)
        first, second, third = asyncio.run(report_three(combined))
        assert (first.stored, second.stored) == (1, 1)
        assert isinstance(third, BusyError)
        assert asyncio.run(combined.report(events("a3"), size=1_000)).stored == 1


def test_a_page_of_large_events_ends_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "PAGE_BYTES_MAX", 300_000)
    monkeypatch.setattr(queries, "PAGE_BYTES_MAX", 300_000)
    with Store(tmp_path / "store.db") as store:
        Ingest(store).report([Event(process="a", index=index, name=LARGE) for index in range(1, 21)])
        asked = Queries(store)
        for ask in (asked.find, asked.order):
            found: list[str] = []
            after = None
            while True:
                page = ask(limit=10_000, after=after)
                assert len(page["events"]) <= 6
                found += [event["id"] for event in page["events"]]
                after = page["cursor"]
                if not page["more"]:
                    break
            assert sorted(found) == sorted(f"a:{index}" for index in range(1, 21))
        past = asked.past("a:20", last=10_000)

    assert past["past"] == 19
    assert [event["id"] for event in past["events"]] == [f"a:{index}" for index in range(14, 20)]
    assert any("bytes" in note for note in past["notes"])


def test_names_of_processes_count_for_the_size_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "PAGE_BYTES_MAX", 300_000)
    with Store(tmp_path / "store.db") as store:
        Ingest(store).report([Event(process=LARGE, index=index) for index in range(1, 11)])

        assert len(Queries(store).order(limit=1_000)["events"]) == 3


def test_checks_of_many_processes_judge_fewer_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "CELLS_MAX", 100)
    with Store(tmp_path / "store.db") as store:
        Ingest(store).report([Event(process=f"p{n % 10}", index=n // 10 + 1) for n in range(40)])
        found = Queries(store).checks()

    assert found["notes"][0].startswith("only the newest 10 events were judged")


def test_rejections_with_large_texts_are_cut_and_come_in_small_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "PAGE_BYTES_MAX", 200_000)
    messages = tuple(f"{LARGE[:30_000]}{n}" for n in range(2))
    with Store(tmp_path / "store.db") as store:
        ingest = Ingest(store)
        ingest.report([Event(process=f"p{n}", index=1, sends=messages) for n in range(6)])
        asked = Queries(store)
        found: list[dict[str, Any]] = []
        after = 0
        while True:
            page = asked.rejected(limit=10_000, after=after)
            assert len(page["rejected"]) < 10
            found += page["rejected"]
            if not page["more"]:
                break
            after = page["cursor"]

    assert len(found) == 10
    assert {one["reason"] for one in found} == {"duplicate-send"}
    assert all(len(one["detail"]) <= 2_000 for one in found)
    assert {one["message"] for one in found} == set(messages)


def test_imports_keep_no_more_bytes_than_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.service.imports.BYTES_KEPT_MAX", 120_000)
    line = b'{"process": "a", "index": 1, "name": "%s"}\n' % LARGE.encode()
    with closing(Imports()) as kept:
        first, second, third = (kept.take("file.jsonl", line)["source"] for _ in range(3))

        with pytest.raises(HttpError, match="no import"):
            kept.questions(first)
        kept.questions(second)
        kept.questions(third)


# Threads and connections.


def test_a_client_that_takes_nothing_is_cut_off(tmp_path: Path) -> None:
    limits = Limits(head_seconds_max=1, stalled_seconds_max=2)
    with running(tmp_path, limits=limits) as service, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", service.port))
        connection.settimeout(10)
        ask = b"GET /page/main.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(ask * 1_000)
        end = time.monotonic() + 15
        state = service.service._server.server_state
        while state.connections and time.monotonic() < end:
            time.sleep(0.1)

        assert not state.connections


def test_a_client_that_is_slow_but_takes_something_is_not(tmp_path: Path) -> None:
    limits = Limits(head_seconds_max=1, stalled_seconds_max=2)
    with running(tmp_path, limits=limits) as service:
        service.report([Event(process="a", index=index, name=LARGE) for index in range(1, 201)])
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            connection.connect(("127.0.0.1", service.port))
            connection.settimeout(10)
            connection.sendall(b"GET /api/find?limit=200 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            size, end = 0, time.monotonic() + 5
            while data := connection.recv(1 << 20 if time.monotonic() > end else 65_536):
                size += len(data)
                if time.monotonic() < end:
                    time.sleep(0.2)

    assert size > 200 * len(LARGE)


def test_an_export_ends_when_its_client_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_CHUNK_BYTES", 1_000)
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        await asyncio.sleep(0)

    with Store(tmp_path / "store.db") as store:
        Ingest(store).report([Event(process="a", index=index, name=LARGE) for index in range(1, 101)])
        exports, source = exporting._Exports(), exporting._Source(store)
        source.begin(None)
        exports.open = 1
        served = Served(queries=Queries(store), store=store)
        asyncio.run(exporting._Exported(served, exports, source)({}, receive, send))

    assert exports.open == 0
    assert len(sent) < 10


def test_a_subscriber_whose_pattern_is_slow_gives_its_turn_to_others(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        Ingest(store).report([Event(process="a", index=index, name="a" * 40 + "!") for index in range(1, 101)])
        following = Following(store, Interest(where='name ~ "^(a|a|aa)+$"', past=0), after=0)
        begun = time.process_time()
        page = following.page()

        assert time.process_time() - begun < 3
        assert 0 < page.cursor < 100
        seen = len(page.notices)
        assert seen == page.cursor
        assert following.page().notices[0].cursor == seen + 1


# At three in the morning.


@pytest.mark.parametrize("times", [1, 2])
def test_requests_that_are_cut_off_by_the_end_leave_no_traceback(tmp_path: Path, times: int) -> None:
    with serving_process(tmp_path / "store.db") as (process, client):
        head = b"Host: localhost\r\nContent-Type: application/json\r\n"
        with (
            socket.create_connection(("127.0.0.1", client.port)) as stream,
            socket.create_connection(("127.0.0.1", client.port)) as half,
        ):
            stream.sendall(b"GET /api/stream HTTP/1.1\r\n" + head + b"\r\n")
            assert stream.recv(20).startswith(b"HTTP/1.1 200")
            half.sendall(b"POST /api/events HTTP/1.1\r\n" + head + b"Content-Length: 100\r\n\r\n[")
            assert client.get("/healthz").status == 200
            for _ in range(times):
                process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        assert process.stderr is not None
        said = process.stderr.read()

    assert said.endswith("beforehand: stopped\n")
    assert "Traceback" not in said
    assert len(said.splitlines()) <= 2


@pytest.mark.parametrize(("error", "status"), [(sqlite3.DatabaseError, 503), (sqlite3.IntegrityError, 500)])
def test_a_broken_store_is_not_called_a_bug_and_a_bug_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], status: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("database disk image is malformed")

    with running(tmp_path) as service:
        monkeypatch.setattr(service.service.served.queries, "find", fail)
        answer = service.get("/api/find")

    assert answer.status == status
    assert ("malformed" in answer.error) is (status == 503)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_a_small_limit_on_open_files_is_raised() -> None:
    import resource

    program = (
        "import resource, sys; from beforehand.cli.serve import _open_more_files as more\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, int(sys.argv[1]))); more()\n"
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for most in (500, hard if hard != resource.RLIM_INFINITY else 100_000):
        done = subprocess.run([sys.executable, "-c", program, str(most)], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [str(min(most, 4_096)), str(most)]


# Clocks that were years ahead and are set right.

YEARS = 10**17 * 3


def test_what_waits_is_given_up_after_its_deadline_though_the_clock_was_set_back(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.now += YEARS
        service.ingest.report(events("a2"))
        service.now -= YEARS
        service.ingest.settle()
        assert service.count("waits") == 1

        service.expire()

        assert service.count("waits") == 0


def test_what_is_old_goes_though_the_clock_was_set_back(tmp_path: Path) -> None:
    day = 86_400 * 10**9
    with opened(tmp_path) as service:
        service.now += 10 * day
        settings = RetentionSettings(age_ns=day)
        retention = Retention(service.store, service.ingest, settings=settings, clock=lambda: service.now)
        service.now += YEARS
        service.ingest.report(events("a1", "a2"))
        retention.run()
        service.now -= YEARS
        service.ingest.report(events("a3"))
        assert retention.run() == 0
        service.now += 2 * day
        retention.run()

        assert service.count("events") == 0


def test_traces_are_closed_though_the_clock_was_set_back(tmp_path: Path) -> None:
    record = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "1" * 16,
        "name": "a",
        "startTimeUnixNano": "1",
    }
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [record]}]}]}).encode()
    with opened(tmp_path) as service:
        service.now += YEARS
        collector = Collector(service.store, service.ingest, clock=lambda: service.now)
        collector.keep(collector.read(body))
        service.now -= YEARS
        collector.settle()
        service.now += 11 * 10**9

        assert collector.settle() == 1


def test_webhooks_are_tried_again_though_the_clock_was_set_back(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        kept = Subscriptions(service.store, clock=lambda: service.now)
        made = kept.add(Interest(), url="http://127.0.0.1:9/")
        kept.fail(made.id, "no answer", service.now + YEARS)
        deliverer = Deliverer(service.store, kept, clock=lambda: service.now)
        service.ingest.report(events("a1"))
        deliverer.start()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            found = kept.get(made.id)
            assert found is not None
            if found.failures > 1:
                break
            time.sleep(0.05)
        deliverer.close()

    assert found.failures > 1
    assert found.retry < service.now + YEARS
