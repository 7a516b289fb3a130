"""The message: what an application sends and what is delivered to it, the same for every protocol."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from beforehand.clocks.wire import VALUE_MAX

__all__ = ["NUMBER_MAX", "Level", "Message"]

NUMBER_MAX: Final = VALUE_MAX
"""The largest number of a message, a packet or a logical time: what 63 bits hold."""


class Level(StrEnum):
    """What a message waits for before it is delivered: a service level, from the weakest to the strongest.

    The level of the message that might come too early decides. A causal message is delivered after every message
    of its past, whatever their levels; a FIFO message after the earlier ones of its own sender only.
    """

    UNORDERED = "unordered"
    FIFO = "fifo"
    CAUSAL = "causal"
    TOTAL = "total"
    CAUSAL_TOTAL = "causal-total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of `sender`, its `number`-th, to each of `to`. It validates itself."""

    sender: str
    number: int  # From 1. A sender that restarts goes on counting, so the pair is unique for ever.
    to: tuple[str, ...]  # Distinct; may contain the sender, which then delivers its own message.
    payload: bytes = b""
    level: Level = Level.UNORDERED

    def __post_init__(self) -> None:
        if type(self.sender) is not str or not self.sender:
            raise ValueError("the sender is empty or not a text")
        if type(self.number) is not int or not 1 <= self.number <= NUMBER_MAX:
            raise ValueError(f"the number {self.number!r} is not between 1 and {NUMBER_MAX}")
        if type(self.to) is not tuple or not self.to or not all(type(p) is str and p for p in self.to):
            raise ValueError("the destinations are not a tuple of names")
        if len(set(self.to)) < len(self.to):
            raise ValueError("a destination is named twice")
        if type(self.payload) is not bytes:
            raise ValueError("the payload is not bytes")
        if type(self.level) is not Level:
            raise ValueError("the level is none")

    @property
    def key(self) -> tuple[str, int]:
        """What tells this message from all others."""
        return (self.sender, self.number)

    @property
    def id(self) -> str:
        """The same as text, for histories and people: `sender.number`."""
        return f"{self.sender}.{self.number}"

    @property
    def others(self) -> tuple[str, ...]:
        """The destinations but the sender itself."""
        return tuple(p for p in self.to if p != self.sender)
