"""All events of a store as native JSON Lines, for the pipeline and for whoever comes after.

1. All lines are of one moment of the store, however long the writing takes and whatever is reported meanwhile.
2. Executions come one after the other, by name; within each, events in the deterministic order; those that wait for
   causes stand at their own time. `beforehand analyze` of the lines gives the order and the stamps that the store
   gives.
3. Events are as they were reported, but for messages that were rejected (`Queries.rejected`): they are left out, so
   that the pipeline does not have to choose again between two sends.
4. What retention has removed is not there: messages from there are received and were sent by nobody.

A reader of the store is held as long as it takes; the writer goes on, and the file `STORE-wal` grows meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.service.checking import accepted, rejected_messages
from beforehand.service.finding import walk
from beforehand.service.schema import create
from beforehand.service.view import View

__all__ = ["exported", "opened_to_read"]

_CHUNK: Final = 1_000


def exported(db: sqlite3.Connection, execution: str | None = None) -> Iterator[Event]:
    """The events that a reading connection sees; of one execution, if it is named (`InputError` if there is none)."""
    view = View(db)
    if execution is not None:
        only = view.one_execution(execution)
        executions = [] if only is None else [only]
    else:
        executions = [row[0] for row in db.execute("SELECT id FROM executions WHERE events > 0 ORDER BY name")]

    def events() -> Iterator[Event]:
        for number in executions:
            rows, rejected = walk(view, number, None, newest=False, waiting=True), rejected_messages(view, number)
            while chunk := list(islice(rows, _CHUNK)):
                yield from accepted(view, number, [view.event(row) for row in chunk], rejected)

    return events()


@contextmanager
def opened_to_read(path: Path) -> Iterator[sqlite3.Connection]:
    """A store as it is now, also while a service writes to it. `InputError` if it is none."""
    if not path.is_file():
        raise InputError(f"there is no store {str(path)!r}")
    try:
        with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as db:
            db.execute("PRAGMA query_only = 1")
            create(db, repr(str(path)), make=False)
            db.execute("BEGIN")
            db.execute("SELECT 1 FROM sqlite_schema").fetchone()
            yield db
    except sqlite3.DatabaseError as error:
        raise InputError(f"{str(path)!r} cannot be read as a store: {error}") from None
