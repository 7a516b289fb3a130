"""The map file: TOML that says which field of a JSON Lines or CSV file means what.

    format = "jsonl"           # or "csv"
    process = "service"        # a field; dots reach into objects: "resource.service.name"
    time = "ts"
    time_unit = "ms"           # ns, us, ms, s, rfc3339 (the default), or a layout like "%Y-%m-%d %H:%M:%S,%f"
    time_zone = "UTC"          # or "+01:00": of texts that do not say one
    name = "msg"
    level = "severity"         # becomes the attribute `level`: trace, debug, info, warn, error, fatal, or as it came
    execution = "run"
    index = "seq"              # position in the process's history; without it, the order of lines counts
    sends = "out_id"           # message ids: a text or a list of texts ...
    receives = "in_id"
    separator = ";"            # ... or a text of several
    kind = "type"              # instead of sends and receives: which of the two a row is, and of which message
    message = "message_id"
    clock = "vc"               # an object, or its JSON text: process to count
    attributes = ["user"]      # only these; without it, every field that nothing else read

    [kinds]                    # which text in `kind` means what; without it "send" and "receive"
    send = ["SEND", "tx"]
    receive = ["RECV", "rx"]

    [defaults]                 # of process, execution, name and level, where a row has none
    process = "web"

With `trace` and `span` rows are spans, or log records where they have no start and no end:

    trace = "trace_id"
    span = "span_id"
    parent = "parent_id"
    start = "start"            # in time_unit; two of start, end and duration, or start alone
    end = "end"
    duration = "took"
    duration_unit = "us"       # ns, us, ms or s; without it, time_unit
    kind = "kind"              # [kinds] then knows internal, server, client, producer, consumer

With `format = "csv"`, `delimiter` (a comma) and `columns`: their names, if the first row does not say them.

A list may stand for a field. For `process` and `execution` it means those that are there, joined with ":"; for
`sends`, `receives` and `message` one id joined from all of them; else the first that is there.

An unknown key, a wrong type and settings that contradict each other are an `InputError` in one line. A map is a plain
value: it can be compared, and sent to another machine.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.json_text import shown
from beforehand.formats.lines import Line, split_lines
from beforehand.formats.mapped.json_lines import parse_line, read_json_lines
from beforehand.formats.mapped.rows import Mapped, RowParser
from beforehand.formats.mapped.table import read_table
from beforehand.formats.mapped.times import UNITS
from beforehand.formats.opening import LIMITS_DEFAULT, Limits, Path, Readable, open_bytes, shown_path

__all__ = ["FieldMap", "read_map"]

_MAP_BYTES_MAX: Final = 1 << 20
_EVENT_KINDS: Final = ("send", "receive", "local")
_SPAN_KINDS: Final = ("internal", "server", "client", "producer", "consumer")
_PATHS: Final = (
    "process", "execution", "index", "time", "name", "level", "sends", "receives", "kind", "message", "clock",
    "trace", "span", "parent", "start", "end", "duration",
)  # fmt: skip
_TEXTS: Final = ("format", "time_unit", "time_zone", "duration_unit", "separator", "delimiter")
_EVENTS_ONLY: Final = ("execution", "index", "sends", "receives", "message", "clock", "separator")
_SPANS_ONLY: Final = ("parent", "start", "end", "duration", "duration_unit")
_DEFAULTS: Final = ("process", "execution", "name", "level")


@dataclass(frozen=True, kw_only=True)
class FieldMap:
    """What the fields of a file mean. It validates itself: `ValueError` says what contradicts what."""

    format: str = "jsonl"
    process: tuple[str, ...] = ()
    execution: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    level: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    receives: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    clock: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()
    span: tuple[str, ...] = ()
    parent: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    duration: tuple[str, ...] = ()
    time_unit: str = "rfc3339"
    time_zone: str = ""
    duration_unit: str = ""  # Empty: as `time_unit`.
    separator: str = ""  # Empty: a text is one message id.
    attributes: tuple[str, ...] | None = None  # None: every field that nothing else read.
    kinds: Mapping[str, str] = field(default_factory=dict, hash=False)  # Text in `kind` -> what it means.
    defaults: Mapping[str, str] = field(default_factory=dict, hash=False)
    delimiter: str = ","
    columns: tuple[str, ...] = ()  # Empty: the first row names them.

    def __post_init__(self) -> None:
        _check(self)
        self._parser  # noqa: B018 (it checks the notation of times)

    def parse_line(self, line: Line, *, limits: Limits = LIMITS_DEFAULT) -> Mapped | None:
        """The record of one line of JSON Lines, None for a blank one. Raises `RefusedError`."""
        return parse_line(line, self._parser, limits)

    def read_lines(
        self, lines: Iterable[Line | tuple[int, bytes]], *, file: str | None = None, limits: Limits = LIMITS_DEFAULT
    ) -> Iterator[Mapped | Rejection]:
        """The records of lines of JSON Lines, each by itself, so that a file may be read in parts.

        `InputError` if this is a map for CSV, whose rows may go over several lines.
        """
        if self.format == "csv":
            raise InputError("this map is for CSV, which cannot be read by lines: read the whole stream")
        return (record for _, record in read_json_lines(lines, self._parser, file, limits))

    def read_rows(
        self, stream: Readable, *, file: str | None = None, limits: Limits = LIMITS_DEFAULT
    ) -> Iterator[tuple[int, Mapped | Rejection]]:
        """The records of a whole stream, JSON Lines or CSV, each with the offset in bytes at which it began.

        `InputError` if the header of a CSV does not have the fields that the map names.
        """
        if self.format == "csv":
            return read_table(stream, self, self._parser, file, limits)
        lines = split_lines(stream, line_bytes_max=limits.line_bytes_max)
        return read_json_lines(lines, self._parser, file, limits)

    def field_names(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each key that names fields, with their names."""
        for key in _PATHS:
            if names := getattr(self, key):
                yield key, names
        for name in self.attributes or ():
            yield "attributes", (name,)

    @cached_property
    def _parser(self) -> RowParser:
        return RowParser(self)


