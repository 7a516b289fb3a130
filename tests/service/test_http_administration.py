"""Tokens, audit and status over HTTP."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import Running, running, tokens_for
from service_stores import events

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    """One that needs tokens, called by its administrator."""
    token = tokens_for(tmp_path)["admin"]
    with running(tmp_path, require_token=True, token=token) as found:
        yield found


def test_a_token_is_made_used_listed_and_revoked(service: Running) -> None:
    made = service.post("/api/tokens", {"name": "cart 7", "scope": "report"})
    assert made.status == 201
    text, identity = made.json["token"], made.json["id"]
    assert text.startswith(f"bh_{identity}_")

    assert service.as_(text).report(events("a1"))["stored"] == 1
    assert service.as_(text).get("/api/find").status == 403
    listed = {token["id"]: token for token in service.found("/api/tokens")["tokens"]}
    assert (listed[identity]["name"], listed[identity]["scope"], listed[identity]["revoked"]) == (
        "cart 7",
        "report",
        None,
    )
    assert service.ask("DELETE", f"/api/tokens?id={identity}").status == 200
    assert service.as_(text).ask("POST", "/api/events").status == 401
    listed = {token["id"]: token for token in service.found("/api/tokens")["tokens"]}
    assert listed[identity]["revoked"] > 0


def test_no_secret_is_in_an_answer_a_file_or_the_audit_log(service: Running, tmp_path: Path) -> None:
    text = service.post("/api/tokens", {"name": "me", "scope": "read"}).json["token"]
    secret = text.rpartition("_")[2]

    assert secret not in service.get("/api/tokens").body.decode()
    assert secret not in service.get("/api/audit").body.decode()
    for file in tmp_path.iterdir():
        data = file.read_bytes()
        assert secret.encode() not in data
        assert bytes.fromhex(secret) not in data


def test_the_file_of_tokens_is_for_its_owner_only(service: Running, tmp_path: Path) -> None:
    assert (tmp_path / "store.db-access").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "name"),
        (b"[]", 400, "name"),
        (b'{"name": "x"}', 400, "scope"),
        (b'{"name": "x", "scope": "root"}', 400, "choose report, read, admin"),
        (b'{"name": "", "scope": "read"}', 400, "1 to 100"),
        (b'{"name": "a\\nb", "scope": "read"}', 400, "printable"),
        (b'{"name": "x", "scope": "read", "id": "mine"}', 400, "id"),
        (b"\xff" * 20_000, 400, "body"),
    ],
)
def test_a_wrong_token_is_not_made(service: Running, body: bytes, status: int, says: str) -> None:
    before = service.found("/api/tokens")

    answer = service.ask("POST", "/api/tokens", body, JSON)

    assert answer.status == status
    assert says in answer.error
    assert len(service.found("/api/tokens")["tokens"]) == len(before["tokens"])


def test_a_form_of_a_page_makes_no_token(service: Running) -> None:
    body = b'{"name": "x", "scope": "admin"}'

    assert service.ask("POST", "/api/tokens", body, {"Content-Type": "text/plain"}).status == 415


def test_a_token_that_is_not_there_cannot_be_revoked(service: Running) -> None:
    assert service.ask("DELETE", "/api/tokens?id=nobody").status == 404


def test_administration_is_written_down_with_who_did_it_newest_first(service: Running) -> None:
    made = service.post("/api/tokens", {"name": "cart", "scope": "report"}).json
    service.ask("DELETE", f"/api/tokens?id={made['id']}")

    entries = service.found("/api/audit", limit=2)

    assert [entry["what"] for entry in entries["entries"]] == ["token revoked", "token made"]
    assert all(made["id"] in entry["detail"] for entry in entries["entries"])
    assert all(entry["who"].startswith("token admin (") for entry in entries["entries"])
    older = service.found("/api/audit", limit=1, before=entries["entries"][0]["id"])
    assert older["entries"][0]["what"] == "token made"


def test_status_counts_what_is_in_the_store(service: Running) -> None:
    service.report(events("a1 !m", "b1 ?m", "b3"))

    status = service.found("/api/status")

    expected = {"events": 3, "processes": 2, "executions": 1, "waiting": 1, "rejected": 0, "source": "store"}
    assert {key: status[key] for key in expected} == expected
    assert status["tokens_required"] is True
    assert status["bytes"] > 0
    assert status["memory_bytes_max"] > 10_000_000


def test_what_is_waited_for_is_given_up_by_the_service_itself(tmp_path: Path) -> None:
    import time

    with running(tmp_path, settings={"deadline_ns": 1_000_000}) as service:
        service.report(events("b3 late"))
        end = time.monotonic() + 20
        while service.found("/api/event", id="b:3")["state"] == "waiting":
            assert time.monotonic() < end, "nothing settles the store"

        assert service.found("/api/event", id="b:3")["state"] == "incomplete"


def test_a_store_that_fails_is_said_and_the_reports_are_not_acknowledged(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        ingest = service.service.served.ingest
        assert ingest is not None
        real = ingest.report_all

        def full(_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        ingest.report_all = full  # type: ignore[method-assign, assignment]
        answer = service.ask(
            "POST", "/api/events", b'{"process": "a", "index": 1}', JSON | {"Content-Type": "application/x-ndjson"}
        )
        ingest.report_all = real  # type: ignore[method-assign]

        assert answer.status == 503
        assert "disk is full" in answer.error
        assert service.get("/api/event", id="a:1").status == 404
        assert service.report(events("a1"))["stored"] == 1


def test_a_bug_is_said_in_one_line_without_its_details(tmp_path: Path) -> None:
    with running(tmp_path) as service:

        def broken(**_: object) -> None:
            raise KeyError("a secret of the inside")

        service.service.served.queries.missing = broken  # type: ignore[method-assign, assignment]
        answer = service.get("/api/missing")

        assert answer.status == 500
        assert "KeyError" in answer.error
        assert "secret" not in answer.error
        assert service.get("/healthz").status == 200
