"""Values of a report as people read them, and careful reading of the report itself.

A report is JSON, perhaps written by another version: a key may be absent, null or of another type than expected. The
readers here (`number_of`, `records_of`, ...) then say None or nothing at all, and never raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from beforehand.diagram.page.markup import Markup, element
from beforehand.diagram.page.times import rfc3339

__all__ = [
    "amount",
    "amount_text",
    "count",
    "duration",
    "duration_text",
    "instant",
    "known_or_why",
    "mapping_of",
    "number_of",
    "records_of",
    "share_text",
    "size_text",
    "string_of",
    "strings_of",
]

_UNITS: Final = (
    ("ns", 1),
    ("µs", 10**3),
    ("ms", 10**6),
    ("s", 10**9),
    ("min", 60 * 10**9),
    ("h", 3_600 * 10**9),
    ("d", 86_400 * 10**9),
)
_SIZES: Final = (("B", 1), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30), ("TiB", 2**40))
_MINUS: Final = "−"
_NUMBER_MAX: Final = 10**30  # Beyond this nothing is a figure of ours, and arithmetic on floats could overflow.


def number_of(value: object) -> int | float | None:
    """The number, or None: absent, null, not finite or no number at all."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < _NUMBER_MAX else None  # Neither is one that is not finite.


def string_of(value: object) -> str:
    """The text; empty if there is none."""
    if isinstance(value, str):
        return value
    return "" if value is None else str(value)


def mapping_of(value: object) -> Mapping[str, object]:
    return {string_of(key): one for key, one in value.items()} if isinstance(value, Mapping) else {}


def records_of(value: object) -> list[Mapping[str, object]]:
    return [mapping_of(one) for one in _items(value) if isinstance(one, Mapping)]


def strings_of(value: object) -> list[str]:
    return [string_of(one) for one in _items(value)]


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()


def amount_text(value: int | float) -> str:
    """A count or a plain figure: 1,234,567."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def amount(value: object) -> Markup:
    number = number_of(value)
    return _unknown() if number is None else element("span", amount_text(number), class_="number")


def count(value: int | float, one: str, many: str = "") -> str:
    """`1 event`, `2 events`."""
    return f"{amount_text(value)} {one if value == 1 else many or one + 's'}"


def duration_text(nanoseconds: int | float) -> str:
    """Three significant digits in the unit that fits: 1.23 ms."""
    sign, value = (_MINUS if nanoseconds < 0 else ""), abs(nanoseconds)
    for position, (unit, size) in enumerate(_UNITS):
        shown = f"{value / size:.3g}"
        # Minutes and up are for people: 90 s reads better than 1.5 min.
        following = _UNITS[position + 1][1] / size * (2 if unit == "s" else 1) if position + 1 < len(_UNITS) else None
        if following is None or float(shown) < following:
            return f"{sign}{float(shown):,.15g} {unit}"
    raise AssertionError("the last unit takes everything")


def duration(value: object) -> Markup:
    """With the exact value for whoever points at it."""
    number = number_of(value)
    if number is None:
        return _unknown()
    return element("span", duration_text(number), title=f"{number:,} ns", class_="number")


def instant(value: object) -> Markup:
    """A time in nanoseconds since 1970 as RFC 3339 in UTC, to the last digit that is not zero."""
    if isinstance(value, str):
        return element("span", value, class_="time")
    number = number_of(value)
    if number is None:
        return element("span", "no time", class_="quiet")
    exact = f"{int(number):,} ns since 1970"
    return element("time", rfc3339(int(number)), title=exact, class_="time")


def share_text(share: float) -> str:
    """A share from 0 to 1 in per cent; never rounded to 0 % or 100 % when it is not."""
    percent = share * 100
    if 0 < percent < 0.001:
        return "below 0.001 %"
    if 99.9 < percent < 100:
        return f"{percent:.6g} %"
    return f"{percent:.3g} %"


def size_text(size: int | float) -> str:
    for unit, bytes_in_unit in reversed(_SIZES):
        if size >= bytes_in_unit:
            return f"{size / bytes_in_unit:.4g} {unit}"
    return f"{size} B"


def known_or_why(value: Markup | None, notes: Sequence[str], *words: str) -> Markup:
    """The figure; where there is none, the first note that has one of these words, else `not known`."""
    if value is not None:
        return value
    for note in notes:
        if any(word in note.casefold() for word in words):
            return element("span", f"not known: {note}", class_="quiet")
    return _unknown()


def _unknown() -> Markup:
    return element("span", "not known", class_="quiet")
