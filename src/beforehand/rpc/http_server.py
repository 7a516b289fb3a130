"""HTTP, the server's side: an ASGI middleware. It needs nothing but an ASGI application.

The request is received before the application sees it; the reply is sent when its first part is. Wrap the application
on the outside, `app = CausalMiddleware(app, causality)`, so that error pages carry stamps too. The interface is
`METHOD /path`. WebSockets and lifespan pass by unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias

from beforehand.errors import BeforehandError
from beforehand.rpc.calls import Arrival, arrived
from beforehand.rpc.carrying import Causality
from beforehand.rpc.differences import Base
from beforehand.rpc.headers import CARRIED_HEADERS, DIFFERENCE_HEADER, HTTP_LIMIT
from beforehand.rpc.refusing import REFUSED_HEADER, refusal

__all__ = ["CARRIED_KEYS", "DIFFERENCE_KEY", "CausalMiddleware", "carried_in", "difference_in", "has_result"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

CARRIED_KEYS: Final = {name.encode(): name for name in CARRIED_HEADERS}
"""The headers that a message may carry, as they are on the wire, in small letters."""

DIFFERENCE_KEY: Final = DIFFERENCE_HEADER.encode()


class CausalMiddleware:
    """With `tasks`, each request is handled in a lane of its own (see `Causality.task`)."""

    def __init__(self, app: App, causality: Causality, *, limit: int = HTTP_LIMIT, tasks: bool = False) -> None:
        self._app: Final = app
        self._causality: Final = causality
        self._limit: Final = limit
        self._tasks: Final = tasks
        self._direct: Final = None if tasks else causality._short

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        base = None
        if self._direct is not None and (text := difference_in(scope["headers"])) is not None:
            base = self._direct.take(text, self._limit)
        if base is None:
            await self._serve_long(scope, receive, send)
            return
        reply = _Reply(self._causality, self._limit, scope, send, base, None)
        try:
            await self._app(scope, receive, reply.send)
        except BaseException as error:
            reply.fail(type(error).__name__)
            raise
        reply.fail("no reply")

    async def _serve_long(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        task: AbstractContextManager[object] = self._causality.task() if self._tasks else nullcontext()
        with task:
            try:
                arrival = await self._causality.request_in_async(
                    _interface(scope),
                    carried_in(scope["headers"]),
                    peer=str(client[0]) if client else "",
                    limit=self._limit,
                )
            except BeforehandError as error:
                await _refuse(error, send)
                return
            reply = _Reply(self._causality, self._limit, scope, send, None, arrival)
            try:
                await self._app(scope, receive, reply.send)
            except BaseException as error:
                reply.fail(type(error).__name__)
                raise
            reply.fail("no reply")


class _Reply:
    """What the application sends, with the stamp of the reply in its first part."""

    __slots__ = ("_answered", "_arrival", "_base", "_causality", "_limit", "_scope", "_send")

    def __init__(
        self,
        causality: Causality,
        limit: int,
        scope: Scope,
        send: Send,
        base: Base | None,
        arrival: Arrival | None,
    ) -> None:
        """`base`: the request came the short way; else it is `arrival`."""
        self._causality: Final = causality
        self._limit: Final = limit
        self._scope: Final = scope
        self._send: Final = send
        self._base: Final = base
        self._arrival: Final = arrival
        self._answered = False

    async def send(self, part: MutableMapping[str, Any]) -> None:
        if part["type"] == "http.response.start" and not self._answered:
            self._answered = True
            part = {**part, "headers": [*part.get("headers", ()), *self._pairs(part["status"])]}
        await self._send(part)

    def fail(self, failure: str) -> None:
        """The application is done. If it did not answer, the server behind us does, without a stamp, or nobody."""
        if not self._answered:
            self._causality.reply_out(self._long(), error=failure)

    def _pairs(self, status: int) -> Iterable[tuple[bytes, bytes]]:
        direct, carries_result = self._causality._short, has_result(status)
        if self._base is not None and direct is not None and carries_result:
            text = direct.out(self._base, self._limit)
            if text is not None:
                return ((DIFFERENCE_KEY, text.encode()),)
        headers = self._causality.reply_out(self._long(), carries_result=carries_result)
        return [(key.encode(), value.encode()) for key, value in headers.items()]

    def _long(self) -> Arrival:
        if self._arrival is not None:
            return self._arrival
        assert self._base is not None
        return arrived(_interface(self._scope), self._base, self._limit)


def has_result(status: int) -> bool:
    """Whether a reply tells something about what was asked for; 204, 205 and 304 say only that it was received."""
    return status not in (204, 205, 304)


def carried_in(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Our headers. One that came twice is joined, as HTTP has it, and so is no stamp any more."""
    found: dict[str, str] = {}
    for key, value in pairs:
        name = CARRIED_KEYS.get(key.lower())
        if name is not None:
            text = value.decode("latin-1")
            found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def difference_in(pairs: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The difference, if there is one and nothing else of ours: that may go the short way."""
    found: bytes | None = None
    for key, value in pairs:
        name = key.lower()
        if name in CARRIED_KEYS:
            if found is not None or name != DIFFERENCE_KEY:
                return None
            found = value
    return None if found is None else found.decode("latin-1")


def _interface(scope: Scope) -> str:
    return f"{scope['method']} {scope['path']}"


async def _refuse(error: BeforehandError, send: Send) -> None:
    refused = refusal(error)
    body = json.dumps({"error": refused.text}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (REFUSED_HEADER.encode(), refused.code.lower().encode()),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
