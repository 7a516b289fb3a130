"""The native format: JSON Lines, one event a line.

Reading guarantees:

1. Every line that is not blank gives one event or one `Rejection`; nothing is lost silently. That is why
   an unknown key (`recieves`) and a key written twice are refused rather than passed over.
2. At most one line is in memory, and of that at most `Limits.line_bytes_max`. Besides, the reader keeps one
   number per (execution, process).
3. An event without an `index` gets the next one of its (execution, process), in the order of (path, byte
   offset). Within one process either all events carry an index or none does: the first one decides.
4. What `to_json` writes reads back as an equal event.

Reasons of rejections:

    not-json        the line is not one JSON text in UTF-8
    not-an-event    it is JSON, but its values make no event
    key-twice       it has an object with the same key twice, of which one would be lost
    unknown-key     it has a key that events do not have
    index-mixed     it has an index and earlier events of its process have none, or the other way round
    line-too-long   it is longer than `Limits.line_bytes_max`
    too-deep        its brackets are nested deeper than `Limits.depth_max`
    unreadable      reading the file stopped here; the events before it stay
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import IO

import msgspec

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats.json_text import KEY_TWICE, NOT_JSON, TOO_DEEP, RefusedError
from beforehand.formats.lines import Line, split_lines
from beforehand.formats.opening import (
    LIMITS_DEFAULT,
    Limits,
    Path,
    Readable,
    check_file,
    open_bytes,
    replacing,
    shown_path,
)
from beforehand.formats.unnumbered import (
    INDEX_MIXED,
    LINE_TOO_LONG,
    NOT_AN_EVENT,
    UNKNOWN_KEY,
    UNREADABLE,
    Numbering,
    parse_native,
    quoted,
)

__all__ = [
    "INDEX_MIXED",
    "KEY_TWICE",
    "LINE_TOO_LONG",
    "NOT_AN_EVENT",
    "NOT_JSON",
    "TOO_DEEP",
    "UNKNOWN_KEY",
    "UNREADABLE",
    "NativeReader",
    "read_events",
    "read_lines",
    "to_json",
    "write_events",
]


def read_events(paths: Path | Iterable[Path], *, limits: Limits = LIMITS_DEFAULT) -> Iterator[Event | Rejection]:
    """The events of one or more files, in the order of their paths; a path named twice is read once.

    A file that is missing or a directory is an `InputError`, raised here, before anything is read.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else paths
    ordered = sorted({os.fspath(path) for path in named})
    for path in ordered:
        check_file(path)
    return _read_files(ordered, NativeReader(limits=limits))


def read_lines(
    lines: Iterable[Line | tuple[int, bytes]], *, file: str | None = None, limits: Limits = LIMITS_DEFAULT
) -> Iterator[Event | Rejection]:
    """The events of lines, given as `Line` or as (offset, bytes), that are all of their processes."""
    return NativeReader(limits=limits).read_lines(lines, file=file)


def _read_files(paths: list[str], reader: NativeReader) -> Iterator[Event | Rejection]:
    for path in paths:
        with open_bytes(path, limits=reader.limits) as stream:
            yield from reader.read_stream(stream, file=shown_path(path))


class NativeReader:
    """Reads lines, streams or files in the order they are given; numbers the events that have no index."""

    def __init__(self, *, limits: Limits = LIMITS_DEFAULT) -> None:
        self.limits = limits
        self._numbering = Numbering()

    def read_stream(self, stream: Readable, *, file: str | None = None) -> Iterator[Event | Rejection]:
        """The events of a binary stream from its start to its end."""
        return self.read_lines(split_lines(stream, line_bytes_max=self.limits.line_bytes_max), file=file)

    def read_lines(
        self, lines: Iterable[Line | tuple[int, bytes]], *, file: str | None = None
    ) -> Iterator[Event | Rejection]:
        """The events of lines, given as `Line` or as (offset, bytes)."""
        for given in lines:
            line = given if isinstance(given, Line) else Line(*given)
            try:
                event = self._event(line)
            except RefusedError as refused:
                yield Rejection(
                    reason=refused.reason,
                    detail=str(refused),
                    file=file,
                    line=line.number,
                    offset=line.offset,
                    text=quoted(line.data, limits=self.limits),
                )
            else:
                if event is not None:
                    yield event

    def _event(self, line: Line) -> Event | None:
        """The event of a line, None for a blank one. Raises `RefusedError`, and then has changed nothing."""
        found = parse_native(line, limits=self.limits)
        return None if found is None else self._numbering.numbered(found)


def to_json(event: Event) -> bytes:
    """One line of the native format, without its newline. Fields that have their default are left out."""
    record: dict[str, object] = {}
    if event.execution:
        record["execution"] = event.execution
    record["process"] = event.process
    record["index"] = event.index
    if event.sends:
        record["sends"] = event.sends
    if event.receives:
        record["receives"] = event.receives
    if event.time is not None:
        record["time"] = event.time
    if event.name:
        record["name"] = event.name
    if event.attributes:
        record["attributes"] = dict(event.attributes)
    if event.clock is not None:
        record["clock"] = dict(event.clock)
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError as error:
        raise InputError(f"event {str(event.id)!a} holds text that UTF-8 cannot: {error.reason}") from error


def write_events(events: Iterable[Event], target: Path | IO[bytes]) -> int:
    """Write events to a file (compressed if it ends in .gz or .zst) or a binary stream; their number.

    A file appears under its name only once it is whole. A stream is left open.
    """
    if isinstance(target, str | os.PathLike):
        with replacing(target) as stream:
            return _write(events, stream)
    return _write(events, target)


def _write(events: Iterable[Event], stream: IO[bytes]) -> int:
    count = 0
    for event in events:
        stream.write(to_json(event) + b"\n")
        count += 1
    return count
