"""Reports over HTTP: `POST URL/api/events`.

Guarantees:
  1. One request at a time, on one connection that is kept open. A connection that the service closed meanwhile is
     replaced at once; other failures are `Later`.
  2. Only an answer 200 that has the shape of the contract counts as taken: a page of some other server does not make
     reports disappear.
  3. What comes back is read up to `ANSWER_BYTES_MAX`. Redirects are not followed; proxies are not used.

The contract is in docs/reference/reporting.md. Bodies are JSON Lines of native events, compressed from
`compress_from` bytes on.
"""

from __future__ import annotations

import gzip
import http.client
import logging
import os
import ssl
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import msgspec

from beforehand import __version__
from beforehand.errors import InputError
from beforehand.reporting.targets import Answer, Later, NotStored, Refused, Split, Taken

__all__ = ["ANSWER_BYTES_MAX", "HttpTarget"]

ANSWER_BYTES_MAX: Final = 8 << 20
_RETRY_AFTER_MAX: Final = 3600.0
_SAID_MAX: Final = 200
_REASON_MAX: Final = 60
_ROUTE: Final = "/api/events"
_log: Final = logging.getLogger("beforehand.reporting")


class _Rejected(msgspec.Struct):
    at: int
    reason: str
    detail: str = ""


class _Stored(msgspec.Struct):
    stored: int
    repeated: int = 0
    conflicts: int = 0
    waiting: int = 0
    rejected: list[_Rejected] = []


class _Response(NamedTuple):
    status: int
    retry_after: str | None
    location: str | None
    data: bytes


class HttpTarget:
    """An event service."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 10.0,
        compress_from: int = 1024,
        unauthorised: float = 60.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout` is for each step of the network; `unauthorised`, the wait after a 401 or 403, in seconds."""
        parts = _parts(url)
        if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
            raise InputError("token: printable ASCII without blanks")
        if timeout <= 0 or unauthorised <= 0:
            raise InputError("timeout and unauthorised are seconds, above 0")
        self._host: Final = parts.hostname or ""
        self._port: Final = parts.port
        self._context: Final = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._path: Final = parts.path.rstrip("/") + _ROUTE
        self._shown: Final = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._timeout: Final = timeout
        self._compress_from: Final = compress_from
        self._unauthorised: Final = unauthorised
        self._headers: Final = {
            "Content-Type": "application/x-ndjson",
            "Accept": "application/json",
            "User-Agent": f"beforehand/{__version__}",
        }
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
            if self._context is None and self._host not in ("localhost", "127.0.0.1", "::1"):
                _log.warning("%s: the token travels without TLS: use https", self._shown)
        self._connection: http.client.HTTPConnection | None = None
        self._process = os.getpid()

    def __str__(self) -> str:
        return self._shown

    def send(self, lines: Sequence[bytes], /) -> Answer:
        body = b"\n".join(lines) + b"\n"
        headers = self._headers
        if len(body) >= self._compress_from:
            body = gzip.compress(body, compresslevel=1, mtime=0)
            headers = {**headers, "Content-Encoding": "gzip"}
        if self._process != os.getpid():
            self.close()  # The connection is the parent's; only our copy of it is closed.
            self._process = os.getpid()
        reused = self._connection is not None and self._connection.sock is not None
        try:
            try:
                response = self._exchange(body, headers)
            except (ConnectionError, http.client.HTTPException):
                if not reused:
                    raise
                self.close()  # Kept open too long for the service's taste, most likely.
                response = self._exchange(body, headers)
        except (OSError, http.client.HTTPException, ValueError, OverflowError) as error:  # The last: a chunk's size.
            self.close()
            return Later(error=f"{self._shown}: {_why(error)}")
        return self._answer(response, len(lines))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(self, body: bytes, headers: dict[str, str]) -> _Response:
        if self._connection is None:
            self._connection = (
                http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
                if self._context is None
                else http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
            )
        self._connection.request("POST", self._path, body, headers)
        with self._connection.getresponse() as response:
            # A read of all complains about an answer that was cut; a read of an amount does not.
            whole = response.length is not None and response.length <= ANSWER_BYTES_MAX
            data = response.read() if whole else response.read(ANSWER_BYTES_MAX)
            if not response.isclosed():
                self.close()  # There is more, which we do not want.
            found = response.getheader("Retry-After"), response.getheader("Location")
            return _Response(response.status, *found, data)

    def _answer(self, response: _Response, count: int) -> Answer:
        status = response.status
        error = f"{self._shown}: {status} {http.client.responses.get(status, '')}{_said(response.data)}"
        if status == 200:
            try:
                stored = msgspec.json.decode(response.data, type=_Stored)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                return Later(error=f"{self._shown}: 200, but not the answer of an event service: check the URL")
            rejected = tuple(
                NotStored(one.at, _line(one.reason, _REASON_MAX), _line(one.detail))
                for one in stored.rejected[:count]
            )
            return Taken(
                stored=stored.stored, repeated=stored.repeated, conflicts=stored.conflicts, rejected=rejected
            )
        if status in (401, 403):
            return Later(error=f"{error}: give a token that may report", after=self._unauthorised, say_once=True)
        if status == 413:
            return Split(error=error)
        if status in (429, 503):
            return Later(error=error, after=_seconds(response.retry_after))
        if 400 <= status < 500 and status != 408:
            return Refused(reason=f"http-{status}", error=error)
        if response.location is not None:
            error = f"{error}: it is at {response.location[:_SAID_MAX]!r} now"
        return Later(error=error)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise InputError(f"url {url[:80]!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InputError(f"url {url[:80]!r}: like http://127.0.0.1:8765 or https://events.example.com/prefix")
    if parts.username is not None or parts.password is not None:
        raise InputError("url: no user or password in it; give a token")
    if parts.query or parts.fragment:
        raise InputError(f"url {url[:80]!r}: nothing after a ? or #; {_ROUTE} is added to it")
    if any(not character.isprintable() or character == " " for character in url) or not parts.path.isascii():
        raise InputError(f"url {url[:80]!r} has blanks, control characters or a path that is not ASCII")
    return parts


def _seconds(retry_after: str | None) -> float | None:
    """Seconds from now, of a number or a date; None if it says nothing that can be read."""
    if retry_after is None:
        return None
    try:
        seconds: float = min(int(retry_after), _RETRY_AFTER_MAX)  # Bounded first: it may be too large for a float.
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), _RETRY_AFTER_MAX)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or type(error).__name__
    return _line(text)


def _said(data: bytes) -> str:
    text = _line(data[: 4 * _SAID_MAX].decode("utf-8", "replace"))
    return f" ({text})" if text else ""


def _line(text: str, characters_max: int = _SAID_MAX) -> str:
    """What a service said, fit for one line of a log."""
    text = " ".join(text[: 4 * characters_max].split())[:characters_max]
    return "".join(character if character.isprintable() else "?" for character in text)
