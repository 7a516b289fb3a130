"""HTTP, the caller's side: transports for httpx, sync and async. They need httpx.

    httpx.Client(transport=CausalTransport(causality))

Each request that goes through the transport is a message: a retry and a redirect are new ones. The reply is received
when its headers are; what goes wrong with its body later is not recorded. A reply of 502, 503 or 504 without a stamp
comes from something in between, and one with `beforehand-refused` from a server that did nothing: such a call failed.

Requests to an origin that answered before go as differences (see `differences`), unless their body is a stream that
could not be sent a second time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final

import httpx

from beforehand.rpc.calls import Call
from beforehand.rpc.carrying import Causality
from beforehand.rpc.differences import Link
from beforehand.rpc.headers import DIFFERENCE_HEADER, HTTP_LIMIT, STAMP_HEADER
from beforehand.rpc.http_server import CARRIED_KEYS, carried_in, has_result
from beforehand.rpc.refusing import BASE_UNKNOWN, REFUSED_HEADER

__all__ = ["AsyncCausalTransport", "CausalTransport"]

_ORIGINS_MAX: Final = 1024


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
        self._calls: Final = _Calls(causality, peer, limit)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        call = self._calls.begin(request)
        response = self._answer(call, request)
        headers = carried_in(response.headers.raw)
        if not headers and _wants_full_stamp(call, response):
            response.close()
            call = self._calls.begin_again(call, request)
            response = self._answer(call, request)
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

    def _answer(self, call: Call, request: httpx.Request) -> httpx.Response:
        try:
            return self._inner.handle_request(request)
        except BaseException as error:
            self._causality.failed(call, type(error).__name__)
            raise

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
        self._calls: Final = _Calls(causality, peer, limit)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        call = self._calls.begin(request)
        response = await self._answer(call, request)
        headers = carried_in(response.headers.raw)
        if not headers and _wants_full_stamp(call, response):
            await response.aclose()
            call = self._calls.begin_again(call, request)
            response = await self._answer(call, request)
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

    async def _answer(self, call: Call, request: httpx.Request) -> httpx.Response:
        try:
            return await self._inner.handle_async_request(request)
        except BaseException as error:
            self._causality.failed(call, type(error).__name__)
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Calls:
    """What both transports do to requests."""

    def __init__(self, causality: Causality, peer: Callable[[httpx.URL], str] | None, limit: int) -> None:
        self._causality: Final = causality
        self._peer: Final = peer
        self._limit: Final = limit
        self._lock: Final = Lock()
        self._links: OrderedDict[str, Link] = OrderedDict()  # Per origin, the last used last; at most _ORIGINS_MAX.

    def begin(self, request: httpx.Request) -> Call:
        url = request.url
        to = "" if self._peer is None else self._peer(url)
        again = isinstance(request.stream, httpx.ByteStream)
        link = self._link(f"{url.scheme}://{url.host}:{url.port}")
        call = self._causality.request_out(
            f"{request.method} {url.path}", to=to, limit=self._limit, link=link, again=again
        )
        _put(request, call.headers)
        return call

    def begin_again(self, call: Call, request: httpx.Request) -> Call:
        call = self._causality.request_again(call)
        _put(request, call.headers)
        return call

    def _link(self, origin: str) -> Link:
        with self._lock:
            link = self._links.get(origin)
            if link is None:
                link = self._links[origin] = Link()
                if len(self._links) > _ORIGINS_MAX:
                    self._links.popitem(last=False)  # Its next request has a full stamp.
            else:
                self._links.move_to_end(origin)
            return link


def _put(request: httpx.Request, headers: Mapping[str, str]) -> None:
    """A request that is sent again, as after a redirect, still has what it carried before."""
    for key in {key.lower() for key, _ in request.headers.raw} & CARRIED_KEYS.keys():  # One may be there twice.
        del request.headers[key.decode()]
    for name, value in headers.items():
        request.headers[name] = value


def _wants_full_stamp(call: Call, response: httpx.Response) -> bool:
    """The server knows no base of this difference; no handler ran."""
    return DIFFERENCE_HEADER in call.headers and response.headers.get(REFUSED_HEADER) == BASE_UNKNOWN


def _failure(response: httpx.Response, headers: Mapping[str, str]) -> str | None:
    if DIFFERENCE_HEADER in headers or STAMP_HEADER in headers:
        return None
    refused = response.headers.get(REFUSED_HEADER)
    if refused is not None:
        return f"refused: {refused[:100]}"
    return f"status {response.status_code}" if response.status_code in (502, 503, 504) else None
