"""Where spans come from: a binary stream, a file, or several files, checked before anything is read.

1. A file that is missing or a directory is an `InputError` at once, not when the first record is asked for.
2. Several files are read in the order of their paths, each once; notes are told file by file.
3. A look at the first bytes takes nothing away from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeAlias, cast

from beforehand.errors import InputError
from beforehand.formats.opening import Limits, Path, Readable, check_file, open_bytes, shown_path

__all__ = ["HEAD_BYTES", "Peeked", "Source", "Sources"]

Source: TypeAlias = Readable | Path | Iterable[Path]
"""What the readers take: a binary stream, a path, or several paths."""

HEAD_BYTES: Final = 512


class Sources:
    """The files of one call, or its stream."""

    def __init__(self, source: Source, *, file: str | None, limits: Limits) -> None:
        """`file` is the name in rejections of a stream or a single file. Raises `InputError`."""
        self._file = file
        self._limits = limits
        self._stream: Readable | None = None
        self._paths: list[str] = []
        if isinstance(source, str | os.PathLike):
            self._paths = [os.fspath(source)]
        elif hasattr(source, "read"):  # Asked first, for streams can be iterated too.
            self._stream = cast(Readable, source)
        else:
            self._paths = sorted({os.fspath(path) for path in source})
        for path in self._paths:
            check_file(path)

    def opened(self) -> Iterator[tuple[str | None, AbstractContextManager[Readable]]]:
        """Per file, its name in rejections and its opening."""
        if self._stream is not None:
            yield self._file, nullcontext(self._stream)
        for path in self._paths:
            named = self._file if self._file is not None and len(self._paths) == 1 else shown_path(path)
            yield named, open_bytes(path, limits=self._limits)


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
