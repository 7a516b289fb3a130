"""Where a webhook may point: the address is checked after its name was resolved, and that address is connected to.

1. Only addresses of the public internet do, unless private ones are allowed: nothing private, loopback, link-local,
   shared, reserved, multicast or unspecified, also where such an IPv4 address stands inside an IPv6 one (mapped,
   6to4, Teredo, NAT64).
2. The name is resolved once per attempt. What was checked is what is connected to, so a name that resolves to
   something else a moment later (DNS rebinding) gains nothing.
3. `http` and `https` only; no user and password in the address.
4. A name server that does not answer is waited for `RESOLVE_SECONDS` at most. The system goes on waiting in a thread
   that nobody waits for; at most `RESOLVING_MAX` of them are, and then names are refused until one ends.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from queue import Empty, SimpleQueue
from typing import Final
from urllib.parse import urlsplit

from beforehand.errors import InputError

__all__ = ["RESOLVE_SECONDS", "RESOLVING_MAX", "Target", "checked_addresses", "is_public", "parse_target"]

RESOLVE_SECONDS: Final = 5.0
RESOLVING_MAX: Final = 16
_resolving: Final = threading.BoundedSemaphore(RESOLVING_MAX)

_URL_MAX: Final = 2_000
_NAT64: Final = IPv6Network("64:ff9b::/96")
_SITE_LOCAL: Final = IPv6Network("fec0::/10")  # What was private before fc00::/7 was; some nets have it still.
_COMPATIBLE: Final = IPv6Network("::/96")  # IPv4 inside IPv6 as it was written before mapped addresses.


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A webhook's address, taken apart."""

    secure: bool
    host: str  # A name or an address, without brackets.
    port: int
    path: str  # With its query; begins with a slash.

    @property
    def authority(self) -> str:
        """For the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def parse_target(url: str) -> Target:
    """`InputError` if it is no address that a webhook can have."""
    shown = repr(url[:100])
    if len(url) > _URL_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(
            f"the webhook {shown} is no address: at most {_URL_MAX} printable ASCII characters, no blank"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(f"the webhook {shown} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"the webhook {shown} is not read: give https://HOST/PATH, or http://")
    if parts.username is not None or parts.password is not None:
        raise InputError("a webhook's address has no user and password: notices are signed instead")
    if parts.fragment:
        raise InputError(f"the webhook {shown} has a fragment (#), which is never sent: leave it out")
    if port == 0:
        raise InputError(f"the webhook {shown} has port 0: no server has")
    secure = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(secure=secure, host=parts.hostname, port=port or (443 if secure else 80), path=path)


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet."""
    parsed = ip_address(address.partition("%")[0])
    return parsed not in _SITE_LOCAL and all(
        one.is_global and not one.is_multicast and not one.is_reserved for one in _meant(parsed)
    )


def checked_addresses(target: Target, *, allow_private: bool, seconds_max: float = RESOLVE_SECONDS) -> list[str]:
    """The addresses of a target's host that may be connected to. `InputError` if there is none."""
    addresses = _resolved(target, seconds_max)
    allowed = [address for address in addresses if allow_private or is_public(address)]
    if not allowed:
        raise InputError(
            f"the host {target.host[:100]!r} is not on the public internet ({', '.join(addresses[:3])}): private "
            "targets have to be allowed when the service is started"
        )
    return allowed


def _resolved(target: Target, seconds_max: float) -> list[str]:
    shown = repr(target.host[:100])
    if not _resolving.acquire(blocking=False):
        raise InputError(f"the host {shown} is not resolved: {RESOLVING_MAX} names wait for an answer already")
    answers: SimpleQueue[list[str] | Exception] = SimpleQueue()

    def resolve() -> None:
        try:
            found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
            answers.put(list(dict.fromkeys(str(info[4][0]) for info in found)))
        except (OSError, UnicodeError) as error:
            answers.put(error)
        finally:
            _resolving.release()

    try:
        threading.Thread(target=resolve, name="beforehand-resolve", daemon=True).start()
    except RuntimeError as error:
        _resolving.release()
        raise InputError(f"the host {shown} is not resolved: {error}") from None
    try:
        answer = answers.get(timeout=seconds_max)
    except Empty:
        raise InputError(f"the host {shown} is not resolved: no answer within {seconds_max:g} s") from None
    if isinstance(answer, Exception):
        raise InputError(f"the host {shown} cannot be resolved: {answer}")
    return answer


def _meant(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """The address, and those that stand inside it. One of NAT64 is a way to the one inside, and nothing else."""
    if isinstance(address, IPv4Address):
        yield address
        return
    low = IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _NAT64:
        yield low
        return
    yield address
    if address.ipv4_mapped is not None or address in _COMPATIBLE:
        yield low
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
