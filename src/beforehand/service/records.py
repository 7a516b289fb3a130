"""Rows of the store as events and back. What was reported comes back equal, clocks too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from beforehand.events import Event

__all__ = [
    "content_of",
    "decode_clock",
    "decode_content",
    "decode_entries",
    "encode",
    "parts",
    "values_of",
]

Entries = dict[int, int]
Content = tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]

_encoder: Final = msgspec.msgpack.Encoder()
_entries: Final = msgspec.msgpack.Decoder(dict[int, int])
_clock: Final = msgspec.msgpack.Decoder(dict[str, int])
_content: Final = msgspec.msgpack.Decoder(tuple[tuple[str, ...], tuple[str, ...], dict[str, str]])

_CHUNK: Final = 256


def encode(value: object) -> bytes:
    """Compact bytes: MessagePack."""
    return _encoder.encode(value)


def content_of(event: Event) -> bytes | None:
    """Messages and attributes, None if there are none. Raises `UnicodeEncodeError` for text that is none."""
    if event.sends or event.receives or event.attributes:
        return _encoder.encode((event.sends, event.receives, dict(event.attributes)))
    return None


def decode_content(data: bytes | None) -> Content:
    """Sends, receives and attributes."""
    return ((), (), {}) if data is None else _content.decode(data)


def decode_entries(data: bytes | None) -> Entries:
    """A stamp or a part of it: process number to index."""
    return {} if data is None else _entries.decode(data)


def decode_clock(data: bytes) -> Mapping[str, int]:
    return _clock.decode(data)


# Many keys at once: a row of values for each, joined with the table by its key. Statements come in three sizes only,
# so that they stay prepared; the last key fills the rest up.


def parts(keys: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, list[Any]]]:
    """The keys in chunks: how many rows a statement has, and its flat values."""
    at = 0
    while at < len(keys):
        left = len(keys) - at
        size = _CHUNK if left >= 32 else 32 if left >= 4 else 4 if left > 1 else 1
        chunk = list(keys[at : at + size])
        chunk += [chunk[-1]] * (size - len(chunk))
        yield size, [value for key in chunk for value in key]
        at += size


def values_of(db: sqlite3.Connection, sql: str, keys: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The rows of a query over `v`, a table of these keys (columns a, b); a key may be asked for twice."""
    listed = list(keys)
    width = len(listed[0]) if listed else 0
    row = f"({', '.join('?' * width)})"
    columns = ", ".join("ab"[:width])
    for size, values in parts(listed):
        yield from db.execute(f"WITH v({columns}) AS (VALUES {', '.join([row] * size)}) {sql}", values)
