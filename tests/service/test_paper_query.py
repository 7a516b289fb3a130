"""Berry (1995), 3.1: 'when a failure of type X is reported, give me the last 25 events that causally precede it'.

Over HTTP, of a real server: fifty reporters at once, reports out of order, twice and late; and kill -9 of the server.
"""

from __future__ import annotations

import http.client
import os
import threading
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from event_streams import listening
from servers import Client, running, serving_process

from beforehand.events import Event
from beforehand.history import History
from random_histories import as_events, random_steps

REPORTERS = 50
KILLS = max(int(os.environ.get("BEFOREHAND_KILLS", "10")) // 2, 1)
FAILURE = "failure of type X"


def a_history(random: Random, steps: int, failing: float) -> list[Event]:
    return [
        replace(event, name=FAILURE) if random.random() < failing else event
        for event in as_events(random_steps(random, processes=REPORTERS, steps=steps, receive=0.8))
    ]


def expected(reports: list[Event]) -> dict[str, list[str]]:
    """Each failure, and the ids of the last 25 events before it."""
    history = History(reports)
    failures = [event for event in reports if event.name]
    return {str(one.id): [str(before.id) for before in history.explain(one, last=25).events] for one in failures}


def test_each_failure_comes_with_exactly_the_last_25_events_before_it(tmp_path: Path) -> None:
    random = Random(1995)
    reports = a_history(random, steps=1_200, failing=0.04)
    wanted = expected(reports)
    assert len(wanted) > 30
    assert max(map(len, wanted.values())) == 25

    def report(port: int, own: list[Event], seed: int) -> None:
        mine, client = Random(seed), Client(port)
        late = [event for event in own if mine.random() < 0.1]  # Long after the others.
        shuffled = [own[at] for at in sorted(range(len(own)), key=lambda at: at + mine.randint(0, 12))]
        order = [event for event in shuffled if event not in late] + late
        for at in range(0, len(order), 5):
            client.report(order[at : at + 5])
            if mine.random() < 0.3:
                client.report(order[max(at - 5, 0) : at + 5])  # Twice.

    with running(tmp_path) as service, listening(service.port, "/api/stream", where=f"name = '{FAILURE}'") as stream:
        by_process: dict[str, list[Event]] = {}
        for event in reports:
            by_process.setdefault(event.process, []).append(event)
        threads = [
            threading.Thread(target=report, args=(service.port, own, seed))
            for seed, own in enumerate(by_process.values())
        ]
        assert len(threads) >= REPORTERS - 2
        for thread in threads:
            thread.start()
        notices = [stream.notice() for _ in wanted]
        for thread in threads:
            thread.join()
    assert all(notice["complete"] and not notice["missing"] for notice in notices)
    found = {notice["event"]["id"]: [one["id"] for one in notice["past"]] for notice in notices}
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
        self.notices: list[Any] = []

    def run(self) -> None:
        last: str | None = None
        while len(self.notices) < self.count:
            if not self.up.wait(60):
                return
            try:
                with listening(self.port, self.path, last_id=last, timeout=60) as stream:
                    while len(self.notices) < self.count:
                        self.notices.append(stream.notice())
                        last = str(self.notices[-1]["cursor"])
            except (OSError, EOFError, http.client.HTTPException):
                continue


def test_after_kills_of_the_server_every_notice_came_exactly_once(tmp_path: Path) -> None:
    random = Random(9)
    reports = a_history(random, steps=80 + 40 * KILLS, failing=0.3)
    wanted = expected(reports)
    shuffled = [reports[at] for at in sorted(range(len(reports)), key=lambda at: at + random.randint(0, 40))]
    store = tmp_path / "store.db"
    follower: _Follower | None = None
    at = 0
    for kill in range(KILLS + 1):
        with serving_process(store, "--deadline", "3600") as (process, client):
            if follower is None:
                made = client.post("/api/subscriptions", {"where": f"name = '{FAILURE}'"}).json
                follower = _Follower(made["id"], len(wanted))
                follower.start()
            follower.port = client.port
            follower.up.set()
            end = len(shuffled) if kill == KILLS else at + random.randint(5, 40)
            while at < end:
                client.report(shuffled[at : at + 7])
                at += 7
                if kill < KILLS and random.random() < 0.2:
                    break
            if kill == KILLS:
                follower.join(60)
            follower.up.clear()
            process.kill()
    assert follower is not None
    cursors = [notice["cursor"] for notice in follower.notices]
    assert cursors == sorted(set(cursors))
    found = {notice["event"]["id"]: [one["id"] for one in notice["past"]] for notice in follower.notices}
    assert len(follower.notices) == len(found)
    assert found == wanted
