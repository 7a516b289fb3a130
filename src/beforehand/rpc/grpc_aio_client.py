"""gRPC with asyncio, the caller's side: interceptors for a channel of `grpc.aio`; see `grpc_metadata`.

`grpc.aio` sorts interceptors by kind, so there is one of each: `aio_client_interceptors` makes all four.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any, Final

import grpc
import grpc.aio

from beforehand.rpc.calls import Call
from beforehand.rpc.carrying import Causality
from beforehand.rpc.differences import Link
from beforehand.rpc.grpc_metadata import headers_of, refuses_base
from beforehand.rpc.headers import GRPC_LIMIT

__all__ = ["aio_client_interceptors"]


def aio_client_interceptors(
    causality: Causality, *, peer: str | Callable[[str], str] = "", limit: int = GRPC_LIMIT
) -> list[grpc.aio.ClientInterceptor]:
    """For `grpc.aio.insecure_channel(..., interceptors=...)`. `peer` as for the blocking one."""
    core = _Core(causality, peer, limit)
    return [_UnaryUnary(core), _UnaryStream(core), _StreamUnary(core), _StreamStream(core)]


class _Core:
    def __init__(self, causality: Causality, peer: str | Callable[[str], str], limit: int) -> None:
        self._causality: Final = causality
        self._peer: Final = peer
        self._limit: Final = limit
        self._link: Final = Link()

    def _begin(self, details: Any, *, again: bool) -> Call:
        method = details.method.decode() if isinstance(details.method, bytes) else details.method
        to = self._peer if isinstance(self._peer, str) else self._peer(method)
        return self._causality.request_out(method, to=to, limit=self._limit, link=self._link, again=again)

    def _stamped(self, call: Call, details: Any, begun: float | None = None) -> Any:
        timeout = details.timeout
        if timeout is not None and begun is not None:
            timeout = max(timeout - (monotonic() - begun), 0.0)
        metadata = grpc.aio.Metadata(*(details.metadata or ()))
        for key, value in call.headers.items():
            metadata.add(key, value)
        return grpc.aio.ClientCallDetails(
            details.method, timeout, metadata, details.credentials, details.wait_for_ready
        )

    async def single(self, continuation: Any, details: Any, request: Any, *, again: bool) -> Any:
        begun = monotonic()
        call = self._begin(details, again=again)
        outcome, code = await self._made(call, continuation, self._stamped(call, details), request)
        if code is grpc.StatusCode.ABORTED and refuses_base(call, await outcome.trailing_metadata()):
            call = self._causality.request_again(call)
            outcome, code = await self._made(call, continuation, self._stamped(call, details, begun), request)
        await self._finish(call, outcome, code)
        return outcome

    async def _made(self, call: Call, continuation: Any, details: Any, request: Any) -> tuple[Any, grpc.StatusCode]:
        try:
            outcome = await continuation(details, request)
            return outcome, await outcome.code()
        except BaseException as error:
            self._causality.failed(call, type(error).__name__)
            raise

    async def many(self, continuation: Any, details: Any, request: Any) -> AsyncIterator[Any]:
        call = self._begin(details, again=False)
        try:
            outcome = await continuation(self._stamped(call, details), request)
        except BaseException as error:
            self._causality.failed(call, type(error).__name__)
            raise
        return self._items(call, outcome)

    async def _items(self, call: Call, outcome: Any) -> AsyncIterator[Any]:
        try:
            async for item in outcome:
                yield item
        except BaseException as error:
            code = await outcome.code() if isinstance(error, grpc.RpcError) else None
            if code is None:
                self._causality.failed(call, type(error).__name__)
            else:
                await self._finish(call, outcome, code)
            raise
        await self._finish(call, outcome, await outcome.code())

    async def _finish(self, call: Call, outcome: Any, code: grpc.StatusCode) -> None:
        headers = headers_of(await outcome.trailing_metadata())
        if not headers and code is not grpc.StatusCode.OK:
            self._causality.failed(call, code.name)
        else:
            await self._causality.reply_in_async(call, headers)


class _UnaryUnary(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    def __init__(self, core: _Core) -> None:
        self._core: Final = core

    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await self._core.single(continuation, client_call_details, request, again=True)


class _StreamUnary(grpc.aio.StreamUnaryClientInterceptor):  # type: ignore[misc]
    def __init__(self, core: _Core) -> None:
        self._core: Final = core

    async def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await self._core.single(continuation, client_call_details, request_iterator, again=False)


class _UnaryStream(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]
    def __init__(self, core: _Core) -> None:
        self._core: Final = core

    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await self._core.many(continuation, client_call_details, request)


class _StreamStream(grpc.aio.StreamStreamClientInterceptor):  # type: ignore[misc]
    def __init__(self, core: _Core) -> None:
        self._core: Final = core

    async def intercept_stream_stream(
        self, continuation: Any, client_call_details: Any, request_iterator: Any
    ) -> Any:
        return await self._core.many(continuation, client_call_details, request_iterator)
