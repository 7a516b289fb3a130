"""What a merger gives: `MergedRecord`, a message in its place; `SetAsideRecord`, what is not in the order, and why.

Both have a form as a line of JSON; a merged message also travels as headers beside its payload. What `line` and
`headers` write, `from_line` and `from_headers` read back as an equal record; whatever else they are given is an
InputError. A payload is bytes; in a line it stands as `payload` if it is UTF-8, else as `payload_base64`.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from beforehand.errors import InputError
from beforehand.formats.json_text import Json, RefusedError, decode_json
from beforehand.ordering.merging import SetAside

__all__ = [
    "ARRIVAL_HEADER",
    "DEPTH_MAX",
    "POSITION_HEADER",
    "PUBLISHER_HEADER",
    "SEQUENCE_HEADER",
    "STAMP_HEADER",
    "MergedRecord",
    "SetAsideRecord",
    "UnreadableError",
    "decimal",
    "line_of",
    "one_line",
    "payload_of",
    "short",
]

PUBLISHER_HEADER: Final = "Beforehand-Publisher"
SEQUENCE_HEADER: Final = "Beforehand-Sequence"
STAMP_HEADER: Final = "Beforehand-Stamp"
POSITION_HEADER: Final = "Beforehand-Position"
ARRIVAL_HEADER: Final = "Beforehand-Arrival"

DEPTH_MAX: Final = 16
"""Brackets of a line that may be nested; records have one level."""

DETAIL_MAX: Final = 300
NUMBER_MAX: Final = 2**63 - 1
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRecord:
    """A message in its place: the `position`-th of its channel."""

    channel: str
    position: int  # 1, 2, 3, … per channel, without gaps.
    publisher: str
    sequence: int
    stamp: str
    arrival: int
    payload: bytes = b""

    def line(self) -> bytes:
        """The record as a line of JSON, with its line end."""
        fields: dict[str, Json] = {
            "channel": self.channel,
            "position": self.position,
            "publisher": self.publisher,
            "sequence": self.sequence,
            "stamp": self.stamp,
            "arrival": self.arrival,
        }
        return line_of(fields, self.payload)

    def headers(self) -> dict[str, str]:
        return {
            PUBLISHER_HEADER: self.publisher,
            SEQUENCE_HEADER: str(self.sequence),
            STAMP_HEADER: self.stamp,
            POSITION_HEADER: str(self.position),
            ARRIVAL_HEADER: str(self.arrival),
        }

    @classmethod
    def from_line(cls, data: bytes) -> MergedRecord:
        """Raises InputError if the line is none that `line` wrote."""
        try:
            fields = decode_json(data, depth_max=DEPTH_MAX)
        except RefusedError as error:
            raise InputError(f"not a merged record: {error}") from None
        if not isinstance(fields, dict):
            raise InputError("not a merged record: the line is no JSON object")
        try:
            payload = payload_of(fields)
        except UnreadableError as error:
            raise InputError(f"not a merged record: {error}") from None
        return cls._checked({**fields, "payload": payload})

    @classmethod
    def from_headers(cls, channel: str, headers: Mapping[str, str] | None, payload: bytes) -> MergedRecord:
        """Raises InputError if these are none that `headers` gave."""
        headers = headers or {}
        return cls._checked(
            {
                "channel": channel,
                "position": decimal(headers.get(POSITION_HEADER)),
                "publisher": headers.get(PUBLISHER_HEADER),
                "sequence": decimal(headers.get(SEQUENCE_HEADER)),
                "stamp": headers.get(STAMP_HEADER),
                "arrival": decimal(headers.get(ARRIVAL_HEADER)),
                "payload": payload,
            }
        )

    @classmethod
    def _checked(cls, fields: Mapping[str, object]) -> MergedRecord:
        taken: dict[str, str | int | bytes] = {}
        for name, kind in _MERGED_KINDS.items():
            value = fields.get(name)
            if type(value) is not kind:
                raise InputError(f"not a merged record: {name} is missing or of another type")
            if name == "position" and int(value) < 1:
                raise InputError("not a merged record: positions count from 1")
            if kind is int and not -NUMBER_MAX <= int(value) <= NUMBER_MAX:
                raise InputError(f"not a merged record: {name} does not fit into 64 bits")
            if kind is str and not _is_utf8(str(value)):
                raise InputError(f"not a merged record: {name} is not UTF-8")
            taken[name] = value
        return cls(**taken)  # type: ignore[arg-type]  # Each has the type of its field.


_MERGED_KINDS: Final[Mapping[str, type[str] | type[int] | type[bytes]]] = {
    "channel": str,
    "position": int,
    "publisher": str,
    "sequence": int,
    "stamp": str,
    "arrival": int,
    "payload": bytes,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideRecord:
    """What is not in the order, and why. What could not be read of it is None."""

    channel: str | None
    publisher: str | None
    sequence: int | None
    stamp: str | None
    arrival: int | None
    reason: SetAside
    detail: str  # One line, at most `DETAIL_MAX` characters.
    payload: bytes = b""  # Its beginning. Where a record is no JSON, the beginning of the line.
    payload_bytes: int = 0  # How long it was.

    def line(self) -> bytes:
        """The record as a line of JSON, with its line end."""
        fields: dict[str, Json] = {
            "channel": self.channel,
            "publisher": self.publisher,
            "sequence": self.sequence,
            "stamp": self.stamp,
            "arrival": self.arrival,
            "reason": self.reason.value,
            "detail": self.detail,
            "payload_bytes": self.payload_bytes,
        }
        return line_of(fields, self.payload)


class UnreadableError(Exception):
    """A part of a record cannot be used. Never leaves `formats`."""

    def __init__(self, text: str, reason: SetAside = SetAside.MALFORMED) -> None:
        super().__init__(text)
        self.reason = reason


def _is_utf8(text: str) -> bool:
    """Not if it came as bytes that are not: a header is kept as it is."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def decimal(value: object) -> int | None:
    """A header's number, if it is one in its only form."""
    if type(value) is not str or _DECIMAL.fullmatch(value) is None:
        return None
    return int(value)


def payload_of(fields: Mapping[str, Json]) -> bytes:
    text, coded = fields.get("payload"), fields.get("payload_base64")
    if coded is None:
        if text is None:
            return b""
        if type(text) is not str:
            raise UnreadableError(f"the payload is no text: {short(text)}")
        try:
            return text.encode()
        except UnicodeEncodeError:
            raise UnreadableError("the payload is not valid text") from None
    if text is not None:
        raise UnreadableError("it has a payload twice, as payload and as payload_base64")
    if type(coded) is not str:
        raise UnreadableError(f"payload_base64 is no text: {short(coded)}")
    try:
        return b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        raise UnreadableError("payload_base64 is not base64") from None


def line_of(fields: dict[str, Json], payload: bytes) -> bytes:
    try:
        fields["payload"] = payload.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = b64encode(payload).decode()
    return msgspec.json.encode(fields) + b"\n"


def short(value: object) -> str:
    """A stranger's value for a sentence: in ASCII, on one line, cut before it is written out."""
    if isinstance(value, str | bytes):
        text = ascii(value[:50])
    elif isinstance(value, int) and value.bit_length() > 200:
        text = "a number of many digits"
    elif value is None or isinstance(value, bool | int | float):
        text = ascii(value)
    else:
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."


def one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= DETAIL_MAX else f"{text[: DETAIL_MAX - 3]}..."
