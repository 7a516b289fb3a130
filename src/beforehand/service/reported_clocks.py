"""Clocks as they were reported, beside the stamps that causes imply."""

from __future__ import annotations

from beforehand.service.ledger import Ledger, Pending
from beforehand.service.stamps import Stamp

__all__ = ["is_stamp", "judge"]


def is_stamp(event: Pending, stamp: Stamp) -> bool:
    """Whether the reported clock can be left out, for it is the stamp, to the letter."""
    if event.own != event.index or event.clock != stamp.entries:
        return False
    assert event.reported is not None
    return _entries_in(event.reported) == len(stamp.entries) + 1  # No zeros.


def judge(ledger: Ledger, event: Pending, stamp: Stamp) -> None:
    """A clock that lacks what the event's causes imply, or has another own entry, is a finding."""
    if event.clock is None or (event.clock is stamp.entries and event.own == event.index):
        return
    clock = event.clock
    low = clock != stamp.entries and any(known > clock.get(p, 0) for p, known in stamp.entries.items())
    if event.own == event.index and not low:
        return
    names = {p: ledger.registry.by_id(ledger.db, p).name for p in {*clock, *stamp.entries}}
    own = event.process.name
    reported = {**({own: event.own} if event.own else {}), **{names[p]: n for p, n in clock.items()}}
    implied = {own: event.index, **{names[p]: n for p, n in stamp.entries.items()}}
    why = f"{event.id} reports the clock {_shown(reported)}; its causes imply {_shown(implied)}"
    ledger.findings.append((*event.key, event.process.execution.id, why))


def _entries_in(data: bytes) -> int:
    """How many entries an encoded map has."""
    head = data[0]
    if head < 0x90:
        return head - 0x80
    return int.from_bytes(data[1 : 3 if head == 0xDE else 5], "big")


def _shown(clock: dict[str, int]) -> str:
    """A clock in a sentence, cut where it is long."""
    some = dict(sorted(clock.items())[:20])
    return f"{some}" if len(clock) <= 20 else f"{str(some)[:-1]}, … {len(clock) - 20} more}}"
