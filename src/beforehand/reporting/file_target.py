"""Reports to a file: native JSON Lines, appended.

Guarantees:
  1. A batch is one write of whole lines at the end of the file, so processes may share it. A program that is killed
     leaves at most one partial line, the last one. Whoever writes next begins on a new line: readers refuse that
     partial line and nothing else.
  2. A disk that is full, or fails, is `Later` with the number of lines that are whole; none is written twice.
  3. What `send` has taken survives the end of the program. `sync` says what survives the end of the machine:
     `batch`: every batch that was taken; `close`: what was written when the target was closed; `never`: nothing sure.
  4. With `bytes_max` a file that has reached it is renamed (`events.jsonl` to `events.1.jsonl`, the next free number)
     and a new one begun. No file is ever deleted or written over. A file that somebody else renamed is left alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from itertools import count
from typing import Final, Literal

from beforehand.errors import InputError
from beforehand.formats.opening import Path, shown_path
from beforehand.reporting.targets import Answer, Later, Taken

__all__ = ["FileTarget"]

_MODE: Final = 0o644  # Less what the umask takes away.


class FileTarget:
    """A file that grows."""

    def __init__(
        self, path: Path, *, sync: Literal["batch", "close", "never"] = "close", bytes_max: int | None = None
    ) -> None:
        """The file is opened at the first batch; its directory must be there now."""
        self._path: Final = os.path.abspath(path)
        shown = shown_path(path)
        if "\0" in self._path:
            raise InputError(f"target {shown!r} has a NUL in its path")
        if self._path.lower().endswith((".gz", ".zst")):
            raise InputError(f"target {shown}: reports are appended as they are; name it without .gz or .zst")
        if os.path.isdir(self._path) or not os.path.isdir(os.path.dirname(self._path)):
            raise InputError(f"target {shown}: name a file in a directory that is there")
        if sync not in ("batch", "close", "never"):
            raise InputError(f"sync {sync!r:.40}: one of batch, close and never")
        if bytes_max is not None and bytes_max < 1:
            raise InputError("bytes_max must be at least 1")
        self._shown: Final = shown
        self._sync: Final = sync
        self._bytes_max: Final = bytes_max
        self._file: int | None = None
        self._torn = False  # The file ends in the middle of a line.

    def __str__(self) -> str:
        return self._shown

    def send(self, lines: Sequence[bytes], /) -> Answer:
        start = 0
        written = 0
        data = b""
        try:
            file = self._opened()
            start = int(self._torn)
            data = b"\n" * start + b"\n".join(lines) + b"\n"
            while written < len(data):
                written += os.write(file, memoryview(data)[written:])
                self._torn = written < len(data)
            if self._sync == "batch":
                os.fsync(file)
            return Taken(stored=len(lines))
        except OSError as error:
            whole = _whole_lines(lines, written - start)
            if 0 < written < len(data):
                self._torn = data[written - 1] != 0x0A
            return Later(error=f"cannot write {self._shown}: {error.strerror or error}", taken=whole)

    def close(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            if self._sync != "never" and stat.S_ISREG(os.fstat(file).st_mode):
                os.fsync(file)
        finally:
            os.close(file)

    def _opened(self) -> int:
        if self._file is not None and not self._is_here(self._file):
            self.close()  # Renamed or removed by somebody.
        if self._file is None:
            self._open()
        assert self._file is not None
        if self._bytes_max is not None and os.fstat(self._file).st_size >= self._bytes_max:
            self.close()
            self._set_aside()
            self._open()
        return self._file

    def _open(self) -> None:
        # Read too, to look at its last byte; never waiting for the other end of a pipe.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"):  # Not every system has each of them.
            flags |= getattr(os, name, 0)
        self._file = os.open(self._path, flags, _MODE)
        found = os.fstat(self._file)
        self._torn = False
        if stat.S_ISREG(found.st_mode) and found.st_size:
            os.lseek(self._file, -1, os.SEEK_END)
            self._torn = os.read(self._file, 1) != b"\n"

    def _is_here(self, file: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file))
        except FileNotFoundError:
            return False

    def _set_aside(self) -> None:
        stem, suffix = os.path.splitext(self._path)
        for number in count(1):
            try:
                os.link(self._path, f"{stem}.{number}{suffix}")  # Unlike a rename, never over another file.
            except FileExistsError:
                continue
            os.unlink(self._path)
            return


def _whole_lines(lines: Sequence[bytes], written: int) -> int:
    """How many lines are whole in the first `written` bytes, the last one perhaps without its newline."""
    whole = 0
    for line in lines:
        written -= len(line)
        if written < 0:
            break
        whole += 1
        written -= 1
    return whole
