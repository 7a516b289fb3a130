"""One line of the native format as an event that may still lack its index.

A line says everything about its event but, perhaps, its index: that is the number of lines of its process before
it, which nobody who sees one line, or one part of a file, can know. So reading has two steps, and a shuffle may
stand between them: `parse_native` makes an `Unnumbered` of a line alone, `numbered` makes it an `Event`.

1. `parse_native` depends on its line only, and a line is refused for the same reasons wherever it stands.
2. An `Unnumbered` is as valid as the `Event` that it becomes: only the index is missing.
3. There are two ways through a line, which agree. The careful way looks at each key and says what is wrong. The
   quick way decodes with types and gives up, without saying why, on all it cannot vouch for; then the careful way
   decides. Ordinary lines take two to four microseconds, others ten more.

Reasons of rejections, as in native.py: `not-json`, `not-an-event`, `key-twice`, `unknown-key`, `line-too-long`,
`too-deep` and `unreadable`; `index-mixed` from `Numbering`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from beforehand.events import INDEX_MAX, Event, EventId, Kind, parse_time
from beforehand.formats.json_text import Json, RefusedError, compact_json, decode_json, shown
from beforehand.formats.lines import Line
from beforehand.formats.opening import LIMITS_DEFAULT, Limits

__all__ = [
    "INDEX_MIXED",
    "LINE_TOO_LONG",
    "NATIVE_KEYS",
    "NOT_AN_EVENT",
    "UNKNOWN_KEY",
    "UNREADABLE",
    "Numbering",
    "Unnumbered",
    "line_data",
    "parse_native",
    "quoted",
]

INDEX_MIXED: Final = "index-mixed"
NOT_AN_EVENT: Final = "not-an-event"
UNKNOWN_KEY: Final = "unknown-key"
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
NATIVE_KEYS: Final = frozenset(_KEYS)
_BOM: Final = b"\xef\xbb\xbf"
_set: Final = object.__setattr__  # Past the constructor of what is frozen.


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnumbered:
    """An event that may have no index yet. It validates itself as `Event` does."""

    process: str
    index: int | None = None  # None: by the order of the lines of its process.
    execution: str = ""
    sends: tuple[str, ...] = ()
    receives: tuple[str, ...] = ()
    time: int | None = None
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    clock: Mapping[str, int] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        self._checked(1 if self.index is None else self.index)

    def numbered(self, index: int) -> Event:
        """The same with this index, whatever its own was. `ValueError` if the index is out of range."""
        if index != self.index or type(index) is not int:
            return self._checked(index)
        # It was checked when this was made. Checking it again would take as long as reading it.
        event = object.__new__(Event)
        _set(event, "process", self.process)
        _set(event, "index", index)
        _set(event, "execution", self.execution)
        _set(event, "sends", self.sends)
        _set(event, "receives", self.receives)
        _set(event, "time", self.time)
        _set(event, "name", self.name)
        _set(event, "attributes", self.attributes)
        _set(event, "clock", self.clock)
        return event

    def _checked(self, index: int) -> Event:
        return Event(
            process=self.process,
            index=index,
            execution=self.execution,
            sends=self.sends,
            receives=self.receives,
            time=self.time,
            name=self.name,
            attributes=self.attributes,
            clock=self.clock,
        )


class Numbering:
    """Gives events that have no index the next one of their (execution, process), in the order they come."""

    def __init__(self) -> None:
        # (execution, process) -> the last index that we gave, or None if its events carry their own.
        # Grows with the number of processes, of which every later stage keeps more than this.
        self._last_index: dict[tuple[str, str], int | None] = {}

    def numbered(self, found: Unnumbered) -> Event:
        """Raises `RefusedError` if one event of a process has an index and another has none; then nothing changed."""
        key = (found.execution, found.process)
        last = self._last_index.get(key, 0)
        if key in self._last_index and (found.index is None) != (last is not None):
            raise RefusedError(
                INDEX_MIXED,
                f"the event has {'no' if found.index is None else 'an'} index and the first of process "
                f"{shown(key[1])} has {'one' if found.index is None else 'none'}: give all of them one, or none",
            )
        event = found.numbered((last or 0) + 1 if found.index is None else found.index)
        self._last_index[key] = event.index if found.index is None else None
        return event


def parse_native(line: Line, *, limits: Limits = LIMITS_DEFAULT) -> Unnumbered | None:
    """The event of one line, None for a blank one. Raises `RefusedError`, and nothing else."""
    data = line_data(line, limits=limits)
    if not data:
        return None
    # What the quick way takes has brackets in brackets, but no deeper.
    found = _quickly(data) if limits.depth_max >= 2 else None
    return _carefully(data, depth_max=limits.depth_max) if found is None else found


def line_data(line: Line, *, limits: Limits) -> bytes:
    """The bytes of a line, none for a blank one. Raises `RefusedError` if it was not read, or is too long."""
    offset, data, _, length, problem = line
    if problem is not None:
        raise RefusedError(UNREADABLE, f"reading stopped: {problem}; the events before this are kept")
    if length is None:
        length = len(data)
    if length > limits.line_bytes_max:
        raise RefusedError(
            LINE_TOO_LONG,
            f"the line has {length} bytes, the limit is {limits.line_bytes_max}: shorten it or raise line_bytes_max",
        )
    if offset == 0:
        data = data.removeprefix(_BOM)
    return b"" if data.isspace() else data


def quoted(data: bytes, *, limits: Limits) -> str:
    """The beginning of a line for its rejection."""
    # Four bytes are the longest character of UTF-8.
    return data[: 4 * limits.text_max].decode("utf-8", "replace")[: limits.text_max]


# The quick way. It takes a line or leaves it, and is allowed to leave any.


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What an ordinary line holds. The decoder is strict: no number is taken for a text, nor true for a number."""

    process: str
    index: int | UnsetType | None = UNSET
    execution: str | UnsetType | None = UNSET
    sends: tuple[str, ...] | UnsetType | None = UNSET
    receives: tuple[str, ...] | UnsetType | None = UNSET
    time: int | str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    attributes: dict[str, str | int | float | bool | None] | UnsetType | None = UNSET
    clock: dict[str, Annotated[int, msgspec.Meta(ge=0, le=INDEX_MAX)]] | UnsetType | None = UNSET
    kind: str | UnsetType | None = UNSET
    message: str | UnsetType | None = UNSET


