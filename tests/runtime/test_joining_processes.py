"""Five members as processes: one is evicted and returns, while others, or it, are killed. All copies are equal."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_group import addresses

from beforehand.history import History
from beforehand.runtime import EmbeddedBroker
from beforehand.runtime.group_store import read_journal

FIVE = ("a", "b", "c", "d", "e")


class Members:
    """The processes, and what they wrote."""

    def __init__(self, folder: Path, **given: Any) -> None:
        self.folder, self.given = folder, given
        self.peers = addresses((*FIVE, "e.2"))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.lives: Counter[str] = Counter()

    def start(self, name: str) -> None:
        self.lives[name] += 1
        new = name not in FIVE
        peers = {one: self.peers[one] for one in (*FIVE, *([name] if new else []))}
        given = {"me": name, "folder": str(self.folder), "peers": peers, "life": self.lives[name], "join": new}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [
                    sys.executable,
                    str(Path(__file__).with_name("joining_process.py")),
                    json.dumps(given | self.given),
                ],
                stdout=log,
                stderr=log,
            )

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def order(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.orders").open("a") as orders:
            orders.write(json.dumps(words) + "\n")

    def view(self, name: str) -> list[str]:
        path = self.folder / f"{name}.view"
        return path.read_text().split() if path.exists() else []

    def done(self, name: str) -> int:
        """Operations in its present life."""
        path = self.folder / f"{name}.{self.lives[name]}.done"
        return path.stat().st_size if path.exists() else 0

    def until(self, holds: Callable[[], bool], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            for name, process in self.running.items():
                assert process.poll() is None, (self.folder / f"{name}.log").read_text()[-2000:]
            assert time.monotonic() < deadline, {name: (self.view(name), self.done(name)) for name in self.running}
            time.sleep(0.05)

    def end(self) -> dict[str, Any]:
        """What each has at the end."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        self.until(lambda: all((self.folder / f"{name}.copy").exists() for name in self.running))
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.running.items():
            assert process.wait(60) == 0, (self.folder / f"{name}.log").read_text()[-2000:]
        return {name: json.loads((self.folder / f"{name}.copy").read_text()) for name in self.running}

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("way", "killed"),
    [
        ("tcp", []),
        ("tcp", ["a"]),  # The one that was asked.
        ("tcp", ["e.2"]),
        ("tcp", ["c", "e.2", "a", "b"]),
        ("nats", ["e.2", "a"]),
    ],
    ids=str,
)
def test_one_that_was_evicted_returns_with_the_state_of_the_others(
    way: str, killed: list[str], tmp_path: Path, broker: EmbeddedBroker
) -> None:
    choose = random.Random(f"{way} {killed}")
    stream = {} if way == "tcp" else {"stream": f"{broker.url}/RETURNING"}
    with Members(tmp_path, **stream) as members:
        for name in FIVE:
            members.start(name)
        members.until(lambda: all(members.done(name) >= 10 for name in FIVE))
        members.kill("e")
        members.order("a", "evict", "e")
        members.until(lambda: members.view("b") == ["a", "b", "c", "d"])

        members.order("a", "admit", "e.2", members.peers["e.2"])
        members.start("e.2")
        for name in killed:
            time.sleep(choose.uniform(0.0, 1.5))  # A process takes about a second to start here.
            members.kill(name)
            members.start(name)
        members.until(lambda: all(members.done(name) >= 10 for name in members.running))
        copies = members.end()

    assert set(copies) == {"a", "b", "c", "d", "e.2"}
    assert all(copy == copies["a"] for copy in copies.values())
    assert copies["a"][0] == ["a", "b", "c", "d", "e.2"]
    journals = {name: read_journal(tmp_path / f"{name}.db") for name in copies}
    delivered = {
        name: [event.receives[0] for event in journal if event.receives] for name, journal in journals.items()
    }
    assert delivered["e.2"] == delivered["a"][-len(delivered["e.2"]) :]
    assert len(set(delivered["e.2"])) == len(delivered["e.2"]) >= 10
    assert History([event for journal in journals.values() for event in journal]).check().violations == ()
