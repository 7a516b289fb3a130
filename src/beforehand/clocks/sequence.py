"""Which numbered messages of one sender were received: exact, whatever their order, in little memory."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

__all__ = ["SequenceSet"]


class SequenceSet:
    """A set of numbers from 1, kept as a mark up to which all are in, and those above it one by one.

    Grows with the gaps, not with the numbers. No window: a repetition is recognised however late it comes.
    """

    __slots__ = ("_above", "_mark", "_sorted")

    def __init__(self, mark: int = 0, above: Iterable[int] = ()) -> None:
        self._mark = mark  # All numbers up to this one are in.
        self._above: set[int] = set()  # Those above the mark, none equal to mark + 1.
        self._sorted: list[int] = []  # The same, sorted: what comes mostly in order is put in at the end.
        for number in above:
            self.add(number)

    def add(self, number: int) -> bool:
        """Whether the number was not in before; it is now."""
        if number in self:
            return False
        if number == self._mark + 1:
            self._mark = number
            while self._mark + 1 in self._above:
                self._mark += 1
                self._above.remove(self._mark)
            del self._sorted[: self._mark - number]
        else:
            self._above.add(number)
            insort(self._sorted, number)
        return True

    def __contains__(self, number: int) -> bool:
        return number <= self._mark or number in self._above

    @property
    def mark(self) -> int:
        return self._mark

    @property
    def above(self) -> tuple[int, ...]:
        """The numbers above the mark, sorted: with the mark, all that is needed to make the set again."""
        return tuple(self._sorted)

    def first_above(self, count: int) -> tuple[int, ...]:
        """The smallest `count` of the numbers above the mark."""
        return tuple(self._sorted[:count])

    @property
    def gaps(self) -> int:
        """How many numbers above the mark are held one by one."""
        return len(self._above)
