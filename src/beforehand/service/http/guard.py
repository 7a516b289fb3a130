"""What every request passes before any route sees it, and what every answer carries.

1. *Host*: the name by which the service is called must be on the list (`Hosts.names`), or 403. A page of a stranger
   whose name was made to point here (DNS rebinding) still calls us by its own name.
2. *Origin*: what a browser sends for a page of another origin is 403; only the files of the page, which hold no
   data, may be linked to. Without `Origin`, `Sec-Fetch-Site` says the same of images, scripts and links.
3. *Rate*: a bucket per client: its token where that holds, else its address. 429 with `Retry-After`.
4. *Bodies*: at most so many bytes each (413), all that are held together at most `bodies_bytes_max` (503), and whole
   within `body_seconds_max` (408).
5. Every answer has a strict content security policy and is not sniffed, framed, cached (the API) or read by other
   origins.
6. No traceback leaves: what is not handled below becomes 500 in one line, and is logged with its traceback.

Pure ASGI: streams pass through unbuffered.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from beforehand.service.http.errors import HttpError, error_body
from beforehand.service.served import Served

__all__ = ["POLICY", "Guard", "Rates"]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_DATA: Final = ("/api", "/v1")  # Where data is; the rest are files of the page.
_HOST: Final = re.compile(r"(\[[0-9a-f:.]{1,45}\]|[^\s:/@\[\]]{1,255})(?::([0-9]{1,5})?)?")
_log: Final = logging.getLogger("beforehand.service")


class Rates:
    """One bucket per client: `per_second` flow in, up to `burst`; a request takes one."""

    def __init__(
        self, per_second: int, burst: int, clients_max: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second: Final = per_second
        self._burst: Final = burst
        self._clients_max: Final = clients_max
        self._clock: Final = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # What is left, and when that was.

    def take(self, client: str) -> float:
        """0 if the request may go on, else the seconds until it may."""
        now = self._clock()
        left, then = self._buckets.pop(client, (float(self._burst), now))
        left = min(left + (now - then) * self._per_second, float(self._burst))
        may = left >= 1
        self._buckets[client] = (left - 1 if may else left, now)
        if len(self._buckets) > self._clients_max:
            self._buckets.popitem(last=False)  # Not seen for longest.
        return 0.0 if may else (1 - left) / self._per_second


class Guard:
    """Around an app."""

    def __init__(self, app: ASGIApp, *, served: Served) -> None:
        limits = served.limits
        self._app: Final = app
        self._served: Final = served
        self._rates: Final = Rates(limits.rate_per_second, limits.rate_burst, limits.clients_max)
        self._held = 0  # Bytes of all bodies that are being read or worked on.

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003, "reason": "there are no websockets here"})
            return
        begun = False
        is_data = scope["path"].startswith(_DATA)

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store" if is_data else "no-cache")
            await send(message)

        body = _Body(self, receive, self._most(scope["path"]))
        try:
            self._examine(scope, is_data=is_data, body=body)
            await self._app(scope, body.receive, sending)
        except HttpError as error:
            if begun:
                raise
            await _answer(sending, error)
        except ClientDisconnect:
            pass  # It went away in the middle of its body: there is nobody to answer.
        except Exception as error:
            if begun:  # Half an answer cannot be mended: the connection is cut.
                raise
            _log.error("a bug in %s %s", scope["method"], scope["path"][:200], exc_info=error)
            await _answer(
                sending, HttpError(500, f"a bug of the service ({type(error).__name__}): its log says more")
            )
        finally:
            self._held -= body.held

    def _examine(self, scope: Scope, *, is_data: bool, body: _Body) -> None:
        headers = Headers(scope=scope)
        host = _only(headers, "host")
        names = self._served.hosts.names
        if host is None or (names is not None and _name(host) not in names):
            raise HttpError(
                403,
                f"the service is not called {(host or '')[:100]!r}: use its address, or start it with --allow-host",
            )
        self._examine_origin(headers, host, scope["method"], is_data=is_data)
        wait = self._rates.take(self._client(scope, headers))
        if wait:
            raise HttpError(429, "too many requests: wait a moment", {"Retry-After": str(max(round(wait + 0.5), 1))})
        length = headers.get("content-length")
        if length is not None and length.isdigit() and int(length[:20]) > body.most:
            raise body.too_large()

    def _examine_origin(self, headers: Headers, host: str, method: str, *, is_data: bool) -> None:
        if not is_data and method in ("GET", "HEAD"):
            return
        origin = _only(headers, "origin")
        foreign = origin is not None and not _is_of(origin, host)
        if foreign or headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            shown = (origin or "another site")[:100]
            raise HttpError(403, f"a page of {shown!r} may not ask this service: open the service's own page")

    def _client(self, scope: Scope, headers: Headers) -> str:
        kind, _, text = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._served.tokens is not None:
            token = self._served.tokens.check(text.strip())
            if token is not None:
                return f"token {token.id}"
        return str((scope.get("client") or ("",))[0])

    def _most(self, path: str) -> int:
        limits = self._served.limits
        return limits.import_bytes_max if path == "/api/imports" else limits.body_bytes_max

    def hold(self, size: int) -> bool:
        """Make room for a part of a body."""
        if self._held + size > self._served.limits.bodies_bytes_max:
            return False
        self._held += size
        return True

    @property
    def body_seconds_max(self) -> float:
        return float(self._served.limits.body_seconds_max)


class _Body:
    """The body of one request, as it comes."""

    def __init__(self, guard: Guard, receive: Receive, most: int) -> None:
        self._guard: Final = guard
        self._receive: Final = receive
        self.most: Final = most
        self._end: float | None = None
        self._whole = False
        self.held = 0

    def too_large(self) -> HttpError:
        return HttpError(413, f"a body of more than {self.most} bytes: send less at once")

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        if self._end is None:
            self._end = asyncio.get_running_loop().time() + self._guard.body_seconds_max
        try:
            async with asyncio.timeout_at(self._end):
                message = await self._receive()
        except TimeoutError:
            raise HttpError(408, f"the body did not come within {self._guard.body_seconds_max:.0f} seconds") from None
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            if self.held + size > self.most:
                raise self.too_large()
            if not self._guard.hold(size):
                raise HttpError(503, "too many large requests at once: try again in a moment")
            self.held += size
        self._whole = not message.get("more_body", False)
        return message


async def _answer(send: Send, error: HttpError) -> None:
    headers = {"Content-Type": "application/json", "Connection": "close", **error.headers}
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": error_body(error.text)})


def _only(headers: Headers, name: str) -> str | None:
    """The one value of a header; of several none is believed."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise HttpError(400, f"the header {name} stands there {len(values)} times: send it once")
    return values[0] if values else None


def _name(host: str) -> str:
    """Of `NAME:PORT` or `[ADDRESS]:PORT` the name, in lower case, without the dot that may end it; or nothing."""
    found = _HOST.fullmatch(host.strip().lower())
    return found[1].removesuffix(".") if found else ""


def _is_of(origin: str, host: str) -> bool:
    """Whether an origin is that by which the service was called; the port of a scheme may be left out."""
    try:
        parts = urlsplit(origin.strip().lower())
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
        return False
    usual = 443 if parts.scheme == "https" else 80
    found = _HOST.fullmatch(host.strip().lower())
    called = int(found[2]) if found and found[2] else usual
    return _name(parts.netloc) == _name(host) and (usual if port is None else port) == called
