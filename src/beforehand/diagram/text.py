"""Text from strangers, made safe to show: nothing here can break the XML or rearrange the line.

Names come from logs, and logs hold anything. Four things can go wrong: characters that XML 1.0 forbids,
characters that cannot be seen (controls), characters that reorder their neighbours (bidirectional
controls, which can make `user` read as `resu`), and sheer length. `visible` handles the first three by
showing a stand-in, `fit` and `cut` the last. Escaping `<` and `&` is left to the writer of the document.
"""

from __future__ import annotations

import re
import unicodedata
from math import fsum
from typing import Final

__all__ = ["BOLD", "cut", "fit", "natural_key", "visible", "width_of"]

BOLD: Final = 1.12
"""How much wider bold text is: multiply the font size by it."""

_ELLIPSIS: Final = "…"
_JOINERS: Final = "\u200c\u200d"  # Needed inside words of several scripts and inside emoji.
_MARKS_MAX: Final = 3  # Combining marks in a row; more would climb into the neighbouring lane.

_NARROW: Final = frozenset("iIljtfr.,:;'`|!()[]{}/\\ -")
_BROAD: Final = frozenset("mwMW@%&—…")
_DIGITS: Final = re.compile(r"([0-9]+)")


def visible(text: str, limit: int = 500) -> str:
    """The text on one line, at most `limit` characters, with stand-ins for what XML or eyes cannot take."""
    text = cut(text, limit)
    if text.isascii() and text.isprintable():
        return text  # Nearly all names, and a diagram asks for thousands.
    shown: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks <= _MARKS_MAX:
            shown.append(_stand_in(character, category))
    return "".join(shown)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters; an ellipsis says that there was more."""
    return text if len(text) <= limit else text[: limit - 1] + _ELLIPSIS


def fit(text: str, room: float, size: float) -> str:
    """As much of the text as fits into `room` pixels at font size `size`; empty if only a stump would."""
    if width_of(text, size) <= room:
        return text
    room -= width_of(_ELLIPSIS, size)
    kept = 0
    for character in text:
        room -= width_of(character, size)
        if room < 0:
            break
        kept += 1
    # Two letters and an ellipsis help nobody; the tooltip has the whole name.
    return text[:kept].rstrip() + _ELLIPSIS if kept >= 3 else ""


def width_of(text: str, size: float) -> float:
    """The width in pixels, estimated on the generous side: the reader's font is not known here."""
    return size * fsum(map(_em, text))  # Not sum: that rounds otherwise from Python 3.12 on.


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts `P2` before `P10`. Digits are compared as text of known length: no limit on their number."""
    parts = []
    for position, part in enumerate(_DIGITS.split(name)):
        digits = part.lstrip("0") if position % 2 else ""
        parts.append((1, len(digits), digits) if position % 2 else (0, 0, part))
    return (*parts, (0, 0, name))  # The name itself last: `P1` and `P01` must not tie.


def _stand_in(character: str, category: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # The control pictures: ␀, ␊, …
    if code == 0x7F:
        return "␡"
    if category == "Cs" or code & 0xFFFE == 0xFFFE:
        return "\ufffd"  # A lone surrogate or a noncharacter: XML 1.0 cannot carry it.
    if category in ("Cc", "Zl", "Zp") or (category == "Cf" and character not in _JOINERS):
        return f"⟨U+{code:04X}⟩"  # Among these are all the bidirectional controls.
    return character


def _em(character: str) -> float:
    if character.isascii():
        if character in _NARROW:
            return 0.36
        if character in _BROAD:
            return 0.95
        return 0.7 if character.isupper() else 0.62
    if unicodedata.combining(character):
        return 0.0
    return 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.75
