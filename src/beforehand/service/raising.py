"""A cause that came after its deadline: the stamps of all that is behind it are raised.

An effect was stamped without its cause. Everything that knows the effect must know what the cause knows: on each
process that is all from the first event that knows the effect on, found by bisection. From there the process is swept
upwards: stamp, size of past and causal time are raised until an event is met that has nothing to learn (stamps and
causal times grow along a process, so no later one has). A sweep stops after a bounded number of events and goes on in
the next transaction; how far it came is in the store. Meanwhile no event of the execution gets a stamp.

Many late causes together cost little more than the last of them: it is swept first, and the sweeps of the others end
where it began.
"""

from __future__ import annotations

from typing import Any, Final

from beforehand.events import EventId
from beforehand.service.knowing import first_knowing
from beforehand.service.ledger import Key, Ledger
from beforehand.service.observer import reject_cycle
from beforehand.service.records import Entries, decode_clock, decode_entries, encode
from beforehand.service.registry import Process
from beforehand.service.schema import STAMPED
from beforehand.service.stamps import read_stamp

__all__ = ["Raising"]

_CHUNK: Final = 512
_BISECTION: Final = 20  # Steps that a bisection counts for.


class Raising:
    """Of one transaction, after its ledger was flushed. What it adds to the ledger is flushed by the caller."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger: Final = ledger

    def begin(self, late: list[tuple[Key, Key, str | None]]) -> None:
        """Remember what is to be raised: all that knows the effect must know what the cause knows."""
        registry, db = self._ledger.registry, self._ledger.db

        def rank(entry: tuple[Key, Key, str | None]) -> tuple[bool, int]:
            # The order of a process first: bisection needs it, and where it contradicts a message, the message goes.
            # Then who knows most: what it teaches, the others need not.
            cause, effect, _ = entry
            known = self._ledger.stamps.get(db, cause).total + cause[1]
            return effect != (cause[0], cause[1] + 1), -known

        ordered = sorted(late, key=rank)
        rows = [
            (registry.by_id(db, cause[0]).execution.id, *cause, *effect, message)
            for cause, effect, message in ordered
        ]
        sql = """
            INSERT INTO raises(execution, cause_process, cause_idx, process, idx, message, at_process, at_idx)
            VALUES(?, ?, ?, ?, ?, ?, 0, 0)"""
        db.executemany(sql, rows)
        if rows:
            self._ledger.count("raised", len(rows))  # Retention looks whether stamps may have changed.

    def go_on(self) -> None:
        """Raise as much as the ledger's `steps` allow."""
        ledger = self._ledger
        raised = False
        while ledger.steps > 0:
            row = ledger.db.execute("SELECT * FROM raises ORDER BY id LIMIT 1").fetchone()
            if row is None:
                break
            raised = True
            number, execution = row[0], row[1]
            if self._raise(*row):
                ledger.db.execute("DELETE FROM raises WHERE id = ?", (number,))
                sql = "SELECT 1 FROM raises WHERE execution = ?"
                if ledger.db.execute(sql, (execution,)).fetchone() is None:
                    self._finish(execution)
        if raised:
            ledger.stamps.forget()
        for (execution,) in ledger.db.execute("SELECT DISTINCT execution FROM raises").fetchall():
            unfinished = ledger.registry.execution_by_id(ledger.db, execution)
            unfinished.raising = True
            unfinished.touch()

    def _finish(self, execution: int) -> None:
        """Events of the execution may be stamped again, and processes completed."""
        ledger = self._ledger
        found = ledger.registry.execution_by_id(ledger.db, execution)
        found.raising = False
        found.touch()
        ledger.db.execute("INSERT OR IGNORE INTO wakes VALUES(?, 0)", (-execution,))
        sql = "UPDATE blocked SET on_process = 0, on_idx = 0, on_message = NULL WHERE execution = ?"
        ledger.db.execute(sql, (execution,))

    def _raise(
        self,
        number: int,
        execution: int,
        cause_process: int,
        cause_index: int,
        process: int,
        index: int,
        message: str | None,
        at_process: int,
        at_index: int,
        old: bytes | None,
    ) -> bool:
        """One cause; whether it is done."""
        ledger = self._ledger
        # As it is now: what was raised before may have taught the cause something.
        cause = read_stamp(ledger.db, cause_process, cause_index)
        assert cause is not None
        if cause.entries.get(process, 0) >= index:
            if message is not None:
                reject_cycle(ledger, (cause_process, cause_index), (process, index), message)
            return True
        learnt = {**cause.entries, cause_process: cause_index}
        sql = "SELECT id, stamped FROM processes WHERE execution = ? AND id >= ? ORDER BY id"
        for member, stamped in ledger.db.execute(sql, (execution, at_process)).fetchall():
            start = at_index if member == at_process else 0
            known = decode_entries(old) if start and old is not None else None
            if not start:
                ledger.steps -= _BISECTION
                start = first_knowing(ledger.db, member, stamped, process, index) or 0
            if start:
                # What follows the cause on its process did not know it, though it stands before: look below it.
                follows = (process, index) == (cause_process, cause_index + 1) and member == process
                below = cause_index if follows else start
                sweep = _Sweep(ledger, member, learnt, cause.time)
                left = sweep.run(start, known, below)
                if left:
                    sql = "UPDATE raises SET at_process = ?, at_idx = ?, old = ? WHERE id = ?"
                    ledger.db.execute(sql, (member, left, encode(sweep.old) if sweep.begun else None, number))
                    return False
            if ledger.steps <= 0:
                sql = "UPDATE raises SET at_process = ?, at_idx = 0, old = NULL WHERE id = ?"
                ledger.db.execute(sql, (member + 1, number))
                return False
        return True


