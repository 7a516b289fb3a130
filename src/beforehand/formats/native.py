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
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Final

import msgspec

from beforehand.errors import InputError
from beforehand.events import Event, EventId, Kind, Rejection, parse_time
from beforehand.formats.json_text import (
    KEY_TWICE,
    NOT_JSON,
    TOO_DEEP,
    Json,
    RefusedError,
    compact_json,
    decode_json,
    shown,
)
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

NOT_AN_EVENT: Final = "not-an-event"
UNKNOWN_KEY: Final = "unknown-key"
INDEX_MIXED: Final = "index-mixed"
LINE_TOO_LONG: Final = "line-too-long"
UNREADABLE: Final = "unreadable"

_KEYS: Final = (
    "execution",
    "process",
    "index",
    "sends",
    "receives",
    "time",
    "name",
    "attributes",
    "clock",
    "kind",
    "message",
    "id",
)
_BOM: Final = b"\xef\xbb\xbf"


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
        # (execution, process) -> the last index that we gave, or None if its events carry their own.
        # Grows with the number of processes, of which every later stage keeps more than this.
        self._last_index: dict[tuple[str, str], int | None] = {}

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
                    text=self._quoted(line.data),
                )
            else:
                if event is not None:
                    yield event

    def _event(self, line: Line) -> Event | None:
        """The event of a line, None for a blank one. Raises `RefusedError`, and then has changed nothing."""
        if line.problem is not None:
            raise RefusedError(UNREADABLE, f"reading stopped: {line.problem}; the events before this are kept")
        length = len(line.data) if line.length is None else line.length
        if length > self.limits.line_bytes_max:
            raise RefusedError(
                LINE_TOO_LONG,
                f"the line has {length} bytes, the limit is {self.limits.line_bytes_max}: "
                "shorten it or raise line_bytes_max",
            )
        data = line.data.removeprefix(_BOM) if line.offset == 0 else line.data
        if not data or data.isspace():
            return None
        record = _decode(data, depth_max=self.limits.depth_max)
        index = _index(record)
        key = (_text(record, "execution"), _text(record, "process"))
        last = self._last_index.get(key, 0)
        if key in self._last_index and (index is None) != (last is not None):
            raise RefusedError(
                INDEX_MIXED,
                f"the event has {'no' if index is None else 'an'} index and the first of process "
                f"{shown(key[1])} has {'one' if index is None else 'none'}: give all of them one, or none",
            )
        event = _to_event(record, index=(last or 0) + 1 if index is None else index)
        if index is not None:
            _check_id(record, event.id)
        self._last_index[key] = event.index if index is None else None
        return event

    def _quoted(self, data: bytes) -> str:
        # Four bytes are the longest character of UTF-8.
        return data[: 4 * self.limits.text_max].decode("utf-8", "replace")[: self.limits.text_max]


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


# From bytes to a record: one JSON object whose keys we know.


def _decode(data: bytes, *, depth_max: int) -> dict[str, Json]:
    record = decode_json(data, depth_max=depth_max)
    if not isinstance(record, dict):
        raise RefusedError(NOT_AN_EVENT, 'the line is JSON but not an object like {"process": "a"}')
    if not record.keys() <= _KEY_SET:
        unknown = next(key for key in record if key not in _KEY_SET)
        raise RefusedError(
            UNKNOWN_KEY,
            f"events have no key {shown(unknown)}: correct it (keys are {', '.join(_KEYS)}) "
            "or put it under attributes",
        )
    return record


_KEY_SET: Final = frozenset(_KEYS)


# From a record to an event. null means the same as leaving the key out.


def _to_event(record: Mapping[str, Json], *, index: int) -> Event:
    sends, receives = _texts(record, "sends"), _texts(record, "receives")
    kind, message = record.get("kind"), record.get("message")
    if kind is not None and kind not in _KINDS:
        raise RefusedError(NOT_AN_EVENT, f"kind {shown(kind)} is not one of local, send, receive")
    if message is not None:
        if sends or receives:
            raise RefusedError(NOT_AN_EVENT, "message stands beside sends or receives: use one of the two")
        if kind not in (Kind.SEND, Kind.RECEIVE):
            raise RefusedError(NOT_AN_EVENT, 'message needs "kind": "send" or "kind": "receive" beside it')
        ids = (_text(record, "message"),)
        sends, receives = (ids, ()) if kind == Kind.SEND else ((), ids)
    try:
        event = Event(
            process=_text(record, "process"),
            index=index,
            execution=_text(record, "execution"),
            sends=sends,
            receives=receives,
            time=_time(record),
            name=_text(record, "name"),
            attributes=_attributes(record),
            clock=_clock(record),
        )
    except ValueError as error:
        raise RefusedError(NOT_AN_EVENT, str(error)) from None
    if kind is not None and kind != event.kind:
        raise RefusedError(
            NOT_AN_EVENT,
            f"kind is {kind} but by its messages the event is {event.kind}: name the messages, or leave kind out",
        )
    return event


# A tuple: what is looked up in it may be a list or an object, which cannot be hashed.
_KINDS: Final = tuple(kind.value for kind in Kind)


def _text(record: Mapping[str, Json], key: str) -> str:
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RefusedError(NOT_AN_EVENT, f"{key} is {shown(value)}, not a text")
    return value


def _texts(record: Mapping[str, Json], key: str) -> tuple[str, ...]:
    value = record.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise RefusedError(NOT_AN_EVENT, f'{key} is {shown(value)}, not a list like ["m1"]')
    texts = tuple(item for item in value if isinstance(item, str))
    if len(texts) < len(value):
        raise RefusedError(NOT_AN_EVENT, f"{key} has a message id that is not a text")
    return texts


def _index(record: Mapping[str, Json]) -> int | None:
    value = record.get("index")
    if value is not None and type(value) is not int:  # Not isinstance: true is an int to Python.
        raise RefusedError(NOT_AN_EVENT, f"index is {shown(value)}, not an integer")
    return value


def _time(record: Mapping[str, Json]) -> int | None:
    value = record.get("time")
    if value is None:
        return None
    if isinstance(value, str):
        return parse_time(value)
    if type(value) is not int:
        raise RefusedError(NOT_AN_EVENT, f"time is {shown(value)}, neither RFC 3339 nor an integer of nanoseconds")
    return value


def _attributes(record: Mapping[str, Json]) -> dict[str, str]:
    value = record.get("attributes")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RefusedError(NOT_AN_EVENT, f'attributes is {shown(value)}, not an object like {{"key": "text"}}')
    return {key: item if isinstance(item, str) else compact_json(item) for key, item in value.items()}


def _clock(record: Mapping[str, Json]) -> dict[str, int] | None:
    value = record.get("clock")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RefusedError(NOT_AN_EVENT, f'clock is {shown(value)}, not an object like {{"process": 1}}')
    clock = {}
    for process, count in value.items():
        if type(count) is not int:
            raise RefusedError(NOT_AN_EVENT, f"clock entry {shown(process)} is {shown(count)}, not an integer")
        clock[process] = count
    return clock


def _check_id(record: Mapping[str, Json], event_id: EventId) -> None:
    # Either form of an id may stand in a file: the short one where there is only one execution.
    short = f"{event_id.process}:{event_id.index}"
    given = record.get("id")
    if given is not None and given not in (short, str(event_id)):
        raise RefusedError(NOT_AN_EVENT, f"id {shown(given)} is not that of {shown(str(event_id))}: leave id out")
