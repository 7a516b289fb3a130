"""Fields of JSON records from strangers: typed access that is strict about meaning and lenient about spelling.

A field that is absent or null is the default. One of the wrong type is the default too where the record still makes
sense without it (a name, a list of attributes), and told as lost (`odd-field`); it is a `RefusedError` where it does
not (a time that is no time). Whole numbers may be written as numbers, as floats without a fraction, or as text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Final

from beforehand.events import INDEX_MAX
from beforehand.formats.json_text import Json, RefusedError, shown
from beforehand.formats.spans.documents import ODD_FIELD, Tolerated, odd_field, shown_shortly

__all__ = [
    "NOT_A_SPAN",
    "JsonObject",
    "add_microseconds",
    "bytes_id",
    "integer",
    "objects",
    "one_line",
    "record",
    "text",
    "time_ns",
    "value_text",
]

JsonObject = dict[str, Json]

NOT_A_SPAN: Final = "not-a-span"
"""The reason of every record that is JSON of the right format, but of which no span can be made."""

_NONE: Final[JsonObject] = {}
# Made once: attributes are many, and making an encoder takes longer than encoding one.
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_WHOLE: Final = re.compile(r"-?\d{1,20}", re.ASCII)


def record(value: Json, what: str, tolerated: Tolerated) -> JsonObject:
    """An object, or an empty one: absent and null mean the same everywhere here."""
    if isinstance(value, dict):
        return value
    if value is not None:
        tolerated.lose(odd_field(what, value, "an object"))
    return _NONE


def objects(value: Json, what: str, tolerated: Tolerated) -> list[JsonObject]:
    """The objects of a list; what else stands in it is told, once a list."""
    if value is None:
        return []
    if not isinstance(value, list):
        tolerated.lose(odd_field(what, value, "a list"))
        return []
    found = [item for item in value if isinstance(item, dict)]
    if len(found) < len(value):
        odd = next(item for item in value if not isinstance(item, dict))
        detail = f"{len(value) - len(found)} of {what} are no objects, the first is {shown_shortly(odd)}: left out"
        tolerated.lose(RefusedError(ODD_FIELD, detail))
    return found


def text(value: Json, what: str, tolerated: Tolerated) -> str:
    """A text; numbers and booleans as JSON writes them; anything else is empty."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return value_text(value)
    if value is not None:
        tolerated.lose(odd_field(what, value, "a text"))
    return ""


def value_text(value: Json) -> str:
    """A value of any shape as the text of an attribute: texts as they are, the rest as JSON, null as nothing."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    if value is True or value is False:
        return "true" if value else "false"
    return "" if value is None else _encode(value)


def integer(value: Json) -> int | None:
    """A whole number, None if it is anything else."""
    if type(value) is int:  # Not isinstance: true is an int to Python.
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**64:
        return int(value)
    return None


def time_ns(value: Json, what: str, *, unit_ns: int = 1) -> int | None:
    """A time in nanoseconds, None if there is none (0 is none). Raises `RefusedError` if it is no time."""
    if value is None or value == "":
        return None
    number = integer(value)
    if number is None:
        raise RefusedError(NOT_A_SPAN, f"{what} is {shown(value)}, not a whole number")
    if not 0 <= number * unit_ns <= INDEX_MAX:
        raise RefusedError(NOT_A_SPAN, f"{what} is {number}, which is no time between 1970 and 2262")
    return number * unit_ns or None


def add_microseconds(start_ns: int | None, value: Json) -> int | None:
    """The end of a span that has a duration; None if it has none. A negative duration is kept, for later stages."""
    if start_ns is None or value is None or value == "":
        return None
    duration = integer(value)
    if duration is None:
        raise RefusedError(NOT_A_SPAN, f"duration is {shown(value)}, not a whole number")
    end_ns = start_ns + duration * 1_000
    if abs(end_ns) > INDEX_MAX:
        raise RefusedError(NOT_A_SPAN, f"duration {duration} leads beyond the year 2262")
    return end_ns


def bytes_id(value: str) -> str | None:
    """An id that was written in base64 (8 or 16 bytes) as hexadecimal; None if it is not that."""
    if len(value) not in (11, 12, 22, 24):
        return None
    try:
        data = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_" if set(value) & {"-", "_"} else None)
    except (binascii.Error, ValueError):
        return None
    # Bits that stand for nothing, and foreign characters, are passed over: two ids must not become one that way.
    again = base64.b64encode(data).decode().rstrip("=")
    if again != value.rstrip("=").replace("-", "+").replace("_", "/"):
        return None
    return data.hex() if len(data) in (8, 16) else None


def put_attribute(attributes: dict[str, str], key: str, value: str) -> None:
    """Add an attribute of ours. What the source has under that name stays, as `attribute.` and that name."""
    if attributes.get(key, value) != value:
        other = f"attribute.{key}"
        while other in attributes:
            other = f"attribute.{other}"
        attributes[other] = attributes.pop(key)
    attributes[key] = value


def one_line(value: str, *, limit: int = 200) -> str:
    """The first line of a text, cut: fit for the name of an event."""
    first = value.lstrip().split("\n", 1)[0].rstrip()
    return first if len(first) <= limit else f"{first[: limit - 1]}…"
