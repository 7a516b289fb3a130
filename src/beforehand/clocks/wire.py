"""Stamps as bytes and as text: the one codec that all stamp types share.

The first byte holds the version (high four bits) and the kind of stamp (low four bits). What follows is
canonical: integers in their shortest form, names sorted, one way only to write a value. So equal stamps
have equal bytes, and `encode(decode(data)) == data` for all data that decode accepts.

What a peer sends is bounded before anything is allocated: data above the limit is refused unread, an
integer has at most 63 bits, and a count of things can never exceed the bytes that are left, so that what
decoding allocates is at most a constant times the size of the data.

Text is base64url without padding, fit for a header. Its limit is counted in text bytes.
"""

from __future__ import annotations

import binascii
from abc import ABC, abstractmethod
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, ClassVar, Final, Self

from beforehand.errors import LocalProtocolError, StampDecodeError, StampTooLargeError

__all__ = ["LIMIT_DEFAULT", "VALUE_MAX", "Reader", "Stamp", "StampKind", "Writer"]

VERSION: Final = 1

LIMIT_DEFAULT: Final = 1024
"""Bytes that a stamp may take unless the caller says otherwise: the tightest limit among the usual carriers."""

VALUE_MAX: Final = 2**63 - 1

_SHIFTED_MAX: Final = 256
"""Bytes up to which taking numbers apart by shifts is faster than by their text; beyond, shifts take a square."""


class StampKind(IntEnum):
    """The low half of the first byte."""

    LAMPORT = 1
    VECTOR = 2
    VECTOR_IN_VIEW = 3
    VECTOR_DIFFERENCE = 4
    ORDERING = 5
    MATRIX = 6
    BOUNDED = 7
    OFFSET = 8
    HYBRID = 9


class Writer:
    """Collects the body of a stamp. Refuses values that the format cannot hold, as a LocalProtocolError."""

    __slots__ = ("_out",)

    def __init__(self, kind: StampKind) -> None:
        self._out = bytearray((VERSION << 4 | kind,))

    def varint(self, value: int) -> None:
        if not 0 <= value <= VALUE_MAX:
            raise LocalProtocolError(f"{value} does not fit in a stamp: values lie between 0 and {VALUE_MAX}")
        out = self._out
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)

    def raw(self, data: bytes) -> None:
        self._out += data

    def name(self, name: str) -> None:
        data = name_bytes(name)
        self.varint(len(data))
        self._out += data

    def names(self, names: Sequence[bytes]) -> None:
        """A sorted list of distinct names; each gives only what it does not share with the one before it."""
        self.varint(len(names))
        out = self._out
        before = b""
        shared = 0
        for name in names:
            shared = _shared_prefix(before, name, shared)
            rest = len(name) - shared
            if shared < 0x80 and rest < 0x80:  # Each a varint of one byte.
                out.append(shared)
                out.append(rest)
            else:
                self.varint(shared)
                self.varint(rest)
            out += name[shared:]
            before = name

    def integers(self, values: Sequence[int]) -> None:
        """A list whose length the reader knows: as varints, or all in one bit width, whichever is shorter."""
        if min(values, default=0) < 0 or max(values, default=0) > VALUE_MAX:
            raise LocalProtocolError(f"a value does not fit in a stamp: values lie between 0 and {VALUE_MAX}")
        width = _packed_width(values)
        self._out.append(width)
        if width == 0:
            for value in values:
                self.varint(value)
        else:
            bits = "".join([f"{value:0{width}b}" for value in values])
            size = _packed_size(len(values), width)
            self._out += int(bits.ljust(size * 8, "0"), 2).to_bytes(size, "big")

    def finish(self, *, limit: int) -> bytes:
        if len(self._out) > limit:
            raise StampTooLargeError(size=len(self._out), limit=limit)
        return bytes(self._out)


