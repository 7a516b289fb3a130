"""OTLP files: traces and logs of OpenTelemetry, as JSON, JSON Lines or protobuf.

Source: opentelemetry-proto, docs/specification.md (JSON Protobuf Encoding) and trace.proto, logs.proto;
opentelemetry-specification, file-exporter.md. A file may hold one envelope (`resourceSpans` or `resourceLogs`), a
list of them, or one a line; protobuf is told from JSON by its bytes (see otlp_protobuf.py).

What deviates from the specification and is common is tolerated, counted, and noted at the end of the file:

    base64-ids       ids in base64, as protobuf's own JSON mapping writes them
    odd-ids          ids that are neither hexadecimal nor base64: kept as they are
    enum-names       kinds and status codes by name (`SPAN_KIND_CLIENT`)
    batches          `batches` (Grafana Tempo), `result` (Jaeger's API) or snake case around the spans
    old-scopes       `instrumentationLibrarySpans`, the name of `scopeSpans` before 2022
    no-ids           spans with an empty trace or span id, as in the specification's own example: kept, unrelated
    list             a list of envelopes instead of one
    other-signals    metrics, profiles and records that are empty: passed over, as the specification asks
    key-twice        a key twice in one object

Numbers of 64 bits may be numbers or text; both are allowed. Reasons of rejections: those of documents.py (of a list
in which some elements are envelopes, `other-format` is told per element) and otlp_protobuf.py, and

    not-a-span       one span or log record of which no sense can be made; the others stay
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

from beforehand.events import Rejection
from beforehand.formats.json_text import Json
from beforehand.formats.lines import Line
from beforehand.formats.opening import Limits
from beforehand.formats.sources import Source
from beforehand.formats.spans.documents import (
    DOCUMENT_BYTES_MAX,
    SPAN_LIMITS,
    Tolerated,
    odd_field,
    other_format,
    read_document_lines,
)
from beforehand.formats.spans.fields import JsonObject, objects
from beforehand.formats.spans.otlp_protobuf import is_binary, read_messages
from beforehand.formats.spans.otlp_records import DETAILS, Resource, log_of, resource_of, span_of
from beforehand.formats.spans.peeking import Peeked
from beforehand.formats.spans.reading import Item, read_all, records_of, refuse
from beforehand.formats.spans.records import LogRecord, Parsed, Span

__all__ = ["read_otlp", "read_otlp_lines"]


def read_otlp(
    source: Source,
    *,
    file: str | None = None,
    limits: Limits = SPAN_LIMITS,
    document_bytes_max: int = DOCUMENT_BYTES_MAX,
) -> Iterator[Parsed]:
    """The spans and log records of files or a binary stream, what was refused, and after each file its notes.

    `InputError` at once if a file is missing; later, if a JSON document is too large.
    """

    def binary(
        stream: Peeked, name: str | None, tolerated: Tolerated
    ) -> Iterator[Span | LogRecord | Rejection] | None:
        if not is_binary(stream.head):
            return None
        found = read_messages(
            stream, file=name, limits=limits, message_bytes_max=document_bytes_max, tolerated=tolerated
        )
        return records_of(found, _items, file=name, limits=limits, tolerated=tolerated)

    return read_all(
        source,
        _items,
        DETAILS,
        file=file,
        limits=limits,
        document_bytes_max=document_bytes_max,
        binary=binary,
    )


def read_otlp_lines(
    lines: Iterable[Line | tuple[int, bytes]], *, file: str | None = None, limits: Limits = SPAN_LIMITS
) -> Iterator[Parsed]:
    """The same for lines of JSON Lines, given as `Line` or as (offset, bytes): for files that are read in parts."""
    tolerated = Tolerated(DETAILS)
    found = read_document_lines(lines, file=file, limits=limits, tolerated=tolerated)
    yield from records_of(found, _items, file=file, limits=limits, tolerated=tolerated)
    yield from tolerated.notes(file)


def _items(value: Json, tolerated: Tolerated) -> Iterator[Item]:
    """The records of a value, wherever in it they stand."""
    if isinstance(value, list) and (not value or any(map(_is_envelope, value))):
        if value:
            tolerated.add("list")
        for element in value:
            yield from _items(element, tolerated)
    elif not _is_envelope(value):
        yield Item(value, partial(refuse, other_format(value, "otlp")))
    elif isinstance(value, dict):
        wrapper = next((key for key in _WRAPPERS if isinstance(value.get(key), dict)), None)
        if not value or not _KEYS_TOP.isdisjoint(value):
            yield from _of_envelope(value, tolerated)
        elif not _KEYS_SNAKE.isdisjoint(value):
            tolerated.add("batches")
            yield from _items(_camel_case(value), tolerated)
        elif wrapper is not None:
            tolerated.add("batches")
            yield from _items(value[wrapper], tolerated)


def _is_envelope(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    known = not (_KEYS_TOP.isdisjoint(value) and _KEYS_SNAKE.isdisjoint(value))
    return not value or known or any(isinstance(value.get(key), dict) for key in _WRAPPERS)


# The specification lets a receiver pass over signals that it does not know, and metrics are none of ours.
_KEYS_OTHER: Final = frozenset({"resourceMetrics", "resourceProfiles"})
_KEYS_TOP: Final = frozenset({"resourceSpans", "resourceLogs", "batches"}) | _KEYS_OTHER
_KEYS_SNAKE: Final = frozenset({"resource_spans", "resource_logs"})
_WRAPPERS: Final = ("result", "trace")

_Make: TypeAlias = Callable[[Json, Resource, Tolerated], Span | LogRecord]
# Of each signal: its key, the keys of its scopes (the last one is old), the key of its records, what makes them.
_SIGNALS: Final[tuple[tuple[str, tuple[str, str], str, _Make], ...]] = (
    ("resourceSpans", ("scopeSpans", "instrumentationLibrarySpans"), "spans", span_of),
    ("batches", ("scopeSpans", "instrumentationLibrarySpans"), "spans", span_of),
    ("resourceLogs", ("scopeLogs", "instrumentationLibraryLogs"), "logRecords", log_of),
)


def _of_envelope(envelope: JsonObject, tolerated: Tolerated) -> Iterator[Item]:
    tolerated.add("other-signals", len(_KEYS_OTHER & envelope.keys()))
    for key, (scopes, scopes_old), records, make in _SIGNALS:
        if key == "batches" and key in envelope:
            tolerated.add("batches")
        tolerated.quoted = envelope
        for group in objects(envelope.get(key), key, tolerated):
            if scopes_old in group:
                tolerated.add("old-scopes")
            tolerated.quoted = group
            resource = resource_of(group.get("resource"), tolerated)
            found = objects(group.get(scopes), scopes, tolerated)
            if scopes_old in group:
                found = [*found, *objects(group[scopes_old], scopes_old, tolerated)]
            for scope in found:
                items = scope.get(records)
                if isinstance(items, list):
                    for item in items:
                        yield Item(item, partial(_made, make, item, resource, tolerated))
                elif items is not None:
                    tolerated.quoted = scope
                    tolerated.lose(odd_field(records, items, "a list"))
            yield Item(group, tuple)  # Nothing more: what was lost is told before the next group.


def _made(make: _Make, item: Json, resource: Resource, tolerated: Tolerated) -> tuple[Span | LogRecord]:
    return (make(item, resource, tolerated),)


def _camel_case(value: Json) -> Json:
    """The same value with `start_time_unix_nano` spelt as `startTimeUnixNano`. Depth is limited by the decoder."""
    if isinstance(value, list):
        return [_camel_case(item) for item in value]
    if isinstance(value, dict):
        return {_UNDERSCORE.sub(lambda m: m[1].upper(), key): _camel_case(item) for key, item in value.items()}
    return value


_UNDERSCORE: Final = re.compile("_([a-z])")
