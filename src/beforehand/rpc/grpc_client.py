"""gRPC, the caller's side: an interceptor for `grpc.intercept_channel`. It needs grpcio; see `grpc_metadata`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import grpc

from beforehand.rpc.carrying import Call, Causality
from beforehand.rpc.grpc_metadata import details_with, headers_of
from beforehand.rpc.headers import GRPC_LIMIT

__all__ = ["CausalClientInterceptor"]


class CausalClientInterceptor(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
    grpc.StreamUnaryClientInterceptor,  # type: ignore[misc]
    grpc.StreamStreamClientInterceptor,  # type: ignore[misc]
):
    """`peer` gives the name of the process behind a method; causal ordering needs it.

    A reply that a policy refuses raises that error from a blocking call. From a future or a stream it cannot be
    raised: it is counted only.
    """

    def __init__(
        self, causality: Causality, *, peer: str | Callable[[str], str] = "", limit: int = GRPC_LIMIT
    ) -> None:
        self._causality: Final = causality
        self._peer: Final = peer
        self._limit: Final = limit

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return self._intercept(continuation, client_call_details, request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return self._intercept(continuation, client_call_details, request)

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return self._intercept(continuation, client_call_details, request_iterator)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return self._intercept(continuation, client_call_details, request_iterator)

    def _intercept(self, continuation: Any, details: Any, request: Any) -> Any:
        method = _text(details.method)
        to = self._peer if isinstance(self._peer, str) else self._peer(method)
        call = self._causality.request_out(method, to=to, limit=self._limit)
        try:
            outcome = continuation(details_with(details, call.headers), request)
        except BaseException as error:
            self._causality.failed(call, type(error).__name__)
            raise
        if outcome.done():
            self._finish(call, outcome)
        else:
            outcome.add_done_callback(lambda done: self._finish(call, done))
        return outcome

    def _finish(self, call: Call, outcome: Any) -> None:
        headers = headers_of(outcome.trailing_metadata())
        code = outcome.code()
        if not headers and code is not grpc.StatusCode.OK:
            self._causality.failed(call, code.name if code is not None else "no status")
        else:
            self._causality.reply_in(call, headers)


def _text(method: str | bytes) -> str:
    return method.decode() if isinstance(method, bytes) else method
