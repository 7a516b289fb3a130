"""Files as bytes: plain, gzip (`.gz`) or zstd (`.zst`), told apart by suffix. The suffix decides, not the content.

1. A file that cannot be opened is an `InputError` at `open_bytes`; one that turns out broken, or larger
   than its limits, is an `InputError` at `read`. What was read before that is good.
2. What a compressed file can cost is bounded: its size after decompression and its ratio are limited while
   it is read. gzip holds little more than a piece; zstd up to its window (128 MiB) and 32 MiB of output.
3. A file that ends in the middle of its compressed data is broken, never just short.
4. A written file appears under its name whole or not at all.
"""

from __future__ import annotations

import gzip
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from typing import IO, TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from beforehand.errors import InputError

if TYPE_CHECKING:
    import zstandard

__all__ = ["LIMITS_DEFAULT", "Limits", "Path", "Readable", "check_file", "open_bytes", "replacing", "shown_path"]

Path: TypeAlias = str | os.PathLike[str]

_DEPTH_MAX: Final = 200  # Well below Python's recursion limit: values are walked recursively.
_RATIO_FREE_BYTES: Final = 1 << 20  # Small files may have any ratio: a page of blanks is no bomb.
_ZSTD_WINDOW_BYTES_MAX: Final = 1 << 27  # 128 MiB, what `zstd -22` uses and `zstd -d` accepts.
# Four bytes of zstd may stand for 128 KiB and its decompressor has no limit on output, so the input is
# given in pieces: 1 KiB makes at most 32 MiB at once.
_ZSTD_PIECE_BYTES: Final = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What reading may cost. Beyond a limit there is a rejection that says so, never a crash."""

    line_bytes_max: int = 1 << 20
    depth_max: int = 32  # Brackets inside brackets of one JSON text; the event itself is the first.
    decompressed_bytes_max: int = 16 << 30
    decompression_ratio_max: int = 1000  # Applied once a file has given 1 MiB.
    text_max: int = 200  # Characters of a refused line that its rejection quotes.

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 1:
                raise ValueError(f"{limit.name} must be at least 1")
        if self.depth_max > _DEPTH_MAX:
            raise ValueError(f"depth_max must be at most {_DEPTH_MAX}")


LIMITS_DEFAULT: Final = Limits()


class Readable(Protocol):
    """What can be read in pieces: up to `size` bytes, at least one until the end, which is `b""`."""

    def read(self, size: int, /) -> bytes: ...


@contextmanager
def open_bytes(path: Path, *, limits: Limits = LIMITS_DEFAULT) -> Iterator[Readable]:
    """The (decompressed) bytes of a file. `InputError` if it cannot be opened, and from `read` if broken."""
    check_file(path)
    try:
        raw = open(path, "rb", buffering=0)  # noqa: SIM115 (only opening may raise as "cannot open")
    except OSError as error:
        raise InputError(f"cannot open {shown_path(path)}: {_why(error)}") from error
    with raw:
        counted = _Counted(raw)
        name = os.fspath(path).lower()
        source: Readable = counted
        if name.endswith(".gz"):
            source = _Decompressed(counted, _Gzip(counted), "gzip", limits)
        elif name.endswith(".zst"):
            source = _Decompressed(counted, _Zstd(counted, _zstandard(path)), "zstd", limits)
        yield _Explained(source, shown_path(path))


def check_file(path: Path) -> None:
    """Raise `InputError` unless there is something at `path` that can be read as one file."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path.
        raise InputError(f"cannot open {shown_path(path)}: {_why(error)}") from error
    if stat.S_ISDIR(mode):
        raise InputError(f"{shown_path(path)} is a directory: name the files in it")


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file (compressed by suffix) beside its final name; rename it once the block ends well.

    If the block raises, the file that was there before stays as it was. A device or a pipe cannot be
    renamed over, so it is written in place.
    """
    try:
        target = os.path.realpath(path)  # Through a link, so that the link stays a link.
        in_place = os.path.exists(path) and not os.path.isfile(path)  # Not `target`: a pipe's own name is no path.
        part = os.fspath(path) if in_place else f"{target}.{secrets.token_hex(4)}.part"
        raw = open(part, "wb" if in_place else "xb")  # noqa: SIM115 (closed below, before the rename)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {shown_path(path)}: {_why(error)}") from error
    try:
        with raw:
            with _compressing(raw, path) as stream:
                yield stream
            raw.flush()
            if not in_place:
                os.fsync(raw.fileno())  # Else a crash soon after could leave the name with no content.
        if not in_place:
            os.replace(part, target)
    except BaseException as error:
        if not in_place:
            with suppress(OSError):
                os.unlink(part)
        # Another file's error, raised by whatever the block reads from, is not ours to explain.
        if isinstance(error, OSError) and error.filename in (None, part):
            raise InputError(f"cannot write {shown_path(path)}: {_why(error)}") from error
        raise


def shown_path(path: Path) -> str:
    """A path as text that any output can take: file names may hold bytes that are not UTF-8."""
    return os.fspath(path).encode("utf-8", "backslashreplace").decode()


@contextmanager
def _compressing(raw: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    name = os.fspath(path).lower()
    if name.endswith(".gz"):
        # No name and no time inside: equal events give equal files.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as stream:
            yield stream  # type: ignore[misc] # A GzipFile is all of IO[bytes] that writing needs.
    elif name.endswith(".zst"):
        compressor = _zstandard(path).ZstdCompressor(write_checksum=True)
        with compressor.stream_writer(raw, closefd=False) as writer:
            yield writer
    else:
        yield raw


class _Counted:
    """A raw file that counts the bytes it gave: the input side of the ratio."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.count = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._raw.read(size)
        self.count += len(data)
        return data


