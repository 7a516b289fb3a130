"""A target that takes nothing until it is told to."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Sequence

from beforehand.reporting import Answer, Reporter, Taken


def wait_until_retrying(reporter: Reporter) -> None:
    """Until a batch has failed and is to be sent again."""
    for _ in range(3000):
        if reporter.status().retrying_since is not None:
            return
        assert not reporter.flush(0.01)
    raise AssertionError("nothing failed")


class GatedTarget:
    """Keeps what it takes. While the gate is shut, `send` does not return."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()  # A batch stands before the gate, or has passed it.
        self.second = threading.Event()  # So does another.
        self.lines: list[bytes] = []
        self.batches: list[int] = []
        self.answers: deque[Answer] = deque()  # For the next batches; then they are taken.
        self.closed = False
        if is_open:
            self.gate.set()

    def send(self, lines: Sequence[bytes], /) -> Answer:
        (self.second if self.entered.is_set() else self.entered).set()
        assert self.gate.wait(30)
        self.batches.append(len(lines))
        if self.answers:
            return self.answers.popleft()
        self.lines.extend(lines)
        return Taken(stored=len(lines))

    def close(self) -> None:
        self.closed = True

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines]

    def indexes(self) -> list[object]:
        return [event["index"] for event in self.events()]
