"""How two events are related, and a causal chain between them: the answers of `History`, out of a few rows."""

from __future__ import annotations

from itertools import pairwise

from beforehand.service.knowing import first_knowing
from beforehand.service.ledger import Key
from beforehand.service.schema import WAITING
from beforehand.service.view import Row, View

__all__ = ["chain_between", "knows", "reasons_of"]


def knows(view: View, later: Row, earlier: Key) -> bool:
    """Whether `earlier` happened before `later`, or is it."""
    if later.process == earlier[0]:
        return later.index >= earlier[1]
    return view.stamp(later).entries.get(earlier[0], 0) >= earlier[1]


def chain_between(view: View, first: Key, second: Row) -> list[Key]:
    """`first` happened before `second`, or is it. Backwards: on the later event's process, the first event that knows
    the earlier one learnt it from a message or a clock; go to where that came from. Each process is passed once.
    """
    chain = [second.key]
    here = second
    while here.process != first[0]:
        knowing = _first_knowing(view, here, first)
        if knowing.key != here.key:
            chain.append(knowing.key)
        here = _told_by(view, knowing, first)
        chain.append(here.key)
    if chain[-1] != first:
        chain.append(first)
    return chain[::-1]


def _first_knowing(view: View, upto: Row, event: Key) -> Row:
    """The first event of the process, up to this one which does, that knows an event."""
    found = first_knowing(view.db, upto.process, view.member(upto.process).stamped, *event)
    if found is None or found > upto.index:
        sql = f"SELECT idx FROM events WHERE process = ? AND idx <= ? AND state = {WAITING} ORDER BY idx"  # noqa: S608
        for (index,) in view.db.execute(sql, upto.key).fetchall():
            row = view.row((upto.process, index))
            if row is not None and knows(view, row, event):
                return row
        return upto
    row = view.row((upto.process, found))
    assert row is not None
    return row


def _told_by(view: View, knowing: Row, event: Key) -> Row:
    """The send of the first message that told it; else the event that its clock names and that knew it."""
    for _, key in view.senders(knowing):
        row = view.row(key)
        if row is not None and key[0] != knowing.process and knows(view, row, event):
            return row
    stamp = view.stamp(knowing)
    # A clock names an event of some process, all of whose knowledge it has: those of its stamp will do.
    for process, index in sorted(stamp.entries.items(), key=lambda entry: (entry[0] != event[0], entry)):
        row = view.row((process, index))
        if row is not None and knows(view, row, event):
            return row
    raise AssertionError(f"nothing told {view.event_id(knowing.key)} of {view.event_id(event)}")


def reasons_of(view: View, chain: list[Key]) -> list[str]:
    """A sentence per edge of a causal chain."""
    reasons = []
    for first, second in pairwise(chain):
        a, b = view.event_id(first), view.event_id(second)
        row = view.row(second)
        assert row is not None
        carried = [message for message, key in view.senders(row) if key == first]
        if first[0] == second[0]:
            reasons.append(f"{a} came before {b} on {view.member(first[0]).name}")
        elif carried:
            reasons.append(f"{a} sent {carried[0]!r}, which {b} received")
        else:
            reasons.append(f"{b} reports a clock that knows {a}")
    return reasons
