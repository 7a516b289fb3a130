"""gRPC, the caller's side without an interceptor: a channel around a channel. It needs grpcio; see `grpc_metadata`.

    with causal_channel(grpc.insecure_channel(address), causality) as channel:

It does what `grpc.intercept_channel(channel, CausalClientInterceptor(causality))` does. But gRPC runs interceptors by
making each call anew, from the method on; here blocking calls with one request and one reply go straight to the
channel. All others go through the interceptor.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import grpc

from beforehand.rpc.calls import Call
from beforehand.rpc.carrying import Causality
from beforehand.rpc.differences import Link
from beforehand.rpc.grpc_client import CausalClientInterceptor, finish
from beforehand.rpc.grpc_metadata import metadata_with, wants_full_stamp
from beforehand.rpc.headers import GRPC_LIMIT

__all__ = ["causal_channel"]


def causal_channel(
    channel: grpc.Channel, causality: Causality, *, peer: str | Callable[[str], str] = "", limit: int = GRPC_LIMIT
) -> grpc.Channel:
    """`peer` as for the interceptor. Closing it closes `channel`."""
    return _Channel(channel, causality, peer, limit)


class _Channel(grpc.Channel):  # type: ignore[misc]
    def __init__(
        self, channel: grpc.Channel, causality: Causality, peer: str | Callable[[str], str], limit: int
    ) -> None:
        self._channel: Final = channel
        self._causality: Final = causality
        self._peer: Final = peer
        self._limit: Final = limit
        self._link: Final = Link()
        interceptor = CausalClientInterceptor(causality, peer=peer, limit=limit)
        self._intercepted: Final = grpc.intercept_channel(channel, interceptor)

    def unary_unary(self, method: str, *arguments: Any, **options: Any) -> grpc.UnaryUnaryMultiCallable:
        to = self._peer if isinstance(self._peer, str) else self._peer(method)
        return _UnaryUnary(
            self._channel.unary_unary(method, *arguments, **options),
            self._intercepted.unary_unary(method, *arguments, **options),
            self._causality,
            lambda: self._causality.request_out(method, to=to, limit=self._limit, link=self._link),
        )

    def unary_stream(self, *arguments: Any, **options: Any) -> grpc.UnaryStreamMultiCallable:
        return self._intercepted.unary_stream(*arguments, **options)

    def stream_unary(self, *arguments: Any, **options: Any) -> grpc.StreamUnaryMultiCallable:
        return self._intercepted.stream_unary(*arguments, **options)

    def stream_stream(self, *arguments: Any, **options: Any) -> grpc.StreamStreamMultiCallable:
        return self._intercepted.stream_stream(*arguments, **options)

    def subscribe(self, callback: Callable[[Any], object], try_to_connect: bool = False) -> None:
        self._channel.subscribe(callback, try_to_connect=try_to_connect)

    def unsubscribe(self, callback: Callable[[Any], object]) -> None:
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> _Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _UnaryUnary(grpc.UnaryUnaryMultiCallable):  # type: ignore[misc]
    def __init__(self, plain: Any, intercepted: Any, causality: Causality, begin: Callable[[], Call]) -> None:
        self._plain: Final = plain
        self._intercepted: Final = intercepted
        self._causality: Final = causality
        self._begin: Final = begin

    def __call__(
        self, request: Any, timeout: float | None = None, metadata: Any = None, *arguments: Any, **options: Any
    ) -> Any:
        return self.with_call(request, timeout, metadata, *arguments, **options)[0]

    def with_call(
        self, request: Any, timeout: float | None = None, metadata: Any = None, *arguments: Any, **options: Any
    ) -> tuple[Any, grpc.Call]:
        begun = None if timeout is None else monotonic()
        call = self._begin()
        try:
            return self._made(call, request, timeout, metadata, arguments, options)
        except _RefusedBaseError:
            call = self._causality.request_again(call)
        left = timeout if timeout is None or begun is None else max(timeout - (monotonic() - begun), 0.0)
        return self._made(call, request, left, metadata, arguments, options)

    def future(self, *arguments: Any, **options: Any) -> Any:
        return self._intercepted.future(*arguments, **options)

    def _made(
        self, call: Call, request: Any, timeout: float | None, metadata: Any, arguments: Any, options: Any
    ) -> tuple[Any, grpc.Call]:
        sent = metadata_with(metadata, call.headers)
        try:
            reply, outcome = self._plain.with_call(request, timeout, sent, *arguments, **options)
        except grpc.RpcError as error:
            if wants_full_stamp(call, error):
                raise _RefusedBaseError from error
            finish(self._causality, call, error)
            raise
        except BaseException as error:
            self._causality.failed(call, type(error).__name__)
            raise
        finish(self._causality, call, outcome)
        return reply, outcome


class _RefusedBaseError(Exception):
    """The call is to be made again."""
