"""Reports over HTTP: the contract, limits, and the Reporter of a program against a real service."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread

import pytest
from servers import NDJSON, Running, lines, running, tokens_for
from service_stores import assert_agrees, events

from beforehand.events import Event
from beforehand.history import History
from beforehand.reporting import Reporter
from beforehand.service.http.limits import Limits
from beforehand.service.http.reports import decompressed
from random_histories import as_events, random_steps

JSON = {"Content-Type": "application/json"}
GZIP = {**NDJSON, "Content-Encoding": "gzip"}
SMALL = Limits(body_bytes_max=200_000, content_bytes_max=400_000, bodies_bytes_max=250_000)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with small limits; tests report under names of their own."""
    with running(tmp_path_factory.mktemp("small"), limits=SMALL, settings={"batch_events_max": 50}) as service:
        yield service


def test_lines_are_stored_and_answered_as_the_contract_says(small: Running) -> None:
    body = b'{"process": "one", "index": 1}\n\n{"process": "one"}\nnonsense\n{"process": "one", "index": 3}\n'

    answer = small.ask("POST", "/api/events", body, NDJSON).json

    assert (answer["stored"], answer["repeated"], answer["conflicts"], answer["waiting"]) == (2, 0, 0, 1)
    assert [(one["at"], one["reason"]) for one in answer["rejected"]] == [(1, "index-missing"), (2, "not-json")]


def test_a_body_that_is_sent_again_changes_nothing(small: Running) -> None:
    body = b'{"process": "again", "index": 1, "name": "first"}'
    small.ask("POST", "/api/events", body, NDJSON)

    again = small.ask("POST", "/api/events", body, NDJSON).json
    other = small.ask("POST", "/api/events", body.replace(b"first", b"other"), NDJSON).json

    assert (again["stored"], again["repeated"], again["conflicts"]) == (0, 1, 0)
    assert (other["stored"], other["repeated"], other["conflicts"]) == (0, 0, 1)
    assert small.found("/api/event", id="again:1")["name"] == "first"


def test_an_array_is_taken_and_refusals_of_the_store_stand_at_their_place(small: Running) -> None:
    document = [
        {"process": "array", "index": 1},
        {"process": "array", "index": 2**62},
        {"process": "array", "index": 2},
    ]

    answer = small.post("/api/events", document).json

    assert answer["stored"] == 2
    assert [(one["at"], one["reason"]) for one in answer["rejected"]] == [(1, "index-too-large")]


def test_a_gzipped_body_is_taken_also_in_several_parts(small: Running) -> None:
    first, second = (gzip.compress(f'{{"process": "zipped", "index": {at}}}\n'.encode()) for at in (1, 2))

    assert small.ask("POST", "/api/events", first + second, GZIP).json["stored"] == 2


def test_an_empty_body_is_nothing(small: Running) -> None:
    assert small.ask("POST", "/api/events", b"", NDJSON).json["stored"] == 0
    assert small.ask("POST", "/api/events", b"[]", JSON).json["stored"] == 0


