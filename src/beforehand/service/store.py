"""The store: one SQLite file in WAL mode, one writer, many readers.

1. What a transaction wrote is there after it ended, or nothing of it is; also if the process is killed in the middle
   (kill -9). If the machine loses power, the last transactions may be gone (all of each, never a part) unless
   `Settings.power_safe` is set, which waits for the disk at every commit.
2. There is one writer: a second process that opens the same file for writing is refused, and within the process a
   lock lets one thread write at a time. Readers never wait for it and it never waits for them.
3. A reader sees one moment of the store from the beginning to the end of its `with` block.
4. `changes` gives what was written after a cursor, in the order it was written, nothing left out: numbers are given
   by the one writer and become visible together with all smaller ones. `wait` returns when there is more, and does
   not miss what comes between a look and the wait.

Any thread may call any method.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beforehand.errors import InputError
from beforehand.events import EventId
from beforehand.service import deadlines
from beforehand.service.schema import ARRIVED, COMPLETED, CONFLICTED, PLACED, create
from beforehand.service.settings import Settings

__all__ = ["Change", "Store"]

CHANGES_MAX: Final = 10_000
"""Entries of the journal that one call gives at most."""

_STEPS: Final = 10_000  # Of SQLite's machine, between two looks at the deadline: less than a millisecond.


@dataclass(frozen=True, slots=True)
class Change:
    """What became of an event. `seq` is the cursor after it."""

    seq: int
    event: EventId
    arrived: bool  # Its report was stored.
    placed: bool  # It got its stamp; without `completed`, what was missing had been given up.
    completed: bool  # All its past is here.
    conflicted: bool  # A report of it that differs was kept.


class Store:
    """Open one with a path; it is made if it is not there. Close it, or use it as a context manager."""

    def __init__(self, path: str | os.PathLike[str], *, settings: Settings | None = None) -> None:
        self.path = Path(path)
        self.settings = settings or Settings()
        self._writing = threading.RLock()
        self._news = threading.Condition()
        self._free: list[sqlite3.Connection] = []  # At most `readers_max`, as many as there are.
        self._room = threading.Semaphore(self.settings.readers_max)
        self._closed = False
        self._lock = self._lock_file()
        try:
            self._db = self._open_writer()
            self._cursor = int(self._db.execute("SELECT coalesce(max(seq), 0) FROM journal").fetchone()[0])
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for the writer, then close. Readers that are at work keep their connection until they end."""
        with self._writing, self._news:
            if self._closed:
                return
            self._closed = True
            while self._free:
                self._free.pop().close()
            self._db.close()
            self._lock.close()
            self._news.notify_all()

    # Writing.

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that the block writes, or nothing of it. One at a time."""
        with self._writing:
            self._refuse_if_closed()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                self._db.rollback()
                raise
            (cursor,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM journal").fetchone()
            with self._news:
                self._cursor = int(cursor)
                self._news.notify_all()

    # Reading.

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees the store as it is now. Waits if `readers_max` of them are in use.

        Within a deadline (deadlines.py) neither the wait nor what is asked of SQLite goes on after it.
        """
        if not self._room.acquire(timeout=deadlines.left()):
            raise deadlines.OverdueError
        try:
            with self._news:
                self._refuse_if_closed()
                db = self._free.pop() if self._free else None
            if db is None:
                db = self._open_reader()
            try:
                if deadlines.left() is not None:
                    db.set_progress_handler(deadlines.has_passed, _STEPS)
                db.execute("BEGIN")
                db.execute("SELECT 1 FROM sqlite_schema").fetchone()  # The moment is that of the first read.
                yield db
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                    raise deadlines.OverdueError from None
                raise
            finally:
                db.set_progress_handler(None, _STEPS)
                db.rollback()
                with self._news:
                    if self._closed:
                        db.close()
                    else:
                        self._free.append(db)
        finally:
            self._room.release()

    @property
    def cursor(self) -> int:
        """The number of the last change."""
        return self._cursor

    def changes(self, after: int, *, limit: int = 1_000) -> list[Change]:
        """The changes after a cursor, in order, at most `limit`. 0 is before the first."""
        sql = """
            SELECT j.seq, x.name, p.name, j.idx, j.what FROM journal j JOIN processes p ON p.id = j.process
            JOIN executions x ON x.id = p.execution WHERE j.seq > ? ORDER BY j.seq LIMIT ?"""
        with self.reading() as db:
            rows = db.execute(sql, (after, min(limit, CHANGES_MAX))).fetchall()
        return [
            Change(
                seq,
                EventId(execution, process, index),
                bool(what & ARRIVED),
                bool(what & PLACED),
                bool(what & COMPLETED),
                bool(what & CONFLICTED),
            )
            for seq, execution, process, index, what in rows
        ]

    def wait(self, after: int, *, timeout: float | None = None) -> bool:
        """Whether there are changes after this cursor; waits for the first, `timeout` seconds at most."""
        with self._news:
            self._news.wait_for(lambda: self._cursor > after or self._closed, timeout)
            return self._cursor > after

    # Inside.

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise InputError(f"the store {self.path.name} is closed")

    def _lock_file(self) -> sqlite3.Connection:
        """A lock that any system frees when its process ends, however it ends: a transaction on a file beside."""
        if self.path.is_dir() or not self.path.parent.is_dir():
            raise InputError(f"{str(self.path)!r} cannot be a store: name a file in a directory that is there")
        name = f"{os.path.realpath(self.path)}-writer"  # Beside the file itself, whatever link it was called by.
        lock = None
        try:
            lock = sqlite3.connect(name, timeout=0, isolation_level=None, check_same_thread=False)
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            if lock is not None:
                lock.close()
            if "locked" in str(error):
                raise InputError(f"another process writes to the store {str(self.path)!r}: stop it first") from None
            raise InputError(f"cannot write beside the store {str(self.path)!r}: {error}") from None
        return lock

    def _open_writer(self) -> sqlite3.Connection:
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # Made for its owner: tokens guard the rest.
            db = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"cannot open the store {str(self.path)!r}: {error}") from None
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {'FULL' if self.settings.power_safe else 'NORMAL'}")
            db.execute("PRAGMA cache_size = -65536")
            db.execute("PRAGMA wal_autocheckpoint = 4000")
            db.execute("PRAGMA journal_size_limit = 67108864")
            create(db, repr(str(self.path)))
        except sqlite3.Error as error:
            db.close()
            raise InputError(f"{str(self.path)!r} cannot be used as a store: {error}") from None
        except BaseException:
            db.close()
            raise
        return db

    def _open_reader(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA query_only = 1")
        db.execute("PRAGMA cache_size = -16384")
        return db
