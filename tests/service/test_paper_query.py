"""Berry (1995), 3.1: 'when a failure of type X is reported, give me the last 25 events that causally precede it'.

Over HTTP, of a real server: fifty reporters at once, reports out of order, twice and late; and kill -9 of the server.
What is expected comes from the message ids alone; what is reported has vector clocks on no event, on some or on all.
"""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from event_streams import listening
from servers import Client, running, serving_process

from beforehand.events import Event
from beforehand.history import History
from random_histories import as_events, random_steps
from vector_logs import clocks

REPORTERS = 50
KILLS = int(os.environ.get("BEFOREHAND_KILLS", "10"))
FAILURE = "failure of type X"


def a_history(random: Random, steps: int, failing: float, clocked: float = 0.0) -> list[Event]:
    """`clocked`: the share of events that carry the clock which an independent count gives them."""
    made = random_steps(random, processes=REPORTERS, steps=steps, receive=0.8)
    found = [replace(event, name=FAILURE) if random.random() < failing else event for event in as_events(made)]
    return [
        replace(event, clock=clock) if random.random() < clocked else event
        for event, clock in zip(found, clocks(made), strict=True)
    ]


def expected(reports: list[Event]) -> dict[str, list[str]]:
    """Each failure, and the ids of the last 25 events before it."""
    history = History([replace(event, clock=None) for event in reports])
    failures = [event for event in reports if event.name]
    return {str(one.id): [str(before.id) for before in history.explain(one, last=25).events] for one in failures}


@pytest.mark.parametrize(
    ("clocked", "messages"),
    [(0.0, True), (0.5, True), (1.0, True), (1.0, False)],
    ids=["message ids", "some clocks", "clocks and message ids", "clocks alone"],
)
def test_each_failure_comes_with_exactly_the_last_25_events_before_it(
    tmp_path: Path, clocked: float, messages: bool
) -> None:
    reports = a_history(Random(1995), steps=1_200, failing=0.04, clocked=clocked)
    wanted = expected(reports)
    assert len(wanted) > 30
    assert max(map(len, wanted.values())) == 25

    by_process: dict[str, list[Event]] = {}
    for event in reports:
        told = event if messages else replace(event, sends=(), receives=())
        by_process.setdefault(event.process, []).append(told)
    assert len(by_process) == REPORTERS
    together = threading.Barrier(REPORTERS)

    def report(port: int, own: list[Event], seed: int) -> None:
        mine, client = Random(seed), Client(port)
        late = [event for event in own if mine.random() < 0.1]  # Long after the others.
        shuffled = [own[at] for at in sorted(range(len(own)), key=lambda at: at + mine.randint(0, 12))]
        order = [event for event in shuffled if event not in late] + late
        together.wait(30)
        for at in range(0, len(order), 5):
            client.report(order[at : at + 5])
            if mine.random() < 0.3:
                client.report(order[max(at - 5, 0) : at + 5])  # Twice.

    with running(tmp_path) as service, listening(service.port, "/api/stream", where=f"name = '{FAILURE}'") as stream:
        threads = [
            threading.Thread(target=report, args=(service.port, own, seed))
            for seed, own in enumerate(by_process.values())
        ]
        for thread in threads:
            thread.start()
        notices = [stream.notice() for _ in wanted]
        for thread in threads:
            thread.join()
    assert all(notice["complete"] and not notice["missing"] for notice in notices)
    found = {notice["event"]["id"]: [one["id"] for one in notice["events"]] for notice in notices}
    assert found == wanted
    assert [notice["cursor"] for notice in notices] == sorted({notice["cursor"] for notice in notices})


class _Follower(threading.Thread):
    """Follows a subscription and comes back, with the cursor of its last notice, whenever the line breaks."""

    def __init__(self, subscription: str, count: int) -> None:
        super().__init__()
        self.path = f"/api/subscriptions/{subscription}/events"
        self.count = count
        self.port = 0
        self.up = threading.Event()
        self.listens = threading.Event()
        self.notices: list[Any] = []
        self.lines = 0  # Over which a notice came.

    def run(self) -> None:
        last: str | None = None
        while len(self.notices) < self.count:
            if not self.up.wait(60):
                return
            try:
                with listening(self.port, self.path, last_id=last, timeout=60) as stream:
                    before = last
                    self.listens.set()
                    while len(self.notices) < self.count:
                        self.notices.append(stream.notice())
                        self.lines += last == before
                        last = str(self.notices[-1]["cursor"])
            except (OSError, EOFError, http.client.HTTPException):
                continue


class _Reporter(threading.Thread):
    """Posts batches until nobody answers. What was not acknowledged is posted again by the next one."""

    def __init__(self, port: int, batches: deque[list[Event]]) -> None:
        super().__init__()
        self._client = Client(port)
        self._batches = batches
        self._acknowledged = 0
        self._some = threading.Condition()

    def run(self) -> None:
        while self._batches:
            try:
                self._client.report(self._batches[0])
            except (OSError, http.client.HTTPException):
                return
            self._batches.popleft()
            with self._some:
                self._acknowledged += 1
                self._some.notify_all()

    def wait_for(self, count: int) -> None:
        """Until so many batches were acknowledged."""
        with self._some:
            assert self._some.wait_for(lambda: self._acknowledged >= count, 30)


def test_after_kills_of_the_server_in_the_middle_of_ingest_every_notice_came_exactly_once(tmp_path: Path) -> None:
    random = Random(9)
    reports = a_history(random, steps=80 + 60 * KILLS, failing=0.3, clocked=0.5)
    wanted = expected(reports)
    shuffled = [reports[at] for at in sorted(range(len(reports)), key=lambda at: at + random.randint(0, 40))]
    batches = deque(shuffled[at : at + 7] for at in range(0, len(shuffled), 7))
    follower: _Follower | None = None
    for kill in range(KILLS + 1):
        with serving_process(tmp_path / "store.db", "--deadline", "3600") as (process, client):
            if follower is None:
                made = client.post("/api/subscriptions", {"where": f"name = '{FAILURE}'"}).json
                follower = _Follower(made["id"], len(wanted))
                follower.start()
            follower.port = client.port
            follower.listens.clear()
            follower.up.set()
            if kill % 2:  # Else most lives end before the follower is back, on a busy machine.
                assert follower.listens.wait(30)
            reporter = _Reporter(client.port, batches)
            reporter.start()
            if kill < KILLS:
                reporter.wait_for(random.randint(1, 5))
                time.sleep(random.random() * 0.02)  # Anywhere inside a request, a transaction or a notice.
                follower.up.clear()
                process.kill()
                reporter.join(30)
                assert batches, "the history is too short for so many kills"
            else:
                reporter.join(60)
                follower.join(60)
    assert follower is not None
    assert not batches
    assert follower.lines > KILLS // 5, "so few notices came between the kills that little was resumed"
    cursors = [notice["cursor"] for notice in follower.notices]
    assert cursors == sorted(set(cursors))
    found = {notice["event"]["id"]: [one["id"] for one in notice["events"]] for notice in follower.notices}
    assert len(follower.notices) == len(found)
    assert found == wanted
