"""Messages that wait for their place in an order of stamps: a heap for all of them, a line for each sender.

For protocols in which a message has its final place when it is sent. A place is (logical time, rank), no two are
equal, and those of one sender grow.

  Q1  A causal-total message leaves when the protocol says that nothing below its place can still come, in the order
      of places.
  Q2  A FIFO message leaves as soon as nothing earlier of its sender waits.
  Q3  When a causal-total message leaves, all that came here with a smaller place has left.

Q3 is what keeps causal order where levels are mixed: whatever lies in the past of a message has a smaller place.
Why it holds: a causal-total message of a smaller place is nearer to the top of the heap. A FIFO message of a smaller
place waits, by Q2, behind a causal-total one of its own sender, which has a smaller place still; it has left, and
took along the FIFO ones behind it.

At most `limit` messages of one sender wait. The first in a line always has room, so whoever has nothing here is
never refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, TypeAlias

from beforehand.errors import BufferFullError, InvariantError
from beforehand.ordering.effects import Deliver, Effects
from beforehand.ordering.message import Level, Message

__all__ = ["Stamp", "StampedQueue"]

Stamp: TypeAlias = tuple[int, int]
"""(logical time, rank of the sender at that time): the place of a message in the order."""


class StampedQueue:
    def __init__(self, *, limit: int) -> None:
        self._limit: Final = limit
        self._waiting: dict[Stamp, Message] = {}  # In the order of arrival; at most `limit` per sender.
        self._heap: list[Stamp] = []  # Those of level causal-total.
        self._lines: dict[str, deque[Stamp]] = {}  # Per sender, oldest first; never empty, first a causal-total one.

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[tuple[Stamp, Message]]:
        """All that waits, in the order of arrival."""
        return iter(self._waiting.items())

    @property
    def head(self) -> Stamp | None:
        """The smallest place at which something waits."""
        return self._heap[0] if self._heap else None

    def first_of(self, sender: str) -> Stamp:
        """The place of the first message in the line of `sender`, which has one."""
        return self._lines[sender][0]

    def refuse_if_full(self, sender: str) -> None:
        """Raise BufferFullError if one more message of `sender` has no room."""
        if len(self._lines.get(sender, ())) >= self._limit:
            raise BufferFullError(what=f"messages of {sender!r} that wait for their order", limit=self._limit)

    def add(self, stamp: Stamp, message: Message, effects: Effects) -> None:
        """Take a message, larger than all before of its sender; deliver it if it need not wait (Q2)."""
        line = self._lines.get(message.sender)
        if line is None:
            if message.level is Level.FIFO:
                effects.happen(Deliver(message=message, place=stamp))
                return
            line = self._lines[message.sender] = deque()
        line.append(stamp)
        self._waiting[stamp] = message
        if message.level is not Level.FIFO:
            heappush(self._heap, stamp)

    def release(self, effects: Effects) -> None:
        """Deliver the message at the head, and the FIFO ones of its sender that waited for it."""
        stamp = heappop(self._heap)
        sender = self._waiting[stamp].sender
        line = self._lines[sender]
        assert line[0] == stamp, "the line of a sender grows"
        while line and (line[0] == stamp or self._waiting[line[0]].level is Level.FIFO):
            place = line.popleft()
            effects.happen(Deliver(message=self._waiting.pop(place), place=place))
        if not line:
            del self._lines[sender]

    def check_invariants(self) -> None:
        for sender, line in self._lines.items():
            if not line or self._waiting[line[0]].level is Level.FIFO:
                raise InvariantError(f"Q2: the line of {sender!r} is empty, or a FIFO message is first in it")
            if list(line) != sorted(line):
                raise InvariantError(f"Q1: the line of {sender!r} does not grow")
        if sum(map(len, self._lines.values())) != len(self._waiting):
            raise InvariantError("Q1: a message waits in no line")
