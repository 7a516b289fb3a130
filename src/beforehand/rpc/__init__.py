"""Causal stamps over the calls that programs make already: HTTP, gRPC, NATS, OpenTelemetry, or anything with headers.

| for           | caller                                            | server                              |
|---------------|---------------------------------------------------|-------------------------------------|
| HTTP          | `CausalTransport`, `AsyncCausalTransport` (httpx) | `CausalMiddleware` (ASGI)           |
| gRPC          | `causal_channel`, `CausalClientInterceptor`       | `CausalServerInterceptor`           |
| gRPC, asyncio | `aio_client_interceptors`                         | `AioCausalServerInterceptor`        |
| NATS          | `message_headers`, `request_headers`              | `message_received`, `reply_headers` |
| OpenTelemetry | `StampPropagator`, `CausalSpanProcessor`          | the same                            |
| anything else | `Causality.request_out`, `reply_in`               | `Causality.request_in`, `reply_out` |

What needs httpx, grpcio or OpenTelemetry imports it when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from beforehand.rpc.calls import Arrival, Call
from beforehand.rpc.carrying import Causality
from beforehand.rpc.differences import Link
from beforehand.rpc.headers import GRPC_LIMIT, HTTP_LIMIT, NATS_LIMIT, OPENTELEMETRY_LIMIT
from beforehand.rpc.http_server import CausalMiddleware
from beforehand.rpc.nats_messages import (
    message_headers,
    message_received,
    reply_headers,
    reply_received,
    request_headers,
)
from beforehand.rpc.policies import CallFigures, Late, Oversize, Policies, Unstamped

if TYPE_CHECKING:
    from beforehand.rpc.grpc_aio_client import aio_client_interceptors
    from beforehand.rpc.grpc_aio_server import AioCausalServerInterceptor
    from beforehand.rpc.grpc_channel import causal_channel
    from beforehand.rpc.grpc_client import CausalClientInterceptor
    from beforehand.rpc.grpc_server import CausalServerInterceptor
    from beforehand.rpc.http_client import AsyncCausalTransport, CausalTransport
    from beforehand.rpc.opentelemetry_context import StampPropagator, arrival_of
    from beforehand.rpc.opentelemetry_spans import CausalSpanProcessor

__all__ = [
    "GRPC_LIMIT",
    "HTTP_LIMIT",
    "NATS_LIMIT",
    "OPENTELEMETRY_LIMIT",
    "AioCausalServerInterceptor",
    "Arrival",
    "AsyncCausalTransport",
    "Call",
    "CallFigures",
    "CausalClientInterceptor",
    "CausalMiddleware",
    "CausalServerInterceptor",
    "CausalSpanProcessor",
    "CausalTransport",
    "Causality",
    "Late",
    "Link",
    "Oversize",
    "Policies",
    "StampPropagator",
    "Unstamped",
    "aio_client_interceptors",
    "arrival_of",
    "causal_channel",
    "message_headers",
    "message_received",
    "reply_headers",
    "reply_received",
    "request_headers",
]

_PLACES: Final = {
    "aio_client_interceptors": "beforehand.rpc.grpc_aio_client",
    "AioCausalServerInterceptor": "beforehand.rpc.grpc_aio_server",
    "CausalClientInterceptor": "beforehand.rpc.grpc_client",
    "causal_channel": "beforehand.rpc.grpc_channel",
    "CausalServerInterceptor": "beforehand.rpc.grpc_server",
    "AsyncCausalTransport": "beforehand.rpc.http_client",
    "CausalTransport": "beforehand.rpc.http_client",
    "StampPropagator": "beforehand.rpc.opentelemetry_context",
    "arrival_of": "beforehand.rpc.opentelemetry_context",
    "CausalSpanProcessor": "beforehand.rpc.opentelemetry_spans",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
