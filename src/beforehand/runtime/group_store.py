"""What a member must not forget: its protocol's state, and what was delivered and not yet worked off.

One SQLite file per member. A commit is one transaction: the snapshot of the protocol together with the messages that
were delivered since, and how far the application has come. So after kill -9 a member goes on as if it had only been
slow: nothing delivered is lost, and the protocol delivers nothing twice. After a loss of power the last commits may
be missing, and others may have seen what they led to, unless `power_safe` is set.
"""

from __future__ import annotations

import fcntl
import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

from beforehand.errors import InputError
from beforehand.events import Event

__all__ = ["DELIVER", "SEND", "SET_ASIDE", "VIEW", "GroupStore", "read_journal"]

VERSION: Final = 1
SEND: Final = "send"
DELIVER: Final = "deliver"
VIEW: Final = "view"
SET_ASIDE: Final = "set aside"
_SCHEMA: Final = """
CREATE TABLE member (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE delivered (position INTEGER PRIMARY KEY, message BLOB NOT NULL);
CREATE TABLE journal (number INTEGER PRIMARY KEY, time INTEGER NOT NULL, kind TEXT NOT NULL, what TEXT NOT NULL);
"""


class GroupStore:
    """The file of one member of one group. Held by one process at a time."""

    def __init__(self, path: Path, *, group: str, process: str, order: str, power_safe: bool = False) -> None:
        """InputError if the file is another member's, or another process holds it."""
        self.path: Final = path
        with ExitStack() as opened:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                lock = opened.enter_context(path.with_name(f"{path.name}-member").open("wb"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"{path}: another process is this member: stop it first") from None
            except OSError as error:
                raise InputError(f"{path}: cannot be used: {error.strerror}") from None
            try:
                self._database: Final = opened.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
                self._prepare(power_safe)
                self._check({"version": str(VERSION), "group": group, "process": process, "order": order})
            except sqlite3.Error as error:
                raise InputError(f"{path}: not the state of a member, or damaged ({error})") from None
            self._opened: Final = opened.pop_all()

    def _prepare(self, power_safe: bool) -> None:
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(f"PRAGMA synchronous={'FULL' if power_safe else 'NORMAL'}")
        if not self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._database.executescript(f"BEGIN; {_SCHEMA} COMMIT;")

    def _check(self, wanted: dict[str, str]) -> None:
        found = self._value("version")
        if found is None:
            with self._database:
                self._database.execute("BEGIN")
                for key, value in {**wanted, "incarnation": secrets.token_hex(8), "worked_off": "0"}.items():
                    self._set(key, value.encode())
            return
        for key, value in wanted.items():
            there = (self._value(key) or b"").decode()
            if there != value:
                raise InputError(f"{self.path}: its {key} is {there}, not {value}: name another file")

    @property
    def position(self) -> bytes | None:
        """Of the transport."""
        return self._value("position")

    def remember(self, process: str, incarnation: str) -> bool:
        """Whether another member is the incarnation that it was when it was first heard of."""
        key = f"incarnation of {process}"
        known = self._value(key)
        if known is None:
            self._set_or_delete(key, incarnation.encode())
            return True
        return known == incarnation.encode()

    def states(self) -> list[tuple[int, bytes]]:
        """What is kept for newcomers, by the view that they came in."""
        rows = self._rows("SELECT key, value FROM member WHERE key LIKE 'state of view %'")
        return [(int(key.rpartition(" ")[2]), bytes(value)) for key, value in rows]

    def set_state(self, view: int, data: bytes | None) -> None:
        """Keep the state of the start of a view, or keep it no more."""
        self._set_or_delete(f"state of view {view}", data)

    @property
    def taken(self) -> int | None:
        """Of a newcomer: the view whose state it has taken and not told all members so."""
        found = self._value("taken")
        return None if found is None else int(found)

    def set_taken(self, view: int | None) -> None:
        self._set_or_delete("taken", None if view is None else str(view).encode())

    @property
    def incarnation(self) -> str:
        """The same for as long as this file lives."""
        return (self._value("incarnation") or b"").decode()

    def load(self) -> tuple[bytes | None, bytes | None, list[tuple[int, bytes]], int]:
        """The protocol's snapshot, the application's, the messages after it by position, and the last position."""
        rows = self._rows("SELECT position, message FROM delivered ORDER BY position")
        worked_off = int((self._value("worked_off") or b"0").decode())
        last = rows[-1][0] if rows else worked_off
        return self._value("snapshot"), self._value("application"), rows, last

    def commit(
        self,
        snapshot: bytes | None,
        delivered: Sequence[tuple[int, bytes]],
        *,
        worked_off: int | None,
        application: bytes | None = None,
        position: bytes = b"",
        journal: Sequence[tuple[int, str, str]] = (),
    ) -> None:
        """In one step: the new snapshot, what was delivered with it, and that all up to `worked_off` is done.

        `position` is the transport's; `journal` has what happened: when, what kind, and which message or view.
        """
        try:
            self._database.execute("BEGIN IMMEDIATE")
            if snapshot is not None:
                self._set("snapshot", snapshot)
            if position:
                self._set("position", position)
            self._database.executemany("INSERT INTO delivered VALUES (?, ?)", delivered)
            self._database.executemany("INSERT INTO journal (time, kind, what) VALUES (?, ?, ?)", journal)
            if application is not None:
                self._set("application", application)
            if worked_off is not None:
                self._database.execute("DELETE FROM delivered WHERE position <= ?", (worked_off,))
                self._set("worked_off", str(worked_off).encode())
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: cannot be written: {error}") from None

    def close(self) -> None:
        self._opened.close()

    def _value(self, key: str) -> bytes | None:
        rows = self._rows("SELECT value FROM member WHERE key = ?", key)
        return bytes(rows[0][0]) if rows else None

    def _rows(self, question: str, *values: str) -> list[Any]:
        try:
            return self._database.execute(question, values).fetchall()
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: not the state of a member, or damaged ({error})") from None

    def _set_or_delete(self, key: str, value: bytes | None) -> None:
        try:
            if value is None:
                self._database.execute("DELETE FROM member WHERE key = ?", (key,))
            else:
                self._set(key, value)
        except sqlite3.Error as error:
            raise InputError(f"{self.path}: cannot be written: {error}") from None

    def _set(self, key: str, value: bytes) -> None:
        self._database.execute("INSERT OR REPLACE INTO member VALUES (?, ?)", (key, value))


def read_journal(path: Path) -> list[Event]:
    """What a member did, from its state, as native events; the member must have been told to keep a journal."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return []  # It was stopped before it did anything.
            process = database.execute("SELECT value FROM member WHERE key = 'process'").fetchone()
            rows = database.execute("SELECT time, kind, what FROM journal ORDER BY number").fetchall()
    except sqlite3.Error as error:
        raise InputError(f"{path}: not the state of a member ({error})") from None
    return [
        Event(
            process=process[0].decode(),
            index=index,
            time=time,
            name=f"{kind} {what}",
            sends=(what,) if kind == SEND else (),
            receives=(what,) if kind == DELIVER else (),
        )
        for index, (time, kind, what) in enumerate(rows, start=1)
    ]
