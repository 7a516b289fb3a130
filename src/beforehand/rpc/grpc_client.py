"""gRPC, the caller's side: an interceptor for `grpc.intercept_channel`. It needs grpcio; see `grpc_metadata`.

Calls with one request and one reply go as differences where the server answered before (see `differences`); streams,
which could not be sent a second time, with full stamps.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import grpc

from beforehand.rpc.calls import Call
from beforehand.rpc.carrying import Causality
from beforehand.rpc.differences import Link
from beforehand.rpc.grpc_future import RepeatingFuture
from beforehand.rpc.grpc_metadata import details_with, difference_of, headers_of, wants_full_stamp
from beforehand.rpc.headers import GRPC_LIMIT

__all__ = ["CausalClientInterceptor", "finish"]


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
        self._link: Final = Link()  # Of all channels that it is used with: it does not see which one it is.

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        begun = monotonic()
        call = self._begin(client_call_details, again=True)
        outcome = self._continued(call, continuation, client_call_details, request)
        if outcome.done():
            if not wants_full_stamp(call, outcome):
                finish(self._causality, call, outcome)
                return outcome
            call = self._causality.request_again(call)
            outcome = self._continued(call, continuation, client_call_details, request, begun)
            finish(self._causality, call, outcome)
            return outcome
        return RepeatingFuture(
            outcome,
            is_refused=lambda done: wants_full_stamp(call, done),
            repeat=lambda: self._watched(
                self._causality.request_again(call), continuation, client_call_details, request, begun
            ),
            finish=lambda done: finish(self._causality, call, done),
        )

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        call = self._begin(client_call_details, again=False)
        return self._watched(call, continuation, client_call_details, request)

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        call = self._begin(client_call_details, again=False)
        return self._watched(call, continuation, client_call_details, request_iterator)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        call = self._begin(client_call_details, again=False)
        return self._watched(call, continuation, client_call_details, request_iterator)

    def _begin(self, details: Any, *, again: bool) -> Call:
        method = details.method if isinstance(details.method, str) else details.method.decode()
        to = self._peer if isinstance(self._peer, str) else self._peer(method)
        return self._causality.request_out(method, to=to, limit=self._limit, link=self._link, again=again)

    def _watched(self, call: Call, continuation: Any, details: Any, request: Any, begun: float | None = None) -> Any:
        outcome = self._continued(call, continuation, details, request, begun)
        if outcome.done():
            finish(self._causality, call, outcome)
        else:
            outcome.add_done_callback(lambda done: finish(self._causality, call, done))
        return outcome

    def _continued(
        self, call: Call, continuation: Any, details: Any, request: Any, begun: float | None = None
    ) -> Any:
        try:
            return continuation(details_with(details, call.headers, begun=begun), request)
        except BaseException as error:
            self._causality.failed(call, type(error).__name__)
            raise


def finish(causality: Causality, call: Call, outcome: Any) -> None:
    """The call is over: its reply came, or it failed."""
    metadata = outcome.trailing_metadata()
    direct = causality._short
    text = None if direct is None or call.link is None else difference_of(metadata)
    if (
        direct is not None
        and call.link is not None
        and text is not None
        and direct.heard(call.link, text, call.limit)
    ):
        return
    headers = headers_of(metadata)
    if not headers and (code := outcome.code()) is not grpc.StatusCode.OK:
        causality.failed(call, code.name if code is not None else "no status")
    else:
        causality.reply_in(call, headers)
