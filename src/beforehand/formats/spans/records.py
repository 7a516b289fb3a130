"""Spans and log records: what every tracing format is parsed to, before it becomes events.

Reading a trace has two stages, so that a shuffle by trace can stand between them: a reader (`read_otlp`,
`read_jaeger`, `read_zipkin`) turns bytes into the records below, one by one and in no particular order;
`spans_to_events` turns all records of one execution into events.

1. Times are nanoseconds since 1970 as the source has them; None where the source has none (0 counts as none).
2. Ids are lower-case hexadecimal with 16 digits, or 32 where the number needs them: formats and versions differ in
   the leading zeros that they write, and ids must compare equal. An id that is not hexadecimal stays as it came.
3. Records are plain values, equal if all their fields are: cheap to compare and to send to another machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from beforehand.events import Rejection

__all__ = [
    "LogRecord",
    "Note",
    "Parsed",
    "Reference",
    "ReferenceKind",
    "Span",
    "SpanEvent",
    "SpanKind",
    "canonical_id",
    "hexadecimal_id",
    "made_up_id",
]


class SpanKind(StrEnum):
    """What a span is to a call or a message; empty where the source does not say."""

    UNSPECIFIED = ""
    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class ReferenceKind(StrEnum):
    """How a span names another one. The values begin the ids of inferred messages."""

    CHILD_OF = "child"
    FOLLOWS_FROM = "follows"
    LINK = "link"


class Reference(NamedTuple):
    """Another span, perhaps of another trace, that came before this one."""

    trace_id: str
    span_id: str
    kind: ReferenceKind


class SpanEvent(NamedTuple):
    """Something that happened inside a span at one instant."""

    time_ns: int | None
    name: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One operation of one process. Where client and server share an id, each half is a span of its own."""

    trace_id: str
    span_id: str
    references: tuple[Reference, ...] = ()  # In the order of the source; the first CHILD_OF is the parent.
    service: str = ""
    instance: str = ""  # Tells the processes of a service apart.
    host: str = ""  # Does so where there is no instance.
    name: str = ""
    kind: SpanKind = SpanKind.UNSPECIFIED
    start_ns: int | None = None
    end_ns: int | None = None  # None: never finished, as far as the source knows.
    error: bool = False
    message: str = ""  # Of the status.
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    events: tuple[SpanEvent, ...] = field(default=(), hash=False)
    remote_parent: bool | None = None  # None: the source does not say.


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One line of a log, with the span that was active, if any."""

    trace_id: str = ""
    span_id: str = ""
    service: str = ""
    instance: str = ""
    host: str = ""
    time_ns: int | None = None
    level: str = ""  # trace, debug, info, warn, error or fatal.
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that was tolerated or passed over on purpose, and how often; a `Rejection` says what was refused."""

    reason: str  # One of a few fixed words, such as "base64-ids"; each reader lists its own.
    detail: str
    count: int = 1
    file: str | None = None


Parsed: TypeAlias = Span | LogRecord | Rejection | Note
"""What readers give: records as they come, and the notes of a file at its end."""

_HEX: Final = re.compile(r"[0-9a-fA-F]{1,32}")


def canonical_id(text: str) -> str:
    """The one form of an id, "" for one that is empty or zero, which all formats take for none."""
    found = hexadecimal_id(text)
    return text if found is None else found


@lru_cache(maxsize=1 << 14)  # A trace id stands in every span of its trace, a span id in every child.
def hexadecimal_id(text: str) -> str | None:
    """The same for an id that is hexadecimal, as the formats ask; None if it is not."""
    if _HEX.fullmatch(text) is None:
        return None if text else ""
    digits = text.lstrip("0").lower()
    return digits.zfill(16 if len(digits) <= 16 else 32) if digits else ""


def made_up_id(*content: object) -> str:
    """An id for a span that came without one: the same for the same content, so that order does not matter."""
    return f"?{blake2b(repr(content).encode('utf-8', 'backslashreplace'), digest_size=8).hexdigest()}"
