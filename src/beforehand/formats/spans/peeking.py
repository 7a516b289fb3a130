"""A look at the first bytes of a stream, which takes nothing away from them."""

from __future__ import annotations

from typing import Final

from beforehand.errors import InputError
from beforehand.formats.opening import Readable

__all__ = ["HEAD_BYTES", "Peeked"]

HEAD_BYTES: Final = 512


class Peeked:
    """A stream whose first bytes were looked at."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self.head = b""
        self.given = 0  # Bytes that were read from here so far.
        self._problem: InputError | None = None  # Raised again where reading arrives.
        self._left = b""
        try:
            while len(self.head) < HEAD_BYTES:
                piece = stream.read(HEAD_BYTES)
                if not piece:
                    break
                self.head += piece
        except InputError as error:
            self._problem = error
        self._left = self.head

    def read(self, size: int, /) -> bytes:
        if self._left:
            piece, self._left = self._left[:size], self._left[size:]
        elif self._problem is not None:
            raise self._problem
        else:
            piece = self._stream.read(size)
        self.given += len(piece)
        return piece

    def exactly(self, size: int) -> bytes:
        """`size` bytes, or as many as there are. Grows as bytes come: a false length allocates nothing."""
        pieces: list[bytes] = []
        while size > 0:
            piece = self.read(min(size, 1 << 18))
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)
