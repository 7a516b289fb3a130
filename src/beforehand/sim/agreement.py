"""Agreement across views: those who stay deliver the same messages in the same view, and agree on the views.

Who has joined is compared with the others from its first view on: what it should have by then is what was sent to it
before, which is nothing.
"""

from __future__ import annotations

from itertools import combinations

from beforehand.sim.record import Record

__all__ = ["agreement"]


def agreement(record: Record) -> list[str]:
    """In what members that both went from one view to the next differ. Those who left are out of it."""
    failures: list[str] = []
    stayed = sorted(p for p in record.views if p not in record.departed)
    for p, q in combinations(stayed, 2):
        first = max(record.views[p][0][0], record.views[q][0][0])
        ours, theirs = _since(record, p, first), _since(record, q, first)
        for (number, members, here), (other, others, there) in zip(ours, theirs, strict=False):
            if (number, members) != (other, others):
                failures.append(f"{p} installed view {number} of {members}, {q} view {other} of {others}")
                break
            for message_id in set(record.delivered.get(p, [])[:here]) ^ set(record.delivered.get(q, [])[:there]):
                sent = record.sent.get(message_id)
                if sent is not None and p in sent[0].to and q in sent[0].to:
                    failures.append(f"{message_id} was delivered before view {number} at one of {p} and {q} only")
    return sorted(failures)


def _since(record: Record, process: str, first: int) -> list[tuple[int, tuple[str, ...], int]]:
    return [view for view in record.views[process] if view[0] >= first]
