"""Views and imports over HTTP: a real service, asked as the page asks it."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from servers import lines, running
from service_stores import events

from beforehand.service.http.limits import Limits
from beforehand.service.opened import open_history
from history_directories import make_pack_directory, random_events

SHIVIZ = r"""(?<host>\S*) (?<clock>{.*})\n(?<event>.*)

alice {"alice":1}
Ask
bob {"bob":1,"alice":1}
Heard
"""


def test_a_store_is_drawn_as_reports_come(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        empty = client.get("/api/overview").json
        assert (empty["source"], empty["execution"], empty["processes"]) == ("store", None, [])
        assert client.get("/api/window").status == 400
        client.report(events("web1 !order @1", "cart1 ?order @2"))
        overview = client.get("/api/overview", execution="").json
        assert [process["name"] for process in overview["processes"]] == ["cart", "web"]
        window = client.get("/api/window", execution="", **{"from": 0, "to": overview["span"]}).json
        assert [event["id"] for event in window["events"]] == ["cart:1", "web:1"]
        assert [message["message"] for message in window["messages"]] == ["order"]
        assert client.get("/api/window", execution="", lanes="1").json["total"] == 1
        place = client.get("/api/lookup", id="cart:1").json
        assert (place["lane"], place["index"], place["x"]) == (0, 1, 1)
        relations = client.get("/api/relations", id="cart:1", execution="").json
        assert [(lane["past_to"], lane["future_from"]) for lane in relations["lanes"]] == [(0, None), (1, None)]
        client.report(events("web2 @9"))
        assert client.get("/api/overview").json["events"] == 3


def test_a_directory_is_asked_and_drawn_like_a_store(tmp_path: Path) -> None:
    made = random_events(3, processes=4, steps=80, execution="x")
    path = make_pack_directory([made], tmp_path, packs=1).path
    queries = open_history(path).queries
    with running(tmp_path, directory=path) as client:
        assert client.get("/api/find", limit=7).json == json.loads(json.dumps(queries.find(limit=7)))
        one = str(made[40].id)
        assert client.get("/api/past", id=one, last=3).json == json.loads(json.dumps(queries.past(one, last=3)))
        overview = client.get("/api/overview").json
        assert (overview["source"], overview["execution"], overview["events"]) == ("directory", "x", 80)
        assert client.get("/api/window", execution="x").json["total"] == 80
        assert (
            client.ask("POST", "/api/events", lines(made[:1]), {"Content-Type": "application/x-ndjson"}).status == 409
        )


def test_a_dropped_file_can_be_asked_drawn_and_compared(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        client.report(events("alice1 @1"))
        taken = client.ask("POST", "/api/imports?name=a%20b.log", SHIVIZ.encode())
        assert taken.status == 200
        source = taken.json["source"]
        assert (taken.json["name"], taken.json["format"], taken.json["events"]) == ("a b.log", "shiviz", 2)
        assert client.get("/api/overview", source=source).json["axis"] == "steps"
        assert client.get("/api/past", id="bob:1", source=source).json["past"] == 1
        assert client.get("/api/relate", first="alice:1", second="bob:1", source=source).json["relation"] == "before"
        compared = client.get("/api/compare", first="", second="", source2=source).json
        assert [process["name"] for process in compared["processes"]] == ["alice", "bob"]
        assert client.get("/api/overview").json["source"] == "store"
        for path in ("/api/overview", "/api/find", "/api/window"):
            assert client.get(path, source="imp-nobody").status == 404
        wrong = client.ask("POST", "/api/imports?name=x", b"\xff\xfe hello")
        assert wrong.status == 400
        assert wrong.error
        foreign = client.ask("POST", "/api/imports?name=x", SHIVIZ.encode(), {"Origin": "http://evil.example"})
        assert foreign.status == 403


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, limits=Limits(import_bytes_max=1_000)) as client:
        assert client.ask("POST", "/api/imports", b"x" * 1_001).status == 413


WRONG = [
    ("/api/window", {"execution": "", "from": "x"}),
    ("/api/window", {"execution": "", "from": 10**30}),
    ("/api/window", {"execution": "", "from": 5, "to": 2}),
    ("/api/window", {"execution": "", "lanes": "0,x"}),
    ("/api/window", {"execution": "", "lanes": "77"}),
    ("/api/window", {"execution": "", "columns": 100_000}),
    ("/api/window", {"execution": "", "events_max": -1}),
    ("/api/window", {"execution": "nothing"}),
    ("/api/overview", {"axis": "sideways"}),
    ("/api/lookup", {}),
    ("/api/lookup", {"id": "a"}),
    ("/api/relations", {"id": "nobody:1"}),
    ("/api/relations", {"id": "a:1", "lanes": "-1"}),
    ("/api/compare", {"first": ""}),
    ("/api/compare", {"first": "", "second": "x"}),
    ("/api/compare", {"first": "", "second": "", "source2": "imp-x"}),
]


def test_wrong_questions_get_one_line(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        client.report(events("a1 @1"))
        for path, query in WRONG:
            answer = client.get(path, **query)
            assert answer.status in (400, 404), (path, query, answer.body)
            assert answer.error


@pytest.mark.parametrize("seed", range(3))
def test_no_question_about_pictures_is_a_bug(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    values = [
        "",
        "0",
        "-1",
        "1e3",
        "9" * 18,
        "\0",
        "a:1",
        "x/a:1",
        "💥:1",
        "0,1",
        "time",
        "steps",
        "imp-",
        "store",
        " ",
    ]
    names = ["execution", "from", "to", "columns", "lanes", "events_max", "source", "axis", "id", "first", "second"]
    with running(tmp_path) as client:
        client.report(events("a1 !m @1", "b1 ?m @2"))
        for _ in range(150):
            path = random.choice(["overview", "window", "lookup", "relations", "compare"])
            query = {name: random.choice(values) for name in random.sample(names, random.randint(0, 5))}
            answer = client.get(f"/api/{path}", **query)
            assert answer.status in (200, 400, 404), (path, query, answer.body)
