"""NATS headers, as plain functions over dictionaries: nothing of NATS is needed here.

    await nc.publish("orders", data, headers=message_headers(causality, "orders"))
    message_received(causality, message.subject, message.headers)

A message may be a request: give what `message_received` returns to `reply_headers`, and what came back, with the
`Call`, to `reply_received`. They fit any carrier whose messages have text headers.
"""

from __future__ import annotations

from collections.abc import Mapping

from beforehand.rpc.calls import Arrival, Call
from beforehand.rpc.carrying import Causality
from beforehand.rpc.headers import NATS_LIMIT

__all__ = ["message_headers", "message_received", "reply_headers", "reply_received", "request_headers"]


def message_headers(
    causality: Causality,
    subject: str,
    headers: Mapping[str, str] | None = None,
    *,
    to: str = "",
    limit: int = NATS_LIMIT,
) -> dict[str, str]:
    """A message is about to be published: `headers` and what it must carry."""
    return {**(headers or {}), **causality.request_out(subject, to=to, limit=limit).headers}


def request_headers(
    causality: Causality,
    subject: str,
    headers: Mapping[str, str] | None = None,
    *,
    to: str = "",
    limit: int = NATS_LIMIT,
) -> tuple[Call, dict[str, str]]:
    """The same for a request, whose reply will be given to `reply_received`."""
    call = causality.request_out(subject, to=to, limit=limit)
    return call, {**(headers or {}), **call.headers}


def message_received(
    causality: Causality, subject: str, headers: Mapping[str, str] | None, *, limit: int = NATS_LIMIT
) -> Arrival:
    """A message came. Raises if a policy refuses it; in causal ordering it waits in this thread."""
    return causality.request_in(subject, _small(headers), limit=limit)


def reply_headers(causality: Causality, arrival: Arrival, headers: Mapping[str, str] | None = None) -> dict[str, str]:
    """The reply to a request is about to be published."""
    return {**(headers or {}), **causality.reply_out(arrival)}


def reply_received(causality: Causality, call: Call, headers: Mapping[str, str] | None) -> None:
    """The reply to a request came. If none did, call `causality.failed(call, reason)`."""
    causality.reply_in(call, _small(headers))


def _small(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {key.lower(): value for key, value in (headers or {}).items()}
