"""What was administered, when and by whom: the newest `KEPT_MAX` entries, in the file with the tokens.

Who: `token NAME (ID)`, `local` (a caller that needs no token), or `command` (the command line). Secrets never get
here. An entry that cannot be written is said on the log instead: administration does not fail for it.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from beforehand.errors import InputError
from beforehand.service.tokens import open_access

__all__ = ["KEPT_MAX", "Audit"]

KEPT_MAX: Final = 10_000
_TEXT_MAX: Final = 500
_PAGE_MAX: Final = 1_000
_log: Final = logging.getLogger("beforehand.service")


class Audit:
    """Of one file. Any thread may call any method."""

    def __init__(self, path: Path, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._db: Final = open_access(path)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def note(self, who: str, what: str, detail: str = "") -> None:
        """Write down that somebody did something."""
        row = (self._clock(), _line(who), _line(what), _line(detail))
        try:
            with self._lock:
                self._db.execute("INSERT INTO audit(at, who, what, detail) VALUES(?, ?, ?, ?)", row)
                self._db.execute("DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ?", (KEPT_MAX,))
        except sqlite3.Error as error:
            _log.error("the audit log cannot be written (%s): %s", error, row[1:])

    def entries(self, *, limit: int = 100, before: int | None = None) -> dict[str, Any]:
        """The newest first: `entries`, `more`, and `cursor` to go on with as `before`."""
        if not 1 <= limit <= _PAGE_MAX:
            raise InputError(f"{limit} entries are asked for: ask for 1 to {_PAGE_MAX}")
        sql = "SELECT id, at, who, what, detail FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?"
        with self._lock:
            rows = self._db.execute(sql, (2**62 if before is None else before, limit + 1)).fetchall()
        keys = ("id", "at", "who", "what", "detail")
        more = len(rows) > limit
        found = [dict(zip(keys, row, strict=True)) for row in rows[:limit]]
        return {"entries": found, "more": more, "cursor": found[-1]["id"] if more else None}


def _line(text: str) -> str:
    text = "".join(character if character.isprintable() else "?" for character in text[:_TEXT_MAX])
    return text.encode("utf-8", "replace").decode()
