"""gRPC, the server's side: an interceptor for `grpc.server`. It needs grpcio; see `grpc_metadata`.

In causal ordering a call that waits holds a thread of the server's pool: say how many there are (`pool_size` of
`Policies`), and have more of them than calls that can wait at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import grpc

from beforehand.errors import BeforehandError
from beforehand.rpc.carrying import Arrival, Causality
from beforehand.rpc.grpc_metadata import headers_of, metadata_with
from beforehand.rpc.headers import GRPC_LIMIT
from beforehand.rpc.refusing import REFUSED_HEADER, refusal

__all__ = ["CausalServerInterceptor", "rewrapped"]


class CausalServerInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]
    """With `tasks`, each call is handled in a lane of its own (see `Causality.task`)."""

    def __init__(self, causality: Causality, *, limit: int = GRPC_LIMIT, tasks: bool = False) -> None:
        self._causality: Final = causality
        self._limit: Final = limit
        self._tasks: Final = tasks

    def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        headers = headers_of(handler_call_details.invocation_metadata)
        inner = behaviour_of(handler)

        def unary(request: Any, context: Any) -> Any:
            with self._served(method, headers, context):
                return inner(request, context)

        def stream(request: Any, context: Any) -> Iterator[Any]:
            with self._served(method, headers, context):
                yield from inner(request, context)

        return rewrapped(handler, stream if handler.response_streaming else unary)

    @contextmanager
    def _served(self, method: str, headers: dict[str, str], context: Any) -> Iterator[None]:
        task: AbstractContextManager[object] = self._causality.task() if self._tasks else nullcontext()
        with task:
            try:
                arrival = self._causality.request_in(method, headers, peer=context.peer(), limit=self._limit)
            except BeforehandError as error:
                refused = refusal(error)
                context.set_trailing_metadata(((REFUSED_HEADER, refused.code.lower()),))
                context.abort(grpc.StatusCode[refused.code], refused.text)
            try:
                yield
            except BaseException as error:
                self._reply(arrival, context, type(error).__name__)
                raise
            self._reply(arrival, context, "")

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
