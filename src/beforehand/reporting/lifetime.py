"""What reporters do when the program ends or forks, without anybody calling them.

At the end of the program (`atexit`) every reporter that is still open is closed, all together within the longest of
their `exit_timeout`s. In a child of a fork all of them, open or not, begin anew: see `reporter`. Reporters are held
weakly here.
"""

from __future__ import annotations

import atexit
import os
import time
import weakref
from typing import Final, Protocol

__all__ = ["keep", "release"]


class _Ending(Protocol):
    """What this module needs of a reporter."""

    exit_timeout: float

    def _begin_close(self) -> None: ...
    def close(self, timeout: float = ...) -> bool: ...
    def _after_fork(self) -> None: ...


_all: Final[weakref.WeakSet[_Ending]] = weakref.WeakSet()
_open: Final[weakref.WeakSet[_Ending]] = weakref.WeakSet()


def keep(reporter: _Ending) -> None:
    _all.add(reporter)
    _open.add(reporter)


def release(reporter: _Ending) -> None:
    """It is closed."""
    _open.discard(reporter)


def _close_all() -> None:
    started = time.monotonic()
    reporters = list(_open)
    for reporter in reporters:
        reporter._begin_close()
    for reporter in reporters:
        reporter.close(max(0.0, reporter.exit_timeout - (time.monotonic() - started)))


def _fork_all() -> None:
    for reporter in list(_all):
        reporter._after_fork()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fork_all)
