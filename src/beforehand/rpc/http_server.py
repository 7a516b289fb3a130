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
from beforehand.rpc.calls import Arrival
from beforehand.rpc.carrying import Causality
from beforehand.rpc.headers import CARRIED_HEADERS, HTTP_LIMIT
from beforehand.rpc.refusing import REFUSED_HEADER, refusal

__all__ = ["CARRIED_KEYS", "CausalMiddleware", "carried_in", "has_result"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

CARRIED_KEYS: Final = {name.encode(): name for name in CARRIED_HEADERS}
"""The headers that a message may carry, as they are on the wire, in small letters."""


class CausalMiddleware:
    """With `tasks`, each request is handled in a lane of its own (see `Causality.task`)."""

    def __init__(self, app: App, causality: Causality, *, limit: int = HTTP_LIMIT, tasks: bool = False) -> None:
        self._app: Final = app
        self._causality: Final = causality
        self._limit: Final = limit
        self._tasks: Final = tasks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        interface = f"{scope['method']} {scope['path']}"
        client = scope.get("client")
        task: AbstractContextManager[object] = self._causality.task() if self._tasks else nullcontext()
        with task:
            try:
                arrival = await self._causality.request_in_async(
                    interface, carried_in(scope["headers"]), peer=str(client[0]) if client else "", limit=self._limit
                )
            except BeforehandError as error:
                await _refuse(error, send)
                return
            await self._serve(arrival, scope, receive, send)

    async def _serve(self, arrival: Arrival, scope: Scope, receive: Receive, send: Send) -> None:
        answered = False

        async def stamped(part: MutableMapping[str, Any]) -> None:
            nonlocal answered
            if part["type"] == "http.response.start" and not answered:
                answered = True
                pairs = list(part.get("headers", ()))
                headers = self._causality.reply_out(arrival, carries_result=has_result(part["status"]))
                part = {**part, "headers": [*pairs, *((k.encode(), v.encode()) for k, v in headers.items())]}
            await send(part)

        failure = "no reply"
        try:
            await self._app(scope, receive, stamped)
        except BaseException as error:
            failure = type(error).__name__
            raise
        finally:
            if not answered:  # The server behind us answers, without a stamp, or nobody does.
                self._causality.reply_out(arrival, error=failure)


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
