"""What a carrier holds between the two messages of a call: the caller a `Call`, the server an `Arrival`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from beforehand.clocks import OrderingStamp
from beforehand.rpc.differences import Base, Link
from beforehand.rpc.headers import HTTP_LIMIT
from beforehand.rpc.ordered import Posted

__all__ = ["Arrival", "Call", "arrived"]


class Call(Struct, frozen=True):
    """A request that is being sent. Give it to `reply_in` or `failed`."""

    interface: str
    headers: Mapping[str, str]  # What the request must carry.
    peer: str = ""
    limit: int = HTTP_LIMIT
    covered: bool = True  # Whether causality is kept for this interface.
    posted: Posted | None = None
    link: Link | None = None  # Where its reply is noted, for later requests to build on.


class Arrival(Struct, frozen=True):
    """A request that was received. Give it to `reply_out`."""

    interface: str
    sender: str | None = None  # The process that sent it, if it said so.
    message: str | None = None
    limit: int = HTTP_LIMIT
    covered: bool = True
    stamped: bool = False  # It carried a stamp that was taken over.
    request: OrderingStamp | None = None
    lost: tuple[OrderingStamp, ...] = ()  # Replies that did not arrive, to be voided with this one.
    mended: bool = False  # It had no stamp, but listed failed calls, which were voided.
    base: Base | None = None  # The event of its send, if its sender takes differences.


def arrived(interface: str, base: Base | None, limit: int) -> Arrival:
    """A request that came as a difference, the short way."""
    assert base is not None
    return Arrival(interface, base.process, f"{base.process}:{base.event}", limit, stamped=True, base=base)
