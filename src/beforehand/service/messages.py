"""Who sends and who receives messages, in memory: what the tables have, so that it is not asked for again.

A message is often met in several transactions: when it is sent, when it is received, and when an event that waited is
looked at again. Whatever is here is all that the tables have of it, and what the running transaction will write: the
one writer adds to both, and forgets all of it when a transaction was undone or the tables were changed.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Messages"]

WEIGHT_MAX: Final = 16 << 20
"""Bytes, about, at the beginning of a transaction; beyond, all is asked for again."""
_MESSAGE: Final = 500
_RECEIVER: Final = 200
_CHARACTER: Final = 4


class Messages:
    """Of one writer. A message is its execution's number and its id."""

    def __init__(self, weight_max: int = WEIGHT_MAX) -> None:
        self._weight_max: Final = weight_max
        self._weight = 0
        self.senders: dict[tuple[int, str], tuple[int, int]] = {}  # All that are here, of the messages asked for.
        self.receivers: dict[tuple[int, str], dict[int, tuple[int, bool]]] = {}  # Process to index, and whether cut.

    def ask(self, messages: set[tuple[int, str]]) -> list[tuple[int, str]]:
        """Those that nothing is known of. They count as known from now on: the caller adds what the tables have."""
        asked = [message for message in messages if message not in self.receivers]
        for message in asked:
            self.receivers[message] = {}
            self._weight += _MESSAGE + _CHARACTER * len(message[1])
        return asked

    def weigh(self, receivers: int) -> None:
        """So many receivers were added."""
        self._weight += _RECEIVER * receivers

    def shrink(self) -> None:
        """A transaction begins: nothing here is in use."""
        if self._weight > self._weight_max:
            self.forget()

    def forget(self) -> None:
        """Know nothing."""
        self.senders.clear()
        self.receivers.clear()
        self._weight = 0
