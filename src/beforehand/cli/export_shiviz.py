"""A log for ShiViz: two lines per event, `process clock` and what happened, under a header that says so.

ShiViz wants each process to count its events 1, 2, 3; the clocks given here do (pipeline/stored/clocks.py). Names are
made visible, so a name is one line; a blank in a clock is written as an escape, so the last blank of a line is the
one before the clock. What this writes, `formats.vector_logs.read_shiviz` reads back with the same order of events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from beforehand.diagram.text import visible
from beforehand.events import Event

__all__ = ["shiviz_log"]

_RECORD = r"(?<host>.+) (?<clock>\{\S*\})\n(?<event>.*)"
_DELIMITER = r"^=== (?<trace>.*) ===$"

Clocked = Iterable[tuple[Event, dict[str, int]]]


def shiviz_log(executions: Iterable[tuple[str, Clocked]]) -> Iterator[str]:
    """The lines of a log. Each execution has a name, which may be empty if it is the only one."""
    yield _RECORD
    logs = list(executions)
    named = len(logs) > 1 or any(name for name, _ in logs)
    yield _DELIMITER if named else ""
    for name, events in logs:
        if named:
            yield f"=== {visible(name)} ==="
        hosts = _Hosts()
        for event, clock in events:
            counts = {hosts.of(process): count for process, count in clock.items()}
            text = json.dumps(counts, separators=(",", ":")).replace(" ", "\\u0020")
            what = visible(event.name) or event.kind.value
            yield f"{hosts.of(event.process)} {text}"
            yield f" {what}" if what.startswith("===") else what  # Not a delimiter.


class _Hosts:
    """Names of processes that are one line, and still different."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, process: str) -> str:
        if process not in self._names:
            name = plain = visible(process).strip() or "process"
            number = 2
            while name in self._taken:
                name, number = f"{plain}#{number}", number + 1
            self._names[process] = name
            self._taken.add(name)
        return self._names[process]
