r"""Logs whose records may span lines: read whole by one task, within a limit, and decoded without losing a line.

1. At most `TextLimits.text_bytes_max` decompressed bytes, all files of a call together, are taken; beyond that there
   is an `InputError`, for half a log would give wrong causes.
2. Every line of the text is a line of the file, in number too. A line ends with `\n` or `\r\n`.
3. What could not be taken as it was is told, never silent:

    encoding        lines with bytes that are not UTF-8, which now hold U+FFFD there: one rejection a file
    line-too-long   a line longer than `Limits.line_bytes_max`; in the text it is blank
    unreadable      reading the file stopped here; the text before it stays
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.lines import Line, split_lines
from beforehand.formats.native import LINE_TOO_LONG, UNREADABLE
from beforehand.formats.opening import Limits, Readable
from beforehand.formats.sources import Source, Sources

__all__ = [
    "ENCODING",
    "TEXT_LIMITS_DEFAULT",
    "TextLimits",
    "WholeReading",
    "WholeText",
]

ENCODING: Final = "encoding"

_BOM: Final = b"\xef\xbb\xbf"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits(Limits):
    """What reading a log whole may cost, besides what reading any file may."""

    text_bytes_max: int = 256 << 20  # Decompressed. As events it takes about ten times as much memory.
    regex_length_max: int = 4_000
    # A regular expression may use `match_seconds_max` and, for each MiB of text, `match_seconds_per_mib`. The usual
    # ones take a twentieth of a second per MiB.
    match_seconds_max: int = 5
    match_seconds_per_mib: int = 1


TEXT_LIMITS_DEFAULT: Final = TextLimits()


@dataclass(frozen=True, slots=True)
class WholeText:
    """The text of one file."""

    file: str | None
    text: str  # Lines are joined by "\n"; there is none after the last.
    rejections: tuple[Rejection, ...]

    def quoted(self, start: int, end: int, *, limits: Limits) -> str:
        """A stretch of the text for a rejection, cut."""
        return self.text[start : min(end, start + limits.text_max)]


class WholeReading:
    """Opens the files of one call, one after the other, and keeps their total size within the limit."""

    def __init__(self, source: Source, *, file: str | None, limits: TextLimits) -> None:
        """A file that is missing or a directory is an `InputError`, raised here, before anything is read."""
        self._limits = limits
        self._bytes_left = limits.text_bytes_max  # Negative: the limit was exceeded, and reading ended there.
        self._sources = Sources(source, file=file, limits=limits)

    def lines(self) -> Iterator[tuple[str | None, Iterator[Line]]]:
        """Per file, the name to tell and its lines, which must be used up before the next file is asked for."""
        for name, opening in self._sources.opened():
            with opening as stream:
                yield name, self._within_limit(stream, name)

    def texts(self) -> Iterator[WholeText]:
        """Per file, its text."""
        for name, lines in self.lines():
            yield _whole_text(lines, name, self._limits)

    def _within_limit(self, stream: Readable, name: str | None) -> Iterator[Line]:
        for line in split_lines(_Counted(stream, self._count), line_bytes_max=self._limits.line_bytes_max):
            if self._bytes_left < 0:
                break
            yield line
        if self._bytes_left < 0:
            raise InputError(
                f"{name or 'the stream'}: more than {self._limits.text_bytes_max} bytes of a log that is read "
                "whole: split it by execution, turn it into native events, or raise text_bytes_max"
            )

    def _count(self, size: int) -> bool:
        self._bytes_left -= size
        return self._bytes_left >= 0


class _Counted:
    """A stream that ends where `count` says no: an endless line must not be waited for."""

    def __init__(self, stream: Readable, count: Callable[[int], bool]) -> None:
        self._stream = stream
        self._may_go_on = count

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        return data if self._may_go_on(len(data)) else b""


def _whole_text(lines: Iterable[Line], file: str | None, limits: TextLimits) -> WholeText:
    texts: list[str] = []
    rejections: list[Rejection] = []
    damaged: Line | None = None  # The first line that is not UTF-8.
    damaged_count = 0
    utf16 = False
    for line in lines:
        data = line.data.removesuffix(b"\r")
        if line.number == 1:
            data = data.removeprefix(_BOM)
            utf16 = data.startswith(_UTF16_MARKS)
        too_long = (line.length or 0) > limits.line_bytes_max
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode("utf-8", "replace")
            if not too_long:  # Cut lines may end inside a character, and are refused anyway.
                damaged_count += 1
                damaged = damaged or line
        if too_long:
            rejections.append(
                Rejection(
                    reason=LINE_TOO_LONG,
                    detail=f"the line has {line.length} bytes, the limit is {limits.line_bytes_max}: "
                    "shorten it or raise line_bytes_max; it was read as a blank line",
                    file=file,
                    line=line.number,
                    offset=line.offset,
                    text=text[: limits.text_max],
                )
            )
            text = ""
        texts.append(text)
        if line.problem is not None:
            rejections.append(
                Rejection(
                    reason=UNREADABLE,
                    detail=f"reading stopped: {line.problem}; the text before this is kept",
                    file=file,
                    line=line.number,
                    offset=line.offset,
                )
            )
    if damaged is not None:
        rejections.append(_encoding_note(damaged, damaged_count, file, limits, utf16=utf16))
    return WholeText(file, "\n".join(texts), tuple(rejections))


def _encoding_note(first: Line, count: int, file: str | None, limits: Limits, *, utf16: bool) -> Rejection:
    advice = "the file seems to be UTF-16: convert it" if utf16 else "the rest of each line is kept"
    return Rejection(
        reason=ENCODING,
        detail=f"{count} line(s) from this one on hold bytes that are not UTF-8, read as U+FFFD: {advice}",
        file=file,
        line=first.number,
        offset=first.offset,
        text=first.data[: 4 * limits.text_max].decode("utf-8", "replace")[: limits.text_max],
    )
