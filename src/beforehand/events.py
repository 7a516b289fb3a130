"""The event record: what every room of the house hands to the next.

An *event* is one step of one *process*. It may send messages and receive messages, several of each, even
both at once. A *message* may go to many processes and each of them receives it at most once. Events of
different *executions* are unrelated; message ids are local to their execution.

Times are the process's own clock in nanoseconds since 1970 (UTC), kept as they came. Nothing in
Beforehand moves, sorts by or repairs them silently: clocks lie, causality does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Final, NewType

__all__ = [
    "INDEX_MAX",
    "INFERRED",
    "Event",
    "EventId",
    "Kind",
    "MessageId",
    "ProcessId",
    "Rejection",
    "parse_time",
]

ProcessId = NewType("ProcessId", str)
MessageId = NewType("MessageId", str)

INDEX_MAX: Final = 2**63 - 1
"""The largest index and the largest clock entry: what a signed 64-bit column holds."""

INFERRED: Final = "~"
"""Ids of messages that no source named start with this; checks that need real messages leave them out."""


class Kind(StrEnum):
    """What an event does, derived from its messages: `receive` if it receives, else `send` if it sends."""

    LOCAL = "local"
    SEND = "send"
    RECEIVE = "receive"


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """Names one event. As text `process:index`, with `execution/` before it where the execution has a name."""

    execution: str
    process: str
    index: int

    def __str__(self) -> str:
        local = f"{self.process}:{self.index}"
        return f"{self.execution}/{local}" if self.execution else local


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. It validates itself: an invalid event cannot exist (`ValueError` says what is wrong)."""

    process: str
    index: int  # Position in the process's local history, from 1. Gaps are allowed.
    execution: str = ""
    sends: tuple[str, ...] = ()
    receives: tuple[str, ...] = ()
    time: int | None = None  # Nanoseconds since 1970 on the process's own clock.
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    clock: Mapping[str, int] | None = field(default=None, hash=False)  # The stamp that the application reported.

    def __post_init__(self) -> None:
        if type(self.process) is not str or not self.process:
            raise ValueError("process is empty or not a text")
        if type(self.execution) is not str or type(self.name) is not str:
            raise ValueError("execution and name are texts")
        if type(self.index) is not int or not 1 <= self.index <= INDEX_MAX:
            raise ValueError(f"index {self.index!r} is not an integer between 1 and {INDEX_MAX}")
        for what, ids in (("sends", self.sends), ("receives", self.receives)):
            if type(ids) is not tuple or not all(type(message) is str for message in ids):
                raise ValueError(f"{what} is not a tuple of texts")
            if "" in ids:
                raise ValueError(f"{what} has an empty message id")
            if len(ids) > 1 and len(set(ids)) < len(ids):
                raise ValueError(f"{what} names a message twice")
        if self.time is not None and (type(self.time) is not int or not -INDEX_MAX <= self.time <= INDEX_MAX):
            raise ValueError(f"time {self.time!r} is not a 64-bit number of nanoseconds")
        if self.clock is not None:
            for process, count in self.clock.items():
                if type(count) is not int or not 0 <= count <= INDEX_MAX:
                    raise ValueError(f"clock entry {process!r}: {count!r} is not between 0 and {INDEX_MAX}")

    @property
    def id(self) -> EventId:
        return EventId(self.execution, self.process, self.index)

    @property
    def kind(self) -> Kind:
        if self.receives:
            return Kind.RECEIVE
        return Kind.SEND if self.sends else Kind.LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Something that was refused, where it stood and why. Nothing is dropped without one of these."""

    reason: str  # One of a few fixed words, such as "cycle"; each place that makes rejections lists its own.
    detail: str  # A sentence for people: what is wrong and what became of it.
    file: str | None = None
    line: int | None = None  # From 1.
    offset: int | None = None  # Bytes from the start of the (decompressed) file.
    text: str = ""  # What was refused, cut to a limit.
    events: tuple[EventId, ...] = ()  # The events concerned; for a cycle, the witness in order.
    message: str | None = None


_RFC3339: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,18}))?(?:([Zz])|([+-])(\d{2}):(\d{2}))",
    re.ASCII,
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def parse_time(text: str) -> int:
    """RFC 3339 text as nanoseconds since 1970, exactly.

    Raises `ValueError` if the text is not RFC 3339 or is finer than a nanosecond: a time is kept as it
    came or refused, never rounded. A leap second (`:60`) counts as the second after it, as in POSIX.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"time {text[:40]!r} is not RFC 3339 (like 2026-01-31T12:00:00.5Z, with a zone)")
    year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
    fraction, zulu, sign, offset_hour, offset_minute = match.group(7, 8, 9, 10, 11)
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise ValueError(f"time {text!r}: {error}") from None
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError(f"time {text!r} has an hour, minute or second out of range")
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
    if not zulu:
        if int(offset_hour) > 23 or int(offset_minute) > 59:
            raise ValueError(f"time {text!r} has a zone out of range")
        shift = int(offset_hour) * 3_600 + int(offset_minute) * 60
        seconds -= shift if sign == "+" else -shift
    digits = (fraction or "").rstrip("0")
    if len(digits) > 9:
        raise ValueError(f"time {text!r} is finer than a nanosecond")
    nanoseconds = seconds * 1_000_000_000 + int(digits.ljust(9, "0"))
    if abs(nanoseconds) > INDEX_MAX:
        raise ValueError(f"time {text!r} is beyond what 64-bit nanoseconds hold (years 1678 to 2262)")
    return nanoseconds
