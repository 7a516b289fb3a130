"""OpenTelemetry: a propagator that carries the stamp beside the trace context. It needs opentelemetry-api.

    set_global_textmap(CompositePropagator([TraceContextTextMapPropagator(), StampPropagator(causality)]))

Whatever instrumentation injects context into becomes a message that is sent, whatever it extracts context from one
that is received. Propagators see requests only, never replies: what a caller learns from a reply is not recorded. Use
the carriers of this package where that matters. A propagator may not refuse a call, so the policies `REFUSE` are as
`ACCEPT` here; what they would refuse is counted. It cannot wait, so there is no causal ordering.
"""

from __future__ import annotations

from typing import Final

from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import (
    CarrierT,
    Getter,
    Setter,
    TextMapPropagator,
    default_getter,
    default_setter,
)

from beforehand.errors import BeforehandError, InputError
from beforehand.rpc.calls import Arrival
from beforehand.rpc.carrying import Causality
from beforehand.rpc.headers import MESSAGE_HEADER, OPENTELEMETRY_LIMIT, STAMP_HEADER

__all__ = ["StampPropagator", "arrival_of"]

_KEY: Final = contexts.create_key("beforehand-arrival")


class StampPropagator(TextMapPropagator):
    """`interface` names the events that it makes."""

    def __init__(self, causality: Causality, *, interface: str = "context", limit: int = OPENTELEMETRY_LIMIT) -> None:
        if causality.ordering:
            raise InputError("a propagator cannot wait: causal ordering needs one of the other carriers")
        self._causality: Final = causality
        self._interface: Final = interface
        self._limit: Final = limit

    def inject(
        self,
        carrier: CarrierT,
        context: Context | None = None,  # noqa: ARG002 - The stamp is the process's, not the trace's.
        setter: Setter[CarrierT] = default_setter,
    ) -> None:
        try:
            headers = self._causality.request_out(self._interface, limit=self._limit).headers
        except BeforehandError:
            return  # Counted; a propagator must not raise.
        for key, value in headers.items():
            setter.set(carrier, key, value)

    def extract(
        self,
        carrier: CarrierT,
        context: Context | None = None,
        getter: Getter[CarrierT] = default_getter,
    ) -> Context:
        context = contexts.get_current() if context is None else context
        headers: dict[str, str] = {}
        for key in self.fields:
            if values := getter.get(carrier, key):
                headers[key] = ", ".join(values)  # One that came twice is no stamp any more.
        try:
            arrival = self._causality.request_in(self._interface, headers, limit=self._limit)
        except BeforehandError:
            return context
        return contexts.set_value(_KEY, arrival, context)

    @property
    def fields(self) -> set[str]:
        return {MESSAGE_HEADER, STAMP_HEADER}


def arrival_of(context: Context | None = None) -> Arrival | None:
    """What the last `extract` received, if the context has it."""
    found = contexts.get_value(_KEY, context)
    return found if isinstance(found, Arrival) else None
