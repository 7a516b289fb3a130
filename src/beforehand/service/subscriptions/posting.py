"""One notice to one webhook: a signed POST to a checked address, bounded in time and bytes.

    Beforehand-Subscription: sub-...
    Beforehand-Cursor: 123
    Beforehand-Timestamp: 1700000000                    seconds since 1970
    Beforehand-Signature: v1=HEX                        HMAC-SHA256 with the secret over `TIMESTAMP.BODY`

A receiver recomputes the signature over the bytes as they came, compares in constant time, and refuses a timestamp
that is minutes old, so that nobody can send an old notice again. A notice may come twice, with the same cursor.

2xx takes the notice. Redirects are not followed: where to is checked when the subscription is made, by a person. The
answer's body is not used; of it at most `ANSWER_MAX` bytes are read.
"""

from __future__ import annotations

import hmac
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from typing import Final

from beforehand import __version__
from beforehand.errors import InputError
from beforehand.service.subscriptions.addresses import checked_addresses, parse_target

__all__ = ["ANSWER_MAX", "GONE", "RETRY_AFTER_MAX", "PostError", "headers_of", "post", "signature_of"]

ANSWER_MAX: Final = 4_096
GONE: Final = 410
RETRY_AFTER_MAX: Final = 3_600.0  # Seconds that a receiver may ask to wait.


class PostError(Exception):
    """The notice was not taken, or nobody knows. `status` is that of the answer, if there was one."""

    def __init__(self, text: str, status: int | None = None, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.status: Final = status
        self.retry_after: Final = retry_after  # Seconds that the receiver asks to wait.


def signature_of(secret: str, timestamp: int, body: bytes) -> str:
    """What `Beforehand-Signature` says of a body that is sent at this second."""
    return f"v1={hmac.new(secret.encode(), f'{timestamp}.'.encode() + body, sha256).hexdigest()}"


def headers_of(subscription: str, cursor: int, secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a notice."""
    return {
        "Content-Type": "application/json",
        "User-Agent": f"beforehand/{__version__}",
        "Beforehand-Subscription": subscription,
        "Beforehand-Cursor": str(cursor),
        "Beforehand-Timestamp": str(timestamp),
        "Beforehand-Signature": signature_of(secret, timestamp, body),
    }


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    seconds_max: float,
    allow_private: bool,
    context: ssl.SSLContext | None = None,
) -> int:
    """The status of an answer that took the body. `PostError` in every other case."""
    try:
        target = parse_target(url)
        addresses = checked_addresses(target, allow_private=allow_private)
    except InputError as error:
        raise PostError(str(error)) from None
    connection = HTTPConnection(target.host, target.port, timeout=seconds_max)
    watch: threading.Timer | None = None
    try:
        line = _connected(addresses, target.port, seconds_max)
        connection.sock = line
        if target.secure:
            context = context or ssl.create_default_context()
            # The plain socket is empty from here on; the handshake belongs to the time that is watched.
            line = context.wrap_socket(line, server_hostname=target.host, do_handshake_on_connect=False)
            connection.sock = line
        # An answer may drip byte by byte, each within the timeout: at the end of the time the line is cut.
        watch = threading.Timer(seconds_max, _cut, (line,))
        watch.daemon = True
        watch.start()
        if isinstance(line, ssl.SSLSocket):
            line.do_handshake()
        connection.request("POST", target.path, body, {"Host": target.authority, "Connection": "close", **headers})
        answer = connection.getresponse()
        answer.read(ANSWER_MAX)
        status, after = answer.status, answer.getheader("Retry-After")
    except (OSError, HTTPException, ValueError, OverflowError) as error:  # The last: a chunk of ever so many bytes.
        raise PostError(f"no answer from {target.authority}: {error or type(error).__name__}") from None
    finally:
        if watch is not None:
            watch.cancel()
        connection.close()
    if 200 <= status < 300:
        return status
    text = f"{target.authority} answered {status}"
    if 300 <= status < 400:
        text += ": redirects are not followed; give the address that it points to"
    raise PostError(text, status, _seconds(after))


def _connected(addresses: list[str], port: int, seconds_max: float) -> socket.socket:
    """A connection to the first address that takes one. They were checked; no name is resolved again."""
    failed: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection((address, port), timeout=seconds_max / len(addresses))
        except OSError as error:
            failed = error
    raise failed if failed is not None else OSError("no address")


def _cut(line: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(line, socket.SHUT_RDWR)  # Not that of TLS, which is in use in another thread.


def _seconds(text: str | None) -> float:
    if text is None or not text.isascii() or not text.isdigit():
        return 0.0
    return min(float(text[:9]), RETRY_AFTER_MAX)
