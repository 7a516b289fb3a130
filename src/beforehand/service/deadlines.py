"""Questions end: a time after which a reader of the store is cut off, for the thread that asks.

`within(seconds)` holds for what its block calls in this thread. `Store.reading` waits for its turn no longer than
that, and SQLite is interrupted when it has passed. Work outside SQLite calls `check` now and then. Either way the
block ends with an `OverdueError`; nothing was changed, for only readers are cut off.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Final

from beforehand.errors import BeforehandError

__all__ = ["OverdueError", "check", "has_passed", "left", "within"]

_end: Final[ContextVar[float | None]] = ContextVar("beforehand-deadline", default=None)


class OverdueError(BeforehandError):
    """A question took longer than it may. Nothing has changed."""

    def __init__(self) -> None:
        super().__init__("the question takes too long: ask for less (a smaller limit, a narrower where), or later")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What the block asks is cut off after so many seconds; an outer block that ends sooner holds too."""
    end, outer = monotonic() + seconds, _end.get()
    token = _end.set(end if outer is None else min(end, outer))
    try:
        yield
    finally:
        _end.reset(token)


def left() -> float | None:
    """Seconds until the deadline, 0 at least; None if there is none."""
    end = _end.get()
    return None if end is None else max(end - monotonic(), 0.0)


def has_passed() -> bool:
    end = _end.get()
    return end is not None and monotonic() >= end


def check() -> None:
    """`OverdueError` if the deadline has passed."""
    if has_passed():
        raise OverdueError