def read_map(path: Path) -> FieldMap:
    """The map in a TOML file. `InputError` if it cannot be read, or is wrong."""
    name = shown_path(path)
    with open_bytes(path) as stream:
        data = b""
        while len(data) <= _MAP_BYTES_MAX and (piece := stream.read(1 << 16)):
            data += piece
    if len(data) > _MAP_BYTES_MAX:
        raise InputError(f"{name} is larger than {_MAP_BYTES_MAX} bytes: this is no map")
    try:
        return _to_map(tomllib.loads(data.decode("utf-8-sig")))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not TOML: it is not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: {error}") from None


def _to_map(given: Mapping[str, object]) -> FieldMap:
    settings: dict[str, object] = {}
    for key, value in given.items():
        if key in _PATHS or key == "columns":
            settings[key] = _names(key, value)
        elif key == "attributes":
            settings[key] = None if value == "rest" else _names(key, value, may_be_empty=True)
        elif key in _TEXTS:
            settings[key] = _one_text(key, value)
        elif key == "kinds":
            settings[key] = _kinds(_table(key, value))
        elif key == "defaults":
            settings[key] = {name: _one_text(f"defaults.{name}", text) for name, text in _table(key, value).items()}
        else:
            known = ", ".join((*_PATHS, *_TEXTS, "columns", "attributes", "kinds", "defaults"))
            raise ValueError(f"key {shown(key)} is unknown: correct it (keys are {known})")
    return FieldMap(**settings)  # type: ignore[arg-type] # Each value was made by the kind of its key above.


def _names(key: str, value: object, *, may_be_empty: bool = False) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) and name for name in names) or not (names or may_be_empty):
        raise ValueError(f"{key} is {value!r}, not the name of a field or a list of names")
    if len(set(names)) < len(names):
        raise ValueError(f"{key} names a field twice: {value!r}")
    return tuple(names)


def _one_text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} is {value!r}, not a text")
    return value


def _table(key: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{key} is {value!r}, not a table: write [{key}] and its keys below it")
    return value


def _kinds(table: Mapping[str, object]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for kind, texts in table.items():
        if kind not in (*_EVENT_KINDS, *_SPAN_KINDS):
            raise ValueError(
                f"[kinds] has {shown(kind)}, which is no kind: kinds are {', '.join((*_EVENT_KINDS, *_SPAN_KINDS))}, "
                "and other settings go above the tables"
            )
        for text in _names(f"kinds.{kind}", texts):
            if kinds.setdefault(text, kind) != kind:
                raise ValueError(f"[kinds] has {shown(text)} as {kinds[text]} and as {kind}")
    return kinds


def _check(fields: FieldMap) -> None:
    """Raise `ValueError` if settings contradict each other; fill in the kinds that need no saying."""
    given = [name for name in (*_PATHS, "separator", "duration_unit") if getattr(fields, name)]
    if fields.format not in ("jsonl", "csv"):
        raise ValueError(f"format is {shown(fields.format)}, not jsonl or csv")
    if fields.format != "csv" and (fields.columns or fields.delimiter != ","):
        raise ValueError('delimiter and columns are for CSV: add format = "csv", or leave them out')
    if len(fields.delimiter) != 1 or fields.delimiter in '"\r\n':
        raise ValueError(f"delimiter is {shown(fields.delimiter)}, not one character")
    if unknown := [name for name in fields.defaults if name not in _DEFAULTS]:
        raise ValueError(f"[defaults] has {shown(unknown[0])}: it may have {', '.join(_DEFAULTS)}")
    if not fields.process and not fields.defaults.get("process"):
        raise ValueError("process is missing: name the field that says where an event happened")
    _check_pairs(fields, given)
    known = _SPAN_KINDS if fields.trace else _EVENT_KINDS
    if fields.kinds and not fields.kind:
        raise ValueError("[kinds] says what texts mean, but no kind names the field that has them")
    if foreign := [kind for kind in fields.kinds.values() if kind not in known]:
        raise ValueError(f"[kinds] has {foreign[0]}: kinds of {'spans' if fields.trace else 'events'} are {known}")
    if fields.kind and not fields.kinds:
        usual = {text: kind for kind in known for text in (kind, kind.upper(), f"SPAN_KIND_{kind.upper()}")}
        object.__setattr__(fields, "kinds", usual)


def _check_pairs(fields: FieldMap, given: list[str]) -> None:
    if bool(fields.trace) != bool(fields.span):
        raise ValueError("trace and span go together: name both fields, or none")
    if fields.trace and (wrong := [name for name in given if name in _EVENTS_ONLY]):
        raise ValueError(f"{wrong[0]} is for events, and with trace and span rows are spans: leave one of them out")
    if not fields.trace:
        if wrong := [name for name in given if name in _SPANS_ONLY]:
            raise ValueError(f"{wrong[0]} is for spans: name the fields trace and span too")
        if bool(fields.kind) != bool(fields.message):
            raise ValueError("kind and message go together: one says which of send and receive, the other the id")
        if fields.kind and (fields.sends or fields.receives):
            raise ValueError("kind and message stand beside sends or receives: use one of the two")
    if fields.duration:
        unit = fields.duration_unit or fields.time_unit
        if unit not in UNITS:
            raise ValueError(f"duration_unit is {shown(unit)}, not one of {', '.join(UNITS)}")
        if not fields.start and not fields.end:
            raise ValueError("duration needs start or end beside it")
