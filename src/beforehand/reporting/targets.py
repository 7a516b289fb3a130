"""Where reports go, and what can come of sending them.

A target takes lines of the native format, in order, and answers one of:

    Taken     all of them were dealt with; the answer says how many were new, and which were not stored
    Later     send the rest again, not before `after` seconds have passed; the first `taken` are dealt with
    Split     too many at once: send fewer
    Refused   they will never be taken: drop them

Sending the same event twice must be harmless, for after a lost answer it is done: an event is known by its
(execution, process, index). A target is used by one thread at a time. What it raises counts as `Later`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

__all__ = ["Answer", "CallableTarget", "Later", "NotStored", "Refused", "Split", "Taken", "Target"]


@dataclass(frozen=True, slots=True)
class NotStored:
    """One event of a batch that the target did not take."""

    at: int  # Its place in the batch, from 0.
    reason: str  # One of a few fixed words.
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """All lines were dealt with."""

    stored: int
    repeated: int = 0  # Known before, and equal.
    conflicts: int = 0  # Known before, and different: kept beside the first.
    rejected: tuple[NotStored, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """The lines from number `taken` on must be sent again."""

    error: str  # One line for people.
    after: float | None = None  # Seconds to wait at least; None: as long as `Retries` says.
    taken: int = 0
    say_once: bool = False  # Somebody must do something: no use in saying it every minute.


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The batch is too large; a batch of one event is then dropped."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The batch will never be taken; its events are dropped and counted under `reason`."""

    reason: str
    error: str


Answer: TypeAlias = Taken | Later | Split | Refused


@runtime_checkable
class Target(Protocol):
    """What reports can be sent to."""

    def send(self, lines: Sequence[bytes], /) -> Answer:
        """Take lines without their newlines. May block; must not hold the reporter's caller."""
        ...

    def close(self) -> None:
        """Nothing more will be sent."""
        ...


class CallableTarget:
    """A function of the application: it takes the lines, or raises and gets them again later."""

    def __init__(self, function: Callable[[Sequence[bytes]], object]) -> None:
        self._function = function

    def __str__(self) -> str:
        return getattr(self._function, "__qualname__", type(self._function).__name__)

    def send(self, lines: Sequence[bytes], /) -> Answer:
        self._function(lines)
        return Taken(stored=len(lines))

    def close(self) -> None:
        """Nothing to do."""
