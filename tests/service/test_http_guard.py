"""Attacks on a service of this machine: by name, by origin, by number, by slowness."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from servers import NDJSON, Running, running, tokens_for

from beforehand.service.http.guard import POLICY, Rates
from beforehand.service.http.limits import Limits


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("local")) as service:
        yield service


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "localhost."])
@pytest.mark.parametrize("port", ["", ":7171", ":80"])
def test_the_names_of_this_machine_are_answered(local: Running, host: str, port: str) -> None:
    assert local.ask("GET", "/api/status", headers={"Host": host + port}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7171",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.2",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "localhost@evil.example",
        "",
        " ",
        "[::1",
        "\xe9vil",
    ],
)
@pytest.mark.parametrize("path", ["/api/status", "/healthz", "/", "/nowhere"])
def test_a_name_that_was_made_to_point_here_is_refused(local: Running, host: str, path: str) -> None:
    answer = local.ask("GET", path, headers={"Host": host})

    assert answer.status == 403
    assert "--allow-host" in answer.error


def test_a_request_without_a_name_or_with_two_is_refused(local: Running) -> None:
    with socket.create_connection(("127.0.0.1", local.port), timeout=10) as connection:
        connection.sendall(b"GET /api/status HTTP/1.0\r\n\r\n")
        assert b" 403 " in connection.recv(100)
    with socket.create_connection(("127.0.0.1", local.port), timeout=10) as connection:
        connection.sendall(b"GET /api/status HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert b" 400 " in connection.recv(100)


ORIGINS = [
    "http://evil.example",
    "null",
    "http://localhost:3000",
    "https://localhost:{port}@evil.example",
    "file://",
    "",
]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/events"),
        ("GET", "/api/status"),
        ("DELETE", "/api/tokens?id=x"),
        ("POST", "/api/tokens"),
        ("POST", "/"),
        ("OPTIONS", "/api/events"),
        ("POST", "/v1/traces"),
    ],
)
def test_pages_of_others_may_not_ask(local: Running, origin: str, method: str, path: str) -> None:
    headers = {**NDJSON, "Origin": origin.format(port=local.port), "Host": f"localhost:{local.port}"}

    answer = local.ask(method, path, b'{"process": "csrf", "index": 1}' if method == "POST" else None, headers)

    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers
    assert local.get("/api/event", id="csrf:1").status == 404


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_pages_of_others_embed_is_not_answered(local: Running, site: str) -> None:
    assert local.ask("GET", "/api/find", headers={"Sec-Fetch-Site": site}).status == 403
    assert local.ask("GET", "/healthz", headers={"Sec-Fetch-Site": site}).status == 200


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:{port}", "localhost:{port}"),
        ("http://LOCALHOST:{port}", "localhost:{port}"),
        ("http://127.0.0.1:{port}", "127.0.0.1:{port}"),
        ("http://[::1]:{port}", "[::1]:{port}"),
        ("http://localhost", "localhost:80"),
        ("https://localhost", "localhost"),
    ],
)
def test_the_page_of_the_service_itself_may_ask(local: Running, origin: str, host: str) -> None:
    headers = {"Origin": origin.format(port=local.port), "Host": host.format(port=local.port)}

    assert local.ask("GET", "/api/status", headers=headers | {"Sec-Fetch-Site": "same-origin"}).status == 200


@pytest.mark.parametrize("path", ["/api/status", "/nowhere", "/api/past", "/api/events", "/healthz"])
def test_every_answer_carries_the_policy(local: Running, path: str) -> None:
    headers = local.get(path).headers

    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers
    if path.startswith("/api"):
        assert headers["cache-control"] == "no-store"


def test_names_that_were_allowed_are_answered_and_others_are_not(tmp_path: Path) -> None:
    token = tokens_for(tmp_path)["read"]
    with running(tmp_path, allow_hosts=("Events.example.com", "[fd00::1]"), token=token) as service:
        for host in ("events.example.com", "events.example.com:8443", "[fd00::1]:1", "localhost"):
            assert service.ask("GET", "/api/status", headers={"Host": host}).status == 200
        assert service.ask("GET", "/api/status", headers={"Host": "example.com"}).status == 403
        origin = {"Host": "events.example.com", "Origin": "https://events.example.com"}
        assert service.ask("GET", "/api/status", headers=origin).status == 200


def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    now = [100.0]
    rates = Rates(10, 3, 2, clock=lambda: now[0])

    assert [rates.take("a") == 0 for _ in range(4)] == [True, True, True, False]
    assert rates.take("a") == pytest.approx(0.1)
    now[0] += 0.11
    assert [rates.take("a") == 0 for _ in range(2)] == [True, False]
    assert rates.take("b") == 0
    assert rates.take("c") == 0  # Beyond two clients, the one not seen for longest is forgotten: a starts anew.
    assert rates.take("a") == 0


def test_a_client_that_asks_too_often_is_told_when_to_come_back(tmp_path: Path) -> None:
    token = tokens_for(tmp_path)["read"]
    with running(tmp_path, limits=Limits(rate_per_second=1, rate_burst=5), require_token=True) as service:
        answers = [service.get("/healthz") for _ in range(8)]
        with_token = service.as_(token).get("/healthz")

    assert [answer.status for answer in answers[:5]] == [200] * 5
    assert answers[-1].status == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert with_token.status == 200  # It has a bucket of its own.


def test_connections_beyond_their_number_are_closed_at_once(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(connections_max=3)) as service:
        held = [socket.create_connection(("127.0.0.1", service.port), timeout=10) for _ in range(3)]
        for connection in held:  # All three were taken before the fourth comes.
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in connection.recv(2_000)
        with socket.create_connection(("127.0.0.1", service.port), timeout=10) as fourth:
            try:
                fourth.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert fourth.recv(100) == b""
            except ConnectionError:
                pass
        for connection in held:
            connection.close()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                assert service.get("/healthz").status == 200
                break
            except (ConnectionError, OSError):
                continue  # Until it has seen that the three are gone.
        else:
            pytest.fail("the connections that were closed keep their places")


def test_one_address_does_not_take_all_connections(tmp_path: Path) -> None:
    def asked(connection: socket.socket) -> bytes:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.recv(2_000)

    def connected(source: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", service.port), timeout=10, source_address=(source, 0))

    with (
        running(tmp_path, limits=Limits(connections_max=4, connections_per_address_max=2)) as service,
        connected("127.0.0.2") as first,
        connected("127.0.0.2") as second,
        connected("127.0.0.2") as third,
        connected("127.0.0.3") as other,
    ):
        assert b" 200 " in asked(first)
        assert b" 200 " in asked(second)
        with suppress(ConnectionError):
            assert asked(third) == b""
        assert b" 200 " in asked(other)
        first.close()
        end = time.monotonic() + 10
        while time.monotonic() < end:
            with suppress(ConnectionError), connected("127.0.0.2") as again:
                if b" 200 " in asked(again):
                    break
        else:
            pytest.fail("the connection that was closed keeps its place")


def test_a_head_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    with (
        running(tmp_path, limits=Limits(head_seconds_max=1)) as service,
        socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection,
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert connection.recv(100) == b""  # Closed, not timed out.


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    with (
        running(tmp_path, limits=Limits(body_seconds_max=1)) as service,
        socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection,
    ):
        connection.sendall(
            b"POST /api/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        assert b" 408 " in connection.recv(1_000)


@pytest.mark.parametrize("path", ["/api/events", "/api/imports", "/v1/traces"])
def test_a_client_that_goes_away_in_its_body_is_no_bug(
    local: Running, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection(("127.0.0.1", local.port), timeout=10) as connection:
        connection.sendall(head.encode() + b"[1,")
        time.sleep(0.2)

    assert local.ask("GET", "/api/status").status == 200
    time.sleep(0.2)
    assert "bug" not in caplog.text
