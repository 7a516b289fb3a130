"""kill -9 of `beforehand serve` while several reporters report: what was acknowledged is there, nothing twice."""

from __future__ import annotations

import http.client
import os
import signal
import threading
import time
from collections import deque
from pathlib import Path
from random import Random

from servers import NDJSON, Client, lines, serving_process
from service_stores import assert_agrees, opened

from beforehand.events import Event, EventId
from beforehand.history import History
from random_histories import as_events, random_steps

KILLS = int(os.environ.get("BEFOREHAND_KILLS", "10"))
REPORTERS = 4


class Reporters:
    """Threads that post batches until nobody answers. A batch that was not acknowledged is posted again later."""

    def __init__(self, batches: deque[list[Event]]) -> None:
        self.batches = batches
        self.acknowledged: set[EventId] = set()
        self.some = threading.Condition()

    def report(self, client: Client) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        while True:
            try:
                batch = self.batches.popleft()
            except IndexError:
                break
            try:
                connection.request("POST", "/api/events", lines(batch), NDJSON)
                response = connection.getresponse()
                body = response.read()
            except (OSError, http.client.HTTPException):
                self.batches.append(batch)
                break
            assert response.status == 200, body
            with self.some:
                self.acknowledged.update(event.id for event in batch)
                self.some.notify_all()
        connection.close()

    def run_until_killed(self, store: Path, random: Random) -> None:
        with serving_process(store) as (process, client):
            before, enough = len(self.acknowledged), random.randint(1, 250)
            threads = [threading.Thread(target=self.report, args=(client,)) for _ in range(REPORTERS)]
            for thread in threads:
                thread.start()
            with self.some:
                assert self.some.wait_for(lambda: len(self.acknowledged) - before >= enough, 30)
            time.sleep(random.random() * 0.02)  # Anywhere inside a request, a transaction or a checkpoint.
            process.send_signal(signal.SIGKILL)
            for thread in threads:
                thread.join(30)
            process.wait(20)


def test_what_was_acknowledged_over_http_survives_kills_and_nothing_is_there_twice(tmp_path: Path) -> None:
    random = Random(78)
    reports = as_events(random_steps(random, processes=7, steps=1_000 + 450 * KILLS))
    shuffled = [reports[at] for at in sorted(range(len(reports)), key=lambda at: at + random.randint(0, 300))]
    batches: deque[list[Event]] = deque()
    at = 0
    while at < len(shuffled):
        size = random.randint(1, 40)
        batches.append(shuffled[at : at + size])
        at += size
    reporters = Reporters(batches)
    for _ in range(KILLS):
        reporters.run_until_killed(tmp_path / "store.db", random)
        assert batches, "the history is too short for so many kills"
        with opened(tmp_path) as service, service.store.reading() as db:
            rows = db.execute("SELECT p.name, e.idx FROM events e JOIN processes p ON p.id = e.process").fetchall()
            assert len(set(rows)) == len(rows)
            assert {(event.process, event.index) for event in reporters.acknowledged} <= set(rows)
            arrived = db.execute("SELECT process, idx FROM journal WHERE what & 1").fetchall()
            assert len(set(arrived)) == len(arrived) == len(rows)
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with serving_process(tmp_path / "store.db") as (process, client):
        reporters.report(client)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    with opened(tmp_path) as service:
        service.expire()
        assert service.count("events") == len(shuffled)
        assert_agrees(service, History(shuffled), random, asked=3)
