"""The four ways in which two stamps can stand to each other."""

from __future__ import annotations

from enum import Enum

__all__ = ["Relation"]


class Relation(Enum):
    """What `a.compare(b)` answers about a.

    From a stamp type whose `exact` is true this is happened-before itself: BEFORE means a → b and
    CONCURRENT means that neither could have caused the other. From the others (Lamport, bounded, offset and
    hybrid stamps) it holds in one direction only: a → b implies BEFORE, but BEFORE proves no more than that b
    did not cause a.
    """

    BEFORE = "before"
    AFTER = "after"
    EQUAL = "equal"
    CONCURRENT = "concurrent"

    @staticmethod
    def of(*, below: bool, above: bool) -> Relation:
        """The relation of a to b from `a ≤ b` and `a ≥ b`."""
        if below:
            return Relation.EQUAL if above else Relation.BEFORE
        return Relation.AFTER if above else Relation.CONCURRENT
