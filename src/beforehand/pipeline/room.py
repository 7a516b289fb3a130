"""Where arrays lie that grow with the events of a block: in memory, or in files if the block is too large for that.

An array in a file is an array like any other to numpy and to kernels. Its pages are the file's: the system writes
them out and takes them away when it needs the memory, and `slices` gives them back after each piece of work. So what
a task holds does not grow with such arrays; the space on disk does.

The files have no name: they are gone with the process, however it ends. Their space is taken when they are made, so a
full disk is an `OSError` there and not the end of the process somewhere in the middle.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["SLICE", "Column", "Room", "give_back", "spill_folder"]

Array = npt.NDArray[Any]

SLICE: Final = 1 << 17
"""Rows that are worked on between two times that pages are given back."""


def spill_folder() -> Path:
    """Where Spark lets this worker spill to."""
    return Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])


def give_back(*arrays: Array) -> None:
    """Give the pages of arrays that are mapped from files back. Others are left alone."""
    for array in arrays:
        base: object = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)


def _file_in(folder: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(dir=folder, prefix="beforehand-")


class Room:
    """With a folder: arrays in files there. Without: in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._maps: list[mmap.mmap] = []

    def empty(self, size: int, kind: npt.DTypeLike) -> Array:
        """In files, these are zeros too."""
        bytes_ = size * np.dtype(kind).itemsize
        if self.folder is None or not bytes_:
            return np.empty(size, kind)
        with _file_in(self.folder) as file:
            os.posix_fallocate(file.fileno(), 0, bytes_)
            return self._mapped(file.fileno(), bytes_, kind)

    def zeros(self, size: int, kind: npt.DTypeLike) -> Array:
        return np.zeros(size, kind) if self.folder is None else self.empty(size, kind)

    def full(self, size: int, kind: npt.DTypeLike, fill: int) -> Array:
        array = self.empty(size, kind)
        for part in self.slices(size):
            array[part] = fill
        return array

    def column(self, kind: npt.DTypeLike) -> Column:
        """An array that is given in pieces."""
        return Column(self, kind)

    def slices(self, size: int) -> Iterator[slice]:
        """Pieces of an array to work on; pages are given back after each. In memory there is one piece."""
        if self.folder is None:
            yield slice(0, size)
            return
        for first in range(0, size, SLICE):
            yield slice(first, min(first + SLICE, size))
            self.release()

    def release(self) -> None:
        """Give the pages of all arrays in files back; they are read again when they are needed."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)  # Of a file's own pages nothing is lost.

    def _mapped(self, file: int, size: int, kind: npt.DTypeLike) -> Array:
        mapped = mmap.mmap(file, size)
        self._maps.append(mapped)
        return np.frombuffer(mapped, kind)


class Column:
    """Pieces, one behind the other."""

    def __init__(self, room: Room, kind: npt.DTypeLike) -> None:
        self._room = room
        self._kind = np.dtype(kind)
        self._pieces: list[Array] = []
        self._file: IO[bytes] | None = None
        self.size = 0

    def add(self, piece: Array) -> None:
        self.size += piece.size
        if self._room.folder is None:
            self._pieces.append(piece.astype(self._kind, copy=False))
        elif piece.size:
            self._file = self._file or _file_in(self._room.folder)
            self._file.write(np.ascontiguousarray(piece, self._kind).data)

    def array(self) -> Array:
        """All of them; nothing can be added any more."""
        if self._file is not None:
            with self._file as file:
                file.flush()
                return self._room._mapped(file.fileno(), self.size * self._kind.itemsize, self._kind)
        if len(self._pieces) == 1:
            return self._pieces[0]
        return np.concatenate([*self._pieces, np.empty(0, self._kind)])
