"""Lanes that were read, up to a limit in bytes; those not used for longest go first.

Lanes are read by one thread of their own, whoever asks: a question that is given up at its deadline loses nothing,
the next one finds what was read meanwhile. Two who ask for the same wait for one reading.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final

from beforehand.errors import InputError
from beforehand.service.deadlines import OverdueError, left
from beforehand.service.views.lanes import Lanes

__all__ = ["EVENTS_MAX", "LanesCache", "refuse_if_large"]

BYTES_MAX: Final = 512 << 20
EVENTS_MAX: Final = 12_000_000
"""Events of an execution that can be drawn: their lanes are held in memory."""

Key = tuple[str, str]  # An execution and an axis.


def refuse_if_large(execution: str, events: int) -> None:
    if events > EVENTS_MAX:
        raise InputError(
            f"execution {execution[:100]!r} has {events} events, more than the {EVENTS_MAX} that can be drawn: "
            "ask for its events with find, past and order"
        )


class LanesCache:
    """Any thread may call any method."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max: Final = bytes_max
        self._lock: Final = threading.Lock()
        self._kept: Final[OrderedDict[Key, Lanes]] = OrderedDict()  # At most `bytes_max`, or one.
        self._coming: Final[dict[Key, Future[Lanes]]] = {}  # Being read, or waiting for that.
        self._reader: Final = ThreadPoolExecutor(1, "beforehand-lanes")

    def close(self) -> None:
        """Whatever is being read is read to its end; nothing more is begun."""
        self._reader.shutdown(cancel_futures=True)

    def kept(self, key: Key) -> Lanes | None:
        """What was read last, if it is still here."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
            return kept

    def get(self, key: Key, make: Callable[[Lanes | None], Lanes], is_fresh: Callable[[Lanes], bool]) -> Lanes:
        """What was kept if it is fresh; else what `make` gives of it, or of None."""
        kept = self.kept(key)
        if kept is not None and is_fresh(kept):
            return kept
        found, joined = self._awaited(key, make)
        if joined and not is_fresh(found):  # That reading had begun before we were asked.
            found, _ = self._awaited(key, make)
        return found

    def _awaited(self, key: Key, make: Callable[[Lanes | None], Lanes]) -> tuple[Lanes, bool]:
        """The lanes that are being read, and whether somebody else had begun that."""
        with self._lock:
            coming = self._coming.get(key)
            joined = coming is not None
            if coming is None:
                coming = self._coming[key] = self._reader.submit(self._read, key, make)
        try:
            return coming.result(left()), joined
        except FutureTimeoutError:
            raise OverdueError from None

    def _read(self, key: Key, make: Callable[[Lanes | None], Lanes]) -> Lanes:
        try:
            lanes = make(self._kept.get(key))
        except BaseException:
            with self._lock:
                del self._coming[key]
            raise
        with self._lock:
            self._kept[key] = lanes
            self._kept.move_to_end(key)
            size = sum(kept.nbytes for kept in self._kept.values())
            while size > self._bytes_max and len(self._kept) > 1:
                _, gone = self._kept.popitem(last=False)
                size -= gone.nbytes
            del self._coming[key]
        return lanes
