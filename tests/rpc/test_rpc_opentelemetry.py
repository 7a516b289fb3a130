"""OpenTelemetry: the stamp beside trace context, and spans as events."""

from __future__ import annotations

import pytest
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from plans import Recorder, recorded_before

from beforehand.errors import InputError
from beforehand.rpc import Causality, CausalSpanProcessor, Policies, StampPropagator, Unstamped, arrival_of


def composed(causality: Causality) -> CompositePropagator:
    return CompositePropagator([TraceContextTextMapPropagator(), StampPropagator(causality)])


def test_the_stamp_travels_beside_trace_context() -> None:
    sender, receiver = Causality("sender"), Causality("receiver")
    carrier: dict[str, str] = {}
    with TracerProvider().get_tracer("test").start_as_current_span("order") as span:
        composed(sender).inject(carrier)

    context = composed(receiver).extract(carrier)

    assert set(carrier) == {"traceparent", "beforehand-message", "beforehand-stamp"}
    assert get_current_span(context).get_span_context().trace_id == span.get_span_context().trace_id
    arrival = arrival_of(context)
    assert arrival is not None
    assert arrival.message == "sender:1"
    assert receiver.stamp().to_dict() == {"sender": 1, "receiver": 1}
    assert composed(sender).fields >= {"traceparent", "beforehand-stamp"}


def test_extracting_never_raises_and_counts_what_a_policy_would_refuse() -> None:
    receiver = Causality("receiver", policies=Policies(unstamped=Unstamped.REFUSE))
    propagator = StampPropagator(receiver)

    for carrier in ({}, {"beforehand-stamp": "\x00"}, {"beforehand-message": "a:1", "beforehand-stamp": "zz"}):
        assert arrival_of(propagator.extract(carrier)) is None

    assert (receiver.figures().calls_refused, receiver.figures().stamps_refused) == (3, 2)
    assert receiver.stamp().to_dict() == {}


def test_a_propagator_cannot_wait() -> None:
    with pytest.raises(InputError, match="cannot wait"):
        StampPropagator(Causality("p", ordering=True))


def test_spans_are_events_with_stamps() -> None:
    recorder = Recorder()
    a = Causality("a", reporter=recorder.reporter("a"))
    b = Causality("b", reporter=recorder.reporter("b"))
    tracers = []
    for causality in (a, b):
        provider = TracerProvider()
        provider.add_span_processor(CausalSpanProcessor(causality))
        tracers.append(provider.get_tracer("test"))
    carrier: dict[str, str] = {}
    with tracers[0].start_as_current_span("ask") as asked:
        StampPropagator(a).inject(carrier)
    StampPropagator(b).extract(carrier)
    with tracers[1].start_as_current_span("tell") as told:
        told.set_status(Status(StatusCode.ERROR, "sold out"))

    events = {event.name: event for event in recorder.events()}

    assert asked.attributes == {"beforehand.event": "a:1"}
    assert list(events) == ["ask begins", "call context", "ask ends", "serve context", "tell begins", "tell ends"]
    assert events["tell begins"].clock == {"a": 2, "b": 2}
    assert events["tell ends"].attributes["level"] == "error"
    assert events["tell ends"].attributes["error"] == "sold out"
    assert (("a", 1), ("b", 2)) in recorded_before(events.values())
    assert (("a", 3), ("b", 2)) not in recorded_before(events.values())
