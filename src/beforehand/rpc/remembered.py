"""Which messages were received lately: so that one which comes a second time is not received twice.

A message is known by its sender and the count of its send. The clock tells most of what is asked: a message beyond
all that is known of its sender is new, if the stamp of every message that was noted has been taken over. Such a one
is only appended to `recent`, and looked at again when somebody asks about one that may not be new.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from contextlib import AbstractContextManager
from typing import Final

__all__ = ["REMEMBERED_MAX", "Remembered"]

REMEMBERED_MAX: Final = 4096
"""So many messages are remembered, or a few more."""


class Remembered:
    """Of one process. Its lock is that of the clock: to compare with the clock and to note a message is one step."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._lock: Final = lock
        self._noted: OrderedDict[tuple[str, int], bool] = OrderedDict()  # To whether it is open; REMEMBERED_MAX.
        # Noted without a question, newer than `_noted`. Appended to under the lock.
        self.recent: Final[deque[tuple[str, int]]] = deque(maxlen=REMEMBERED_MAX)
        self.open = 0  # Messages noted whose stamp was not taken over, or not yet: the clock does not tell of these.

    def note(self, sender: str, event: int) -> bool:
        """Whether the message is new; it is noted, and open until `close`."""
        key, noted = (sender, event), self._noted
        with self._lock:
            while self.recent:
                noted[self.recent.popleft()] = False
            is_new = key not in noted
            if is_new:
                noted[key] = True
                self.open += 1
            while len(noted) > REMEMBERED_MAX:
                _, was_open = noted.popitem(last=False)
                self.open -= was_open
            return is_new

    def close(self, sender: str, event: int) -> None:
        """The stamp of a message that was noted as new has been taken over."""
        with self._lock:
            if self._noted.get((sender, event)):
                self._noted[sender, event] = False
                self.open -= 1
