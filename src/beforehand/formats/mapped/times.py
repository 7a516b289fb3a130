r"""Times of any notation as nanoseconds since 1970, exactly: a time is kept as it came or refused, never rounded.

A notation is one of

    ns, us, ms, s   a number, or its text; decimals are read as decimals and never become floats
    rfc3339         text with a zone; without one, `zone` is taken if it was given
    a layout        text by directives, such as `%d/%b/%Y:%H:%M:%S %z`

Directives: %Y %m %b %d %H %I %p %M %S %f %z %%. %b is an English abbreviation (Jan), %f is a fraction of 1 to 9
digits, %z is Z, +01:00 or +0100, and a blank may stand in place of a day's leading zero. A layout must say the year,
the month, the day, the hour, the minute and the second; if it has no %z, a zone must be given. Only fixed zones
are exact: UTC, or an offset. A zone with summer time has an hour a year that means two instants.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from beforehand.events import INDEX_MAX, parse_time
from beforehand.formats.json_text import Json, shown

__all__ = ["UNITS", "TimeNotation", "scaled"]

UNITS: Final = {"ns": 0, "us": 3, "ms": 6, "s": 9}
"""Each unit and the power of ten that makes it nanoseconds."""

_NUMBER: Final = re.compile(r"[+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_OFFSET: Final = re.compile(r"[+-]\d{2}:\d{2}", re.ASCII)
_ZONED: Final = re.compile(r".*(?:[Zz]|[+-]\d{2}:\d{2})", re.ASCII | re.DOTALL)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DIRECTIVES: Final = {
    "Y": r"(?P<Y>\d{4})",
    "m": r"(?P<m>\d{1,2})",
    "b": r"(?P<b>[A-Za-z]{3})",
    "d": r" ?(?P<d>\d{1,2})",
    "H": r" ?(?P<H>\d{1,2})",
    "I": r" ?(?P<I>\d{1,2})",
    "p": r"(?P<p>[AaPp])[Mm]",
    "M": r"(?P<M>\d{2})",
    "S": r"(?P<S>\d{2})",
    "f": r"(?P<f>\d{1,9})",
    "z": r"(?P<z>[Zz]|[+-]\d{2}:?\d{2})",
    "%": "%",
}


class TimeNotation:
    """One way of writing times."""

    def __init__(self, unit: str, zone: str) -> None:
        """`ValueError` if the notation is unknown or cannot be exact."""
        self._zone = _zone(zone)
        self._power = UNITS.get(unit)
        self._layout = None if self._power is not None or unit == "rfc3339" else _compiled(unit, self._zone)
        if self._power is not None and zone:
            raise ValueError(f"time_zone stands beside time_unit {unit}, which needs none: leave it out")
        self._unit = unit

    def read(self, value: Json | Decimal) -> int:
        """A time in nanoseconds. `ValueError` says what is wrong; a float is not taken: it may be rounded already."""
        if self._power is not None:
            return scaled(value, self._power, self._unit)
        if not isinstance(value, str):
            raise ValueError(f"time {_shown(value)} is not a text: say its unit with time_unit (ns, us, ms or s)")
        if self._layout is None:
            has_zone = not self._zone or _ZONED.fullmatch(value)
            return parse_time(value if has_zone else value + self._zone)
        match = self._layout.fullmatch(value)
        if match is None:
            raise ValueError(f"time {_shown(value)} is not written as {self._unit}")
        return parse_time(_rfc3339(match.groupdict(), self._zone, value))


def scaled(value: Json | Decimal, power: int, unit: str) -> int:
    """A number of some unit in nanoseconds, exactly. `ValueError` if it is no number, too fine or too large."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = Decimal(value.strip())
    if type(value) is int:
        nanoseconds: int = value * 10**power
    elif isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < 40:
        sign, digits, exponent = value.as_tuple()
        whole = int("".join(map(str, digits))) * (-1 if sign else 1)
        shift = int(exponent) + power
        nanoseconds, rest = (whole * 10**shift, 0) if shift >= 0 else divmod(whole, 10**-shift)
        if rest:
            raise ValueError(f"{_shown(value)} {unit} is finer than a nanosecond")
    else:
        raise ValueError(f"{_shown(value)} is not a number of {unit}")
    if abs(nanoseconds) > INDEX_MAX:
        raise ValueError(f"{_shown(value)} {unit} is beyond what 64-bit nanoseconds hold: is the unit right?")
    return nanoseconds


def _zone(text: str) -> str:
    if text in ("", "UTC", "Z"):
        return "Z" if text else ""
    if _OFFSET.fullmatch(text) is None:
        raise ValueError(f"time_zone {shown(text)} is neither UTC nor an offset like +01:00: only those are exact")
    return text


def _compiled(layout: str, zone: str) -> re.Pattern[str]:
    if "%" not in layout:
        raise ValueError(
            f"time_unit {shown(layout)} is not one of ns, us, ms, s, rfc3339, nor a layout like %Y-%m-%d %H:%M:%S"
        )
    pattern, used = "", ""
    pieces = re.split(r"%(.)", layout, flags=re.DOTALL)
    for literal, directive in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        pattern += re.escape(literal)
        if directive:
            if directive not in _DIRECTIVES or (directive in used and directive != "%"):
                raise ValueError(f"time_unit {shown(layout)}: %{directive} is unknown, or stands twice")
            pattern += _DIRECTIVES[directive]
            used += directive
    said = set(used)
    if not (said >= {"Y", "d", "M", "S"} and said & {"m", "b"} and ("H" in said or said >= {"I", "p"})):
        raise ValueError(f"time_unit {shown(layout)} does not say the year, month, day, hour, minute and second")
    if ("z" in said) == bool(zone):
        what = "says a zone and so does time_zone: leave one out" if zone else "says no zone: add %z or time_zone"
        raise ValueError(f"time_unit {shown(layout)} {what}")
    return re.compile(pattern, re.ASCII)


def _rfc3339(parts: dict[str, str | None], zone: str, value: str) -> str:
    month = parts.get("m") or ""
    if not month:
        name = (parts.get("b") or "").lower()
        if name not in _MONTHS:
            raise ValueError(f"time {_shown(value)} has a month that is none")
        month = str(_MONTHS.index(name) + 1)
    hour = parts.get("H") or ""
    if not hour:
        twelfth = int(parts.get("I") or 0)
        if not 1 <= twelfth <= 12:
            raise ValueError(f"time {_shown(value)} has an hour out of range")
        hour = str(twelfth % 12 + (12 if (parts.get("p") or "") in "Pp" else 0))
    offset = parts.get("z") or zone
    if len(offset) == 5:
        offset = f"{offset[:3]}:{offset[3:]}"
    fraction = f".{parts['f']}" if parts.get("f") else ""
    day = f"{parts['Y']}-{month:0>2}-{(parts['d'] or ''):0>2}"
    return f"{day}T{hour:0>2}:{parts['M']}:{parts['S']}{fraction}{offset}"


def _shown(value: Json | Decimal) -> str:
    return shown(str(value) if isinstance(value, Decimal) else value)
