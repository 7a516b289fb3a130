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

__all__ = ["ENTRIES_MAX", "FULL_EVERY", "Stamp", "Stamps", "read_stamp"]

FULL_EVERY: Final = 32
ENTRIES_MAX: Final = 4_000_000
"""Entries of stamps in memory, those that are shared counted once: a few hundred megabytes."""


class Stamp:
    """Never changed once it is made: others share its entries."""

    __slots__ = ("entries", "time", "total")

    def __init__(self, entries: Entries, total: int, time: int) -> None:
        self.entries: Final = entries  # Of other processes: process number to the greatest index known; no zeros.
        self.total: Final = total  # Their sum; with the own index, the size of the past.
        self.time: Final = time  # Causal time.


class Stamps:
    """Recent stamps by (process, index), the least recently used first to go; the store has them all.

    What the running transaction stamped is not in the store yet, so it stays until `flushed`, which has to be soon
    when it `is_full`: stamps of executions with thousands of processes are large.
    """

    def __init__(self, limit: int, entries_max: int | None = None) -> None:
        self._limit: Final = limit
        self._entries_max: Final = ENTRIES_MAX if entries_max is None else entries_max
        self._kept: OrderedDict[tuple[int, int], Stamp] = OrderedDict()  # At most `limit`, and `entries_max`.
        self._fresh: dict[tuple[int, int], Stamp] = {}  # Bounded by the transaction, and by `is_full`.
        self._shared: dict[int, int] = {}  # How many of both have these entries, by their identity.
        self._entries = 0  # Of both, those that are shared counted once.

    def __contains__(self, key: tuple[int, int]) -> bool:
        return key in self._fresh or key in self._kept

    def put(self, key: tuple[int, int], stamp: Stamp) -> None:
        """A stamp that the running transaction made."""
        self._drop(self._fresh.pop(key, None))
        self._fresh[key] = stamp
        self._count(stamp)

    @property
    def is_full(self) -> bool:
        """Whether what is fresh is to be written now."""
        return self._entries > 2 * self._entries_max

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
        fresh, self._fresh = self._fresh, {}
        for key, stamp in fresh.items():
            self._drop(self._kept.pop(key, None))
            self._kept[key] = stamp
        self._shrink()

    def forget(self) -> None:
        """The store has changed behind our back: stamps were raised, or a transaction was undone."""
        self._kept.clear()
        self._fresh.clear()
        self._shared.clear()
        self._entries = 0

    def _keep(self, key: tuple[int, int], stamp: Stamp) -> None:
        self._count(stamp)
        self._drop(self._kept.pop(key, None))
        self._kept[key] = stamp
        self._shrink()

    def _shrink(self) -> None:
        most = 2 * self._entries_max if self._fresh else self._entries_max
        while self._kept and (len(self._kept) > self._limit or self._entries > most):
            self._drop(self._kept.popitem(last=False)[1])

    def _count(self, stamp: Stamp) -> None:
        same = self._shared.get(id(stamp.entries), 0)
        self._shared[id(stamp.entries)] = same + 1
        if not same:
            self._entries += len(stamp.entries)

    def _drop(self, stamp: Stamp | None) -> None:
        if stamp is None:
            return
        same = self._shared.pop(id(stamp.entries)) - 1
        if same:
            self._shared[id(stamp.entries)] = same
        else:
            self._entries -= len(stamp.entries)


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
