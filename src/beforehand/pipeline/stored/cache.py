"""What was read lately, up to a number of bytes: the least recently used goes first."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeVar, cast

__all__ = ["CACHE_BYTES_MAX", "Cache"]

T = TypeVar("T")

CACHE_BYTES_MAX: Final = 256 << 20


class Cache:
    """Keys are tuples whose first element says what kind of thing they name; `reads` counts what was not here."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._held: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._bytes = 0
        self.reads: Counter[str] = Counter()

    def get(self, key: tuple[str, *tuple[Hashable, ...]], make: Callable[[], tuple[T, int]]) -> T:
        """What the key names; `make` gives it with its size in bytes if it is not here."""
        if key in self._held:
            self._held.move_to_end(key)
            return cast(T, self._held[key][0])
        self.reads[key[0]] += 1
        value, size = make()
        self._held[key] = (value, size)
        self._bytes += size
        while self._bytes > self._bytes_max and len(self._held) > 1:
            _, (_, gone) = self._held.popitem(last=False)
            self._bytes -= gone
        return value

    def clear(self) -> None:
        """Forget what was read."""
        self._held.clear()
        self._bytes = 0
