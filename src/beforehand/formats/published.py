"""Records of published messages: lines of JSON and headers of a broker, to `Published` and back.

What comes in is a stranger's. `RecordReader` turns any bytes into exactly one of two things, an `Arrived` that a
merger can be offered or a `SetAsideRecord` that says why not, and raises nothing. What comes out of a merger is a
`MergedRecord`, the message with its position in the order (`merged.py`).

Guarantees of reading:
  1. Bounded: a record, a stamp, a payload or a name above its limit is OVERSIZE and is not looked into further.
  2. Strict: an unknown or repeated key of a line, a number with a sign or leading zeros in a header, a stamp that is
     not in its canonical form are MALFORMED, with one line that says what is wrong. Foreign headers are left alone:
     programs on the way add such.
  3. The same record with the same arrival is always read the same: r is unwrapped against the arrival, not against a
     clock of the reader.
  4. What `Arrived.line` and `Arrived.headers` write reads back as an equal message.

Arrival is in nanoseconds since 1970, at most `ARRIVAL_MAX`, so that no key of the order can overflow. A payload is
bytes; in a line it stands as `payload` if it is UTF-8, else as `payload_base64`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from beforehand.clocks.bounded import BoundedStamp
from beforehand.clocks.offset import OffsetStamp
from beforehand.clocks.wire import LIMIT_DEFAULT, VALUE_MAX, StampKind, from_text, peek_kind
from beforehand.errors import StampDecodeError, StampTooLargeError
from beforehand.events import parse_time
from beforehand.formats.json_text import Json, RefusedError, decode_json, shown
from beforehand.formats.merged import (
    ARRIVAL_HEADER,
    DEPTH_MAX,
    POSITION_HEADER,
    PUBLISHER_HEADER,
    SEQUENCE_HEADER,
    STAMP_HEADER,
    MergedRecord,
    SetAsideRecord,
    UnreadableError,
    decimal,
    line_of,
    one_line,
    payload_of,
    short,
)
from beforehand.ordering.merging import NAME_BYTES_MAX, MergeSettings, MergeStamp, Published, SetAside

__all__ = [
    "ARRIVAL_HEADER",
    "ARRIVAL_MAX",
    "POSITION_HEADER",
    "PUBLISHER_HEADER",
    "RECORD_KEYS",
    "SEQUENCE_HEADER",
    "STAMP_HEADER",
    "Arrived",
    "MergedRecord",
    "RecordLimits",
    "RecordReader",
    "SetAsideRecord",
    "stamp_bytes_max",
]

T = TypeVar("T")

ARRIVAL_MAX: Final = 2**62
"""The year 2116. Keys of the order have room for twice as much."""

NAMES_MAX: Final = 10_000
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
RECORD_KEYS: Final = frozenset(
    ("channel", "publisher", "sequence", "stamp", "arrival", "payload", "payload_base64", "position")
)
"""What a line of a published message may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLimits:
    """In bytes. What is above goes aside as OVERSIZE."""

    record_bytes_max: int = 2 * 1024 * 1024  # A line of a file.
    payload_bytes_max: int = 960 * 1024  # With its headers it fits into what a NATS server takes: 1 MiB.
    aside_bytes_max: int = 1024  # So much of the payload stays in a set-aside record.


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A message with its channel and its arrival: what a merger is offered."""

    channel: str
    message: Published
    stamp: str  # The text form of `message.stamp`, as it came.
    arrival: int  # Nanoseconds since 1970.

    def merged(self, position: int) -> MergedRecord:
        message = self.message
        return MergedRecord(
            channel=self.channel,
            position=position,
            publisher=message.publisher,
            sequence=message.sequence,
            stamp=self.stamp,
            arrival=self.arrival,
            payload=message.payload,
        )

    def merged_headers(self, position: int) -> dict[str, str]:
        """`merged(position).headers()`, in one step."""
        headers = self.headers()
        headers[POSITION_HEADER] = str(position)
        headers[ARRIVAL_HEADER] = str(self.arrival)
        return headers

    def set_aside(self, reason: SetAside, settings: MergeSettings, *, limits: RecordLimits) -> SetAsideRecord:
        """Why a merger did not take it, in a sentence."""
        message = self.message
        return SetAsideRecord(
            channel=self.channel,
            publisher=message.publisher,
            sequence=message.sequence,
            stamp=self.stamp,
            arrival=self.arrival,
            reason=reason,
            detail=_detail(reason, message.stamp, settings.reading(self.arrival), settings),
            payload=message.payload[: limits.aside_bytes_max],
            payload_bytes=len(message.payload),
        )

    def line(self) -> bytes:
        """The record as a line of JSON, with its line end, that `RecordReader.line` reads."""
        fields: dict[str, Json] = {
            "channel": self.channel,
            "publisher": self.message.publisher,
            "sequence": self.message.sequence,
            "stamp": self.stamp,
            "arrival": self.arrival,
        }
        return line_of(fields, self.message.payload)

    def headers(self) -> dict[str, str]:
        """The headers that carry the message beside its payload. The broker knows channel and arrival."""
        return {
            PUBLISHER_HEADER: self.message.publisher,
            SEQUENCE_HEADER: str(self.message.sequence),
            STAMP_HEADER: self.stamp,
        }


def stamp_bytes_max(settings: MergeSettings) -> int:
    """The longest text of a stamp of publishers with these settings, and at least the usual limit for stamps."""
    bounds = settings.bounds
    # A byte for the kind, four numbers of at most nine bytes, the width, and 2w counts.
    size = 1 + 4 * 9 + 1 + (2 * bounds.width * bounds.count_max.bit_length() + 7) // 8
    return max(LIMIT_DEFAULT, -(-size * 4 // 3))


class RecordReader:
    """Reads records of the channels that have `settings`. Of what it read it keeps only names that are in order."""

    def __init__(self, settings: MergeSettings, *, limits: RecordLimits | None = None) -> None:
        self.settings: Final = settings
        self.limits: Final = RecordLimits() if limits is None else limits
        self._stamp_max: Final = stamp_bytes_max(settings)
        self._epsilon: Final = settings.bounds.epsilon
        self._publishers: Final[set[str]] = set()  # Both with at most NAMES_MAX.
        self._channels: Final[set[str]] = set()

    def line(self, data: bytes) -> Arrived | SetAsideRecord:
        """A line of a file. `channel` may be left out, and so may the payload; `position` is passed over."""
        limits = self.limits
        if len(data) > limits.record_bytes_max:
            text = f"the line has {len(data)} bytes, the limit is {limits.record_bytes_max}"
            return self._unread(SetAside.OVERSIZE, text, data)
        try:
            fields = decode_json(data, depth_max=DEPTH_MAX)
        except RefusedError as error:
            return self._unread(SetAside.MALFORMED, str(error), data)
        if not isinstance(fields, dict):
            return self._unread(SetAside.MALFORMED, "the line is no JSON object", data)
        unknown = sorted(fields.keys() - RECORD_KEYS)
        if unknown:
            return self._unread(SetAside.MALFORMED, f"the key {shown(unknown[0])} is unknown", data)
        try:
            payload = payload_of(fields)
        except UnreadableError as error:
            return self._unread(error.reason, str(error), data)
        return self.fields(
            channel=fields.get("channel", ""),
            publisher=fields.get("publisher"),
            sequence=fields.get("sequence"),
            stamp=fields.get("stamp"),
            arrival=fields.get("arrival"),
            payload=payload,
        )

    def headers(
        self, channel: str, headers: Mapping[str, str] | None, payload: bytes, *, arrival: int
    ) -> Arrived | SetAsideRecord:
        """A message of a broker that stored it at `arrival`."""
        headers = headers or {}
        sequence: object = headers.get(SEQUENCE_HEADER)
        number = decimal(sequence)
        return self.fields(
            channel=channel,
            publisher=headers.get(PUBLISHER_HEADER),
            sequence=sequence if number is None else number,
            stamp=headers.get(STAMP_HEADER),
            arrival=arrival,
            payload=payload,
        )

    def fields(
        self, *, channel: object, publisher: object, sequence: object, stamp: object, arrival: object, payload: object
    ) -> Arrived | SetAsideRecord:
        """A record that was taken apart before, as the columns of a table are. `arrival` may be RFC 3339 too."""
        try:
            time = _arrival(arrival)
            message = Published(
                publisher=_known(publisher, self._publishers, _publisher),
                sequence=_sequence(sequence),
                stamp=self._stamp(stamp, time),
                payload=self._payload(payload),
            )
            name = _known(channel, self._channels, _channel)
            return Arrived(channel=name, message=message, stamp=str(stamp), arrival=time)
        except UnreadableError as error:
            first = error
        # Bad records are few: here each part is looked at again, for what can be read of it.
        data = bytes(payload) if isinstance(payload, bytes | bytearray | memoryview) else b""
        read_arrival = _readable(_arrival, arrival)
        read_stamp = None
        if read_arrival is not None:
            at = read_arrival
            read_stamp = _readable(lambda text: self._stamp(text, at), stamp)
        return SetAsideRecord(
            channel=_readable(_channel, channel),
            publisher=_readable(_publisher, publisher),
            sequence=_readable(_sequence, sequence),
            stamp=None if read_stamp is None else str(stamp),
            arrival=read_arrival,
            reason=first.reason,
            detail=one_line(str(first)),
            payload=data[: self.limits.aside_bytes_max],
            payload_bytes=len(data),
        )

    def _stamp(self, text: object, arrival: int) -> MergeStamp:
        if type(text) is not str:
            raise UnreadableError("there is no stamp" if text is None else f"the stamp is no text: {short(text)}")
        try:
            data = from_text(text, limit=self._stamp_max)
            kind = peek_kind(data)
            if kind is StampKind.BOUNDED:
                near = self.settings.reading(arrival)
                return BoundedStamp.decode(data, limit=self._stamp_max, near=near, ahead=self._epsilon)
            if kind is StampKind.OFFSET:
                return OffsetStamp.decode(data, limit=self._stamp_max)
        except StampTooLargeError as error:
            raise UnreadableError(
                f"the stamp takes {error.size} bytes, the limit is {error.limit}", SetAside.OVERSIZE
            ) from None
        except StampDecodeError as error:
            raise UnreadableError(f"not a stamp: {error.reason}: {short(text)}") from None
        raise UnreadableError(f"it is a stamp of another kind ({kind.name.lower()}): mergers take bounded and offset")

    def _payload(self, value: object) -> bytes:
        if type(value) is bytes:
            data = value
        elif value is None:
            return b""
        elif isinstance(value, bytearray | memoryview):
            data = bytes(value)
        else:
            raise UnreadableError("the payload is no bytes")
        if len(data) > self.limits.payload_bytes_max:
            text = f"the payload has {len(data)} bytes, the limit is {self.limits.payload_bytes_max}"
            raise UnreadableError(text, SetAside.OVERSIZE)
        return data

    def _unread(self, reason: SetAside, text: str, data: bytes) -> SetAsideRecord:
        return SetAsideRecord(
            channel=None,
            publisher=None,
            sequence=None,
            stamp=None,
            arrival=None,
            reason=reason,
            detail=one_line(text),
            payload=data[: self.limits.aside_bytes_max],
            payload_bytes=len(data),
        )


def _known(value: object, known: set[str], check: Callable[[object], str]) -> str:
    """A name that passes `check`, which most have passed before."""
    if type(value) is str and value in known:
        return value
    name = check(value)
    if len(known) < NAMES_MAX:
        known.add(name)
    return name


def _readable(check: Callable[[object], T], value: object) -> T | None:
    try:
        return check(value)
    except UnreadableError:
        return None


def _channel(value: object) -> str:
    if type(value) is not str:
        raise UnreadableError(f"the channel is no text: {short(value)}")
    if "\ufffd" in value:
        raise UnreadableError("the channel is no valid text")  # It stands where bytes could not be read.
    return _name(value, "channel")


def _publisher(value: object) -> str:
    if type(value) is not str or not value:
        raise UnreadableError("there is no publisher" if not value else f"the publisher is no text: {short(value)}")
    return _name(value, "publisher")


def _name(value: str, what: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise UnreadableError(f"the {what} is not valid text: {short(value)}") from None
    if size > NAME_BYTES_MAX:
        raise UnreadableError(f"the {what} has {size} bytes, the limit is {NAME_BYTES_MAX}", SetAside.OVERSIZE)
    if not value.isprintable() and _CONTROL.search(value):
        raise UnreadableError(f"the {what} contains a control character: {short(value)}")
    if value != value.strip():
        raise UnreadableError(f"the {what} begins or ends with a blank, which a header would lose: {short(value)}")
    return value


def _sequence(value: object) -> int:
    if value is None:
        raise UnreadableError("there is no sequence number")
    if type(value) is not int or not 1 <= value <= VALUE_MAX:
        raise UnreadableError(f"the sequence number is not a whole number between 1 and 2^63 - 1: {short(value)}")
    return value


def _arrival(value: object) -> int:
    if type(value) is str:
        try:
            value = parse_time(value)
        except ValueError as error:
            raise UnreadableError(f"the arrival cannot be read: {error}") from None
    if value is None:
        raise UnreadableError("there is no arrival")
    if type(value) is not int or not 0 <= value <= ARRIVAL_MAX:
        raise UnreadableError(f"the arrival is not between 0 and 2^62 nanoseconds since 1970: {short(value)}")
    return value


def _detail(reason: SetAside, stamp: MergeStamp, arrival: int, settings: MergeSettings) -> str:
    bounds = settings.bounds
    match reason:
        case SetAside.LATE:
            return f"it arrived {arrival - stamp.r - bounds.delta} ticks after r + delta"
        case SetAside.FUTURE:
            return f"its clock reads {stamp.r - arrival} ticks more than the arrival, epsilon is {bounds.epsilon}"
        case SetAside.AHEAD:
            return f"its c is {stamp.c}, above what was agreed"
        case SetAside.CORRUPTED:
            return "its stamp breaks the bounds that every clock keeps"
        case SetAside.OTHER_BOUNDS:
            return "its publisher was configured with another epsilon, tick or kind of stamp"
        case SetAside.REPEATED:
            return "the same message arrived before"
        case SetAside.PASSED:
            return "later messages were released before it was read"
        case SetAside.FULL:
            return "as many messages wait as may"
        case _:
            return reason.value
