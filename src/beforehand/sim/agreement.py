"""Agreement across views: those who stay deliver the same messages in the same view, and agree on the views; and they
have, in its place, what one that was evicted knew to be stable.

Who has joined is compared with the others from its first view on: what it should have by then is what was sent to it
before, which is nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from beforehand.sim.record import Record

__all__ = ["acknowledged", "agreement"]


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


def acknowledged(record: Record, *, total: bool, weak: Collection[str] = ()) -> list[str]:
    """In what those who stayed lack what one was told is stable; if `total`, also in what order they have it.

    What one that left delivered up to there, it delivered as they did. What it delivered later it may have delivered
    alone. `weak` messages have no place in a total order.
    """
    failures: list[str] = []
    stayed = sorted(p for p in record.delivered if p not in record.departed)
    for process, ids in sorted(record.acknowledged.items()):
        for other in stayed:
            here, there = _common(record, process, other, weak), _common(record, other, process, weak)
            wanted = {i for i in ids if i in record.sent and other in record.sent[i][0].to}
            lost = wanted - set(record.delivered[other])
            failures += [f"{other} never delivered {i}, which {process} was told is stable" for i in lost]
            last = max((at for at, i in enumerate(here, start=1) if i in ids), default=0)
            if total and process in record.departed and here[:last] != there[:last]:
                failures.append(
                    f"{process} and {other} differ before {here[last - 1]}, which {process} knew is stable"
                )
    failures += [
        f"{process} was told that {i} is stable, which nobody sent"
        for process, ids in record.acknowledged.items()
        for i in ids - record.sent.keys()
    ]
    return sorted(failures)


def _common(record: Record, process: str, other: str, weak: Collection[str]) -> list[str]:
    """What `process` delivered of what was for both."""
    return [
        i
        for i in record.delivered.get(process, ())
        if i in record.sent and {process, other} <= set(record.sent[i][0].to) and i not in weak
    ]


def _since(record: Record, process: str, first: int) -> list[tuple[int, tuple[str, ...], int]]:
    return [view for view in record.views[process] if view[0] >= first]
