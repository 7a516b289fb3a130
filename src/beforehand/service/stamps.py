"""Stamps: what each event knows of every other process, in memory and in the store.

A stamp is kept as *differences*: with an event stand only the entries that grew against the event before it on its
process, and all of them at every `FULL_EVERY`th. Stamps only grow along a process, so V(e) is the maximum over the
rows from e back to the nearest full one. The own entry of an event is its index and is never written.

Events that bring no news share the entries of the event before: memory grows with receives, not with events.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from typing import Final

from beforehand.service.records import Entries, decode_entries
from beforehand.service.schema import NO_TIME, STAMPED

__all__ = ["FULL_EVERY", "Stamp", "Stamps", "read_stamp"]

FULL_EVERY: Final = 32


class Stamp:
    """Never changed once it is made: others share its entries."""

    __slots__ = ("entries", "time", "total")

    def __init__(self, entries: Entries, total: int, time: int) -> None:
        self.entries: Final = entries  # Of other processes: process number to the greatest index known; no zeros.
        self.total: Final = total  # Their sum; with the own index, the size of the past.
        self.time: Final = time  # Causal time.


class Stamps:
    """Recent stamps by (process, index), the least recently used first to go; the store has them all.

    What the running transaction stamped is not in the store yet, so it stays until `flushed`.
    """

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._kept: OrderedDict[tuple[int, int], Stamp] = OrderedDict()  # At most `limit`.
        self._fresh: dict[tuple[int, int], Stamp] = {}  # Bounded by the transaction.

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._fresh or key in self._kept

    def put(self, key: tuple[int, int], stamp: Stamp) -> None:
        """A stamp that the running transaction made."""
        self._fresh[key] = stamp

    def get(self, db: sqlite3.Connection, key: tuple[int, int]) -> Stamp:
        """The stamp of an event that has one; `_REMOVED` if retention has removed it.

        What is removed has only what is removed in its past (retention.py): it tells nothing of what is here.
        """
        stamp = self._fresh.get(key) or self._kept.get(key)
        if stamp is None:
            stamp = read_stamp(db, *key) or _REMOVED
            self._keep(key, stamp)
        elif key in self._kept:
            self._kept.move_to_end(key)
        return stamp

    def flushed(self) -> None:
        """What was fresh is in the store now."""
        for key, stamp in self._fresh.items():
            self._keep(key, stamp)
        self._fresh.clear()

    def forget(self) -> None:
        """The store has changed behind our back: stamps were raised, or a transaction was undone."""
        self._kept.clear()
        self._fresh.clear()

    def _keep(self, key: tuple[int, int], stamp: Stamp) -> None:
        self._kept[key] = stamp
        self._kept.move_to_end(key)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)


_REMOVED: Final = Stamp({}, 0, NO_TIME)

_BACK: Final = f"""
    SELECT idx, "full", stamp, causal_time FROM events
    WHERE process = ? AND idx <= ? AND state = {STAMPED} ORDER BY idx DESC LIMIT ?"""  # noqa: S608


def read_stamp(db: sqlite3.Connection, process: int, index: int, *, exact: bool = True) -> Stamp | None:
    """The stamp of an event out of the store; if not `exact`, of the last event up to this index that has one."""
    entries: Entries = {}
    time: int | None = None
    # One in `FULL_EVERY` rows is full at least: what comes between others is full itself.
    for idx, full, data, causal_time in db.execute(_BACK, (process, index, FULL_EVERY)).fetchall():
        if time is None:
            if exact and idx != index:
                return None
            time = causal_time
        if data is not None:
            for other, known in decode_entries(data).items():
                if known > entries.get(other, 0):
                    entries[other] = known
        if full:
            break
    return None if time is None else Stamp(entries, sum(entries.values()), time)
