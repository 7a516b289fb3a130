"""Reports over HTTP, against a real server that fails in every way the contract names."""

from __future__ import annotations

import time
from contextlib import closing
from email.utils import formatdate

import pytest
from event_server import CUT, DROP_CONNECTION, HANG, EventServer, Scripted
from gated_target import wait_until_retrying

from beforehand.reporting import HttpTarget, Later, NotStored, Refused, Reporter, Retries, Split, Taken
from beforehand.reporting.http_target import ANSWER_BYTES_MAX
from free_ports import free_port

MINUTE = 60.0
QUICK = Retries(first=0.001, most=0.01)
LINE = b'{"process":"p","index":1}'


def test_events_arrive_on_one_connection_as_json_lines() -> None:
    with (
        EventServer(token="secret") as server,
        Reporter(f"{server.url}/base/", process="p", token="secret") as reporter,
    ):
        for number in range(3):
            reporter.event(f"event {number}")
            assert reporter.flush(MINUTE)
    assert server.indexes() == [1, 2, 3]
    assert len({request.connection for request in server.requests}) == 1
    first = server.requests[0]
    assert first.path == "/base/api/events"
    assert first.headers["Content-Type"] == "application/x-ndjson"
    assert first.headers["Authorization"] == "Bearer secret"
    assert first.headers["Content-Encoding"] is None
    assert reporter.status().sent == 3


def test_large_bodies_are_compressed() -> None:
    with EventServer() as server, Reporter(server.url, process="p") as reporter:
        for _ in range(1000):
            reporter.event("the same again")
    assert server.indexes() == list(range(1, 1001))
    largest = max(server.requests, key=lambda request: len(request.events))
    assert largest.headers["Content-Encoding"] == "gzip"
    assert int(largest.headers["Content-Length"]) < 30 * len(largest.events)


def test_a_server_that_is_down_gets_everything_when_it_is_up() -> None:
    port = free_port()
    reporter = Reporter(f"http://127.0.0.1:{port}", process="p", linger=0.0, retries=QUICK)
    for _ in range(5):
        reporter.event("early")
    wait_until_retrying(reporter)
    assert "refused" in (reporter.status().last_error or "")
    with EventServer(port=port) as server:
        assert reporter.flush(MINUTE)
        assert server.indexes() == [1, 2, 3, 4, 5]
        assert reporter.close()
    assert reporter.dropped == {}


@pytest.mark.parametrize("failure", [Scripted(500), Scripted(502), Scripted(408), DROP_CONNECTION, Scripted(200)])
def test_what_may_pass_is_tried_again_until_it_is_stored(failure: Scripted | str) -> None:
    with EventServer() as server:
        server.script.extend([failure] * 3)
        with Reporter(server.url, process="p", retries=QUICK) as reporter:
            reporter.event("one")
            assert reporter.flush(MINUTE)
        assert server.indexes() == [1]
        assert len(server.requests) == 4
        assert (reporter.status().sent, reporter.dropped) == (1, {})