class Reader:
    """Takes a stamp apart. Whatever is wrong with the data, it raises StampDecodeError and nothing else."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, kind: StampKind, *, limit: int) -> None:
        if len(data) > limit:
            raise StampTooLargeError(size=len(data), limit=limit)
        self._data = data
        self._position = 1
        got = peek_kind(data)
        if got is not kind:
            raise StampDecodeError(f"it is a {got.name.lower()} stamp, a {kind.name.lower()} one was expected")

    def varint(self) -> int:
        data, position = self._data, self._position
        if position < len(data) and data[position] < 0x80:
            self._position = position + 1
            return data[position]
        value = shift = 0
        while True:
            if position >= len(data):
                raise StampDecodeError("it ends in the middle of a number")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 62:
                raise StampDecodeError("a number has more than 63 bits")
        if byte == 0 and shift:
            raise StampDecodeError("a number is not in its shortest form")
        self._position = position
        return value

    def count(self, *, bytes_each: int = 1) -> int:
        """How many things follow, each of which takes at least `bytes_each` bytes."""
        count = self.varint()
        if count * bytes_each > len(self._data) - self._position:
            raise StampDecodeError(f"it promises {count} entries and ends before them")
        return count

    def raw(self, size: int) -> bytes:
        taken = self._data[self._position : self._position + size]
        if len(taken) < size:
            raise StampDecodeError("it ends too early")
        self._position += size
        return taken

    def name(self) -> str:
        return _name_text(self.raw(self.varint()))

    def names(self) -> list[str]:
        names: list[str] = []
        before = b""
        # Front coding could blow a stamp up to the square of its size: this keeps memory linear.
        room = 64 * len(self._data)
        guess = 0
        for _ in range(self.count(bytes_each=2)):
            shared = self.varint()
            if shared > len(before):
                raise StampDecodeError("a name shares more than the one before it has")
            name = before[:shared] + self.raw(self.varint())
            room -= len(name)
            if room < 0:
                raise StampDecodeError("its names are too long together")
            guess = _shared_prefix(before, name, guess)
            if name <= before or guess != shared:
                raise StampDecodeError("its names are not sorted, distinct, not empty and in their shortest form")
            names.append(_name_text(name))
            before = name
        return names

    def integers(self, count: int) -> list[int]:
        """`count` values; the caller has bounded `count` by something it knows or by the data."""
        width = self.raw(1)[0]
        if width == 0:
            if count > len(self._data) - self._position:
                raise StampDecodeError("it ends too early")
            values = [self.varint() for _ in range(count)]
        elif width > 63:
            raise StampDecodeError("a number has more than 63 bits")
        else:
            size = _packed_size(count, width)
            number = int.from_bytes(self.raw(size), "big")
            used = count * width
            padding = size * 8 - used
            if number & ((1 << padding) - 1):
                raise StampDecodeError("its padding is not zero")
            if size <= _SHIFTED_MAX:
                number, mask = number >> padding, (1 << width) - 1
                values = [number >> at & mask for at in range(used - width, -1, -width)]
            else:
                bits = f"{number:0{size * 8}b}"
                values = [int(bits[at : at + width], 2) for at in range(0, used, width)]
        if _packed_width(values) != width:
            raise StampDecodeError("its numbers are not in their shortest form")
        return values

    def end(self) -> None:
        if self._position != len(self._data):
            raise StampDecodeError(f"{len(self._data) - self._position} bytes follow its end")


class Stamp(ABC):
    """A logical timestamp: immutable, hashable, with one binary and one text form, and a four-valued `compare`."""

    __slots__ = ()

    exact: ClassVar[bool]
    """Whether `compare` tells happened-before exactly, or only in one direction (see `Relation`)."""

    @abstractmethod
    def encode(self, *, limit: int = LIMIT_DEFAULT) -> bytes:
        """The canonical bytes; StampTooLargeError above `limit`, for half a stamp is a wrong stamp."""

    @classmethod
    @abstractmethod
    def decode(cls, data: bytes, *, limit: int = LIMIT_DEFAULT) -> Self:
        """The stamp that these bytes are; StampDecodeError or StampTooLargeError if they are none."""

    def to_text(self, *, limit: int = LIMIT_DEFAULT, **options: Any) -> str:
        """The canonical text; `options` go to `encode`."""
        return to_text(self.encode(limit=limit, **options), limit=limit)

    @classmethod
    def from_text(cls, text: str, *, limit: int = LIMIT_DEFAULT, **options: Any) -> Self:
        """The stamp that this text is; `options` go to `decode`."""
        return cls.decode(from_text(text, limit=limit), limit=limit, **options)


def peek_kind(data: bytes) -> StampKind:
    """The kind that the first byte tells."""
    if not data:
        raise StampDecodeError("it is empty")
    if data[0] >> 4 != VERSION:
        raise StampDecodeError(f"it has version {data[0] >> 4}, this library reads version {VERSION}")
    try:
        return StampKind(data[0] & 0x0F)
    except ValueError:
        raise StampDecodeError(f"its kind, {data[0] & 0x0F}, is unknown") from None


def to_text(data: bytes, *, limit: int) -> str:
    text = urlsafe_b64encode(data).rstrip(b"=").decode()
    if len(text) > limit:
        raise StampTooLargeError(size=len(text), limit=limit)
    return text


def from_text(text: str, *, limit: int) -> bytes:
    if len(text) > limit:
        raise StampTooLargeError(size=len(text), limit=limit)
    try:
        data = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise StampDecodeError("it is not base64url") from None
    # The decoder skips foreign characters and ignores loose bits; only one text may mean these bytes.
    if urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise StampDecodeError("it is not base64url in its canonical form")
    return data


def name_bytes(name: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise LocalProtocolError(f"process name {name!r} cannot be written as UTF-8") from None


def _name_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise StampDecodeError("a name is not UTF-8") from None


def _shared_prefix(a: bytes, b: bytes, guess: int) -> int:
    """How many bytes they begin with in common. In a sorted list it is often what it was before: guess that first."""
    length = min(len(a), len(b))
    if guess < length and a[guess] != b[guess] and a[:guess] == b[:guess]:
        return guess
    # As numbers: much faster than a loop.
    differs = int.from_bytes(a[:length], "big") ^ int.from_bytes(b[:length], "big")
    return length - (differs.bit_length() + 7) // 8


def _packed_size(count: int, width: int) -> int:
    return (count * width + 7) // 8


def _packed_width(values: Sequence[int]) -> int:
    """The bit width in which these values take the fewest bytes; 0 stands for varints, also when it is a tie."""
    width = max(1, max(values, default=0).bit_length())
    packed = _packed_size(len(values), width)
    if packed < len(values):
        return width  # A varint takes at least one byte.
    varints = sum([max(1, (value.bit_length() + 6) // 7) for value in values])
    return width if packed < varints else 0
