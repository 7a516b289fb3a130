"""Who knows of an event: stamps grow along a process, so the first event that knows is found by bisection."""

from __future__ import annotations

import sqlite3

from beforehand.service.schema import STAMPED
from beforehand.service.stamps import read_stamp

__all__ = ["first_knowing", "last_within", "next_stamped"]


def next_stamped(db: sqlite3.Connection, process: int, index: int) -> int | None:
    """The first index from this one on that has a stamp."""
    sql = f"SELECT idx FROM events WHERE process = ? AND idx >= ? AND state = {STAMPED} ORDER BY idx LIMIT 1"  # noqa: S608
    row = db.execute(sql, (process, index)).fetchone()
    return None if row is None else int(row[0])


def first_knowing(db: sqlite3.Connection, process: int, stamped: int, other: int, index: int) -> int | None:
    """The first event of `process` that knows event `index` of `other`; None if none with a stamp does.

    `stamped` is the greatest index of the process that has a stamp.
    """
    if process == other:
        return next_stamped(db, process, index)
    low, high = 0, stamped + 1  # What is at `low` does not know it; what is at `high` does, or is beyond the end.
    while high - low > 1:
        middle = (low + high) // 2
        stamp = read_stamp(db, process, middle, exact=False)
        if stamp is not None and stamp.entries.get(other, 0) >= index:
            high = middle
        else:
            low = middle
    return None if high > stamped else next_stamped(db, process, high)


def last_within(db: sqlite3.Connection, process: int, reach: int, cut: dict[int, int]) -> int:
    """The last index up to `reach` whose whole past lies inside the cut; 0 if there is none."""
    low, high = 0, reach + 1  # What is at `low` lies inside; what is at `high` does not, or is beyond.
    while high - low > 1:
        middle = (low + high) // 2
        stamp = read_stamp(db, process, middle, exact=False)
        if stamp is None or all(known <= cut.get(other, 0) for other, known in stamp.entries.items()):
            low = middle
        else:
            high = middle
    sql = f"SELECT max(idx) FROM events WHERE process = ? AND idx <= ? AND state = {STAMPED}"  # noqa: S608
    return int(db.execute(sql, (process, low)).fetchone()[0] or 0)