@pytest.mark.parametrize(("failure", "said"), [(CUT, "IncompleteRead"), (Scripted(503, store=True), "503")])
def test_what_was_stored_without_an_answer_is_repeated_and_counted_once(failure: Scripted | str, said: str) -> None:
    with EventServer() as server:
        server.script.append(failure)
        with Reporter(server.url, process="p", retries=QUICK) as reporter:
            for _ in range(10):
                reporter.event("one")
            assert reporter.flush(MINUTE)
        assert server.indexes() == list(range(1, 11))
        assert (server.repeated, reporter.status().repeated) == (10, 10)
        assert said in (reporter.status().last_error or "")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"x":' * 100_000, b'{"stored":1,"rejected":[{"at":' + b"9" * 400])
def test_an_answer_that_cannot_be_read_is_no_answer(body: bytes) -> None:
    with EventServer() as server, closing(HttpTarget(server.url)) as target:
        server.script.append(Scripted(200, body=body))
        answer = target.send([LINE])
    assert isinstance(answer, Later)
    assert "not the answer of an event service" in answer.error


def test_retry_after_is_honoured() -> None:
    with EventServer() as server:
        server.script.append(Scripted(429, {"Retry-After": "1"}))
        with Reporter(server.url, process="p", linger=0.0, retries=QUICK) as reporter:
            reporter.event("one")
            assert reporter.flush(MINUTE)
        first, second = server.requests
        assert second.at - first.at >= 1.0


def test_retry_after_may_be_a_date_and_is_bounded() -> None:
    with EventServer() as server:
        target = HttpTarget(server.url)
        said = [formatdate(time.time() + 100, usegmt=True), "-5", "99999999", "9" * 400, "soon", formatdate(0)]
        server.script.extend(Scripted(503, {"Retry-After": text}) for text in said)
        answers = [target.send([LINE]) for _ in said]
        target.close()
    waits = [answer.after for answer in answers if isinstance(answer, Later)]
    assert waits[0] is not None
    assert 90 < waits[0] <= 100
    assert waits[1:] == [0.0, 3600.0, 3600.0, None, 0.0]


def test_a_batch_above_the_servers_limit_is_split() -> None:
    with EventServer(events_max=100) as server, Reporter(server.url, process="p", linger=0.05) as reporter:
        for _ in range(1000):
            reporter.event("one")
        assert reporter.flush(MINUTE)
        assert server.indexes() == list(range(1, 1001))
        assert reporter.dropped == {}


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_token_keeps_the_events_waits_long_and_says_it_once(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with EventServer() as server:
        server.always = Scripted(status)
        reporter = Reporter(server.url, process="wrong", token="nonsense", linger=0.0, retries=QUICK)
        reporter.event("one")
        wait_until_retrying(reporter)
        assert not reporter.flush(0.1)
        assert len(server.requests) == 1  # Not again within a minute.
        assert (reporter.status().queued, reporter.dropped) == (1, {})
        assert not reporter.close(0.01)
    first = next(record.getMessage() for record in caplog.records if "'wrong'" in record.getMessage())
    assert "give a token that may report" in first
    assert "nonsense" not in first


def test_other_refusals_drop_the_batch_and_the_next_one_goes_on() -> None:
    with EventServer() as server:
        server.script.extend([Scripted(400, body=b"what is this?"), Scripted(404)])
        with Reporter(server.url, process="p", linger=0.0) as reporter:
            for _ in range(3):
                reporter.event("one")
                assert reporter.flush(MINUTE)
        assert server.indexes() == [3]
        assert reporter.dropped == {"http-400": 1, "http-404": 1}
        assert "404" in (reporter.status().last_error or "")


def test_each_answer_means_what_the_contract_says() -> None:
    body = b'{"stored":1,"repeated":2,"conflicts":3,"waiting":1,"rejected":[{"at":4,"reason":"no","detail":"why"}]}'
    with EventServer() as server:
        target = HttpTarget(server.url)
        scripted = [
            Scripted(200, body=body),
            Scripted(200, body=b"<html>Welcome to the hotel</html>"),
            Scripted(413),
            Scripted(422, body=b"bad\x00\xff\nvery bad"),
            Scripted(302, {"Location": "http://elsewhere/"}),
            Scripted(200, body=b" " * (ANSWER_BYTES_MAX + 10)),
        ]
        server.script.extend(scripted)
        answers = [target.send([LINE] * 10) for _ in scripted]
        assert target.send([LINE]) == Taken(stored=1)
        target.close()
    assert answers[0] == Taken(stored=1, repeated=2, conflicts=3, rejected=(NotStored(4, "no", "why"),))
    assert isinstance(answers[1], Later)
    assert "not the answer of an event service" in answers[1].error
    assert isinstance(answers[2], Split)
    said = f"{server.url}: 422 Unprocessable Entity (bad?\ufffd very bad)"
    assert answers[3] == Refused(reason="http-422", error=said)
    assert isinstance(answers[4], Later)
    assert "it is at 'http://elsewhere/' now" in answers[4].error
    assert isinstance(answers[5], Later)


def test_a_connection_that_the_server_closed_meanwhile_is_replaced_at_once() -> None:
    with EventServer() as server:
        target = HttpTarget(server.url)
        server.script.extend([Scripted(200, body=b'{"stored":1}'), DROP_CONNECTION])
        assert target.send([LINE]) == Taken(stored=1)
        assert target.send([LINE]) == Taken(stored=1)
        target.close()
    assert len(server.requests) == 3


def test_a_server_that_hangs_is_given_up_and_holds_nobody() -> None:
    with EventServer() as server:
        server.script.append(HANG)
        target = HttpTarget(server.url, timeout=0.3)
        reporter = Reporter(target, process="p", linger=0.0, retries=QUICK)
        reporter.event("one")
        assert server.hanging.wait(MINUTE)
        for _ in range(2_000):  # All of them return while the server still holds the first.
            reporter.event("more")
        assert server.stored == {}
        assert reporter.flush(MINUTE)
        assert len(server.stored) == 2001
        assert reporter.close()


def test_close_with_a_hanging_server_returns_by_its_deadline() -> None:
    with EventServer() as server:
        server.script.append(HANG)
        reporter = Reporter(server.url, process="p", linger=0.0)
        reporter.event("one")
        assert server.hanging.wait(MINUTE)
        started = time.monotonic()
        assert not reporter.close(0.1)
        assert time.monotonic() - started < 5.0  # The timeout of the request alone is 10 s.
        assert reporter.dropped == {"unsent": 1}


def test_what_a_service_says_is_cut_and_on_one_line() -> None:
    body = b'{"stored":0,"rejected":[{"at":0,"reason":"%s","detail":"a\\nb\\u001b[31m"}]}' % (b"r" * 100_000)
    with EventServer() as server:
        target = HttpTarget(server.url)
        server.script.append(Scripted(200, body=body))
        answer = target.send([LINE])
        target.close()
    assert answer == Taken(stored=0, rejected=(NotStored(0, "r" * 60, "a b?[31m"),))


def test_a_token_without_tls_is_warned_of_unless_it_stays_on_this_machine(caplog: pytest.LogCaptureFixture) -> None:
    HttpTarget("http://127.0.0.1:1", token="t")
    HttpTarget("https://events.example.com", token="t")
    HttpTarget("http://events.example.com", token="secret")
    assert [r.getMessage() for r in caplog.records if "travels" in r.getMessage()] == [
        "http://events.example.com: the token travels without TLS: use https"
    ]
