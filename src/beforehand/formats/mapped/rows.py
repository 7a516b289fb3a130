"""One row, as an object of fields, to an event, a span or a log record, as a map says.

1. What the map reads becomes a field of the record; what it does not read, or reads in vain, stays an attribute
   (unless the map names the attributes). Nothing of a row is lost unless the map says so.
2. A row depends on nothing but itself and the map.
3. Absent, null and empty mean the same.

Reasons of rejections:

    not-an-event    no process, a time that is none, a kind without its message, ...: the detail says which field
    not-a-span      the same for a row that is a span
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from beforehand.events import INDEX_MAX
from beforehand.formats.json_text import Json, RefusedError, compact_json, decode_json, shown
from beforehand.formats.mapped.times import UNITS, TimeNotation, scaled
from beforehand.formats.spans import LogRecord, Reference, ReferenceKind, Span, SpanKind, canonical_id
from beforehand.formats.unnumbered import NOT_AN_EVENT, Unnumbered

if TYPE_CHECKING:
    from beforehand.formats.mapped.field_map import FieldMap

__all__ = ["LEVELS", "NOT_A_SPAN", "Mapped", "RowParser"]

NOT_A_SPAN: Final = "not-a-span"

Mapped: TypeAlias = Unnumbered | Span | LogRecord
"""What a row becomes: an event, or a span or log record where the map names traces."""

LEVELS: Final[Mapping[str, str]] = {
    **{name: name for name in ("trace", "debug", "info", "warn", "error", "fatal")},
    "information": "info",
    "notice": "info",
    "warning": "warn",
    "err": "error",
    "severe": "error",
    "crit": "fatal",
    "critical": "fatal",
    "panic": "fatal",
    "alert": "fatal",
    "emerg": "fatal",
    "emergency": "fatal",
}
"""Names of levels, in small letters, and the one of six that each means."""

_decode_decimals: Final = msgspec.json.Decoder(float_hook=Decimal).decode


class RowParser:
    """Rows to records by one map. Holds no state of its own."""

    def __init__(self, fields: FieldMap) -> None:
        self._map = fields
        self._notation = TimeNotation(fields.time_unit, fields.time_zone)
        self._duration_unit = fields.duration_unit or fields.time_unit
        self._is_spans = bool(fields.trace)

    def record(self, row: Mapping[str, Json], data: bytes | None = None) -> Mapped:
        """The record of a row; `data` is its JSON text, if it has one. Raises `RefusedError`."""
        try:
            values = _Row(row, data)
            return self._traced(values) if self._is_spans else self._event(values)
        except ValueError as error:
            raise RefusedError(NOT_A_SPAN if self._is_spans else NOT_AN_EVENT, str(error)) from None

    def _event(self, row: _Row) -> Unnumbered:
        fields = self._map
        sends, receives = self._messages(row)
        return Unnumbered(
            process=self._process(row),
            index=row.whole(fields.index),
            execution=row.joined(fields.execution) or fields.defaults.get("execution", ""),
            sends=sends,
            receives=receives,
            time=self._time(row, fields.time),
            name=self._name(row),
            clock=_clock(row, fields.clock),
            attributes=self._attributes(row, self._level(row)),
        )

    def _messages(self, row: _Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
        fields = self._map
        if not fields.kind:
            return row.ids(fields.sends, fields.separator), row.ids(fields.receives, fields.separator)
        kind = fields.kinds.get(row.peek_text(fields.kind))
        if kind not in ("send", "receive"):
            return (), ()  # Neither field was read, so both stay as attributes.
        row.text(fields.kind)
        ids = row.ids(fields.message, fields.separator)
        if not ids:
            raise ValueError(f"{_named(fields.kind)} says {kind}, but {_named(fields.message)} names no message")
        return (ids, ()) if kind == "send" else ((), ids)

    def _traced(self, row: _Row) -> Span | LogRecord:
        fields = self._map
        trace_id, span_id = canonical_id(row.text(fields.trace)), canonical_id(row.text(fields.span))
        start, end = self._span_times(row)
        process, name, level = self._process(row), self._name(row), self._level(row)
        if start is None and end is None:
            time = self._time(row, fields.time)
            return LogRecord(
                trace_id=trace_id,
                span_id=span_id,
                service=process,
                time_ns=time,
                level=LEVELS.get(level.lower(), ""),
                name=name,
                attributes=self._attributes(row, level),
            )
        if not trace_id or not span_id:
            raise ValueError(f"a span needs both {_named(fields.trace)} and {_named(fields.span)}")
        parent = canonical_id(row.text(fields.parent))
        kind = fields.kinds.get(row.peek_text(fields.kind), "") if fields.kind else ""
        if kind:
            row.text(fields.kind)
        return Span(
            trace_id=trace_id,
            span_id=span_id,
            references=(Reference(trace_id, parent, ReferenceKind.CHILD_OF),) if parent else (),
            service=process,
            name=name,
            kind=SpanKind(kind),
            start_ns=start or None,
            end_ns=end or None,
            error=LEVELS.get(level.lower()) in ("error", "fatal"),
            attributes=self._attributes(row, level),
        )

    def _span_times(self, row: _Row) -> tuple[int | None, int | None]:
        """Start and end; whichever of the two is absent comes from the other and the duration."""
        fields = self._map
        start, end = self._time(row, fields.start), self._time(row, fields.end)
        if (start is None) != (end is None) and fields.duration:
            given = row.first(fields.duration)
            if given is not None:
                duration = scaled(given, UNITS[self._duration_unit], self._duration_unit)
                start, end = (start, start + duration) if start is not None else ((end or 0) - duration, end)
        for time in (start, end):
            if time is not None and not 0 <= time <= INDEX_MAX:
                raise ValueError(f"time {time} ns is not between 1970 and 2262")
        return start, end

    def _process(self, row: _Row) -> str:
        process = row.joined(self._map.process) or self._map.defaults.get("process", "")
        if not process:
            raise ValueError(f"there is no {_named(self._map.process)}, so no process: add process under [defaults]?")
        return process

    def _name(self, row: _Row) -> str:
        return row.text(self._map.name) or self._map.defaults.get("name", "")

    def _level(self, row: _Row) -> str:
        return row.text(self._map.level) or self._map.defaults.get("level", "")

    def _time(self, row: _Row, paths: tuple[str, ...]) -> int | None:
        value = row.first(paths)
        try:
            return None if value is None else self._notation.read(value)
        except ValueError as error:
            raise ValueError(f"{_named(paths)}: {error}") from None

    def _attributes(self, row: _Row, level: str) -> dict[str, str]:
        found = {"level": LEVELS.get(level.lower(), level)} if level else {}
        named = self._map.attributes
        for key, value in row.rest() if named is None else row.named(named):
            while key in found:
                key = f"field.{key}"  # The map's own `level` goes first.
            found[key] = value if isinstance(value, str) else compact_json(value)
        return found


class _Row:
    """The fields of one row, and which of them were read."""

    def __init__(self, row: Mapping[str, Json], data: bytes | None) -> None:
        self._row = row
        self._data = data
        self._read: set[str] = set()

    def first(self, paths: tuple[str, ...]) -> Json | Decimal:
        """The first of these fields that is there. Numbers are exact: those with a fraction are decimals."""
        for path in paths:
            value = _reach(self._row, path)
            if not _is_absent(value):
                self._read.add(path)
                return self._exact(path) if isinstance(value, float) else value
        return None

    def text(self, paths: tuple[str, ...]) -> str:
        value = self.first(paths)
        return "" if value is None else _text(value, paths)

    def peek_text(self, paths: tuple[str, ...]) -> str:
        """The same, but the field stays unread."""
        read = set(self._read)
        try:
            return self.text(paths)
        finally:
            self._read = read

    def joined(self, paths: tuple[str, ...]) -> str:
        """Those of these fields that are there, joined."""
        return ":".join(text for path in paths if (text := self.text((path,))))

    def whole(self, paths: tuple[str, ...]) -> int | None:
        value = self.first(paths)
        return None if value is None else _whole(value, _named(paths))

    def ids(self, paths: tuple[str, ...], separator: str) -> tuple[str, ...]:
        """Message ids: those of one field, or one id joined from several fields, of which none may be absent."""
        if len(paths) > 1:
            if any(_is_absent(_reach(self._row, path)) for path in paths):
                return ()
            return (self.joined(paths),)
        value = self.first(paths)
        if value is None:
            return ()
        if isinstance(value, list):
            return tuple(_text(item, paths) for item in value)
        text = _text(value, paths)
        return tuple(part.strip() for part in text.split(separator) if part.strip()) if separator else (text,)

    def rest(self) -> Iterable[tuple[str, Json]]:
        """The fields that were not read; an object of which a part was read is among them."""
        return ((key, value) for key, value in self._row.items() if not _is_absent(value) and key not in self._read)

    def named(self, paths: tuple[str, ...]) -> Iterable[tuple[str, Json]]:
        found = ((path, _reach(self._row, path)) for path in paths)
        return ((path, value) for path, value in found if not _is_absent(value))

    def _exact(self, path: str) -> Decimal:
        # Only JSON text has floats, and `data` is the text of this row.
        value: object = _reach(_decode_decimals(self._data or b"{}"), path)
        assert isinstance(value, Decimal)
        return value


def _is_absent(value: Json) -> bool:
    return value is None or value == ""


def _reach(row: Mapping[str, Json], path: str) -> Json:
    """The value at a path. A key that has dots itself goes before objects inside objects."""
    if path in row:
        return row[path]
    at = path.rfind(".")
    while at > 0:
        inner = row.get(path[:at])
        if isinstance(inner, dict) and (found := _reach(inner, path[at + 1 :])) is not None:
            return found
        at = path.rfind(".", 0, at)
    return None


def _text(value: Json | Decimal, paths: tuple[str, ...]) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if value is None or isinstance(value, list | dict):
        raise ValueError(f"{_named(paths)} is {shown(value)}, not a text")
    return compact_json(value)


def _whole(value: Json | Decimal, what: str) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str) and len(value) <= 20 and value.isascii() and value.removeprefix("-").isdigit():
        return int(value)
    raise ValueError(f"{what} is {shown(str(value)) if isinstance(value, Decimal) else shown(value)}, not an integer")


def _clock(row: _Row, paths: tuple[str, ...]) -> dict[str, int] | None:
    value = row.first(paths)
    if isinstance(value, str):
        try:
            value = decode_json(value.encode(), depth_max=2)
        except RefusedError as refused:
            raise ValueError(f"{_named(paths)}: {refused}") from None
    if value is None:
        return None
    if not isinstance(value, dict):
        given = str(value) if isinstance(value, Decimal) else shown(value)
        raise ValueError(f'{_named(paths)} is {given}, not an object like {{"process": 1}}')
    return {process: _whole(count, f"{_named(paths)} of {shown(process)}") for process, count in value.items()}


def _named(paths: tuple[str, ...]) -> str:
    return f"field {' or '.join(map(shown, paths))}" if paths else "field for the process"
