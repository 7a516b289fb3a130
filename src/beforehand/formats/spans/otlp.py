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
    key-twice        a key twice in one object

Numbers of 64 bits may be numbers or text; both are allowed. Reasons of rejections: those of documents.py, and

    not-a-span       one span or log record of which no sense can be made; the others stay
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from beforehand.events import Rejection
from beforehand.formats.json_text import Json, RefusedError
from beforehand.formats.lines import Line
from beforehand.formats.opening import Limits
from beforehand.formats.spans.documents import (
    DOCUMENT_BYTES_MAX,
    SPAN_LIMITS,
    Document,
    Source,
    Tolerated,
    file_name,
    opened,
    other_format,
    read_document_lines,
    read_documents,
    rejection,
)
from beforehand.formats.spans.fields import JsonObject, objects, record
from beforehand.formats.spans.otlp_protobuf import Peeked, is_binary, read_messages
from beforehand.formats.spans.otlp_records import DETAILS, Resource, log_of, resource_of, span_of
from beforehand.formats.spans.records import LogRecord, Parsed, Span

__all__ = ["read_otlp", "read_otlp_lines"]


def read_otlp(
    source: Source,
    *,
    file: str | None = None,
    limits: Limits = SPAN_LIMITS,
    document_bytes_max: int = DOCUMENT_BYTES_MAX,
) -> Iterator[Parsed]:
    """The spans and log records of a file or a binary stream, what was refused, and at the end the notes."""
    tolerated = Tolerated(DETAILS)
    name = file_name(source, file)
    with opened(source, limits=limits) as stream:
        peeked = Peeked(stream)
        if is_binary(peeked.head):
            found = read_messages(peeked, file=name, limits=limits, message_bytes_max=document_bytes_max)
        else:
            found = read_documents(
                peeked, file=name, limits=limits, document_bytes_max=document_bytes_max, tolerated=tolerated
            )
        yield from _records(found, name, limits, tolerated)
    yield from tolerated.notes(name)


def read_otlp_lines(
    lines: Iterable[Line | tuple[int, bytes]], *, file: str | None = None, limits: Limits = SPAN_LIMITS
) -> Iterator[Parsed]:
    """The same for lines of JSON Lines, given as `Line` or as (offset, bytes): for files that are read in parts."""
    tolerated = Tolerated(DETAILS)
    found = read_document_lines(lines, file=file, limits=limits, tolerated=tolerated)
    yield from _records(found, file, limits, tolerated)
    yield from tolerated.notes(file)


def _records(
    documents: Iterable[Document | Rejection], file: str | None, limits: Limits, tolerated: Tolerated
) -> Iterator[Span | LogRecord | Rejection]:
    for document in documents:
        if isinstance(document, Rejection):
            yield document
            continue
        value, offset, line = document
        try:
            envelopes = _envelopes(value, tolerated)
        except RefusedError as refused:
            yield rejection(refused, file, limits, offset=offset, line=line, quoted=value)
            continue
        for envelope in envelopes:
            for item, resource, make in _items(envelope, tolerated):
                try:
                    yield make(item, resource, tolerated)
                except RefusedError as refused:
                    yield rejection(refused, file, limits, offset=offset, line=line, quoted=item)


def _envelopes(value: Json, tolerated: Tolerated) -> list[JsonObject]:
    """The envelopes of a value. Raises `RefusedError` if it is something else."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        found = [envelope for item in value for envelope in _envelopes(item, tolerated)]
        if value:
            tolerated.add("list")
        return found
    if isinstance(value, dict):
        if not value or not _KEYS_TOP.isdisjoint(value):
            return [value]
        if not _KEYS_SNAKE.isdisjoint(value):
            tolerated.add("batches")
            return [record(_camel_case(value))]
        for wrapper in ("result", "trace"):
            if isinstance(value.get(wrapper), dict):
                tolerated.add("batches")
                return _envelopes(value[wrapper], tolerated)
    raise other_format(value, "otlp")


# The specification lets a receiver pass over signals that it does not know, and metrics are none of ours.
_KEYS_TOP: Final = frozenset({"resourceSpans", "resourceLogs", "batches", "resourceMetrics", "resourceProfiles"})
_KEYS_SNAKE: Final = frozenset({"resource_spans", "resource_logs"})

_Make: TypeAlias = Callable[[Json, Resource, Tolerated], Span | LogRecord]
# Of each signal: its key, the keys of its scopes (the last one is old), the key of its records, what makes them.
_SIGNALS: Final[tuple[tuple[str, tuple[str, str], str, _Make], ...]] = (
    ("resourceSpans", ("scopeSpans", "instrumentationLibrarySpans"), "spans", span_of),
    ("batches", ("scopeSpans", "instrumentationLibrarySpans"), "spans", span_of),
    ("resourceLogs", ("scopeLogs", "instrumentationLibraryLogs"), "logRecords", log_of),
)


def _items(envelope: JsonObject, tolerated: Tolerated) -> Iterator[tuple[Json, Resource, _Make]]:
    for key, (scopes, scopes_old), records, make in _SIGNALS:
        if key == "batches" and key in envelope:
            tolerated.add("batches")
        for group in objects(envelope.get(key)):
            if scopes_old in group:
                tolerated.add("old-scopes")
            resource = resource_of(group.get("resource"))
            for scope in (*objects(group.get(scopes)), *objects(group.get(scopes_old))):
                items = scope.get(records)
                for item in items if isinstance(items, list) else ():
                    yield item, resource, make


def _camel_case(value: Json) -> Json:
    """The same value with `start_time_unix_nano` spelt as `startTimeUnixNano`. Depth is limited by the decoder."""
    if isinstance(value, list):
        return [_camel_case(item) for item in value]
    if isinstance(value, dict):
        return {_UNDERSCORE.sub(lambda m: m[1].upper(), key): _camel_case(item) for key, item in value.items()}
    return value


_UNDERSCORE: Final = re.compile("_([a-z])")