class _Gzip:
    def __init__(self, source: _Counted) -> None:
        # Of a file that it reads from start to end, GzipFile uses `read` only.
        self._file = gzip.GzipFile(fileobj=cast(IO[bytes], source), mode="rb")

    def read(self, size: int, /) -> bytes:
        # Not `read`: that gathers several reads and forgets the good ones if a later one fails.
        return self._file.read1(size)


class _Zstd:
    """zstd frames one after another. The library's own stream reader takes a cut file for a short one."""

    def __init__(self, source: _Counted, library: _Zstandard) -> None:
        self._source = source
        self._decompressor = library.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
        self._error = library.ZstdError
        self._frame: zstandard.ZstdDecompressionObj | None = None  # None between frames.
        self._input = b""  # Compressed bytes that are not yet decompressed.
        self._output = b""  # Decompressed bytes from `_given` on are not yet handed out; at most 32 MiB.
        self._given = 0

    def read(self, size: int, /) -> bytes:
        while self._given == len(self._output):
            self._input = self._input or self._source.read(1 << 16)
            if not self._input:
                if self._frame is not None:
                    raise EOFError("it ends in the middle of a frame")
                return b""
            self._output, self._given = self._decompress_piece(), 0
        piece = self._output[self._given : self._given + size]
        self._given += len(piece)
        return piece

    def _decompress_piece(self) -> bytes:
        if self._frame is None:
            self._frame = self._decompressor.decompressobj()
        piece, self._input = self._input[:_ZSTD_PIECE_BYTES], self._input[_ZSTD_PIECE_BYTES:]
        try:
            output = self._frame.decompress(piece)
        except self._error as error:
            raise OSError(str(error)) from error
        if self._frame.eof:
            self._input = self._frame.unused_data + self._input
            self._frame = None
        return output


class _Decompressed:
    """A decompressor whose output is limited in size and in ratio to its input."""

    def __init__(self, source: _Counted, decompressor: Readable, kind: str, limits: Limits) -> None:
        self._source = source
        self._decompressor = decompressor
        self._kind = kind
        self._limits = limits
        self._count = 0

    def read(self, size: int, /) -> bytes:
        try:
            data = self._decompressor.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"broken {self._kind} data: {_why(error)}") from error
        if not data and self._source.count == 0:
            raise InputError(f"broken {self._kind} data: the file is empty, which not even compressed nothing is")
        self._count += len(data)
        size_max = self._limits.decompressed_bytes_max
        ratio_max = self._limits.decompression_ratio_max
        if self._count > size_max:
            raise InputError(
                f"more than {size_max} bytes decompressed: raise decompressed_bytes_max if that is expected"
            )
        if self._count > _RATIO_FREE_BYTES and self._count > ratio_max * self._source.count:
            raise InputError(
                f"{self._kind} data that grows more than {ratio_max} times: "
                "raise decompression_ratio_max if that is expected"
            )
        return data


class _Explained:
    """Turns a failing disk into an `InputError`, and names the file in all of them."""

    def __init__(self, source: Readable, path: str) -> None:
        self._source = source
        self._path = path

    def read(self, size: int, /) -> bytes:
        try:
            return self._source.read(size)
        except InputError as error:
            raise InputError(f"{self._path}: {error}") from error
        except OSError as error:
            raise InputError(f"{self._path}: {_why(error)}") from error


class _Zstandard(Protocol):
    """The names of the module `zstandard` that we use."""

    @property
    def ZstdDecompressor(self) -> type[zstandard.ZstdDecompressor]: ...  # noqa: N802
    @property
    def ZstdCompressor(self) -> type[zstandard.ZstdCompressor]: ...  # noqa: N802
    @property
    def ZstdError(self) -> type[Exception]: ...  # noqa: N802


def _zstandard(path: Path) -> _Zstandard:
    # Imported late: the light core comes without it.
    try:
        import zstandard
    except ImportError as error:
        raise InputError(
            f"{shown_path(path)} needs zstandard: pip install 'beforehand[history]', or use .gz"
        ) from error
    return zstandard


def _why(error: BaseException) -> str:
    # An OSError's own text repeats the path; its strerror does not.
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or "unknown"
