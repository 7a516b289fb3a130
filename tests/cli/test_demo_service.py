"""The event service of the demo, its reporters and its subscriber: all real, on loopback."""

from __future__ import annotations

import http.client
import threading
from pathlib import Path

import pytest

from beforehand.cli.demo_service import Subscriber, missing_events, report, serving
from beforehand.cli.shop import shop_run
from beforehand.errors import BeforehandError
from beforehand.events import Event
from beforehand.history import History


def test_a_subscriber_is_told_of_the_failure_with_the_past_that_it_has(tmp_path: Path) -> None:
    events = shop_run(seed=1)
    with serving(tmp_path) as service, Subscriber(service.url, last=25) as subscriber:
        report(service.url, events)
        notice = subscriber.notice(30)
    assert notice is not None
    explained = History(events).explain("orders:17", last=25)
    assert notice["event"]["id"] == "orders:17"
    assert [event["id"] for event in notice["events"]] == [str(event.id) for event in explained.events]
    assert notice["past"] == explained.past == 105
    assert notice["complete"]


def test_a_subscriber_who_is_told_of_nothing_waits_no_longer_than_asked(tmp_path: Path) -> None:
    with serving(tmp_path) as service, Subscriber(service.url, last=25) as subscriber:
        report(service.url, shop_run(seed=1, order="causal"))
        assert subscriber.notice(0.2) is None


def test_what_the_service_lacks_or_has_otherwise_is_counted(tmp_path: Path) -> None:
    events = shop_run(seed=1, customers=2)
    with serving(tmp_path) as service:
        report(service.url, events[:-1])
        assert missing_events(service.url, events[:-1]) == 0
        assert missing_events(service.url, events) == 1
        other = Event(process=events[0].process, index=1, name="something else", sends=events[0].sends)
        assert missing_events(service.url, [other, *events[1:-1]]) == 2


def test_the_service_ends_with_the_block_and_its_store_goes_too(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        assert [path.name.startswith(".service-") for path in tmp_path.iterdir()] == [True]
    assert list(tmp_path.iterdir()) == []
    assert "service" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(OSError):  # noqa: PT011 - Which one is up to the system.
        http.client.HTTPConnection("127.0.0.1", service.port, timeout=5).request("GET", "/healthz")


def test_a_subscriber_notices_that_the_service_has_ended(tmp_path: Path) -> None:
    with serving(tmp_path) as service, Subscriber(service.url, last=25) as subscriber:
        service.stop()
        with pytest.raises(BeforehandError, match="ended the stream"):
            subscriber.notice(30)


def test_a_service_that_is_stopped_before_it_runs_ends_at_once(tmp_path: Path) -> None:
    from beforehand.service.serving import Options, Service

    with Service(Options(store=tmp_path / "store.db", port=0)) as service:
        service.stop()
        thread = threading.Thread(target=service.run, daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
