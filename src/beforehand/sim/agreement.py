"""Agreement across views: those who stay deliver the same messages in the same view, and agree on the views."""

from __future__ import annotations

from itertools import combinations

from beforehand.sim.record import Record

__all__ = ["agreement"]


def agreement(record: Record) -> list[str]:
    """In what members that both went from one view to the next differ. Those who left are out of it."""
    failures: list[str] = []
    stayed = sorted(p for p in record.views if p not in record.departed)
    for p, q in combinations(stayed, 2):
        ours, theirs = record.views[p], record.views[q]
        for (number, members, here), (other, others, there) in zip(ours, theirs, strict=False):
            if (number, members) != (other, others):
                failures.append(f"{p} installed view {number} of {members}, {q} view {other} of {others}")
                break
            for message_id in set(record.delivered.get(p, [])[:here]) ^ set(record.delivered.get(q, [])[:there]):
                sent = record.sent.get(message_id)
                if sent is not None and p in sent[0].to and q in sent[0].to:
                    failures.append(f"{message_id} was delivered before view {number} at one of {p} and {q} only")
    return sorted(failures)