class _Sweep:
    """Of one process, upwards from an event."""

    def __init__(self, ledger: Ledger, process: int, learnt: Entries, time: int) -> None:
        self._ledger: Final = ledger
        self._process: Final = ledger.registry.by_id(ledger.db, process)
        self._learnt: Final = {p: known for p, known in learnt.items() if p != process}
        self._time: Final = time
        self.old: Entries = {}  # What the event before knew before it was raised.
        self.begun = False  # Something was raised: later events learn from there.

    def run(self, start: int, old: Entries | None, below: int) -> int:
        """From `start`; `old` if the sweep was interrupted there, else it is what is known below `below`.

        The index to go on from, 0 if it is done.
        """
        ledger, process = self._ledger, self._process
        self.begun = old is not None
        if old is None:
            before = read_stamp(ledger.db, process.id, below - 1, exact=False)
            old = dict(before.entries) if before is not None else {}
        self.old = old
        new = dict(old)
        _merge(new, self._learnt)
        sql = f"""
            SELECT idx, "full", stamp, causal_time, past_size, clock, clocked FROM events
            WHERE process = ? AND idx >= ? AND state = {STAMPED} ORDER BY idx LIMIT ?"""  # noqa: S608
        while ledger.steps > 0:
            rows = ledger.db.execute(sql, (process.id, start, min(_CHUNK, ledger.steps))).fetchall()
            changes: list[tuple[Any, ...]] = []
            for index, full, data, time, size, clock, clocked in rows:
                entries = decode_entries(data)
                _merge(self.old, entries)
                _merge(new, entries)
                raised = sum(new.values()) + index
                if raised == size and time >= self._time:
                    rows = []
                    break
                if clocked and clock is None:
                    clock = self._materialized(index)
                if full:
                    data = encode(new)
                elif not self.begun:
                    _merge(entries, self._learnt)
                    data = encode(entries)
                self.begun = True
                changes.append((data, max(time, self._time), raised, clock, process.id, index))
                if clock is not None:
                    self._judge(index, clock, new)
            ledger.db.executemany(
                """
                UPDATE events SET stamp = ?, causal_time = ?, past_size = ?, clock = ?
                WHERE process = ? AND idx = ?""",
                changes,
            )
            ledger.steps -= len(changes) + 1
            if not rows:
                return 0
            start = rows[-1][0] + 1
        return start

    def _materialized(self, index: int) -> bytes:
        """A reported clock that was left out because it was the stamp: it is no longer."""
        clock = {self._name(p): known for p, known in self.old.items()}
        return encode({**clock, self._process.name: index})

    def _judge(self, index: int, clock: bytes, new: Entries) -> None:
        reported = decode_clock(clock)
        if all(known <= reported.get(self._name(p), 0) for p, known in new.items()):
            return
        event = EventId(self._process.execution.name, self._process.name, index)
        why = f"{event} reports a clock that lacks what causes that came late imply"
        row = (self._process.id, index, self._process.execution.id, why)
        self._ledger.db.execute("INSERT OR IGNORE INTO findings VALUES(?, ?, ?, ?)", row)

    def _name(self, process: int) -> str:
        found: Process = self._ledger.registry.by_id(self._ledger.db, process)
        return found.name


def _merge(entries: Entries, more: Entries) -> None:
    for process, known in more.items():
        if known > entries.get(process, 0):
            entries[process] = known
