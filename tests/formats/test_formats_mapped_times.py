"""Times of any notation: exact, or refused."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.events import INDEX_MAX, parse_time
from beforehand.formats import FieldMap, Line, Unnumbered
from beforehand.formats.mapped.times import TimeNotation


def read(unit: str, value: str | int | Decimal, zone: str = "") -> int:
    return TimeNotation(unit, zone).read(value)


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("ns", 5, 5),
        ("ns", "-5", -5),
        ("us", 5, 5_000),
        ("ms", "1.5", 1_500_000),
        ("s", "1700000000.123456789", 1_700_000_000_123_456_789),  # A float would end in 716.
        ("s", Decimal("1.7e9"), 1_700_000_000_000_000_000),
        ("s", "1e-9", 1),
        ("s", "1.5000000000000", 1_500_000_000),  # Zeros are not finer than a nanosecond.
        ("ms", " 7 ", 7_000_000),
        ("rfc3339", "1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("%Y-%m-%d %H:%M:%S,%f%z", "1970-01-01 01:00:01,500+0100", 1_500_000_000),
        ("%d/%b/%Y:%H:%M:%S %z", "02/Jan/1970:00:00:00 Z", 86_400_000_000_000),
        ("%m/%d/%Y %I:%M:%S %p %z", "1/2/1970 12:00:01 AM +00:00", 86_401_000_000_000),
        ("%m/%d/%Y %I:%M:%S %p %z", "1/1/1970 12:00:01 pm +00:00", 43_201_000_000_000),
        ("100%% %Y%m%d%H%M%S%z", "100% 19700101000001Z", 1_000_000_000),
    ],
)
def test_a_time_is_read_as(unit: str, value: str | int | Decimal, expected: int) -> None:
    assert read(unit, value) == expected


@pytest.mark.parametrize(
    ("unit", "zone", "value", "expected"),
    [
        ("rfc3339", "UTC", "1970-01-01T00:00:01", 1_000_000_000),
        ("rfc3339", "+01:00", "1970-01-01 01:00:01", 1_000_000_000),
        ("rfc3339", "+01:00", "1970-01-01T00:00:01Z", 1_000_000_000),  # What the text says goes first.
        ("%b %d %H:%M:%S %Y", "UTC", "Jan  1 00:00:01 1970", 1_000_000_000),
    ],
)
def test_a_time_without_a_zone_takes_the_given_one(unit: str, zone: str, value: str, expected: int) -> None:
    assert read(unit, value, zone) == expected


@pytest.mark.parametrize(
    ("unit", "value", "says"),
    [
        ("s", "1.0000000001", "finer than a nanosecond"),
        ("ns", "1.5", "finer than a nanosecond"),
        ("s", 10**10, "beyond what 64-bit nanoseconds hold: is the unit right?"),
        ("s", "1e30", "beyond"),
        ("s", Decimal("1e999999"), "not a number of s"),
        ("s", "nan", "not a number of s"),
        ("s", "12:00", "not a number of s"),
        ("s", "٣", "not a number of s"),
        ("rfc3339", "1970-01-01T00:00:01", "not RFC 3339"),
        ("rfc3339", 5, "say its unit with time_unit"),
        ("%Y-%m-%d %H:%M:%S%z", "1970-02-30 00:00:00Z", "day is out of range"),
        ("%Y-%m-%d %H:%M:%S%z", "1970-01-01T00:00:00Z", "is not written as %Y-%m-%d"),
        ("%Y-%b-%d %H:%M:%S%z", "1970-Foo-01 00:00:00Z", "month that is none"),
        ("%Y-%m-%d %I:%M:%S%p%z", "1970-01-01 13:00:00AMZ", "hour out of range"),
    ],
)
def test_what_is_no_exact_time_is_refused(unit: str, value: str | int | Decimal, says: str) -> None:
    with pytest.raises(ValueError, match=r"time|number|finer|beyond") as error:
        read(unit, value)
    assert says in str(error.value)


@pytest.mark.parametrize("value", [True, None, [1], 1.5])
def test_what_is_no_number_is_refused(value: bool | list[int] | float | None) -> None:
    with pytest.raises(ValueError, match="not a number of s"):
        TimeNotation("s", "").read(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unit", "zone", "says"),
    [
        ("hours", "", "is not one of ns, us, ms, s, rfc3339, nor a layout"),
        ("s", "UTC", "which needs none"),
        ("rfc3339", "Europe/Berlin", "neither UTC nor an offset"),
        ("%Y-%m-%d %H:%M:%S", "", "says no zone: add %z or time_zone"),
        ("%Y-%m-%d %H:%M:%S%z", "UTC", "leave one out"),
        ("%H:%M:%S%z", "", "does not say the year"),
        ("%Y-%m-%d %I:%M:%S%z", "", "does not say"),
        ("%Y-%Y-%m-%d %H:%M:%S%z", "", "%Y is unknown, or stands twice"),
        ("%Y-%j %H:%M:%S%z", "", "%j is unknown"),
    ],
)
def test_a_notation_that_cannot_be_exact_is_refused(unit: str, zone: str, says: str) -> None:
    with pytest.raises(ValueError, match="time_") as error:
        TimeNotation(unit, zone)
    assert says in str(error.value)


@given(st.integers(-INDEX_MAX, INDEX_MAX), st.sampled_from(["ns", "us", "ms", "s"]))
def test_decimals_of_any_unit_come_back_exactly(nanoseconds: int, unit: str) -> None:
    power = {"ns": 0, "us": 3, "ms": 6, "s": 9}[unit]
    digits = str(abs(nanoseconds)).rjust(power + 1, "0")
    text = ("-" if nanoseconds < 0 else "") + (f"{digits[:-power]}.{digits[-power:]}" if power else digits)

    assert read(unit, text) == nanoseconds
    found = FieldMap(process=("p",), time=("t",), time_unit=unit).parse_line(
        Line(0, f'{{"p":"a","t":{text}}}'.encode())
    )
    assert isinstance(found, Unnumbered)
    assert found.time == nanoseconds


@given(st.datetimes(), st.integers(0, 999_999_999))
def test_layouts_agree_with_rfc3339(when: object, fraction: int) -> None:
    text = f"{when!s:.19}.{fraction:09}"
    layout = "%Y-%m-%d %H:%M:%S.%f"
    try:
        expected = parse_time(f"{text}Z")
    except ValueError:
        with pytest.raises(ValueError, match="time"):
            read(layout, text, "UTC")
    else:
        assert read(layout, text, "UTC") == expected