_decode_row: Final = msgspec.json.Decoder(_Row).decode
_as_tuple: Final = msgspec.structs.astuple
_FIELDS: Final = len(_Row.__struct_fields__)


def _quickly(data: bytes) -> Unnumbered | None:
    """The event of a line, None if there is any doubt."""
    try:
        values = _as_tuple(_decode_row(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    process, index, execution, sends, receives, time, name, attributes, clock, kind, message = values
    keys = _FIELDS - values.count(UNSET) + len(attributes or ()) + len(clock or ())
    # A decoder keeps the last of two equal keys. Each key as written ends in a quote, perhaps blanks, and a colon.
    # Strings may hold more of those, but if there are no more than keys were decoded, none was written twice.
    if data.translate(None, b" \t\r\n").count(b'":') != keys:
        return None
    sends, receives = sends or (), receives or ()
    if kind.__class__ is str or message.__class__ is str:
        if sends or receives or not message:
            return None
        if kind == "send":
            sends = (message,)
        elif kind == "receive":
            receives = (message,)
        else:
            return None
    if "" in sends or (len(sends) > 1 and len(set(sends)) < len(sends)):
        return None
    if "" in receives or (len(receives) > 1 and len(set(receives)) < len(receives)):
        return None
    if time.__class__ is str:
        time = _quick_time(time)
        if time is None:
            return None
    elif time is UNSET:
        time = None
    if not process or (index and not 1 <= index <= INDEX_MAX) or (time and not -INDEX_MAX <= time <= INDEX_MAX):
        return None
    if index == 0:
        return None
    if attributes:
        for value in attributes.values():
            if value.__class__ is not str:
                attributes = {key: _scalar_text(item) for key, item in attributes.items()}
                break
    # Past the constructor, whose checks take as long as all of the above that stands for them.
    found = object.__new__(Unnumbered)
    _set(found, "process", process)
    _set(found, "index", index or None)
    _set(found, "execution", execution or "")
    _set(found, "sends", sends)
    _set(found, "receives", receives)
    _set(found, "time", time)
    _set(found, "name", name or "")
    _set(found, "attributes", attributes or {})
    _set(found, "clock", None if clock is UNSET else clock)
    return found


def _scalar_text(value: str | int | float | bool | None) -> str:
    if value.__class__ is str or value.__class__ is int:
        return str(value)
    return compact_json(value)


def _quick_time(text: str) -> int | None:
    """The time of `2026-01-31T12:00:00.123Z`; None if it is written otherwise."""
    second, fraction = text[17:19], text[20:-1]
    digits = second + fraction
    if not (text[19:20] == "." and text[-1:] == "Z" and len(text) <= 30 and second < "60" and fraction):
        return None
    if len(second) < 2 or not (digits.isascii() and digits.isdecimal()):
        return None
    minute = _minute(text[:17])
    return None if minute is None else minute + int(digits.ljust(11, "0"))


@lru_cache(maxsize=1 << 12)  # Lines that stand together were written together.
def _minute(text: str) -> int | None:
    try:
        return parse_time(f"{text}00Z")
    except ValueError:
        return None


# The careful way. From bytes to a record: one JSON object whose keys we know.


def _carefully(data: bytes, *, depth_max: int) -> Unnumbered:
    record = _decode(data, depth_max=depth_max)
    index = _index(record)
    event = _to_event(record, index=1 if index is None else index)
    if index is not None:
        _check_id(record, event.id)
    return Unnumbered(
        process=event.process,
        index=index,
        execution=event.execution,
        sends=event.sends,
        receives=event.receives,
        time=event.time,
        name=event.name,
        attributes=event.attributes,
        clock=event.clock,
    )


def _decode(data: bytes, *, depth_max: int) -> dict[str, Json]:
    record = decode_json(data, depth_max=depth_max)
    if not isinstance(record, dict):
        raise RefusedError(NOT_AN_EVENT, 'the line is JSON but not an object like {"process": "a"}')
    if not record.keys() <= NATIVE_KEYS:
        unknown = next(key for key in record if key not in NATIVE_KEYS)
        raise RefusedError(
            UNKNOWN_KEY,
            f"events have no key {shown(unknown)}: correct it (keys are {', '.join(_KEYS)}) "
            "or put it under attributes",
        )
    return record


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
