"""gRPC with asyncio, the server's side: an interceptor for `grpc.aio.server`; see `grpc_metadata`.

Handlers are coroutines or asynchronous generators. A plain function, which grpc.aio would run in a pool of threads,
is refused when the server asks for it: its waiting would need the blocking interceptor.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, Final

import grpc
import grpc.aio

from beforehand.errors import BeforehandError, InputError
from beforehand.rpc.calls import Arrival
from beforehand.rpc.carrying import Causality
from beforehand.rpc.grpc_metadata import headers_of, metadata_with
from beforehand.rpc.grpc_server import behaviour_of, rewrapped
from beforehand.rpc.headers import GRPC_LIMIT
from beforehand.rpc.refusing import REFUSED_HEADER, refusal

__all__ = ["AioCausalServerInterceptor"]


class AioCausalServerInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """With `tasks`, each call is handled in a lane of its own (see `Causality.task`)."""

    def __init__(self, causality: Causality, *, limit: int = GRPC_LIMIT, tasks: bool = False) -> None:
        self._causality: Final = causality
        self._limit: Final = limit
        self._tasks: Final = tasks

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        headers = headers_of(handler_call_details.invocation_metadata)
        inner = behaviour_of(handler)
        if not (inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)):
            raise InputError(f"{method}: the handler is no coroutine: use grpc.server and CausalServerInterceptor")

        async def awaited(request: Any, context: Any) -> Any:
            async with self._served(method, headers, context) as seen:
                return await inner(request, seen)

        async def iterated(request: Any, context: Any) -> AsyncIterator[Any]:
            async with self._served(method, headers, context) as seen:
                async for item in inner(request, seen):
                    yield item

        return rewrapped(handler, iterated if inspect.isasyncgenfunction(inner) else awaited)

    @asynccontextmanager
    async def _served(self, method: str, headers: dict[str, str], context: Any) -> AsyncIterator[_Context]:
        task: AbstractContextManager[object] = self._causality.task() if self._tasks else nullcontext()
        with task:
            try:
                arrival = await self._causality.request_in_async(
                    method, headers, peer=context.peer(), limit=self._limit
                )
            except BeforehandError as error:
                refused = refusal(error)
                context.set_trailing_metadata(((REFUSED_HEADER, refused.code.lower()),))
                await context.abort(grpc.StatusCode[refused.code], refused.text)
            seen = _Context(context, self._causality, arrival)
            try:
                yield seen
            except BaseException as error:
                seen.reply(type(error).__name__)
                raise
            seen.reply("")


class _Context:
    """The context that the application sees. Its `abort` sends the status at once, so the stamp must go before."""

    def __init__(self, context: Any, causality: Causality, arrival: Arrival) -> None:
        self._context: Final = context
        self._causality: Final = causality
        self._arrival: Final = arrival
        self._replied = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> None:
        if trailing_metadata:
            self._context.set_trailing_metadata(trailing_metadata)
        self.reply(code.name)
        await self._context.abort(code, details)

    def reply(self, error: str) -> None:
        if self._replied:
            return
        self._replied = True
        if headers := self._causality.reply_out(self._arrival, error=error):
            self._context.set_trailing_metadata(metadata_with(self._context.trailing_metadata(), headers))
