"""Stamping as an observer: events get their vector stamps here, from reports in any order (Berry 1995, 3.4.2).

The paper's observer delays a report until everything that it depends on has come. So does this one, per event:

1. The *direct causes* of an event are the event before it on its process, the sends of what it receives and, where it
   reports a clock, the events that its clock names and the event before does not know. An event is stamped when all
   of them are; it then knows what they know, and itself. A cause that is not here is waited for until the deadline.
2. An event waits on the *first* thing that it misses and is looked at again only when that was stamped: no rescans.
   Waiting events are in the store, so memory does not grow with them.
3. A reported clock is used as it came. It names events, so what those know counts as known too; if the clock lacks
   some of that it is a finding (`clock`). The send of a received message is not waited for where a clock is reported.
4. At the deadline (`expired`) what is missing is left out: the stamp has what is here, and the event is incomplete.
   If it comes after all, the stamps behind it are raised (raising.py). A message that would then close a cycle is
   rejected alone, with reason `cycle`: the events that it would contradict have their place already.
5. `complete` of a process moves with its events while all their causes are complete; what lies beyond is found by
   completing.py.

Cost per event: its new entries, and one look into memory per cause; the store is read only where memory forgot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from beforehand.events import EventId, Rejection
from beforehand.service.ledger import DEAF, Key, Ledger, Pending
from beforehand.service.records import Entries, decode_content, encode, values_of
from beforehand.service.registry import Execution, Process
from beforehand.service.reported_clocks import is_stamp, judge
from beforehand.service.schema import ARRIVED, COMPLETED, NO_TIME, PLACED, STAMPED, WAITING
from beforehand.service.stamps import FULL_EVERY, Stamp
from beforehand.service.waiting import Spot

__all__ = ["Observer", "reject_cycle"]

_ABSENT: Final = -1
_TOLD: Final = 4_000  # Events whose waiting events are loaded at once.


class Observer:
    """Of one transaction. `observe`, then `park`, then the ledger is flushed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger: Final = ledger
        self._whole: Final = ledger.waiting.is_whole(ledger.db)  # No table is asked who waits.
        self._work: dict[Key, Pending] = {}  # Events at hand that have no stamp.
        self._parked: dict[Spot, list[Pending]] = {}
        self._ready: deque[Pending] = deque()
        self._stamped: list[Pending] = []  # Whose waiting events in the store were not looked at yet.
        self.stamped = 0
        self.due: dict[int, Process] = {}  # Processes whose `complete` may move further than it did.
        self.completed: dict[int, Process] = {}  # Those whose `complete` moved.
        self.told: list[tuple[Execution, str]] = []  # Messages whose send was stamped.
        self.late: list[tuple[Key, Key, str | None]] = []  # A cause, an effect that lacks it, and the message.

    def observe(self, events: Iterable[Pending]) -> None:
        """Stamp these events as far as can be, and all that waited for them, up to the ledger's `steps`."""
        for event in events:
            self._work[event.key] = event
            self._ready.append(event)
        while True:
            while self._ready:
                self._examine(self._ready.popleft())
                if self._ledger.stamps.is_full:
                    self._ledger.flush()
            if self._ledger.steps <= 0 or not self._wake_stored():
                break

    def is_waiting(self, event: Pending) -> bool:
        """Whether this event, which was observed, has no stamp yet."""
        return event.key in self._work

    def park(self) -> None:
        """Hand the events that still wait to the store, and what was stamped but woke nobody yet."""
        ledger = self._ledger
        for spot, events in self._parked.items():
            for event in events:
                self._store_waiting(event)
                ledger.waiting.add(spot, event)
                process, on, message = None, None, None
                if isinstance(spot[1], str):
                    message = spot[1]
                else:
                    process, on = spot
                expired = DEAF if event.deaf else int(event.expired)
                ledger.waits.append(
                    (*event.key, event.process.execution.id, process, on, message, event.since, expired)
                )
        ledger.db.executemany("INSERT OR IGNORE INTO wakes VALUES(?, ?)", [event.key for event in self._stamped])

    def resume(self, keys: list[Key]) -> None:
        """Events that were stamped by an earlier transaction: wake what waits for them."""
        rows = values_of(
            self._ledger.db,
            "SELECT e.process, e.idx, e.time, e.name, e.content FROM v CROSS JOIN events e "
            "ON e.process = v.a AND e.idx = v.b",
            keys,
        )
        found = [Pending(self._ledger.registry.by_id(self._ledger.db, process), *row) for process, *row in rows]
        said = [(event, decode_content(event.content)[0]) for event in found]
        self._ledger.look_up({(event.process.execution.id, m) for event, sends in said for m in sends})
        for event, sends in said:
            event.sends = self._ledger.sent_by(event, sends)
            self._stamped.append(event)

    # Looking at one event.

    def _examine(self, event: Pending) -> None:
        process, index = event.process, event.index
        execution = process.execution
        if execution.raising:
            self._wait(event, (execution.id, ""))
            return
        before, complete = index - 1, True
        stamp = _NOTHING
        if before:
            state = self._state(process, before)
            if state == _ABSENT and event.expired:
                before, complete = self._last_here(process, before), False
                state = self._state(process, before) if before else STAMPED
            if state != STAMPED:
                self._wait(event, (process.id, before))
                return
            if before:
                stamp = self._ledger.stamps.get(self._ledger.db, (process.id, before))
            complete = complete and before <= process.complete
        causes: list[Key] = []
        for message in event.receives:
            sent = self._ledger.senders.get((execution.id, message))
            if sent is None:
                if event.clock is None and not event.expired:
                    self._wait(event, (execution.id, message))
                    return
                complete = complete and event.clock is not None
            elif sent[0] != process.id or sent[1] >= index:
                sender = self._ledger.registry.by_id(self._ledger.db, sent[0])
                if self._state(sender, sent[1]) != STAMPED:
                    self._wait(event, (execution.id, message))
                    return
                complete = complete and sent[1] <= sender.complete
                causes.append(sent)
        named: list[Key] = []
        claims: list[Key] = []
        merged: tuple[Stamp, Entries] | None = None
        if event.clock is not None and not event.deaf:
            if complete:
                # All that complete causes know is complete: a clock that says the same names nothing to look for.
                merged = self._merge(event, stamp, causes, named)
            if merged is not None and (merged[0].entries is event.clock or merged[0].entries == event.clock):
                # From here on they are one, so that it is seen at once that the next event has the same clock.
                merged = Stamp(event.clock, merged[0].total, merged[0].time), merged[1]
            else:
                merged = None
                unsure: list[Key] = []
                if not self._name(event, stamp.entries, named, unsure, claims):
                    return
                complete = complete and not unsure and not claims
        made, changed = merged or self._merge(event, stamp, causes, named)
        if not self._finish(event, before, made, changed, complete=complete):
            judge(self._ledger, event, made)
        for claim in claims:
            self._ledger.claims.append((*claim, *event.key))
            owner = self._ledger.registry.by_id(self._ledger.db, claim[0])
            owner.claimed = max(owner.claimed, claim[1])
            owner.touch()

    def _name(self, event: Pending, known: Entries, named: list[Key], unsure: list[Key], claims: list[Key]) -> bool:
        """Gather the events that a clock names and the event before does not know; False if one is waited for.

        `unsure`: those that are not complete. `claims`: those that are not here and were given up.
        """
        assert event.clock is not None
        if event.clock == known:
            return True
        # Most entries are known to the event before. Sorted: what is named first decides what is waited for.
        before = known.get
        for other, count in sorted([entry for entry in event.clock.items() if entry[1] > before(entry[0], 0)]):
            process = self._ledger.registry.by_id(self._ledger.db, other)
            if count <= process.complete:
                named.append((other, count))
                continue
            state, index = self._state(process, count), count
            if state == _ABSENT and event.expired:
                claims.append((other, count))
                index = self._last_here(process, count)
                state = self._state(process, index) if index else STAMPED
            if state != STAMPED:
                self._wait(event, (other, index))
                return False
            if index:
                named.append((other, index))
                unsure.append((other, index))
        return True

    def _state(self, process: Process, index: int) -> int:
        if index <= process.complete:
            return STAMPED
        key = (process.id, index)
        if key in self._work:
            return WAITING
        if key in self._ledger.stamps:
            return STAMPED
        if key in self._ledger.waiting:
            return WAITING
        if index > process.newest:
            return _ABSENT
        row = self._ledger.db.execute("SELECT state FROM events WHERE process = ? AND idx = ?", key).fetchone()
        return _ABSENT if row is None else int(row[0])

    def _last_here(self, process: Process, index: int) -> int:
        """The greatest index up to this one that is here; 0 if none is."""
        if index > process.newest:
            return process.newest
        sql = 'SELECT "first", "last" FROM holes WHERE process = ? AND "first" <= ? ORDER BY "first" DESC LIMIT 1'
        row = self._ledger.db.execute(sql, (process.id, index)).fetchone()
        return index if row is None or row[1] < index else int(row[0]) - 1

    def _wait(self, event: Pending, spot: Spot) -> None:
        self._parked.setdefault(spot, []).append(event)

    # Stamping.

    def _merge(self, event: Pending, stamp: Stamp, causes: list[Key], named: list[Key]) -> tuple[Stamp, Entries]:
        """All causes have their stamps: the maximum of them, and what changed against the event before."""
        ledger, process = self._ledger, event.process
        time = stamp.time if event.time is None else max(stamp.time, event.time)
        entries, changed = stamp.entries, _NO_ENTRIES
        for keys in (causes, named):  # Messages first: they tell most of what a clock names.
            unknown = [key for key in keys if key[1] > entries.get(key[0], 0)]
            if len(unknown) > 1:
                # The one that knows most first: it often knows the others.
                sizes = {key: ledger.stamps.get(ledger.db, key).total + key[1] for key in unknown}
                unknown.sort(key=lambda key: (-sizes[key], key))
            for key in unknown:
                if key[1] <= entries.get(key[0], 0):
                    continue
                cause = ledger.stamps.get(ledger.db, key)
                if key[0] == process.id or cause.entries.get(process.id, 0) >= event.index:
                    self._refuse_cycle(event, key)  # It knows this event, which had been given up.
                    continue
                time = max(time, cause.time)
                before = entries.get
                learnt = {key[0]: key[1]}
                learnt.update([entry for entry in cause.entries.items() if entry[1] > before(entry[0], 0)])
                learnt.pop(process.id, None)
                entries, changed = {**entries, **learnt}, {**changed, **learnt}
        total = stamp.total if changed is _NO_ENTRIES else sum(entries.values())
        return Stamp(entries, total, time), changed

    def _finish(self, event: Pending, before: int, stamp: Stamp, changed: Entries, *, complete: bool) -> bool:
        """It has its stamp; whether that is the clock that was reported."""
        ledger, process, key = self._ledger, event.process, event.key
        execution = process.execution
        ledger.stamps.put(key, stamp)
        del self._work[key]
        self.stamped += 1
        complete = complete and event.index == process.complete + 1
        # An event that comes between others is full: so no event has more than FULL_EVERY rows to read.
        late = event.index < process.stamped
        process.rows += 1
        full = late or not before or process.rows >= FULL_EVERY
        if full and not late:
            process.rows = 0
        data = encode(stamp.entries) if full else encode(changed) if changed else None
        equal = event.clock is not None and is_stamp(event, stamp)
        clock = None if equal else event.encoded_clock()
        row = (clock, int(event.clock is not None), stamp.time, stamp.total + event.index, int(full), data, *key)
        what = PLACED | (COMPLETED if complete else 0)
        if event.stored:
            ledger.stamped.append(row)
            ledger.note(*key, what)
            ledger.steps -= 1
        else:
            event.arrival = ledger.note(*key, what | ARRIVED)
            stored = (*key, execution.id, event.arrival, STAMPED, event.time, event.name, event.content)
            ledger.events.append((*stored, *row[:6]))
        if stamp.time > execution.latest:
            execution.latest = stamp.time
            execution.touch()
        process.touch()
        if complete:
            process.complete = event.index
            self.completed[process.id] = process
        if (event.index == process.complete + 1) or (complete and process.stamped > event.index):
            self.due[process.id] = process
        process.stamped = max(process.stamped, event.index)
        self._tell(event, stamp, late=late)
        return equal

    def _tell(self, event: Pending, stamp: Stamp, *, late: bool) -> None:
        """Wake what waits for this event, and note what should have known it."""
        ledger, key = self._ledger, event.key
        execution = event.process.execution
        self._ready.extend(self._parked.pop(key, ()))
        if late:
            self._raise(key, (key[0], key[1] + 1), None)  # What follows it on its process.
        for message in event.sends:
            self._ready.extend(self._parked.pop((execution.id, message), ()))
            receivers = ledger.receivers[execution.id, message]
            if receivers:
                ledger.sent.append((execution.id, message))
            for receiver, (index, cut) in receivers.items():
                if cut or (receiver, index) in self._work or (receiver, index) == key:
                    continue
                process = ledger.registry.by_id(ledger.db, receiver)
                if self._state(process, index) != STAMPED:
                    continue
                if ledger.stamps.get(ledger.db, (receiver, index)).entries.get(key[0], 0) < key[1]:
                    self._tell_late(event, stamp, (receiver, index), message)
            self.told.append((execution, message))
        if event.index <= event.process.claimed:
            sql = "SELECT by_process, by_idx FROM claims WHERE process = ? AND idx = ?"
            for claim in ledger.db.execute(sql, key).fetchall():
                self._tell_late(event, stamp, claim, None)
            ledger.db.execute("DELETE FROM claims WHERE process = ? AND idx = ?", key)
        self._stamped.append(event)

    def _tell_late(self, event: Pending, stamp: Stamp, effect: Key, message: str | None) -> None:
        """An effect was stamped without its cause. Whoever is behind it must know the cause, if it can."""
        known = event.index if effect[0] == event.process.id else stamp.entries.get(effect[0], 0)
        if effect[0] == event.process.id and effect[1] > event.index and message is not None:
            return  # A message to itself: process order says so too.
        if known < effect[1]:
            self._raise(event.key, effect, message)
        elif message is not None:
            reject_cycle(self._ledger, event.key, effect, message)

    def _raise(self, cause: Key, effect: Key, message: str | None) -> None:
        """All that knows the effect will be raised, also what is stamped until then. But where an event was put
        between others, its process is out of order until that is done: no other event of the execution gets a stamp
        before.
        """
        self.late.append((cause, effect, message))
        if effect == (cause[0], cause[1] + 1):
            execution = self._ledger.registry.by_id(self._ledger.db, cause[0]).execution
            execution.raising = True
            execution.touch()

    def _refuse_cycle(self, event: Pending, cause: Key) -> None:
        """A message of an event that knows this one; or a clock that names such a one, which `clock` will find."""
        ledger, execution = self._ledger, event.process.execution
        for message in event.receives:
            if ledger.senders.get((execution.id, message)) == cause:
                reject_cycle(ledger, cause, event.key, message)

    # Events in the store.

    def _wake_stored(self) -> bool:
        """Load what waits in the store for what was stamped; False if there is nothing more to do."""
        ledger = self._ledger
        if not self._stamped:
            return False
        told, self._stamped = self._stamped[:_TOLD], self._stamped[_TOLD:]
        if self._whole:
            named: list[Spot] = [(event.process.execution.id, m) for event in told for m in event.sends]
            self._take_up(ledger.waiting.take([*(event.key for event in told), *named]))
            return True
        keys: set[Key] = set()
        sql = "SELECT w.process, w.idx FROM v CROSS JOIN waits w ON w.on_process = v.a AND w.on_idx = v.b"
        keys.update(values_of(ledger.db, sql, [event.key for event in told]))
        sql = "SELECT w.process, w.idx FROM v CROSS JOIN waits w ON w.execution = v.a AND w.on_message = v.b"
        messages = [(event.process.execution.id, m) for event in told for m in event.sends]
        keys.update(values_of(ledger.db, sql, messages))
        keys -= self._work.keys()
        keys = {key for key in keys if key not in ledger.stamps}
        self.wake(sorted(keys))
        return True

    def wake(self, keys: list[Key]) -> None:
        """Look at these events of the store again."""
        for key in keys:
            self._ledger.waiting.discard(key)
        self._wake(self._ledger.load(keys))

    def _take_up(self, events: list[Pending]) -> None:
        """Events that waited, and were held in memory."""
        if events:
            self._ledger.recall(events)
            self._wake(events)

    def _wake(self, events: list[Pending]) -> None:
        for event in sorted(events, key=_arrival):
            if event.key not in self._work:
                self._ledger.woken.append(event.key)
                self._work[event.key] = event
                self._ready.append(event)

    def _store_waiting(self, event: Pending) -> None:
        if event.stored:
            return
        ledger, key = self._ledger, event.key
        event.arrival = ledger.note(*key, ARRIVED)
        time = NO_TIME if event.time is None else event.time
        ledger.events.append(
            (
                *key,
                event.process.execution.id,
                event.arrival,
                WAITING,
                event.time,
                event.name,
                event.content,
                event.encoded_clock(),
                int(event.clock is not None),
                time,
                event.index,
                0,
                None,
            )
        )
        event.stored = True
        execution = event.process.execution
        if time > execution.latest:
            execution.latest = time
            execution.touch()


def reject_cycle(ledger: Ledger, sender: Key, receiver: Key, message: str) -> None:
    """A receive that would close a cycle through events that have their stamps: it is cut, the events stay."""
    process = ledger.registry.by_id(ledger.db, receiver[0])
    execution = process.execution
    sent = EventId(execution.name, ledger.registry.by_id(ledger.db, sender[0]).name, sender[1])
    received = EventId(execution.name, process.name, receiver[1])
    cycle = f"{received} → {sent} → {received}"
    detail = f"message {message!r}, sent at {sent}, received at {received}, is in a cycle: {cycle}"
    ledger.reject(Rejection(reason="cycle", detail=detail, events=(received, sent), message=message), execution.name)
    ledger.cuts.append((execution.id, message, receiver[0]))
    if (execution.id, message) in ledger.receivers:
        ledger.receivers[execution.id, message][receiver[0]] = (receiver[1], True)


_NO_ENTRIES: Final[Entries] = {}
_NOTHING: Final = Stamp(_NO_ENTRIES, 0, NO_TIME)


def _arrival(event: Pending) -> int:
    return event.arrival
