"""The protobuf wire format, read with a table instead of generated code: just what OTLP files need.

Lengths come from strangers: none is trusted. A field that would reach beyond its message is a `WireError`; nothing is
allocated before it is checked; nesting is limited by `depth_max`. Unknown fields are passed over, as protobuf asks.

Source: protobuf.dev, "Encoding". Groups (wire types 3 and 4), which OTLP never had, are refused.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from beforehand.formats.json_text import Json

__all__ = [
    "FIXED32",
    "FIXED64",
    "LENGTH",
    "VARINT",
    "Field",
    "Raw",
    "WireError",
    "base64_field",
    "boolean_field",
    "fields",
    "fixed_field",
    "hex_field",
    "message",
    "message_field",
    "signed_field",
    "text_field",
    "varint",
    "varint_field",
]

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5


class WireError(Exception):
    """Bytes that are not protobuf, or not the message that was expected. Never leaves `formats`."""


Raw: TypeAlias = int | memoryview
"""A field's value as it stands on the wire: a number for VARINT, else its bytes."""


class Field(NamedTuple):
    """What a field number means: its name in JSON, its wire type, and how to read it at what depth is left."""

    name: str
    wire: int
    read: Callable[[Raw, int], Json]
    repeated: bool = False


def varint_field(name: str) -> Field:
    return Field(name, VARINT, lambda raw, _: _int(raw))


def boolean_field(name: str) -> Field:
    return Field(name, VARINT, lambda raw, _: bool(raw))


def signed_field(name: str) -> Field:
    """An int64: negative numbers are written as their two's complement."""
    return Field(name, VARINT, lambda raw, _: (_int(raw) + 2**63) % 2**64 - 2**63)


def fixed_field(name: str, layout: str) -> Field:
    """Four or eight bytes as `struct` reads them."""
    read = struct.Struct(layout)
    return Field(name, FIXED32 if read.size == 4 else FIXED64, lambda raw, _: _number(read, raw))


def text_field(name: str) -> Field:
    return Field(name, LENGTH, lambda raw, _: _bytes(raw).decode("utf-8", "replace"))


def hex_field(name: str) -> Field:
    return Field(name, LENGTH, lambda raw, _: _bytes(raw).hex())


def base64_field(name: str) -> Field:
    return Field(name, LENGTH, lambda raw, _: base64.b64encode(_bytes(raw)).decode())


def message_field(name: str, table: Mapping[int, Field], *, repeated: bool = False) -> Field:
    return Field(name, LENGTH, lambda raw, depth: message(_view(raw), table, depth_max=depth), repeated)


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    value = shift = 0
    end = len(data)
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise WireError("a number is cut off or longer than ten bytes")


def fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """The fields of a message: number, wire type, and the raw value (a view of the bytes, or a number)."""
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number < 2**29:
            raise WireError(f"there is no field number {number}")
        if wire == VARINT:
            value, at = varint(data, at)
            yield number, wire, value
            continue
        if wire == LENGTH:
            length, at = varint(data, at)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise WireError(f"there is no wire type {wire}")
        if length > end - at:
            raise WireError(f"a field of {length} bytes stands where {end - at} are left")
        yield number, wire, data[at : at + length]
        at += length


def message(data: memoryview, table: Mapping[int, Field], *, depth_max: int) -> dict[str, Json]:
    """A message as the JSON object that stands for it. Raises `WireError`."""
    if depth_max < 1:
        raise WireError("messages are nested too deep")
    found: dict[str, Json] = {}
    for number, wire, raw in fields(data):
        field = table.get(number)
        if field is None or field.wire != wire:
            continue
        value = field.read(raw, depth_max - 1)
        if field.repeated:
            values = found.setdefault(field.name, [])
            assert isinstance(values, list)
            values.append(value)
        else:
            found[field.name] = value
    return found


def _view(raw: Raw) -> memoryview:
    assert isinstance(raw, memoryview)  # The wire type was compared.
    return raw


def _int(raw: Raw) -> int:
    assert isinstance(raw, int)
    return raw


def _bytes(raw: Raw) -> bytes:
    return bytes(_view(raw))


def _number(read: struct.Struct, raw: Raw) -> int | float:
    value: int | float = read.unpack(_view(raw))[0]
    return value
