"""What travels beside a call: the names of the headers, and how they are written and read.

    beforehand-message   which message this is: `process:count`, percent-encoded; the count is that of its send event
    beforehand-stamp     the stamp of its send, as the text of `beforehand.clocks`
    beforehand-void      in causal ordering: stamps of earlier messages to the same process that failed, comma between
    beforehand-life      that the sender takes differences, and its name in this life (see `differences`)
    beforehand-difference   instead of all others: id, stamp and life, relative to a base

Guarantees:
  1. `read` raises `StampDecodeError`, `StampTooLargeError` or `ViewMismatchError` for whatever a peer may send, and
     nothing else.
  2. A stamp above the limit is refused unread, never cut. The limit counts the characters of all stamps together.
  3. The message and its stamp agree on the sender and on the count of the send, or both are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from beforehand.clocks import OrderingStamp, StampKind, VectorStamp, View
from beforehand.clocks.wire import from_text, peek_kind
from beforehand.errors import NotInViewError, StampDecodeError, StampTooLargeError
from beforehand.rpc.differences import Difference, OrderedDifference, life_of

__all__ = [
    "CARRIED_HEADERS",
    "DIFFERENCE_HEADER",
    "GRPC_LIMIT",
    "HTTP_LIMIT",
    "LIFE_HEADER",
    "MESSAGE_HEADER",
    "NATS_LIMIT",
    "OPENTELEMETRY_LIMIT",
    "STAMP_HEADER",
    "VOID_HEADER",
    "Carried",
    "read",
    "vector_text",
    "written",
]

MESSAGE_HEADER: Final = "beforehand-message"
STAMP_HEADER: Final = "beforehand-stamp"
VOID_HEADER: Final = "beforehand-void"
LIFE_HEADER: Final = "beforehand-life"
DIFFERENCE_HEADER: Final = "beforehand-difference"
CARRIED_HEADERS: Final = frozenset((MESSAGE_HEADER, STAMP_HEADER, VOID_HEADER, LIFE_HEADER, DIFFERENCE_HEADER))
"""All that a message may carry."""

HTTP_LIMIT: Final = 6144
"""Characters of stamps in a call over HTTP: usual servers take 8 KiB of headers, and others need room too."""

GRPC_LIMIT: Final = 6144
"""Characters of stamps in a call of gRPC, whose metadata may have 8 KiB unless both sides raise it."""

NATS_LIMIT: Final = 65536
"""Characters of stamps in a message of NATS, whose headers count to the payload of 1 MiB."""

OPENTELEMETRY_LIMIT: Final = 4096
"""Characters of a stamp beside trace context, which may travel over any carrier."""

_MESSAGE_MAX: Final = 4096  # Characters: a name of 1,000 characters, each of them percent-encoded.
_VOIDS_MAX: Final = 64


class Carried(NamedTuple):
    """What came with a message. All empty: its sender takes no part."""

    message: str | None = None
    sender: str | None = None
    event: int = 0  # The count of its send.
    stamp: VectorStamp | OrderingStamp | None = None
    voids: tuple[OrderingStamp, ...] = ()
    life: bytes | None = None  # Of the sender, if it takes differences.
    bases: Mapping[bytes, int] | None = None  # The stamp holds only what is not known at one of these events.
    ordered: OrderedDifference | None = None  # What the stamp is to be made of, once its base is known to be one.


def written(message: str, stamp: str | None, voids: tuple[str, ...] = ()) -> dict[str, str]:
    """The headers of a message."""
    headers = {MESSAGE_HEADER: quote(message, safe=":@+-._~#/")}
    if stamp is not None:
        headers[STAMP_HEADER] = stamp
    if voids:
        headers[VOID_HEADER] = ",".join(voids)
    return headers


def read(headers: Mapping[str, str], *, limit: int, view: View | None = None) -> Carried:
    """Keys are looked up in small letters."""
    difference_text = headers.get(DIFFERENCE_HEADER)
    if difference_text is not None:
        return _difference(difference_text, headers, limit)
    message_text, stamp_text = headers.get(MESSAGE_HEADER), headers.get(STAMP_HEADER)
    voids_text = headers.get(VOID_HEADER)
    if message_text is None:
        if stamp_text is not None or voids_text is not None:
            raise StampDecodeError(f"it comes without the header {MESSAGE_HEADER}")
        return Carried()
    life = None if (life_text := headers.get(LIFE_HEADER)) is None else life_of(life_text)
    message, sender, count = _message(message_text)
    size = len(stamp_text or "") + len(voids_text or "")
    if size > limit:
        raise StampTooLargeError(size=size, limit=limit)
    if stamp_text is None:
        return Carried(message, sender, count, None, _voids(voids_text, sender, limit))
    stamp = _stamp(stamp_text, limit, view)
    time = stamp.time if isinstance(stamp, OrderingStamp) else stamp
    if (isinstance(stamp, OrderingStamp) and stamp.sender != sender) or time[sender] != count:
        raise StampDecodeError("it is not the stamp of the message that it came with")
    return Carried(message, sender, count, stamp, _voids(voids_text, sender, limit), life)


def vector_text(stamp: VectorStamp, *, limit: int, view: View | None) -> str:
    """In the view if there is one and it has all processes of the stamp, else with names."""
    if view is not None:
        try:
            return stamp.to_text(limit=limit, view=view)
        except NotInViewError:
            pass
    return stamp.to_text(limit=limit)


def _difference(text: str, headers: Mapping[str, str], limit: int) -> Carried:
    if len(text) > limit:
        raise StampTooLargeError(size=len(text), limit=limit)
    if not CARRIED_HEADERS.isdisjoint(headers.keys() - {DIFFERENCE_HEADER}):
        raise StampDecodeError(f"{DIFFERENCE_HEADER} and another header say which message it is")
    found = Difference.from_text(text)
    sender, count = found.sender, found.count
    stamp = VectorStamp._of({**found.changes, sender: count})
    ordered = found if isinstance(found, OrderedDifference) else None
    return Carried(f"{sender}:{count}", sender, count, stamp, (), found.life, found.bases, ordered)


def _message(text: str) -> tuple[str, str, int]:
    if len(text) > _MESSAGE_MAX:
        raise StampDecodeError(f"its message id has {len(text)} characters, above {_MESSAGE_MAX}")
    try:
        message = unquote_to_bytes(text).decode()
    except UnicodeError:
        raise StampDecodeError("its message id is not percent-encoded UTF-8") from None
    sender, _, number = message.rpartition(":")
    if not sender or not (number.isascii() and number.isdigit()) or number.startswith("0") or len(number) > 19:
        raise StampDecodeError("its message id is not process:count")
    return message, sender, int(number)


def _stamp(text: str, limit: int, view: View | None) -> VectorStamp | OrderingStamp:
    data = from_text(text, limit=limit)
    kind = peek_kind(data)
    if kind is StampKind.ORDERING:
        return OrderingStamp.decode(data, limit=limit)
    if kind is StampKind.VECTOR_IN_VIEW:
        if view is None:
            raise StampDecodeError("it is written in a view, and none was agreed on")
        return VectorStamp.decode(data, limit=limit, view=view)
    return VectorStamp.decode(data, limit=limit)


def _voids(text: str | None, sender: str, limit: int) -> tuple[OrderingStamp, ...]:
    if not text:
        return ()
    parts = text.split(",")
    if len(parts) > _VOIDS_MAX:
        raise StampDecodeError(f"{VOID_HEADER} has {len(parts)} stamps, above {_VOIDS_MAX}")
    voids = tuple(OrderingStamp.from_text(part, limit=limit) for part in parts)
    if any(void.sender != sender for void in voids):
        raise StampDecodeError(f"{VOID_HEADER} has a stamp of another sender")
    return voids
