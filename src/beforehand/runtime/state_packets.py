"""What newcomers and members say to each other about the application's state, beside the protocol and its link.

These packets may be lost and repeated: whoever wants something asks again, and every answer can be given twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from beforehand.clocks.view import View
from beforehand.ordering.message import NUMBER_MAX

__all__ = ["PIECE_BYTES_MAX", "StateDropped", "StatePiece", "StateTaken", "StateWanted", "Turn"]

PIECE_BYTES_MAX: Final = 256 * 1024
DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Not a packet: it stands between the messages that are handed over, where `view` begins and `new` came in."""

    view: View
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWanted:
    """From one that is new in view `view`: give me the state as it was at its start, from byte `offset` on."""

    view: int
    offset: int

    def __post_init__(self) -> None:
        _refuse_numbers(self.view, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePiece:
    """The answer. `digest` is that of the whole, which has `total` bytes."""

    view: int
    offset: int
    total: int
    digest: bytes
    data: bytes

    def __post_init__(self) -> None:
        _refuse_numbers(self.view, self.offset, self.total)
        if type(self.digest) is not bytes or len(self.digest) != DIGEST_BYTES:
            raise ValueError("not a digest")
        if type(self.data) is not bytes or len(self.data) > PIECE_BYTES_MAX:
            raise ValueError("not a piece of a state")
        if self.offset + len(self.data) > self.total:
            raise ValueError("the piece goes beyond the end")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTaken:
    """From the newcomer: I have it; you need not keep it for me."""

    view: int

    def __post_init__(self) -> None:
        _refuse_numbers(self.view)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDropped:
    """The answer: I keep nothing for you."""

    view: int

    def __post_init__(self) -> None:
        _refuse_numbers(self.view)


def _refuse_numbers(*values: int) -> None:
    if not all(type(value) is int and 0 <= value <= NUMBER_MAX for value in values):
        raise ValueError("a number is out of range")
