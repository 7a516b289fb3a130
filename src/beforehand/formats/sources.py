"""What a reader is given: a binary stream, a file, or several files, checked before anything is read.

1. A file that is missing or a directory is an `InputError` at once, not when the first record is asked for.
2. Several files are read in the order of their paths, each once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias, cast

from beforehand.formats.opening import Limits, Path, Readable, check_file, open_bytes, shown_path

__all__ = ["Source", "Sources"]

Source: TypeAlias = Readable | Path | Iterable[Path]
"""What the readers take: a binary stream, a path, or several paths."""


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
