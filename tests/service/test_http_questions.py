"""Every question over HTTP has the document that `Queries` gives; pages go on; wrong questions get one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from servers import Running, running
from service_stores import events

from beforehand.events import Event
from beforehand.predicate import Predicate
from beforehand.service import deadlines
from beforehand.service.http.limits import Limits

SHOP = events(
    "cart1 @10 opened",
    "cart2 !order @20 sent",
    "web1 ?order @30 received",
    "web2 !pay @40 asked",
    "bank1 ?pay @50 checkout failed",
    "log1 @45 rotated",
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("shop")) as service:
        service.report(SHOP)
        service.report([Event(process="late", index=3)])  # Its first two are missing.
        yield service


def as_json(document: object) -> Any:
    return json.loads(json.dumps(document))


@pytest.mark.parametrize(
    ("path", "query", "method", "arguments", "options"),
    [
        ("/api/find", {}, "find", (), {}),
        (
            "/api/find",
            {"where": "name ~ failed", "limit": 2},
            "find",
            (Predicate.parse("name ~ failed"),),
            {"limit": 2},
        ),
        ("/api/order", {"limit": 3}, "order", (), {"limit": 3}),
        ("/api/event", {"id": "web:1"}, "event", ("web:1",), {}),
        ("/api/past", {"id": "bank:1"}, "past", ("bank:1",), {}),
        (
            "/api/past",
            {"id": "bank:1", "last": 2, "process": "cart", "where": "name = opened"},
            "past",
            ("bank:1",),
            {"last": 2, "process": "cart", "where": Predicate.parse("name = opened")},
        ),
        ("/api/past", {"id": "late:3", "complete": "true"}, "past", ("late:3",), {"complete": True}),
        ("/api/future", {"id": "cart:2", "limit": 2}, "future", ("cart:2",), {"limit": 2}),
        ("/api/concurrent", {"id": "log:1"}, "concurrent", ("log:1",), {}),
        ("/api/relate", {"first": "cart:1", "second": "bank:1"}, "relate", ("cart:1", "bank:1"), {}),
        ("/api/cut", {"at": "35"}, "cut_at", (35,), {}),
        ("/api/cut", {"at": "1970-01-01T00:00:00.000000035Z"}, "cut_at", (35,), {}),
        ("/api/cut", {"after": ["web:1", "log:1"]}, "cut_after", ("web:1", "log:1"), {}),
        ("/api/cut", {"cut": '{"web": 1}'}, "cut", ({"web": 1},), {}),
        ("/api/checks", {"delta_ns": 5, "limit": 3}, "checks", (), {"delta_ns": 5, "limit": 3}),
        ("/api/missing", {"execution": ""}, "missing", (), {}),
        ("/api/rejected", {"limit": 1}, "rejected", (), {"limit": 1}),
    ],
)
def test_a_question_has_the_document_of_the_query(
    shop: Running, path: str, query: dict[str, Any], method: str, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    expected = getattr(shop.service.served.queries, method)(*arguments, **options)

    assert shop.found(path, **query) == as_json(expected)


def test_the_papers_question_is_answered_over_http(shop: Running) -> None:
    found = shop.found("/api/past", id="bank:1", last=3)

    assert found["past"] == 4
    assert [event["id"] for event in found["events"]] == ["cart:2", "web:1", "web:2"]
    assert found["complete"] is True


@pytest.mark.parametrize(
    ("path", "query"),
    [("/api/find", {}), ("/api/order", {}), ("/api/future", {"id": "cart:1"}), ("/api/concurrent", {"id": "log:1"})],
)
def test_pages_go_on_where_the_last_one_ended(shop: Running, path: str, query: dict[str, str]) -> None:
    whole = [event["id"] for event in shop.found(path, **query)["events"]]
    found: list[str] = []
    after = None
    while True:
        page = shop.found(path, limit=1, after=after, **query)
        found += [event["id"] for event in page["events"]]
        after = page["cursor"]
        assert page["more"] == (after is not None)
        if after is None:
            break

    assert found == whole
    assert len(whole) >= 4


@pytest.mark.parametrize(
    ("path", "query", "status", "says"),
    [
        ("/api/event", {"id": "web:99"}, 404, "'web' has indexes up to 2"),
        ("/api/event", {"id": "nobody"}, 404, "process:index"),
        ("/api/event", {"id": "web:1", "execution": "other"}, 404, "no event"),
        ("/api/event", {"id": "web", "execution": ""}, 400, "process:index"),
        ("/api/event", {}, 400, "id: Field required"),
        ("/api/past", {"id": "web:1", "last": "many"}, 400, "last"),
        ("/api/past", {"id": "web:1", "last": 10_001}, 400, "last"),
        ("/api/past", {"id": "web:1", "where": "name ="}, 400, "at character"),
        ("/api/past", {"id": "web:1", "process": "nobody"}, 400, "no process 'nobody'"),
        ("/api/find", {"after": "x"}, 400, "no cursor"),
        ("/api/find", {"limit": 0}, 400, "limit"),
        ("/api/find", {"limit": 10**30}, 400, "limit"),
        ("/api/find", {"execution": "other"}, 400, "no execution 'other'"),
        ("/api/cut", {}, 400, "exactly one"),
        ("/api/cut", {"cut": '{"web": 1, "web": 0}'}, 400, "twice"),
        ("/api/export", {"source": "imp-1"}, 400, "is not exported"),
        ("/api/cut", {"at": "1", "cut": "{}"}, 400, "exactly one"),
        ("/api/cut", {"at": "yesterday"}, 400, "nanoseconds"),
        ("/api/cut", {"at": "9" * 19}, 400, "nanoseconds"),
        ("/api/cut", {"cut": "[]"}, 400, "JSON object"),
        ("/api/cut", {"cut": '{"web": -1}'}, 400, "JSON object"),
        ("/api/cut", {"cut": '{"nobody": 1}'}, 400, "'nobody'"),
        ("/api/rejected", {"after": 2**70}, 400, "after"),
        ("/api/checks", {"delta_ns": -1}, 400, "delta_ns"),
        ("/api/find", {"source": "imp-none"}, 404, "imp-none"),
        ("/api/nothing", {}, 404, "/api/openapi.json"),
    ],
)
def test_a_wrong_question_gets_one_line(
    shop: Running, path: str, query: dict[str, Any], status: int, says: str
) -> None:
    answer = shop.get(path, **query)

    assert answer.status == status
    assert says in answer.error


def test_a_wrong_method_gets_one_line(shop: Running) -> None:
    assert shop.ask("PATCH", "/api/find").status == 405
    assert "PATCH" in shop.ask("PATCH", "/api/find").error


def test_names_hold_any_character(tmp_path: Path) -> None:
    process = "a/b?c#d&e=f:g %00\u202e\n" + "長" * 3_000
    with running(tmp_path) as service:
        service.report([Event(process=process, index=1), Event(process=process, index=2, execution="one/two")])

        assert service.found("/api/event", id=f"{process}:1")["process"] == process
        found = service.found("/api/event", id=f"{process}:2", execution="one/two")
        assert found["execution"] == "one/two"


def test_a_question_that_takes_too_long_is_cut_off_and_the_service_goes_on(tmp_path: Path) -> None:
    limits = Limits(read_seconds_max=1)
    with running(tmp_path, limits=limits) as service:
        service.report(SHOP)
        queries = service.service.served.queries
        store = service.service.served.store
        assert store is not None

        def endless(*_: object, **__: object) -> dict[str, Any]:
            with store.reading() as db:
                sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
                return {"max": db.execute(sql).fetchone()}

        queries.find = endless  # type: ignore[method-assign]
        answer = service.get("/api/find")

        assert answer.status == 503
        assert "takes too long" in answer.error
        assert "retry-after" in answer.headers
        assert service.get("/api/event", id="web:1").status == 200  # The reader was given back, without a deadline.


def test_a_search_with_a_slow_predicate_is_cut_off(shop: Running) -> None:
    asked = []

    def slow(event: Event) -> bool:
        asked.append(event)
        return False

    queries = shop.service.served.queries
    for search in (lambda: queries.find(slow), lambda: queries.past("bank:1", where=slow)):  # type: ignore[arg-type]
        asked.clear()
        with deadlines.within(1_000):
            search()
        assert len(asked) >= 4
        # A deadline that passes with the first event that is looked at: no second one is.
        asked.clear()
        with pytest.MonkeyPatch.context() as patch, deadlines.within(1_000):
            patch.setattr(deadlines, "monotonic", lambda: monotonic() + (2_000 if asked else 0))
            with pytest.raises(deadlines.OverdueError):
                search()
        assert len(asked) == 1


def test_a_deadline_holds_for_its_block_and_for_the_sooner_of_two() -> None:
    assert deadlines.left() is None
    with deadlines.within(50), deadlines.within(100):
        left = deadlines.left()
        assert left is not None
        assert 40 < left <= 50
    with deadlines.within(0), pytest.raises(deadlines.OverdueError):
        deadlines.check()
    deadlines.check()


def test_the_document_of_the_api_describes_every_route(shop: Running) -> None:
    document = shop.found("/api/openapi.json")

    assert document["openapi"].startswith("3.1")
    for path in ("/api/events", "/api/past", "/api/find", "/api/tokens", "/api/status", "/healthz"):
        for operation in document["paths"][path].values():
            assert operation["summary"]
            assert operation["responses"]
    required = document["paths"]["/api/past"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert set(required["required"]) <= set(shop.found("/api/past", id="bank:1"))


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/find", {}),
        ("/api/order", {}),
        ("/api/event", {"id": "web:1"}),
        ("/api/past", {"id": "web:1"}),
        ("/api/future", {"id": "web:1"}),
        ("/api/concurrent", {"id": "web:1"}),
        ("/api/relate", {"first": "web:1", "second": "web:2"}),
        ("/api/cut", {"at": "3"}),
        ("/api/checks", {}),
        ("/api/missing", {}),
        ("/api/rejected", {}),
        ("/api/status", {}),
        ("/api/audit", {}),
        ("/api/tokens", {}),
    ],
)
def test_answers_have_the_keys_that_the_document_of_the_api_names(
    shop: Running, path: str, query: dict[str, str]
) -> None:
    described = shop.found("/api/openapi.json")["paths"][path]["get"]["responses"]["200"]
    schema = described["content"]["application/json"]["schema"]
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict, "null": type(None)}

    answer = shop.found(path, **query)

    assert set(schema["required"]) <= set(answer)
    for key, value in schema["properties"].items():
        if key in answer and "type" in value:
            allowed = value["type"] if isinstance(value["type"], list) else [value["type"]]
            assert type(answer[key]) in [kinds[kind] for kind in allowed], key
