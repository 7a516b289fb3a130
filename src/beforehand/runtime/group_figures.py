"""What a member of a group may hold, and how it tells where it stands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Self

from beforehand.ordering.protocol import Missing, Pending
from beforehand.runtime.transports.base import TransportFigures

__all__ = ["GroupFigures", "GroupLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """What a member may hold."""

    inbox_max: int = 10_000  # Messages delivered that the application has not taken.
    payload_bytes_max: int = 1024 * 1024
    waiting_max: int = 10_000  # Calls of `send` and `execute` that wait.
    state_bytes_max: int = 256 * 1024 * 1024  # Of the application's state, as a newcomer takes it.


@dataclass(slots=True, kw_only=True)
class GroupFigures:
    """What a member has done, and where it stands."""

    sent: int = 0
    delivered: int = 0
    handled: int = 0
    inbox: int = 0
    pending: int = 0  # Messages that are here and cannot be delivered yet.
    oldest: Pending | None = None  # The first of these, and what it waits for.
    missing: list[Missing] = field(default_factory=list)
    discarded: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    put_off: int = 0  # Packets not taken because the inbox was full; they come again.
    transport: TransportFigures = field(default_factory=TransportFigures)

    def with_pending(self, pending: list[Pending]) -> Self:
        self.pending, self.oldest = len(pending), pending[0] if pending else None
        return self
