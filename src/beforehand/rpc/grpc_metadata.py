"""What the gRPC carriers share: metadata as headers, and what may be told to the caller.

The reply's stamp is in the trailing metadata. So a stream of replies is one message, received when it ends; what its
items tell before that is not recorded. The same holds for a stream of requests, which is received when it begins.
Deadlines, cancellation and any status without a stamp make a call that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import grpc

from beforehand.rpc.headers import MESSAGE_HEADER, STAMP_HEADER, VOID_HEADER

__all__ = ["CallDetails", "details_with", "headers_of", "metadata_with"]

_OURS: Final = frozenset((MESSAGE_HEADER, STAMP_HEADER, VOID_HEADER))


class CallDetails(NamedTuple):
    """What an interceptor hands on."""

    method: str
    timeout: float | None
    metadata: tuple[tuple[str, str | bytes], ...]
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: Any


def headers_of(metadata: Iterable[Any] | None) -> dict[str, str]:
    """Our headers. One that came twice is joined, and so is no stamp any more."""
    found: dict[str, str] = {}
    for key, value in metadata or ():
        if key in _OURS and isinstance(value, str):
            found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def metadata_with(metadata: Iterable[Any] | None, headers: Mapping[str, str]) -> tuple[tuple[str, str | bytes], ...]:
    return (*((key, value) for key, value in metadata or ()), *headers.items())


def details_with(details: Any, headers: Mapping[str, str]) -> CallDetails:
    return CallDetails(
        details.method,
        details.timeout,
        metadata_with(details.metadata, headers),
        details.credentials,
        getattr(details, "wait_for_ready", None),
        getattr(details, "compression", None),
    )
