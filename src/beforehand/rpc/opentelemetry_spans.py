"""OpenTelemetry: a span processor that makes each start and end of a span an event with a stamp.

    provider.add_span_processor(CausalSpanProcessor(causality))

The events are those of the process: `NAME begins` and `NAME ends`, with the ids of trace and span as attributes, and
`level` = error if the span failed. A recording span gets the attribute `beforehand.event`, by which its event is
found. It needs opentelemetry-sdk.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import StatusCode

from beforehand.rpc.carrying import Causality

__all__ = ["CausalSpanProcessor"]


class CausalSpanProcessor(SpanProcessor):
    """Does no I/O: the reporter of `causality` sends the events."""

    def __init__(self, causality: Causality) -> None:
        self._causality: Final = causality

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        event = self._causality.event(f"{span.name} begins", _ids(span))
        span.set_attribute("beforehand.event", event)

    def on_end(self, span: ReadableSpan) -> None:
        attributes = _ids(span)
        if span.status.status_code is StatusCode.ERROR:
            attributes |= {"level": "error", "error": span.status.description or ""}
        self._causality.event(f"{span.name} ends", attributes)

    def shutdown(self) -> None:
        """Nothing to do: the reporter is its owner's to close."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002
        return True


def _ids(span: ReadableSpan) -> dict[str, str]:
    context = span.get_span_context()
    if context is None:
        return {}
    return {"trace": f"{context.trace_id:032x}", "span": f"{context.span_id:016x}"}
