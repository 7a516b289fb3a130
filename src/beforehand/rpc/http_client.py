"""HTTP, the caller's side: transports for httpx, sync and async. They need httpx.

    httpx.Client(transport=CausalTransport(causality))

Each request that goes through the transport is a message: a retry and a redirect are new ones. The reply is received
when its headers are; what goes wrong with its body later is not recorded. A reply of 502, 503 or 504 without a stamp
comes from something in between, and one with `beforehand-refused` from a server that did nothing: such a call failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import httpx

from beforehand.rpc.carrying import Call, Causality
from beforehand.rpc.headers import HTTP_LIMIT, STAMP_HEADER
from beforehand.rpc.http_server import carried_in, has_result
from beforehand.rpc.refusing import REFUSED_HEADER

__all__ = ["AsyncCausalTransport", "CausalTransport"]


class CausalTransport(httpx.BaseTransport):
    """`peer` gives the name of the process behind a URL; causal ordering needs it."""

    def __init__(
        self,
        causality: Causality,
        inner: httpx.BaseTransport | None = None,
        *,
        peer: Callable[[httpx.URL], str] | None = None,
        limit: int = HTTP_LIMIT,
    ) -> None:
        self._causality: Final = causality
        self._inner: Final = httpx.HTTPTransport() if inner is None else inner
        self._peer: Final = peer
        self._limit: Final = limit

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        call = _begun(self._causality, request, self._peer, self._limit)
        try:
            response = self._inner.handle_request(request)
        except BaseException as error:
            self._causality.failed(call, type(error).__name__)
            raise
        headers = carried_in(response.headers.raw)
        if (failure := _failure(response, headers)) is not None:
            self._causality.failed(call, failure)
            return response
        try:
            self._causality.reply_in(call, headers, carries_result=has_result(response.status_code))
        except BaseException:
            response.close()
            raise
        return response

    def close(self) -> None:
        self._inner.close()


class AsyncCausalTransport(httpx.AsyncBaseTransport):
    """The same for `httpx.AsyncClient`."""

    def __init__(
        self,
        causality: Causality,
        inner: httpx.AsyncBaseTransport | None = None,
        *,
        peer: Callable[[httpx.URL], str] | None = None,
        limit: int = HTTP_LIMIT,
    ) -> None:
        self._causality: Final = causality
        self._inner: Final = httpx.AsyncHTTPTransport() if inner is None else inner
        self._peer: Final = peer
        self._limit: Final = limit

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = _begun(self._causality, request, self._peer, self._limit)
        try:
            response = await self._inner.handle_async_request(request)
        except BaseException as error:
            self._causality.failed(call, type(error).__name__)
            raise
        headers = carried_in(response.headers.raw)
        if (failure := _failure(response, headers)) is not None:
            self._causality.failed(call, failure)
            return response
        try:
            result = has_result(response.status_code)
            await self._causality.reply_in_async(call, headers, carries_result=result)
        except BaseException:
            await response.aclose()
            raise
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _begun(causality: Causality, request: httpx.Request, peer: Callable[[httpx.URL], str] | None, limit: int) -> Call:
    to = "" if peer is None else peer(request.url)
    call = causality.request_out(f"{request.method} {request.url.path}", to=to, limit=limit)
    for key, value in call.headers.items():
        request.headers[key] = value
    return call


def _failure(response: httpx.Response, headers: Mapping[str, str]) -> str | None:
    if STAMP_HEADER in headers:
        return None
    refused = response.headers.get(REFUSED_HEADER)
    if refused is not None:
        return f"refused: {refused[:100]}"
    return f"status {response.status_code}" if response.status_code in (502, 503, 504) else None
