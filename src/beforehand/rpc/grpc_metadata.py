"""What the gRPC carriers share: metadata as headers, and what may be told to the caller.

The reply's stamp is in the trailing metadata. So a stream of replies is one message, received when it ends; what its
items tell before that is not recorded. The same holds for a stream of requests, which is received when it begins.
Deadlines, cancellation and any status without a stamp make a call that failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any, NamedTuple

import grpc

from beforehand.rpc.calls import Call
from beforehand.rpc.headers import CARRIED_HEADERS, DIFFERENCE_HEADER
from beforehand.rpc.refusing import BASE_UNKNOWN, REFUSED_HEADER

__all__ = [
    "CallDetails",
    "details_with",
    "difference_of",
    "headers_of",
    "metadata_with",
    "refuses_base",
    "wants_full_stamp",
]


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
        if key in CARRIED_HEADERS and isinstance(value, str):
            found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def difference_of(metadata: Iterable[Any] | None) -> str | None:
    """The difference, if there is one and nothing else of ours: that may go the short way."""
    found: str | None = None
    for key, value in metadata or ():
        if key in CARRIED_HEADERS:
            if found is not None or key != DIFFERENCE_HEADER or not isinstance(value, str):
                return None
            found = value
    return found


def metadata_with(metadata: Iterable[Any] | None, headers: Mapping[str, str]) -> tuple[tuple[str, str | bytes], ...]:
    if not metadata:
        return tuple(headers.items())
    return (*((key, value) for key, value in metadata), *headers.items())


def details_with(details: Any, headers: Mapping[str, str], *, begun: float | None = None) -> CallDetails:
    """With `begun`, the timeout is what is left of it since then."""
    timeout = details.timeout
    if timeout is not None and begun is not None:
        timeout = max(timeout - (monotonic() - begun), 0.0)
    return CallDetails(
        details.method,
        timeout,
        metadata_with(details.metadata, headers),
        details.credentials,
        getattr(details, "wait_for_ready", None),
        getattr(details, "compression", None),
    )


def wants_full_stamp(call: Call, outcome: Any) -> bool:
    """The server knows no base of the difference that the call carried; no handler ran."""
    return (
        DIFFERENCE_HEADER in call.headers
        and outcome.code() is grpc.StatusCode.ABORTED
        and refuses_base(call, outcome.trailing_metadata())
    )


def refuses_base(call: Call, metadata: Iterable[Any] | None) -> bool:
    """What the metadata of a reply with the status ABORTED says of that."""
    return DIFFERENCE_HEADER in call.headers and any(
        key == REFUSED_HEADER and value == BASE_UNKNOWN for key, value in metadata or ()
    )
