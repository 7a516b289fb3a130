"""kill -9 in the middle of ingest: what was acknowledged is there afterwards, nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

from service_stores import assert_agrees, opened

from beforehand.formats import write_events
from beforehand.history import History
from random_histories import as_events, random_steps

KILLS = int(os.environ.get("BEFOREHAND_KILLS", "10"))


def report_and_kill(store: Path, file: Path, first: int, random: Random) -> tuple[int, bool]:
    """Report from `first` on and kill after some batches; what was acknowledged, and whether the end was reached."""
    script = Path(__file__).parent / "reporting_process.py"
    command = [sys.executable, str(script), str(store), str(file), str(first), str(random.randrange(10**6))]
    acknowledged = first
    batches = random.randint(1, 8)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged = int(line)
            batches -= 1
            if not batches:
                process.kill()
                break
        else:
            assert process.wait() == 0
            return acknowledged, True
    return acknowledged, False


def test_what_was_acknowledged_survives_kills_at_random_moments_and_nothing_is_there_twice(tmp_path: Path) -> None:
    random = Random(77)
    reports = as_events(random_steps(random, processes=7, steps=60 + 190 * KILLS))
    shuffled = [reports[at] for at in sorted(range(len(reports)), key=lambda at: at + random.randint(0, 300))]
    file = tmp_path / "reports.jsonl"
    write_events(shuffled, file)
    acknowledged, kills = 0, 0
    while kills < KILLS:
        acknowledged, ended = report_and_kill(tmp_path / "store.db", file, acknowledged, random)
        assert not ended, "the history is too short for so many kills"
        kills += 1
        with opened(tmp_path) as service, service.store.reading() as db:
            rows = db.execute("SELECT p.name, e.idx FROM events e JOIN processes p ON p.id = e.process").fetchall()
            assert len(set(rows)) == len(rows)
            assert {(event.process, event.index) for event in shuffled[:acknowledged]} <= set(rows)
            arrived = db.execute("SELECT process, idx FROM journal WHERE what & 1").fetchall()
            assert len(set(arrived)) == len(arrived) == len(rows)
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with opened(tmp_path) as service:
        # The reporter does not know what the last batch became: it reports again from what was acknowledged.
        for at in range(acknowledged, len(shuffled), 500):
            service.ingest.report(shuffled[at : at + 500])
        service.expire()
        assert service.count("events") == len(shuffled)
        assert_agrees(service, History(shuffled), random, asked=3)
