"""A line of progress: on a terminal it is written over and over and goes in the end; elsewhere there is none."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

__all__ = ["LiveLine"]

_BACK: Final = "\r\x1b[K"  # To the start of the line, and clear it.
_INTERVAL_S: Final = 0.2


class LiveLine:
    """Of standard error. At most one text in `_INTERVAL_S` is made and shown."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._live: Final = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._next = 0.0

    def show(self, text: Callable[[], str]) -> None:
        now = time.monotonic()
        if self._live and now >= self._next:
            self._next = now + _INTERVAL_S
            with suppress(OSError):
                sys.stderr.write(f"{_BACK}{text()[: shutil.get_terminal_size().columns - 1]}")
                sys.stderr.flush()

    def clear(self) -> None:
        """What is said next stands alone on its line."""
        if self._live:
            with suppress(OSError):
                sys.stderr.write(_BACK)
                sys.stderr.flush()