@pytest.mark.parametrize(
    ("body", "headers", "status", "says"),
    [
        (b"{}", {}, 415, "Content-Type ''"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "text/plain"),
        (b"{}", {**NDJSON, "Content-Encoding": "br"}, 415, "Content-Encoding 'br'"),
        (b"{}", JSON, 400, "no JSON array"),
        (b"[" * 100_000, JSON, 400, "no JSON array"),
        (b"[1", JSON, 400, "no JSON array"),
        (b"\xff[]", JSON, 400, "no JSON array"),
        (b"no gzip", GZIP, 400, "not gzip"),
        (b"", GZIP, 400, "empty"),
        (gzip.compress(b"x" * 100)[:-9], GZIP, 400, "cut"),
        (b"x" * 200_001, NDJSON, 413, "200000 bytes"),
        (gzip.compress(b" " * 400_001), GZIP, 413, "400000 bytes, decompressed"),
        (gzip.compress(b"") * 1_001, GZIP, 413, "1000 gzip members"),
        (gzip.compress(b" ") + b"rest", GZIP, 400, "not gzip"),
        (b"{}\n" * 51, NDJSON, 413, "50 events"),
        (b"[" + b"{}," * 50 + b"{}]", JSON, 413, "50 events"),
        (b"\n" * 101, NDJSON, 413, "50 lines"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_one_line(
    small: Running, body: bytes, headers: dict[str, str], status: int, says: str
) -> None:
    before = small.found("/api/status")["rejected"]

    answer = small.ask("POST", "/api/events", body, headers)

    assert answer.status == status
    assert says in answer.error
    assert small.found("/api/status")["rejected"] == before  # Nothing of it was stored.


def test_deep_brackets_in_an_array_are_the_fault_of_their_element(small: Running) -> None:
    body = b'[{"process": "deep", "index": 1}, ' + b"[" * 200 + b"]" * 200 + b"]"

    answer = small.ask("POST", "/api/events", body, JSON).json

    assert answer["stored"] == 1
    assert [one["at"] for one in answer["rejected"]] == [1]


@pytest.mark.parametrize("members", [1, 2, 1_000])
def test_a_gzipped_body_of_several_members_is_all_of_them(members: int) -> None:
    whole = Random(members).randbytes(2_000_000)
    size = len(whole) // members
    body = b"".join(gzip.compress(whole[at : at + size], 1) for at in range(0, len(whole), size))

    assert decompressed(body, "gzip", len(whole)) == whole


def test_a_bomb_is_not_decompressed_beyond_the_limit(small: Running) -> None:
    layer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([layer.compress(b"\0" * (1 << 20)) for _ in range(100)]) + layer.flush()
    assert len(bomb) < 200_000

    assert small.ask("POST", "/api/events", bomb, GZIP).status == 413


def test_a_body_in_chunks_is_counted_as_it_comes(small: Running) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", small.port, timeout=20)

    def parts() -> Iterator[bytes]:
        for _ in range(30):
            yield b'{"process": "chunked", "index": 1, "name": "' + b"x" * 10_000 + b'"}\n'

    try:
        connection.request("POST", "/api/events", parts(), NDJSON, encode_chunked=True)
        status = connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # The service did not wait for the rest.
    finally:
        connection.close()

    assert status == 413
    assert small.get("/api/event", id="chunked:1").status == 404


def test_bodies_of_all_requests_together_are_bounded_and_their_room_is_given_back(small: Running) -> None:
    import http.client

    held = http.client.HTTPConnection("127.0.0.1", small.port, timeout=20)
    held.putrequest("POST", "/api/events")
    for name, value in {**NDJSON, "Content-Length": "190000"}.items():
        held.putheader(name, value)
    held.endheaders()
    held.send(b" " * 189_000)
    answers = [small.ask("POST", "/api/events", b" " * 190_000, NDJSON) for _ in range(50)]
    held.send(b" " * 1_000)
    assert held.getresponse().status == 200
    held.close()

    assert 503 in {answer.status for answer in answers}
    assert small.ask("POST", "/api/events", b" " * 190_000, NDJSON).status == 200


def test_hostile_text_comes_back_as_text(small: Running) -> None:
    name = "<script>alert(1)</script>\u202e\u0000" + "x" * 5_000
    small.post("/api/events", [{"process": "<b>", "index": 1, "name": name}])

    answer = small.get("/api/event", id="<b>:1")

    assert answer.json["name"] == name
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_reporters_of_many_threads_report_to_a_service_and_it_agrees_with_the_history(tmp_path: Path) -> None:
    random = Random(5)
    reports = as_events(random_steps(random, processes=8, steps=1_500))
    tokens = tokens_for(tmp_path)

    def tell(url: str, own: list[Event]) -> None:
        with Reporter(url, process=own[0].process, token=tokens["report"], linger=0.01) as reporter:
            for event in own:
                reporter.event(
                    event.name,
                    sends=event.sends,
                    receives=event.receives,
                    time=event.time,
                    attributes=event.attributes,
                )
            assert reporter.flush(30)
            assert not reporter.dropped

    with running(tmp_path, require_token=True, token=tokens["read"]) as service:
        names = sorted({event.process for event in reports})
        threads = [
            Thread(target=tell, args=(service.url, [event for event in reports if event.process == name]))
            for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        status = service.found("/api/status")
        ingest = service.service.served.ingest
        assert ingest is not None
        ingest.settle()

    assert (status["events"], status["rejected"]) == (len(reports), 0)
    from service_stores import opened

    with opened(tmp_path) as stored:
        stored.expire()  # Receives of messages whose sends were lost in the random history.
        given = [stored.queries.event(event.id) for event in reports]
        history = History(
            [
                Event(
                    process=e.process, index=e.index, sends=e.sends, receives=e.receives, time=g["time"], name=e.name
                )
                for e, g in zip(reports, given, strict=True)
            ]
        )
        assert_agrees(stored, history, random, asked=4)


def test_a_reporter_whose_token_may_not_report_keeps_its_events_and_says_so(tmp_path: Path) -> None:
    tokens = tokens_for(tmp_path)
    with running(tmp_path, require_token=True, token=tokens["read"]) as service:
        with Reporter(service.url, process="cart", token=tokens["read"], linger=0.01) as reporter:
            reporter.event("opened")
            assert not reporter.flush(1.0)
            assert reporter.status().queued == 1
            reporter.close(0.1)

        assert service.found("/api/status")["events"] == 0


def test_a_batch_above_the_limit_of_the_service_is_split_by_the_reporter(tmp_path: Path) -> None:
    with running(tmp_path, settings={"batch_events_max": 7}) as service:
        with Reporter(service.url, process="cart", linger=0.5) as reporter:
            for number in range(100):
                reporter.event(f"event {number}")
            assert reporter.flush(30)
            assert not reporter.dropped

        assert service.found("/api/status")["events"] == 100


def test_the_answer_is_given_after_the_events_can_be_asked_for(small: Running) -> None:
    for index in range(1, 20):
        small.report([Event(process="visible", index=index)])

        assert small.get("/api/event", id=f"visible:{index}").status == 200


def test_reports_with_clocks_keep_them(small: Running) -> None:
    reports = [*events("c1 !m", "d1 ?m"), Event(process="d", index=2, clock={"d": 2, "c": 1})]

    assert small.report(reports)["stored"] == 3
    assert json.loads(lines(reports).splitlines()[2])["clock"] == small.found("/api/event", id="d:2")["clock"]
