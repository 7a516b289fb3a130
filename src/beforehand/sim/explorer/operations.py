"""What processes do by themselves, as numbers: a mask of processes, and what is done to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["ADMIT", "EVICT", "FORCE", "LEAVE", "describe", "members"]

EVICT: Final = 1 << 8
"""With this bit: evict the processes of the mask. Without: send a message to them."""

FORCE: Final = 1 << 9
"""Evict them even without a majority."""

LEAVE: Final = 1 << 10
"""Leave the group; no mask."""


ADMIT: Final = 1 << 11
"""With this bit: admit the processes of the mask."""


def members(mask: int, names: Sequence[str]) -> list[str]:
    """The processes of a mask."""
    return [name for at, name in enumerate(names) if mask >> at & 1]


def describe(operation: int, names: Sequence[str]) -> str:
    """In words."""
    if operation == LEAVE:
        return "leave"
    whom = " ".join(members(operation, names))
    if operation & EVICT:
        return f"evict {whom}{' by force' if operation & FORCE else ''}"
    if operation & ADMIT:
        return f"admit {whom}"
    return f"send to {whom}"
