"""Whatever is sent to whatever route: never a 5xx, and the service goes on."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from servers import Running, running, tokens_for
from service_stores import events
from test_http_access import all_routes

from beforehand.service.http.limits import Limits

TRIES = int(os.environ.get("BEFOREHAND_TRIES", "12"))
KINDS = [
    "application/json",
    "application/x-ndjson",
    "application/x-protobuf",
    "text/plain",
    "multipart/form-data; boundary=x",
    "\xff;charset=\x80",
    "application/octet-stream",
]
NAMES = ["id", "where", "limit", "last", "after", "execution", "at", "cut", "first", "second", "source", "before"]
NAMES += ["from", "to", "columns", "lanes", "past", "complete", "process", "delta_ns", "axis", "events_max", "name"]
VALUES = [
    b"",
    b"0",
    b"-1",
    b"1",
    b"9" * 30,
    b"1e5",
    b"null",
    b"a:1",
    b"b:1",
    b":",
    b"a:0",
    b"\x00",
    b"\xff\xfe",
    b"{}",
]
VALUES += [b"name ~ '('", b"name = x", b'{"a": 1}', b"[" * 500, b"true", b"imp-x", "é\u202e".encode(), b"a" * 9_000]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With a token that may do all: on loopback the first token that is made would lock out all that follow."""
    folder = tmp_path_factory.mktemp("robust")
    token = tokens_for(folder)["admin"]
    limits = Limits(rate_per_second=100_000, rate_burst=100_000)
    with running(folder, require_token=True, token=token, limits=limits) as found:
        found.report(events("a1 !m @1 started", "b1 ?m @2 failed", "c1 @3", "c3 @5 late"))
        yield found


def exchange(service: Running, data: bytes, *, whole: bool = False) -> bytes:
    """Send these bytes; the status line of the answer, nothing if the connection was closed.

    `whole`: take all of the answer, which has to end.
    """
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
        try:
            connection.sendall(data)
            answer = b""
            while whole or b"\r\n" not in answer:
                part = connection.recv(4_096)
                if not part:
                    break
                answer += part
        except ConnectionError:
            return b""
        return answer.partition(b"\r\n")[0]


def random_request(random: Random, method: str, path: str, token: str | None) -> bytes:
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + quote_from_bytes(random.choice(VALUES)[:50] or b"x") + rest.partition("}")[2]
    pairs = [
        f"{random.choice(NAMES)}={quote_from_bytes(random.choice([*VALUES, random.randbytes(20)]))}"
        for _ in range(random.randint(0, 5))
    ]
    body = b""
    if method not in ("GET", "HEAD"):
        body = random.choice(
            [
                b"",
                random.randbytes(random.randint(1, 500)),
                b"\x1f\x8b" + random.randbytes(100),
                b'[{"process": "a", "index": 1}]',
                b'{"name": 1, "scope": {}}',
                b'{"where": "name ~ x", "past": -5, "url": "http://[::1"}',
                b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 5, "name": []}]}]}]}',
                b"[" * 2_000,
                b'{"a":' * 300,
            ]
        )
    head = [
        f"{method} {path}{'?' + '&'.join(pairs) if pairs else ''} HTTP/1.1",
        f"Host: localhost:{random.choice(['', '1', '99999'])}",
        f"Authorization: Bearer {token}",
        f"Content-Type: {random.choice(KINDS)}",
        f"Content-Encoding: {random.choice(['gzip', 'identity', '', 'x'])}",
        f"Last-Event-ID: {random.choice(['', '5', '-1', 'x', '9' * 40])}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join(head).encode("latin-1", "replace") + b"\r\n\r\n" + body


@pytest.mark.parametrize(("method", "path", "scope"), all_routes())
def test_random_bytes_on_a_route_are_no_fault_of_the_service(
    service: Running, method: str, path: str, scope: str
) -> None:
    random = Random(f"{method} {path}")
    for _ in range(TRIES):
        sent = random_request(random, method, path, service.token)
        # An export that nobody takes is under way until the service sees that, and only so many are at a time.
        status = exchange(service, sent, whole=path == "/api/export")

        assert not status.startswith(b"HTTP/1.1 5"), (status, sent)
    assert service.get("/healthz").status == 200


def test_what_is_no_http_is_refused_and_the_service_goes_on(service: Running) -> None:
    random = Random(8)
    pieces = [
        b"GET ",
        b"POST /api/events",
        b" HTTP/1.1\r\n",
        b"Host: localhost\r\n",
        b"\r\n\r\n",
        b"\x16\x03\x01",
        b"\0",
    ]
    pieces += [b"Transfer-Encoding: chunked\r\n", b"Content-Length: -5\r\n", b"Content-Length: 7\r\n", b"zz\r\n"]
    for _ in range(60):
        sent = b"".join(random.choice([*pieces, random.randbytes(30)]) for _ in range(random.randint(1, 9)))
        with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            try:
                answer = connection.recv(4_096)
            except ConnectionError:
                answer = b""
        assert not answer.startswith(b"HTTP/1.1 5"), (answer, sent)
    assert service.get("/healthz").status == 200


@pytest.mark.parametrize(
    ("mode", "tries"), [(GenerationMode.POSITIVE, TRIES), (GenerationMode.NEGATIVE, max(TRIES // 3, 1))]
)
def test_schemathesis_finds_no_5xx(service: Running, mode: GenerationMode, tries: int) -> None:
    import requests

    document = service.found("/api/openapi.json")
    schema = schemathesis.openapi.from_dict(document)
    seen, refused, never_wrong = set(), 0, set()
    for result in schema.get_all_operations():
        operation = result.ok()
        seen.add((operation.method.upper(), operation.path))

        @settings(
            max_examples=tries,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            nonlocal refused
            sent = case.as_transport_kwargs(base_url=f"http://127.0.0.1:{service.port}")
            sent["headers"] = {**sent["headers"], "Authorization": f"Bearer {service.token}"}
            with requests.request(**sent, stream=True, timeout=30) as response:
                assert response.status_code < 500, (response.status_code, response.text, sent)
                refused += response.status_code >= 400

        try:
            check()
        except Unsatisfiable:  # It takes nothing, or anything: no request breaks what the document says.
            assert mode is GenerationMode.NEGATIVE
            never_wrong.add(operation.path)
    assert seen == {(method, path) for method, path, _ in all_routes() if path in document["paths"]}
    assert len(never_wrong) < len(seen) / 2
    assert mode is GenerationMode.POSITIVE or refused > len(seen)
    assert service.get("/healthz").status == 200
