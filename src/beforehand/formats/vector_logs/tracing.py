"""Logs of DistributedClocks' `tracing`: JSON Lines with `TracerIdentity`, `TraceID`, `Tag`, `Body`, `VectorClock`.

A record becomes an event with process = TracerIdentity, index = its own entry of VectorClock, name = Tag. TraceID
becomes the attribute `TraceID`, digit by digit (it exceeds 2^53), and each key of Body an attribute of its own, as
text or compact JSON; a key of Body that is called TraceID becomes `Body.TraceID`. A trace is no execution: processes
take part in many at once, so their order goes across traces.

GenerateTokenTrace sends, and ReceiveTokenTrace receives, the message whose id is Body's Token: real messages. Only
what the clocks know beyond these is inferred.

Reasons of rejections are those of the native format (not-json, key-twice, too-deep, line-too-long, unreadable,
not-an-event), and not-a-clock, no-own-entry, unsent as in vector_log.py and inference.py. Other keys beside the five
are kept as attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from beforehand.events import INFERRED, Event, Rejection
from beforehand.formats.json_text import Json, RefusedError, compact_json, decode_json, shown
from beforehand.formats.lines import Line
from beforehand.formats.native import LINE_TOO_LONG, NOT_AN_EVENT, UNREADABLE
from beforehand.formats.sources import Source
from beforehand.formats.vector_logs.vector_log import VectorLog, own_entry, to_clock
from beforehand.formats.vector_logs.whole_text import TEXT_LIMITS_DEFAULT, TextLimits, WholeReading

__all__ = ["read_tracing"]

_SENDS: Final = "GenerateTokenTrace"
_RECEIVES: Final = "ReceiveTokenTrace"
_KEYS: Final = ("TracerIdentity", "Tag", "Body", "VectorClock")
_BOM: Final = b"\xef\xbb\xbf"


def read_tracing(
    source: Source, *, file: str | None = None, limits: TextLimits = TEXT_LIMITS_DEFAULT
) -> Iterator[Event | Rejection]:
    """The events of a tracing log: a stream, a file, or several files that are one log.

    `InputError` at once if a file is missing; later, if there is too much text.
    """
    return _read(WholeReading(source, file=file, limits=limits), limits)


def _read(reading: WholeReading, limits: TextLimits) -> Iterator[Event | Rejection]:
    log = VectorLog(limits=limits)
    for name, lines in reading.lines():
        for line in lines:
            try:
                event = _event(line, limits)
            except RefusedError as refused:
                yield Rejection(
                    reason=refused.reason,
                    detail=str(refused),
                    file=name,
                    line=line.number,
                    offset=line.offset,
                    text=line.data[: 4 * limits.text_max].decode("utf-8", "replace")[: limits.text_max],
                )
            else:
                if event is not None:
                    log.add(event, file=name)
    yield from log.results()


def _event(line: Line, limits: TextLimits) -> Event | None:
    """The event of a line, None for a blank one. Raises `RefusedError`."""
    if line.problem is not None:
        raise RefusedError(UNREADABLE, f"reading stopped: {line.problem}; the events before this are kept")
    if (line.length or 0) > limits.line_bytes_max:
        raise RefusedError(
            LINE_TOO_LONG,
            f"the line has {line.length} bytes, the limit is {limits.line_bytes_max}: "
            "shorten it or raise line_bytes_max",
        )
    data = line.data.removeprefix(_BOM) if line.offset == 0 else line.data
    if not data or data.isspace():
        return None
    record = decode_json(data, depth_max=limits.depth_max)
    if not isinstance(record, dict):
        raise RefusedError(
            NOT_AN_EVENT, f"the line is {shown(record)}, not an object with TracerIdentity and the like"
        )
    return _to_event(record)


def _to_event(record: Mapping[str, Json]) -> Event:
    process, tag = _text(record, "TracerIdentity"), _text(record, "Tag")
    clock = to_clock(record.get("VectorClock"))
    body = record.get("Body")
    token = body.get("Token") if isinstance(body, dict) else None
    # A token that looks inferred would be taken for it everywhere, so then the clocks must do.
    tokens = (token,) if isinstance(token, str) and token and not token.startswith(INFERRED) else ()
    return Event(
        process=process,
        index=own_entry(clock, process),
        sends=tokens if tag == _SENDS else (),
        receives=tokens if tag == _RECEIVES else (),
        name=tag,
        attributes=_attributes(record, body),
        clock=clock,
    )


def _attributes(record: Mapping[str, Json], body: Json) -> dict[str, str]:
    attributes = {key: _shown_whole(value) for key, value in record.items() if key not in _KEYS}
    if isinstance(body, dict):
        for given, value in body.items():
            key = given
            while key in attributes:
                key = f"Body.{key}"
            attributes[key] = _shown_whole(value)
    elif body is not None:
        attributes["Body"] = _shown_whole(body)
    return attributes


def _shown_whole(value: Json) -> str:
    return value if isinstance(value, str) else compact_json(value)


def _text(record: Mapping[str, Json], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise RefusedError(NOT_AN_EVENT, f"{key} is {shown(value)}, not a text")
    return value
