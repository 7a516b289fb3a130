"""What checks found in a live store, for pictures: judged by a thread of its own, so that nobody has to wait for it.

A check looks at the newest events (`Queries.checks`) and takes a few seconds of the processor. It is made only of
what somebody looks at, when something has changed, not more often than every `CHECK_SECONDS`, and begins
`AFTER_SECONDS` after it was asked for: the picture itself comes first.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Final

from beforehand.errors import InputError
from beforehand.service.queries import Queries
from beforehand.service.store import Store
from beforehand.service.views.source import Violations, violations_of

__all__ = ["CHECK_SECONDS", "Checks"]

CHECK_SECONDS: Final = 30.0
AFTER_SECONDS: Final = 2.0
VIOLATIONS_MAX: Final = 1_000
_KEPT: Final = 100


class Checks:
    """Any thread may call any method."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store: Final = store
        self._queries: Final = Queries(store)
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._known: Final[dict[str, tuple[int, float, Violations]]] = {}  # At most `_KEPT`.
        self._running: threading.Thread | None = None
        self._hurry: Final = threading.Event()  # Somebody waits for the check.

    def known(self, execution: str) -> Violations:
        """What was found last; a new check is begun if there is something new, and the last one is old enough."""
        with self._lock:
            cursor, when, found = self._known.get(execution, (-1, -CHECK_SECONDS, Violations(None, (), ())))
            due = cursor != self._store.cursor and self._clock() - when >= CHECK_SECONDS
            if due and (self._running is None or not self._running.is_alive()):
                self._hurry.clear()
                self._running = threading.Thread(
                    target=self._check, args=(execution,), name="beforehand-checks", daemon=True
                )
                self._running.start()
        return found

    def wait(self) -> None:
        """Until the check that runs has ended."""
        running = self._running
        if running is not None:
            self._hurry.set()
            running.join()

    def close(self) -> None:
        self.wait()

    def _check(self, execution: str) -> None:
        self._hurry.wait(AFTER_SECONDS)
        cursor = self._store.cursor
        try:
            document = self._queries.checks(execution=execution, limit=VIOLATIONS_MAX)
        except (InputError, sqlite3.Error):
            return  # The store was closed, or the execution is gone.
        counts = [count or 0 for count in document["counts"].values()]  # None: not judged, so not found.
        found = violations_of(execution, sum(counts), document["violations"])
        with self._lock:
            self._known.pop(execution, None)
            if len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[execution] = (cursor, self._clock(), found)
