"""The event service of the demo, those who report to it, and one who is told of failures.

The service is that of `beforehand serve`, on a free port of loopback, but in a thread: so it ends with the demo,
whatever ends that, also a kill. Its store lies in a folder of its own inside the demo's and goes with the service.
Everybody talks to it over HTTP, as programs elsewhere would.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

from beforehand.errors import BeforehandError
from beforehand.events import Event
from beforehand.formats import to_json
from beforehand.reporting import Reporter
from beforehand.service.serving import Options, Service

__all__ = ["Subscriber", "missing_events", "report", "serving"]

FAILURES: Final = "attributes.level = error"
"""What the subscriber is to be told of."""

_START_SECONDS: Final = 60.0
_REPORT_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 30.0
_LINGER_SECONDS: Final = 0.02  # How long a reporter gathers events: here nobody minds small batches.


@contextmanager
def serving(folder: Path) -> Iterator[Service]:
    """A service that takes connections, for as long as the block runs."""
    with (
        TemporaryDirectory(prefix=".service-", dir=folder, ignore_cleanup_errors=True) as scratch,
        Service(Options(store=Path(scratch) / "shop.db", port=0)) as service,
    ):
        started = threading.Event()
        thread = threading.Thread(target=service.run, kwargs={"started": started.set}, name="service", daemon=True)
        try:
            thread.start()
            deadline = time.monotonic() + _START_SECONDS
            while not started.wait(0.1):
                if not thread.is_alive() or time.monotonic() > deadline:
                    raise BeforehandError("the event service did not start: set BEFOREHAND_DEBUG=1 for the details")
            yield service
        finally:
            service.stop()
            thread.join(_ANSWER_SECONDS)


def report(url: str, events: Sequence[Event]) -> None:
    """Report the events, those of each process by a reporter of its own. When this returns, all are stored."""
    with ExitStack() as stack:
        reporters = {
            process: stack.enter_context(Reporter(url, process=process, linger=_LINGER_SECONDS))
            for process in dict.fromkeys(event.process for event in events)
        }
        for event in events:
            reporters[event.process].event(
                event.name,
                sends=event.sends,
                receives=event.receives,
                attributes=event.attributes,
                time=event.time,
            )
        for process, reporter in reporters.items():
            if not reporter.flush(_REPORT_SECONDS) or reporter.dropped:
                why = reporter.status().last_error or f"not done within {_REPORT_SECONDS:.0f} seconds"
                raise BeforehandError(f"the events of {process} could not be reported: {why}")


def missing_events(url: str, events: Sequence[Event]) -> int:
    """How many of the events the service does not have as they were reported, or has beyond them."""
    stored = sorted(_get(url, "/api/export").splitlines())
    return len(set(stored) ^ {to_json(event) for event in events}) + len(stored) - len(set(stored))


class Subscriber:
    """Follows the failures that are reported from now on, as server-sent events; close it."""

    def __init__(self, url: str, *, last: int) -> None:
        self._connection: Final = _connection(url)
        query = urlencode({"where": FAILURES, "past": last})
        try:
            self._connection.request("GET", f"/api/stream?{query}", headers={"Accept": "text/event-stream"})
            self._response: Final = self._connection.getresponse()
            if self._response.status != http.client.OK:
                raise BeforehandError(f"the service refused the subscriber: {self._response.read(1_000)!r}")
            self._event()  # Its first word is where the stream begins: from here on nothing is missed.
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()

    def notice(self, seconds: float) -> dict[str, Any] | None:
        """The next notice: an event and the last events that could have led to it. None if none comes in time.

        After None nothing more can be read.
        """
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            sock = self._connection.sock
            assert sock is not None, "the stream is open"
            sock.settimeout(left)
            try:
                fields = self._event()
            except TimeoutError:
                return None
            if fields.get("event") == "notice":
                found: dict[str, Any] = json.loads(fields["data"])
                return found
        return None

    def _event(self) -> dict[str, str]:
        """The fields of the next event, up to its empty line. `data` stands on one line here."""
        fields: dict[str, str] = {}
        while line := self._response.readline():
            text = line.decode().rstrip("\r\n")
            if not text:
                return fields
            name, _, value = text.partition(":")
            fields[name] = value.removeprefix(" ")
        raise BeforehandError("the service ended the stream of the subscriber")


def _get(url: str, path: str) -> bytes:
    connection = _connection(url)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise BeforehandError(f"the service answered {response.status} to {path}: {body[:1_000]!r}")
    return body


def _connection(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=_ANSWER_SECONDS)
