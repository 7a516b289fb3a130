"""Names that are too long for their room, cut where it costs least: what tells them apart stays.

1. A name that fits stays as it is.
2. What all names begin with, and what half of them or more end with, is left out, up to a character that is no letter
   or digit: of `42795@host[server-1,5,main]` and its like, `…server-1…` is left. No more of the start than needed.
3. What is still too long is cut in the middle, so that no other name has the same two ends; where every split leaves
   a namesake, the stretch is kept in which it begins to differ.

Assumes that the names are different, and shown together. The page has the same rules (page/modules/shortening.js),
and a test compares the two. Costs the names' length for each way to split that is tried, at most the square of the
characters that fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from beforehand.diagram.text import visible

__all__ = ["Shortening"]

_ELLIPSIS: Final = "…"
_LENGTH_MAX: Final = 300  # Of a name beyond, only the two ends are looked at.
_COMMON_MIN: Final = 4  # Characters; leaving out fewer gains nothing.


class Shortening:
    """Of these names; `width` measures a text in whatever unit the room is in."""

    def __init__(self, names: Iterable[str], width: Callable[[str], float]) -> None:
        self._width: Final = width
        self._shown: Final = {name: _shown(name) for name in names}
        self._head: Final = _common_start(list(self._shown.values()))
        self._ends: Final = _common_ends([text[self._head :] for text in self._shown.values()])
        self._rests: Final = [self._rest(text)[0] for text in self._shown.values()]
        self._shared: Final[dict[tuple[int, int], Counter[tuple[str, str]]]] = {}

    def fit(self, name: str, room: float) -> str:
        """The name as it is, or what tells it from the others; an ellipsis stands for what is left out."""
        text = self._shown[name]
        if self._width(text) <= room:
            return text
        before = _ELLIPSIS if self._head else ""
        rest, after = self._rest(text)
        for start in self._starts(text):
            shown = before + text[start : self._head] + rest + after
            if self._width(shown) <= room:
                return shown
        return self._split(rest, before, after, room)

    def _rest(self, text: str) -> tuple[str, str]:
        """What is left of it, and what stands for its end."""
        rest = text[self._head :]
        end = self._ends.get(rest, "")
        return rest.removesuffix(end), _ELLIPSIS if end else ""

    def _starts(self, text: str) -> Iterable[int]:
        """Where it may begin if there is room: with as many words of the common start as fit, at last with none."""
        return (at for at in range(1, self._head + 1) if not text[at - 1].isalnum()) if self._head else (0,)

    def _split(self, rest: str, before: str, after: str, room: float) -> str:
        kept = _room_for(rest, before, after, room, self._width)
        splits = []
        for tail in (*range((kept + 1) // 2, kept + 1), *range((kept - 1) // 2, -1, -1)):
            head = kept - tail
            shown = before + rest[:head] + _ELLIPSIS + rest[len(rest) - tail :] + after
            splits.append(shown)
            if self._namesakes(head, tail)[rest[:head], rest[len(rest) - tail :]] == 1:
                return shown if head else _ELLIPSIS + rest[len(rest) - tail :] + after
        start = max(0, self._differs(rest) - (kept - 1) // 2)
        middle = rest[start : start + kept - 1]
        if kept > 3 and start + len(middle) < len(rest):
            return _ELLIPSIS + middle + _ELLIPSIS
        return splits[0] if kept else _ELLIPSIS

    def _namesakes(self, head: int, tail: int) -> Counter[tuple[str, str]]:
        """How many names have these two ends."""
        found = self._shared.get((head, tail))
        if found is None:
            long = (rest for rest in self._rests if len(rest) >= head + tail)
            found = Counter((rest[:head], rest[len(rest) - tail :]) for rest in long)
            self._shared[head, tail] = found
        return found

    def _differs(self, rest: str) -> int:
        """How much of it some other name begins with."""
        return max((_common_head(rest, other) for other in self._rests if other != rest), default=0)


def _shown(name: str) -> str:
    if len(name) <= _LENGTH_MAX:
        return visible(name)
    half = _LENGTH_MAX // 2
    return visible(name[:half] + _ELLIPSIS + name[-half:])


def _room_for(rest: str, before: str, after: str, room: float, width: Callable[[str], float]) -> int:
    """How many characters fit beside one ellipsis; by the wider end, so that every split fits."""
    room -= width(before + _ELLIPSIS + after)
    kept = 0
    while kept < len(rest) and max(width(rest[: kept + 1]), width(rest[len(rest) - kept - 1 :])) <= room:
        kept += 1
    return kept


def _common_start(texts: Sequence[str]) -> int:
    """How many characters all begin with, where something is left of each."""
    if len(texts) < 2:
        return 0
    low = min(texts)
    size = _common_head(low, max(texts))  # What these two have in common, all between them have.
    while size and low[size - 1].isalnum():
        size -= 1
    return size if size >= _COMMON_MIN and all(len(text) > size for text in texts) else 0


def _common_ends(texts: Sequence[str]) -> dict[str, str]:
    """The longest end of each that half of all have, where what is left is still its own."""
    if len(texts) < 2:
        return {}
    found = {
        text: [text[at:] for at in range(1, len(text) - _COMMON_MIN + 1) if not text[at].isalnum()] for text in texts
    }
    having = Counter(end for ends in found.values() for end in ends)
    enough = max(2, len(texts) / 2)
    longest = {text: next((end for end in ends if having[end] >= enough), "") for text, ends in found.items()}
    left = Counter(text.removesuffix(end) for text, end in longest.items())
    return {text: end for text, end in longest.items() if end and left[text.removesuffix(end)] == 1}


def _common_head(one: str, other: str) -> int:
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return at
    return min(len(one), len(other))
