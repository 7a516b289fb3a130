"""Merges that are killed with SIGKILL inside micro-batches: nothing is lost, repeated or reordered.

MERGE_KILLS says how often each is killed; `make merge-kill` does it ten times.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from merge_broker import SETTINGS as LIVE
from merge_broker import publish, stored
from merge_cases import oracle

from beforehand.pipeline.merging.reader import read_merged, read_set_aside
from beforehand.runtime.embedded_broker import EmbeddedBroker

KILLS = int(os.environ.get("MERGE_KILLS", "3"))
TESTS = Path(__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240 + 120 * KILLS)]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


def start(options: dict[str, Any], log: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, str(TESTS / "merge_process.py"), json.dumps(options)],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )


def kill_all(session: int) -> None:
    """Driver, JVM and Python workers: all that is in the session, at once."""
    for _ in range(3):  # Some may be born while we look.
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, ProcessLookupError, ValueError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    os.kill(int(stat.parent.name), signal.SIGKILL)
        time.sleep(0.05)


def last(checkpoint: Path, what: str) -> int:
    """The last micro-batch that Spark has begun ("offsets") or knows to be done ("commits")."""
    names = [path.name for path in (checkpoint / "spark" / what).glob("[0-9]*")]
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def kill_inside_batches(options: dict[str, Any], log: Path, kills: int) -> int:
    """Kill the merge so often while a micro-batch runs, then let it end; how many kills hit an open one."""
    chance = random.Random(len(log.name) + kills)
    checkpoint = Path(options["checkpoint"])
    hit = 0
    for _ in range(kills):
        before = last(checkpoint, "commits")
        process = start(options, log)
        deadline = time.monotonic() + 110
        while time.monotonic() < deadline and process.poll() is None:
            done = last(checkpoint, "commits")
            if done > before and last(checkpoint, "offsets") > done:
                break
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 1.2))
        kill_all(process.pid)
        process.wait()
        hit += last(checkpoint, "offsets") > last(checkpoint, "commits")
    assert start(options, log).wait(timeout=200) == 0, log.read_text()
    return hit


def test_a_killed_merge_to_files_is_whole(tmp_path: Path, broker: EmbeddedBroker) -> None:
    publish(broker.url, "KILLED", seed=7, count=100 * (3 * KILLS + 4))
    options = {
        "source": f"{broker.url}/KILLED",
        "sink": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }

    hit = kill_inside_batches(options, tmp_path / "log", KILLS)

    expected, reasons = oracle(stored(broker.url, "KILLED"), LIVE)
    rows = [(r.channel, r.position, r.publisher, r.sequence, r.payload) for r in read_merged(tmp_path / "out")]
    assert sorted(rows, key=lambda row: row[:2]) == expected
    assert Counter(record.reason.value for record in read_set_aside(tmp_path / "out")) == reasons
    assert hit > 0


def test_a_killed_merge_to_nats_is_whole(tmp_path: Path, broker: EmbeddedBroker) -> None:
    kills = max(1, KILLS // 3)
    publish(broker.url, "FED", seed=8, count=100 * (3 * kills + 4))
    options = {
        "source": f"{broker.url}/FED",
        "sink": f"{broker.url}/MERGED?prefix=merged",
        "checkpoint": str(tmp_path / "checkpoint"),
    }

    hit = kill_inside_batches(options, tmp_path / "log", kills)

    expected, reasons = oracle(stored(broker.url, "FED"), LIVE)
    given = stored(broker.url, "MERGED")
    before: dict[str, int] = {}
    for row in given:  # In the order of the stream: each position follows the one before.
        position = int(row["headers"]["Beforehand-Position"])
        assert position == before.get(row["channel"], 0) + 1
        before[row["channel"]] = position
    rows = [
        (
            row["channel"].removeprefix("merged."),
            int(row["headers"]["Beforehand-Position"]),
            row["publisher"],
            row["sequence"],
            row["payload"],
        )
        for row in given
        if row["channel"].startswith("merged.")
    ]
    assert sorted(rows, key=lambda row: row[:2]) == expected
    aside = [row for row in given if row["channel"].startswith("merged-set-aside.")]
    assert Counter(row["headers"]["Beforehand-Reason"] for row in aside) == reasons
    assert hit > 0


def test_sigterm_ends_a_merge_in_good_order(tmp_path: Path, broker: EmbeddedBroker) -> None:
    publish(broker.url, "STOPPED", seed=9, count=200)
    options = {
        "source": f"{broker.url}/STOPPED",
        "sink": str(tmp_path / "out"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "once": False,
    }

    process = start(options, tmp_path / "log")
    deadline = time.monotonic() + 110
    while time.monotonic() < deadline and last(tmp_path / "checkpoint", "commits") < 0:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    status = process.wait(timeout=60)

    assert (status, "delivered" in (tmp_path / "log").read_text()) == (0, True)
