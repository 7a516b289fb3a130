"""How much of a history a check could judge, and why not the rest.

A count of 0 says that all is well only where something was judged. Order is judged by receives: FIFO and causal order
need real messages with a known send, total order real messages, temporal order sends with a time; reported clocks are
judged where an event reports one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["NO_CLOCKS", "Judged", "judged_clocks", "judged_notes", "judged_orders", "judged_temporal", "known_counts"]

NO_CLOCKS = "reported clocks: not judged: no event reports a clock"

_ORDERS = {"fifo": "FIFO", "causal": "causal", "total": "total", "temporal": "temporal"}


@dataclass(frozen=True, slots=True)
class Judged:
    """`judged` of `of` receives (`clock`: events); `why` not all, empty if all were."""

    judged: int
    of: int
    why: str = ""

    def document(self) -> dict[str, int | str | None]:
        return {"judged": self.judged, "of": self.of, "why": self.why or None}


def judged_orders(*, receives: int, inferred: int, unsent: int) -> dict[str, Judged]:
    """FIFO, causal and total order. `unsent`: receives of real messages that nobody sent."""
    sent = _judged_receives(receives, inferred, unsent, "that nobody sent")
    return {"fifo": sent, "causal": sent, "total": _judged_receives(receives, inferred, 0, "")}


def judged_temporal(*, receives: int, inferred: int, untimed: int) -> Judged:
    """Temporal order. `untimed`: receives of real messages whose send has no time, or is not there."""
    return _judged_receives(receives, inferred, untimed, "without a send time")


def judged_clocks(*, events: int, clocks: int) -> Judged:
    """Reported clocks: so many events report one."""
    if not clocks:
        return Judged(0, events, "no event reports a clock")
    return Judged(clocks, events, f"{events - clocks:,} events report no clock" if clocks < events else "")


def known_counts(counts: Mapping[str, int], judged: Mapping[str, Judged]) -> dict[str, int | None]:
    """What was found of each kind; None where nothing was judged."""
    return {
        kind: None if not count and kind in judged and not judged[kind].judged else count
        for kind, count in counts.items()
    }


def judged_notes(judged: Mapping[str, Judged]) -> list[str]:
    """What was not judged at all, and why: a sentence for all orders of which the same is to say."""
    reasons: dict[str, list[str]] = {}
    for kind, one in judged.items():
        if not one.judged and kind in _ORDERS:
            reasons.setdefault(one.why, []).append(_ORDERS[kind])
    notes = [f"{_listed(orders)} order: not judged: {why}" for why, orders in reasons.items()]
    clock = judged.get("clock")
    if clock is not None and not clock.judged:
        notes.append(NO_CLOCKS)
    return notes


def _judged_receives(receives: int, inferred: int, others: int, what: str) -> Judged:
    left = receives - inferred - others
    if not receives:
        return Judged(0, 0, "no event receives a message")
    if receives == inferred:
        return Judged(0, receives, f"all {receives:,} receives are of inferred messages")
    why = f"{inferred:,} receives are of inferred messages" if inferred else ""
    if others:
        why += f" and {others:,} of messages {what}" if why else f"{others:,} receives are of messages {what}"
    return Judged(left, receives, why)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
