"""Clock readings as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["rfc3339"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(nanoseconds: int) -> str:
    """Nanoseconds since 1970 as RFC 3339 in UTC, to the last digit that is not zero; as they are if no year fits."""
    seconds, fraction = divmod(nanoseconds, 10**9)
    try:
        whole = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    except OverflowError:
        return f"{nanoseconds} ns"
    return whole + (f".{fraction:09}".rstrip("0") if fraction else "") + "Z"
