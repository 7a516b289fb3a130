"""Clocks as they were reported, beside the stamps that causes imply.

Most events learn nothing: their clock is the one before on their process, but for the own entry. Such clocks are
looked through once (`Told`), and their entries are shared.
"""

from __future__ import annotations

from collections.abc import Mapping

from beforehand.service.ledger import Ledger, Pending
from beforehand.service.records import Entries
from beforehand.service.stamps import Stamp

__all__ = ["Told", "is_stamp", "judge"]


class Told:
    """A reported clock, and those after it that differ from it in the own entry only. Of one batch."""

    __slots__ = ("_clock", "_entries", "_exact")

    def __init__(self, clock: Mapping[str, int]) -> None:
        self._clock = dict(clock)
        self._entries: Entries | None = None
        self._exact = False

    def is_also(self, clock: Mapping[str, int], own: str) -> bool:
        """Whether this clock of the same process is that one, but for the own entry, which both have."""
        if own not in clock or own not in self._clock:
            return False
        self._clock[own] = clock[own]
        return clock == self._clock

    def tell(self, event: Pending, clock: Mapping[str, int]) -> None:
        """The event reports this clock, which is that one."""
        if self._entries is None:
            event.report_clock(clock)
            self._entries, self._exact = event.clock, event.exact
        else:
            event.said, event.clock, event.exact = clock, self._entries, self._exact
            event.own = clock.get(event.process.name, 0)


def is_stamp(event: Pending, stamp: Stamp) -> bool:
    """Whether the reported clock can be left out, for it is the stamp, to the letter."""
    if not event.exact or event.own != event.index:
        return False
    return event.clock is stamp.entries or event.clock == stamp.entries


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


def _shown(clock: dict[str, int]) -> str:
    """A clock in a sentence, cut where it is long."""
    some = dict(sorted(clock.items())[:20])
    return f"{some}" if len(clock) <= 20 else f"{str(some)[:-1]}, … {len(clock) - 20} more}}"
