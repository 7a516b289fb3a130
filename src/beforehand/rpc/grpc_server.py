"""gRPC, the server's side: an interceptor for `grpc.server`. It needs grpcio; see `grpc_metadata`.

In causal ordering a call that waits holds a thread of the server's pool: say how many there are (`pool_size` of
`Policies`), and have more of them than calls that can wait at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import grpc

from beforehand.errors import BeforehandError
from beforehand.rpc.calls import Arrival, arrived
from beforehand.rpc.carrying import Causality
from beforehand.rpc.grpc_metadata import difference_of, headers_of, metadata_with
from beforehand.rpc.headers import DIFFERENCE_HEADER, GRPC_LIMIT
from beforehand.rpc.refusing import REFUSED_HEADER, refusal

__all__ = ["METHODS_MAX", "CausalServerInterceptor", "behaviour_of", "rewrapped"]

METHODS_MAX: Final = 1024
"""Methods whose handlers are wrapped once; those of others are wrapped for each call."""


class CausalServerInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]
    """With `tasks`, each call is handled in a lane of its own (see `Causality.task`)."""

    def __init__(self, causality: Causality, *, limit: int = GRPC_LIMIT, tasks: bool = False) -> None:
        self._causality: Final = causality
        self._limit: Final = limit
        self._tasks: Final = tasks
        self._wrapped: Final[
            dict[str, tuple[Any, Any]]
        ] = {}  # Handlers and what was made of them; at most METHODS_MAX.

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        kept = self._wrapped.get(method)
        if kept is not None and kept[0] is handler:
            return kept[1]
        wrapped = self._around(method, handler)
        if len(self._wrapped) < METHODS_MAX:
            self._wrapped[method] = (handler, wrapped)
        return wrapped

    def _around(self, method: str, handler: Any) -> Any:
        inner = behaviour_of(handler)

        def unary(request: Any, context: Any) -> Any:
            if self._tasks:
                with self._causality.task():
                    return single(request, context)
            return single(request, context)

        direct, limit = None if self._tasks else self._causality._short, self._limit

        def single(request: Any, context: Any) -> Any:
            base = None
            if direct is not None and (text := difference_of(context.invocation_metadata())) is not None:
                base = direct.take(text, limit)
            arrival = self._arrived(method, context) if base is None else None
            try:
                reply = inner(request, context)
            except BaseException as error:
                self._reply(arrival or arrived(method, base, limit), context, type(error).__name__)
                raise
            text = None if base is None or direct is None else direct.out(base, limit)
            if text is None:
                self._reply(arrival or arrived(method, base, limit), context, "")
            else:
                before, pair = context.trailing_metadata(), (DIFFERENCE_HEADER, text)
                context.set_trailing_metadata((*before, pair) if before else (pair,))
            return reply

        def stream(request: Any, context: Any) -> Iterator[Any]:
            task: AbstractContextManager[object] = self._causality.task() if self._tasks else nullcontext()
            with task:
                arrival = self._arrived(method, context)
                try:
                    yield from inner(request, context)
                except BaseException as error:
                    self._reply(arrival, context, type(error).__name__)
                    raise
                self._reply(arrival, context, "")

        return rewrapped(handler, stream if handler.response_streaming else unary)

    def _arrived(self, method: str, context: Any) -> Arrival:
        headers = headers_of(context.invocation_metadata())
        try:
            return self._causality.request_in(method, headers, peer=context.peer(), limit=self._limit)
        except BeforehandError as error:
            refused = refusal(error)
            context.set_trailing_metadata(((REFUSED_HEADER, refused.code.lower()),))
            context.abort(grpc.StatusCode[refused.code], refused.text)
            raise  # Not reached: `abort` raises.

    def _reply(self, arrival: Arrival, context: Any, error: str) -> None:
        if headers := self._causality.reply_out(arrival, error=error):
            context.set_trailing_metadata(metadata_with(context.trailing_metadata(), headers))


def behaviour_of(handler: Any) -> Callable[[Any, Any], Any]:
    """The function of the application: the one of the four kinds that the handler has."""
    found = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    assert callable(found)
    return found  # type: ignore[no-any-return]


def rewrapped(handler: Any, behaviour: Callable[[Any, Any], Any]) -> Any:
    """The same handler around another function."""
    make = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    return make(
        behaviour,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
