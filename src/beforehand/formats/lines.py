"""A stream of bytes as lines, each with where it stood, without ever holding a line that is too long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from beforehand.errors import InputError
from beforehand.formats.opening import Readable

__all__ = ["Line", "split_lines"]

_PIECE_BYTES: Final = 1 << 18


class Line(NamedTuple):
    """One line without its newline."""

    offset: int  # Bytes from the start of the (decompressed) file.
    data: bytes  # Only the start of the line if it is longer than allowed.
    number: int | None = None  # From 1; None where the reader began in the middle of a file.
    length: int | None = None  # Of the whole line in bytes; None: all of it is in `data`.
    problem: str | None = None  # Reading stopped inside this line, and why. It is the last one.


def split_lines(stream: Readable, *, line_bytes_max: int) -> Iterator[Line]:
    """The lines of a stream that starts at offset 0. Never raises for a broken stream: see `Line.problem`.

    A line longer than `line_bytes_max` comes with its first `line_bytes_max` bytes and its true `length`;
    the rest of it is passed over as it is read. At most one line and one piece of input are in memory.
    """
    offset, number = 0, 1
    head = bytearray()  # The current line so far, at most `line_bytes_max` of it.
    length = 0  # Of the current line so far.
    while True:
        try:
            piece = stream.read(_PIECE_BYTES)
        except InputError as error:
            yield Line(offset, bytes(head), number, length, str(error))
            return
        if not piece:
            break
        start = 0
        while True:
            newline = piece.find(b"\n", start)
            end = len(piece) if newline < 0 else newline
            head += piece[start : min(end, start + line_bytes_max - len(head))]
            length += end - start
            if newline < 0:
                break
            yield Line(offset, bytes(head), number, length)
            offset += length + 1
            number += 1
            head.clear()
            length = 0
            start = newline + 1
    if length:
        yield Line(offset, bytes(head), number, length)
