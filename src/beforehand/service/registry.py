"""Executions and processes: names to numbers, and what the writer keeps of each.

Everything here is in the store; what is in memory is a copy that only the writer has, written back at the end of its
transaction. `forget` drops the copies, after a transaction was undone and when there are too many.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from beforehand.service.schema import NO_TIME
from beforehand.service.stamps import FULL_EVERY

__all__ = ["Execution", "Process", "Registry"]


class Execution:
    """One execution, as the writer knows it."""

    __slots__ = (
        "_changed",
        "dirty",
        "events",
        "id",
        "ids",
        "latest",
        "members",
        "name",
        "named_bytes",
        "number",
        "pruned",
        "raising",
        "whole",
    )

    def __init__(
        self,
        changed: _Changed,
        id: int,  # noqa: A002
        name: str,
        latest: int = NO_TIME,
        events: int = 0,
        number: int = 0,
        raising: int = 0,
    ) -> None:
        self._changed: Final = changed
        self.id: Final = id
        self.name: Final = name
        self.latest = latest  # The greatest causal time of an event so far.
        self.events = events
        self.number = number  # Of processes.
        self.raising = bool(raising)
        self.members: dict[str, Process] = {}  # Those that were asked for.
        self.ids: dict[str, int] = {}  # The numbers of the same.
        self.named_bytes = 0  # Of the same, their names.
        self.pruned: set[str] = set()  # Of the same, those that no stamp has an entry for.
        self.whole = False  # Nothing of it is in the store that is not in `members`.
        self.dirty = False

    def unpruned(self, clock: Mapping[str, int]) -> Mapping[str, int]:
        """A clock without entries for removed events of processes that are in no stamp any more (pruning.py)."""
        if not self.pruned or self.pruned.isdisjoint(clock):
            return clock
        return {
            name: count
            for name, count in clock.items()
            if name not in self.pruned or count > self.members[name].removed
        }

    def numbered(self, clock: Mapping[str, int]) -> dict[int, int]:
        """A clock by the numbers of its processes, which all were asked for; without zeros."""
        found = dict(zip(map(self.ids.__getitem__, clock), clock.values(), strict=True))
        return {process: count for process, count in found.items() if count} if 0 in found.values() else found

    def clock_bytes_max(self, entries: int) -> int:
        """The most that a clock of so many entries takes, encoded, if all its processes were asked for."""
        return self.named_bytes + 14 * entries + 5  # Heads of the map and of names take 5 bytes at most, a number 9.

    def touch(self) -> None:
        """It has changed: `flush` will write it."""
        if not self.dirty:
            self.dirty = True
            self._changed.executions.append(self)


class Process:
    """One process, as the writer knows it. See schema.py for the meaning of the numbers."""

    __slots__ = (
        "_changed",
        "claimed",
        "complete",
        "dirty",
        "events",
        "execution",
        "id",
        "name",
        "newest",
        "pruned",
        "removed",
        "rows",
        "stamped",
    )

    def __init__(
        self,
        changed: _Changed,
        id: int,  # noqa: A002
        execution: Execution,
        name: str,
        newest: int = 0,
        stamped: int = 0,
        complete: int = 0,
        claimed: int = 0,
        events: int = 0,
        removed: int = 0,
        pruned: int = 0,
    ) -> None:
        self._changed: Final = changed
        self.id: Final = id
        self.execution: Final = execution
        self.name: Final = name
        self.newest = newest
        self.stamped = stamped
        self.complete = complete
        self.claimed = claimed
        self.events = events
        self.removed: Final = removed  # Retention changes it, in the store; then nothing is known here any more.
        self.pruned = bool(pruned)
        self.rows = FULL_EVERY  # Since the last full stamp. After a restart the next one is full.
        self.dirty = False

    def touch(self) -> None:
        """It has changed: `flush` will write it."""
        if not self.dirty:
            self.dirty = True
            self._changed.processes.append(self)


class _Changed:
    """What is to be written."""

    def __init__(self) -> None:
        self.executions: list[Execution] = []
        self.processes: list[Process] = []


class Registry:
    """All executions and processes that the writer has met lately."""

    def __init__(self) -> None:
        self._changed: Final = _Changed()
        self._executions: dict[str, Execution] = {}
        self._by_id: dict[int, Execution] = {}
        self._processes: dict[int, Process] = {}

    def __len__(self) -> int:
        return len(self._processes) + len(self._executions)

    def known(self, name: str) -> Execution | None:
        """The execution of this name if it was asked for lately."""
        return self._executions.get(name)

    def execution(self, db: sqlite3.Connection, name: str) -> Execution:
        """The execution of this name; it is made if it is new."""
        found = self._executions.get(name)
        if found is None:
            row = db.execute(f"SELECT {_EXECUTION} FROM executions WHERE name = ?", (name,)).fetchone()  # noqa: S608
            if row is None:
                sql = "INSERT INTO executions(name, latest, events, processes, raising) VALUES(?, ?, 0, 0, 0)"
                found = Execution(self._changed, int(db.execute(sql, (name, NO_TIME)).lastrowid or 0), name)
                found.whole = True
            else:
                found = Execution(self._changed, *row)
            self._executions[name] = self._by_id[found.id] = found
        return found

    def process(self, db: sqlite3.Connection, execution: Execution, name: str, limit: int) -> Process | None:
        """The process of this name; it is made if it is new, but not beyond `limit` of them: then None."""
        found = execution.members.get(name)
        if found is not None:
            return found
        if not execution.whole:
            sql = f"SELECT {_PROCESS} FROM processes WHERE execution = ? AND name = ?"  # noqa: S608
            row = db.execute(sql, (execution.id, name)).fetchone()
            if row is not None:
                return self._known(execution, row)
        if execution.number >= limit:
            return None
        sql = """
            INSERT INTO processes(execution, name, newest, stamped, complete, claimed, events)
            VALUES(?, ?, 0, 0, 0, 0, 0)"""
        number = int(db.execute(sql, (execution.id, name)).lastrowid or 0)
        execution.number += 1
        execution.touch()
        return self._known(execution, (number, execution.id, name))

    def by_id(self, db: sqlite3.Connection, process: int) -> Process:
        """The process of this number, which exists."""
        found = self._processes.get(process)
        if found is None:
            sql = f"SELECT {_PROCESS} FROM processes WHERE id = ?"  # noqa: S608
            row = db.execute(sql, (process,)).fetchone()
            found = self._known(self.execution_by_id(db, row[1]), row)
        return found

    def execution_by_id(self, db: sqlite3.Connection, execution: int) -> Execution:
        """The execution of this number, which exists."""
        found = self._by_id.get(execution)
        if found is None:
            sql = f"SELECT {_EXECUTION} FROM executions WHERE id = ?"  # noqa: S608
            found = Execution(self._changed, *db.execute(sql, (execution,)).fetchone())
            self._executions[found.name] = self._by_id[found.id] = found
        return found

    def flush(self, db: sqlite3.Connection) -> None:
        """Write what changed."""
        processes, executions = self._changed.processes, self._changed.executions
        db.executemany(
            """
            UPDATE processes SET newest = ?, stamped = ?, complete = ?, claimed = ?, events = ?, pruned = ?
            WHERE id = ?""",
            [(p.newest, p.stamped, p.complete, p.claimed, p.events, int(p.pruned), p.id) for p in processes],
        )
        db.executemany(
            "UPDATE executions SET latest = ?, events = ?, processes = ?, raising = ? WHERE id = ?",
            [(x.latest, x.events, x.number, int(x.raising), x.id) for x in executions],
        )
        for process in processes:
            process.dirty = False
        for execution in executions:
            execution.dirty = False
        processes.clear()
        executions.clear()

    def forget(self) -> None:
        """Know nothing more; all is read again when it is asked for."""
        self._changed.processes.clear()
        self._changed.executions.clear()
        self._executions.clear()
        self._by_id.clear()
        self._processes.clear()

    def _known(self, execution: Execution, row: tuple[int, ...] | tuple[int, int, str]) -> Process:
        process = Process(self._changed, row[0], execution, str(row[2]), *[int(value) for value in row[3:]])
        execution.members[process.name] = self._processes[process.id] = process
        execution.ids[process.name] = process.id
        execution.named_bytes += len(process.name.encode())
        if process.pruned:
            execution.pruned.add(process.name)
        return process


_EXECUTION: Final = "id, name, latest, events, processes, raising"
_PROCESS: Final = "id, execution, name, newest, stamped, complete, claimed, events, removed, pruned"
