"""What callers give, as the texts that an event may hold: checked, cut to limits, fit for UTF-8.

Wrong types raise `ValueError`. Text never does, whatever is in it: a lone surrogate becomes its escape (`\\udcff`),
so that a file name with odd bytes cannot break the program that reports it, and long text is cut with a mark at its
end. Ids of messages are not cut: two of them might become one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from beforehand.events import INDEX_MAX
from beforehand.reporting.settings import ReportLimits

__all__ = ["Draft", "Scalar", "checked_clock", "drafted", "fitted"]

Scalar: TypeAlias = str | int | float | bool | None


class Draft(NamedTuple):
    """An event that is not numbered yet. It holds only what an event may hold."""

    name: str
    sends: tuple[str, ...]
    receives: tuple[str, ...]
    attributes: dict[str, str]
    time: int | None
    is_cut: bool = False  # Its name or a value was longer than allowed.


def drafted(
    name: str,
    sends: Iterable[str],
    receives: Iterable[str],
    attributes: Mapping[str, Scalar] | None,
    time: int | None,
    *,
    limits: ReportLimits,
) -> Draft:
    """Everything that can be wrong with an event is found here, before it is numbered."""
    if time is not None and (type(time) is not int or not -INDEX_MAX <= time <= INDEX_MAX):
        raise ValueError(f"time {time!r:.40} is not a 64-bit number of nanoseconds")
    name = fitted(name, limits.name_max)
    found = _fitted_attributes(attributes, limits.value_max) if attributes is not None else {}
    is_cut = len(name) > limits.name_max or (bool(found) and max(map(len, found.values())) > limits.value_max)
    return Draft(name, _message_ids(sends, "sends"), _message_ids(receives, "receives"), found, time, is_cut)


def fitted(text: str, characters_max: int, what: str = "name") -> str:
    if type(text) is not str:
        if not isinstance(text, str):
            raise ValueError(f"{what} is not a text but {type(text).__name__}")
        text = str.__str__(text)  # A member of a StrEnum, or another kind of text.
    if len(text) > characters_max:
        text = f"{text[:characters_max]}… ({len(text)} characters)"
    return text if text.isascii() else _well_formed(text)


def _message_ids(ids: Iterable[str], what: str) -> tuple[str, ...]:
    if not ids:
        return ()
    if isinstance(ids, str | bytes):
        raise ValueError(f"{what} is one text: give a list of message ids")
    try:
        found = tuple(fitted(message, len(message), what) for message in ids)
    except TypeError:
        raise ValueError(f"{what} is not a list of message ids") from None
    if "" in found:
        raise ValueError(f"{what} has an empty message id")
    if len(set(found)) < len(found):
        raise ValueError(f"{what} names a message twice")
    return found


def _fitted_attributes(attributes: Mapping[str, Scalar], characters_max: int) -> dict[str, str]:
    """Values that are no text become JSON, as in the native format."""
    if not isinstance(attributes, Mapping):
        raise ValueError(f"attributes is not a mapping but {type(attributes).__name__}")
    found: dict[str, str] = {}
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise ValueError(f"attribute {key!r:.40} is not a text")
        if not isinstance(value, str):
            if value is not None and not isinstance(value, int | float):
                raise ValueError(f"attribute {key!r:.40} is neither text nor number but {type(value).__name__}")
            value = _number_text(value)
        found[fitted(key, len(key), "attribute")] = fitted(value, characters_max, "attribute")
    return found


def checked_clock(clock: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for process, count in clock.items():
        if type(count) is not int or not 0 <= count <= INDEX_MAX:
            raise ValueError(f"clock entry {process!r:.40}: {count!r:.40} is not between 0 and {INDEX_MAX}")
        found[fitted(process, len(process), "process of a clock entry")] = count
    return found


def _number_text(value: float | None) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(bool(value)).lower()
    try:
        return int.__repr__(value) if isinstance(value, int) else float.__repr__(value)
    except ValueError:
        return "a number of thousands of digits"


def _well_formed(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
