"""Subscriptions over a real server: server-sent events, resumed by cursor; who may do what."""

from __future__ import annotations

import threading
from pathlib import Path

from event_streams import listening
from servers import running, tokens_for
from service_stores import events


def test_a_follower_gets_a_failure_with_what_led_to_it(tmp_path: Path) -> None:
    with running(tmp_path) as service, listening(service.port, "/api/stream", where="name = failed") as stream:
        service.report(events("cart1 !m add", "web1 ?m", "web2 failed", "other1 noise"))
        notice = stream.notice()
        assert notice["event"]["id"] == "web:2"
        assert notice["event"]["state"] == "complete"
        assert [one["id"] for one in notice["events"]] == ["cart:1", "web:1"]
        assert (notice["complete"], notice["missing"], notice["unsent"]) == (True, [], [])
        assert notice["subscription"] is None
        assert stream.last_id == str(notice["cursor"])


def test_complete_waits_for_the_causes_and_immediate_names_what_is_missing(tmp_path: Path) -> None:
    with (
        running(tmp_path) as service,
        listening(service.port, "/api/stream", completeness="complete") as complete,
        listening(service.port, "/api/stream", completeness="immediate") as immediate,
    ):
        service.report(events("web2 ?m failed"))
        first = immediate.notice()
        assert (first["event"]["id"], first["complete"]) == ("web:2", False)
        assert (first["missing"], first["unsent"]) == (["web:1"], [{"message": "m", "received": "web:2"}])
        service.report(events("cart1 !m", "web1"))
        assert [complete.notice()["event"]["id"] for _ in range(3)] == ["cart:1", "web:1", "web:2"]
        assert [immediate.notice()["event"]["id"] for _ in range(2)] == ["cart:1", "web:1"]


def test_what_the_deadline_gave_up_is_sent_and_named(tmp_path: Path) -> None:
    with (
        running(tmp_path, settings={"deadline_ns": 1}) as service,
        listening(service.port, "/api/stream") as stream,
    ):
        service.report(events("web2 ?m failed"))
        notice = stream.notice()
        assert (notice["event"]["state"], notice["complete"]) == ("incomplete", False)
        assert notice["missing"] == ["web:1"]


def test_a_client_that_comes_back_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        made = service.post("/api/subscriptions", {"where": "process = a", "past": 0}).json
        path = f"/api/subscriptions/{made['id']}/events"
        with listening(service.port, path) as stream:
            service.report(events("a1", "b1", "a2"))
            assert [stream.notice()["event"]["id"] for _ in range(2)] == ["a:1", "a:2"]
            last = stream.last_id
        service.report(events("a3", "b2", "a4"))
        with listening(service.port, path, last_id=last) as stream:
            assert [stream.notice()["event"]["id"] for _ in range(2)] == ["a:3", "a:4"]
        with listening(service.port, path) as stream:  # Without an id: from what the client said it had.
            assert stream.notice()["event"]["id"] == "a:3"
    with running(tmp_path) as service, listening(service.port, path, last_id=last) as stream:
        notice = stream.notice()
        assert (notice["event"]["id"], notice["subscription"], notice["events"]) == ("a:3", made["id"], [])


def test_of_a_slow_start_nothing_is_missed_between_the_look_and_the_wait(tmp_path: Path) -> None:
    with running(tmp_path) as service, listening(service.port, "/api/stream", past=0) as stream:
        reports = [events(f"p{n}") for n in range(1, 201)]

        def report() -> None:
            for one in reports:
                service.report(one)

        thread = threading.Thread(target=report)
        thread.start()
        assert [stream.notice()["event"]["index"] for _ in reports] == list(range(1, 201))
        thread.join()


def test_wrong_subscriptions_are_refused_in_one_line(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        for wrong, part in [
            ({"where": "name ="}, "expected"),
            ({"past": 1001}, "0 to 1000"),
            ({"completeness": "some"}, "complete or immediate"),
            ({"url": "ftp://x/"}, "https://"),
            ({"url": "http://u:p@x/"}, "user and password"),
            ({"after": 7}, "the last change of this store is 0"),
            ({"unknown": 1}, "unknown"),
            ([], "no subscription"),
        ]:
            answer = service.post("/api/subscriptions", wrong)
            assert answer.status == 400
            assert part in answer.error, answer.error
        assert service.get("/api/stream", where="(").status == 400
        assert service.get("/api/stream", past=1001).status == 400
        assert "another store" in service.get("/api/stream", after=5).error
        assert service.ask("GET", "/api/stream", headers={"Last-Event-ID": "x"}).status == 400
        assert service.get("/api/subscriptions/sub-1/events").status == 404
        assert service.ask("DELETE", "/api/subscriptions?id=sub-1").status == 404


def test_each_sees_its_own_and_only_admin_makes_and_sees_webhooks(tmp_path: Path) -> None:
    tokens = tokens_for(tmp_path)
    with running(tmp_path) as service:
        reader, admin, reporter = (service.as_(tokens[scope]) for scope in ("read", "admin", "report"))
        own = reader.post("/api/subscriptions", {"name": "mine"}).json["id"]
        assert reader.post("/api/subscriptions", {"url": "https://example.com/"}).status == 403
        made = admin.post("/api/subscriptions", {"url": "https://example.com/"})
        assert made.status == 201
        assert len(made.json["secret"]) == 64
        shown = admin.found("/api/subscriptions")["subscriptions"]
        assert {one["id"] for one in shown} == {own, made.json["id"]}
        assert not any("secret" in one for one in shown)
        assert [one["id"] for one in reader.found("/api/subscriptions")["subscriptions"]] == [own]
        assert reader.get(f"/api/subscriptions/{made.json['id']}/events").status == 404
        assert admin.get(f"/api/subscriptions/{made.json['id']}/events").status == 409
        assert reader.ask("DELETE", f"/api/subscriptions?id={made.json['id']}").status == 404
        for method, path in [
            ("GET", "/api/subscriptions"),
            ("POST", "/api/subscriptions"),
            ("DELETE", f"/api/subscriptions?id={own}"),
            ("GET", f"/api/subscriptions/{own}/events"),
            ("GET", "/api/stream"),
        ]:
            assert reporter.ask(method, path).status == 403
            assert service.as_(None).ask(method, path).status == 401
        assert reader.ask("DELETE", f"/api/subscriptions?id={own}").json == {"removed": own}
        assert admin.ask("DELETE", f"/api/subscriptions?id={made.json['id']}").status == 200
        assert [entry["what"] for entry in admin.found("/api/audit")["entries"]][:2] == [
            "webhook removed",
            "webhook made",
        ]


def test_streams_end_when_the_service_does(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        stream = listening(service.port, "/api/stream")
        listener = stream.__enter__()
    try:
        listener.next()
    except EOFError:
        pass
    else:
        raise AssertionError("the stream went on")
