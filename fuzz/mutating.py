"""Inputs that are nearly right: what was right, changed in a few places; parts of two; and now and then noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

__all__ = ["mutated"]

_BYTES_MAX = 65_536
_NUMBERS = (b"0", b"-1", b"1e999", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"NaN")
_PIECES = (
    *_NUMBERS,
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b'"\\ud800"',
    b"\x00",
    b"\xff\xff\xff\xff",
    b"\x80",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n\n",
    b'"',
    b"\\",
    b",",
    b":",
    b"9" * 400,
    b"[" * 300,
    b'{"a":' * 300,
    b"[" * 3_000,
    b'{"a":' * 3_000,
    b"\x91" * 3_000,  # Lists in lists, in MessagePack.
    "\u202e".encode(),
    "ß".encode(),
    b"../../etc/passwd",
    b"<script>",
    b"%00",
    b"(a+)+$",
)


def mutated(seeds: Sequence[bytes], random: Random) -> bytes:
    """An input made of these."""
    if random.random() < 0.03:
        return random.randbytes(random.choice([0, 1, 2, 7, 64, 1_000]))
    data = random.choice(seeds)
    for _ in range(random.choice([1, 1, 1, 2, 3, 8])):
        data = random.choice(_CHANGES)(data, seeds, random)[:_BYTES_MAX]
    return data


def _place(data: bytes, random: Random) -> int:
    return random.randrange(len(data) + 1)


def _flip(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    if not data:
        return b"\x00"
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]


def _overwrite(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    at = _place(data, random)
    piece = random.randbytes(random.choice([1, 1, 2, 4]))
    return data[:at] + piece + data[at + len(piece) :]


def _insert(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    at = _place(data, random)
    return data[:at] + random.choice(_PIECES) + data[at:]


def _replace(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    """A number, a text or a name by a strange one."""
    at = _place(data, random)
    end = min(len(data), at + random.choice([1, 2, 5, 20]))
    return data[:at] + random.choice(_PIECES) + data[end:]


def _cut(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    at, end = sorted((_place(data, random), _place(data, random)))
    return data[:at] + data[end:] if random.random() < 0.7 else data[:at]


def _repeat(data: bytes, _: Sequence[bytes], random: Random) -> bytes:
    at, end = sorted((_place(data, random), _place(data, random)))
    return data[:end] + data[at:end] * random.choice([1, 1, 2, 50]) + data[end:]


def _splice(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(seeds)
    return data[: _place(data, random)] + other[_place(other, random) :]


_CHANGES: tuple[Callable[[bytes, Sequence[bytes], Random], bytes], ...] = (
    _flip,
    _overwrite,
    _insert,
    _replace,
    _cut,
    _repeat,
    _splice,
)
