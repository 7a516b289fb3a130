"""What a reporter may cost and what it does at its bounds. Every figure is a setting with a default."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final

from beforehand.formats.opening import LIMITS_DEFAULT

__all__ = ["LIMITS", "RETRIES", "DropPolicy", "ReportLimits", "Retries"]


class DropPolicy(StrEnum):
    """Which event goes when the queue is full."""

    NEWEST = "newest"  # The one that comes: what is queued stays.
    OLDEST = "oldest"  # The one that waits longest, unless it is being sent.
    WAIT = "wait"  # The caller waits for room, but not for ever; then the one that comes.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLimits:
    """Bounds of a reporter's memory and of what it sends at once."""

    events_max: int = 50_000  # In the queue, with those being sent. At the bound: the drop policy.
    bytes_max: int = 32 << 20  # The same in bytes of lines; the last event may go beyond it.
    event_bytes_max: int = 256 << 10  # Of one line; a longer event loses its attributes, or is dropped.
    name_max: int = 1_000  # Characters; a longer name is cut and says so.
    value_max: int = 10_000  # The same of an attribute's value.
    batch_events_max: int = 1_000  # Sent at once.
    batch_bytes_max: int = 1 << 20  # The same in bytes, but always one event at least.

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 1:
                raise ValueError(f"{limit.name} must be at least 1")
        if self.event_bytes_max > LIMITS_DEFAULT.line_bytes_max:
            raise ValueError(f"event_bytes_max: readers take lines up to {LIMITS_DEFAULT.line_bytes_max} bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How long to wait before a batch is sent again, in seconds. Each wait is shortened at random by up to half."""

    first: float = 0.5
    most: float = 30.0  # Each wait is twice the one before it, up to this.
    unauthorised: float = 60.0  # After 401 or 403: somebody must give another token first.

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.most or self.unauthorised <= 0:
            raise ValueError("waits are above 0, and first is not above most")


LIMITS: Final = ReportLimits()
RETRIES: Final = Retries()
