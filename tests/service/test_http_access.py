"""Every route with every scope, and with none: what is not allowed is neither read nor written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from servers import Client, Running, running, tokens_for
from service_stores import events

from beforehand.errors import InputError, InvariantError
from beforehand.service.http import app as app_module
from beforehand.service.http.access import needs, needs_nothing
from beforehand.service.http.app import make_app, routers, scope_of_route
from beforehand.service.http.limits import Limits
from beforehand.service.parts import serve_store
from beforehand.service.served import Hosts, Served
from beforehand.service.settings import Settings

SCOPES = ("report", "read", "admin")


@cache
def all_routes() -> list[tuple[str, str, str]]:
    """Method, path and needed scope of every route of an app that serves a store."""
    found = []
    with TemporaryDirectory() as folder, ExitStack() as stack:
        store = Path(folder) / "store.db"
        served, _ = serve_store(store, stack, hosts=Hosts(), limits=Limits(), settings=Settings())
        for router in routers(served):
            for route in router.routes:
                assert isinstance(route, APIRoute)
                found += [(method, route.path, scope_of_route(route) or "none") for method in sorted(route.methods)]
    return found


def path_of(path: str) -> str:
    """An address that the route answers to."""
    while "{" in path:
        before, _, rest = path.partition("{")
        path = f"{before}x{rest.partition('}')[2]}"
    return path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    """A service that others can reach, with a token of each scope and something to read."""
    folder = tmp_path_factory.mktemp("guarded")
    tokens = tokens_for(folder)
    with running(folder, host="0.0.0.0") as service:
        service.as_(tokens["report"]).report(events("a1 !m started", "b1 ?m failed"))
        yield service, tokens


async def answer() -> None:
    """A route for apps of these tests."""


def test_every_route_says_who_may_call_it() -> None:
    found = all_routes()

    assert {scope for _, _, scope in found} <= {*SCOPES, "open"}
    assert ("POST", "/api/events", "report") in found
    assert ("GET", "/api/past", "read") in found
    assert ("POST", "/api/tokens", "admin") in found
    # Only what holds no data is open.
    assert all(path == "/healthz" or not path.startswith(("/api", "/v1")) for _, path, s in found if s == "open")


def test_a_route_that_does_not_say_who_may_call_it_makes_no_app(monkeypatch: pytest.MonkeyPatch) -> None:
    router = APIRouter()
    router.add_api_route("/api/leak", answer, methods=["GET"])
    monkeypatch.setattr(app_module, "routers", lambda _: [router])

    with pytest.raises(InvariantError, match="does not say who may call it"):
        make_app(Served(queries=cast(Any, None)))


def test_a_scope_is_found_behind_other_dependencies() -> None:
    router = APIRouter(dependencies=[Depends(needs("read"))])
    router.add_api_route("/x", answer, methods=["GET"], dependencies=[Depends(lambda: None)])
    route = router.routes[0]

    assert isinstance(route, APIRoute)
    assert scope_of_route(route) == "read"


def test_a_route_that_is_open_on_purpose_says_so() -> None:
    router = APIRouter()
    router.add_api_route("/x", answer, methods=["GET"], dependencies=[Depends(needs_nothing)])
    route = router.routes[0]

    assert isinstance(route, APIRoute)
    assert scope_of_route(route) == "open"


@pytest.mark.parametrize(("method", "path", "scope"), all_routes())
def test_without_a_token_nothing_is_done(
    guarded: tuple[Running, dict[str, str]], method: str, path: str, scope: str
) -> None:
    service, _ = guarded

    answer = service.as_(None).ask(method, path_of(path))

    if scope == "open":
        assert answer.status in (200, 304, 404)
    else:
        assert answer.status == 401
        assert method == "HEAD" or "token" in answer.error
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("has", SCOPES)
@pytest.mark.parametrize(("method", "path", "scope"), [found for found in all_routes() if found[2] != "open"])
def test_a_token_does_for_its_scope_and_for_no_other(
    guarded: tuple[Running, dict[str, str]], method: str, path: str, scope: str, has: str
) -> None:
    service, tokens = guarded
    if path == "/api/stream" and has in (scope, "admin"):
        pytest.skip("this stream does not end: tests of subscriptions try it")

    answer = service.as_(tokens[has]).ask(method, path_of(path))

    if has in (scope, "admin"):
        assert answer.status not in (401, 403), answer.body
    else:
        assert answer.status == 403
        assert f"needs {scope}" in answer.error


@pytest.mark.parametrize(
    "header",
    [
        "Bearer ",
        "Bearer bh__",
        "Bearer bh_0123456789ab_" + "00" * 32,
        "Basic YWRtaW46YWRtaW4=",
        "bearer",
        "Bearer " + "x" * 10_000,
        "Bearer bh_\xff_\xff",
    ],
)
def test_what_is_no_token_of_ours_is_refused(guarded: tuple[Running, dict[str, str]], header: str) -> None:
    service, _ = guarded

    answer = service.as_(None).ask("GET", "/api/status", headers={"Authorization": header})

    assert answer.status == 401
    assert header[7:] not in answer.error or not header[7:].strip()


def test_the_id_of_a_token_with_the_secret_of_another_does_not_hold(guarded: tuple[Running, dict[str, str]]) -> None:
    service, tokens = guarded
    _, identity, _ = tokens["admin"].split("_")
    _, _, secret = tokens["report"].split("_")

    assert service.as_(f"bh_{identity}_{secret}").get("/api/tokens").status == 401


def test_a_wrong_token_is_refused_where_none_is_needed(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        assert service.get("/api/status").status == 200
        assert service.as_("bh_0123456789ab_" + "00" * 32).get("/api/status").status == 401


def test_an_address_that_others_reach_is_not_served_without_a_token(tmp_path: Path) -> None:
    expected = r"0\.0\.0\.0 can be reached by others .*beforehand token add"
    with pytest.raises(InputError, match=expected), running(tmp_path, host="0.0.0.0"):
        pass


def test_names_for_a_proxy_need_a_token_on_loopback_too(tmp_path: Path) -> None:
    names = ("events.example.com",)
    with pytest.raises(InputError, match="beforehand token add"), running(tmp_path, allow_hosts=names):
        pass


def test_once_a_token_was_made_one_is_needed_on_loopback_too_and_stays_needed(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        assert service.post("/api/tokens", {"name": "me", "scope": "read"}).status == 409  # Nobody could go on.
        made = service.post("/api/tokens", {"name": "me", "scope": "admin"})
        assert made.status == 201
        assert service.get("/api/status").status == 401
        admin = service.as_(made.json["token"])
        assert admin.get("/api/status").status == 200
        assert admin.ask("DELETE", f"/api/tokens?id={made.json['id']}").status == 200
        assert admin.get("/api/status").status == 401
        assert service.get("/api/status").status == 401
    with pytest.raises(InputError, match="all tokens were revoked"), running(tmp_path):
        pass


def test_a_token_that_another_process_revokes_ends_within_seconds(tmp_path: Path) -> None:
    from contextlib import closing

    from beforehand.service.tokens import Tokens, access_path

    text = tokens_for(tmp_path)["read"]
    with running(tmp_path, require_token=True, token=text) as service:
        assert service.get("/api/status").status == 200
        with closing(Tokens(access_path(tmp_path / "store.db"))) as tokens:
            tokens.revoke(text.split("_")[1])
        service.service.served.tokens.refresh()  # type: ignore[union-attr]  # What its thread does every second.
        assert service.get("/api/status").status == 401


def test_health_says_that_the_service_is_up_and_nothing_else(guarded: tuple[Running, dict[str, str]]) -> None:
    service, _ = guarded

    answer = Client(service.port).get("/healthz")

    assert (answer.status, answer.json) == (200, {"status": "ok"})


def test_every_route_and_its_parameters_are_on_the_reference_page(guarded: tuple[Running, dict[str, str]]) -> None:
    service, tokens = guarded
    reference = Path(__file__).parents[2] / "docs" / "reference"
    page = (reference / "http.md").read_text(encoding="utf-8")
    views = (reference / "views.md").read_text(encoding="utf-8")
    document = service.as_(tokens["read"]).found("/api/openapi.json")

    for method, path, scope in all_routes():
        rows = [line for line in page.splitlines() if line.startswith("|") and f"`{method} {path}`" in line]
        assert len(rows) == 1, (method, path)
        assert scope in rows[0] or "All need `read`" in page.partition(rows[0])[0].rpartition("## ")[2], path
        for parameter in document["paths"].get(path, {}).get(method.lower(), {}).get("parameters", []):
            if parameter["in"] == "query":
                shown = rows[0] + (views if "views.md" in rows[0] else page.partition("## Subscriptions")[0])
                assert f"`{parameter['name']}`" in shown, (path, parameter["name"])
