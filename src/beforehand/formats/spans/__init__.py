"""Traces made of spans: OTLP, Jaeger and Zipkin. First bytes to spans, then the spans of one execution to events."""

from beforehand.formats.sources import Source
from beforehand.formats.spans.documents import DOCUMENT_BYTES_MAX, SPAN_LIMITS, format_of
from beforehand.formats.spans.identity import process_of
from beforehand.formats.spans.jaeger import read_jaeger
from beforehand.formats.spans.lanes import Laned, executions, spans_to_events
from beforehand.formats.spans.otlp import read_otlp, read_otlp_lines
from beforehand.formats.spans.records import (
    LogRecord,
    Note,
    Parsed,
    Reference,
    ReferenceKind,
    Span,
    SpanEvent,
    SpanKind,
    canonical_id,
)
from beforehand.formats.spans.zipkin import read_zipkin

__all__ = [
    "DOCUMENT_BYTES_MAX",
    "SPAN_LIMITS",
    "Laned",
    "LogRecord",
    "Note",
    "Parsed",
    "Reference",
    "ReferenceKind",
    "Source",
    "Span",
    "SpanEvent",
    "SpanKind",
    "canonical_id",
    "executions",
    "format_of",
    "process_of",
    "read_jaeger",
    "read_otlp",
    "read_otlp_lines",
    "read_zipkin",
    "spans_to_events",
]
