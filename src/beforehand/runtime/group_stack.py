"""The layers that a member of a group runs: the protocol, its membership where it has views, and a reliable link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from beforehand.clocks.view import View
from beforehand.errors import BeforehandError, InputError, LocalProtocolError
from beforehand.ordering import PROTOCOLS, DeliveryProtocol, Membership, ReliableLink
from beforehand.runtime.member import unit_ns

__all__ = ["changing", "stack_of"]

RESEND_NS: Final = 200_000_000
RESEND_MOST_NS: Final = 5_000_000_000
INSTEAD: Final = "start a group of another name with all who shall be in it, or take an order that has views"


def stack_of(
    order: str, me: str, peers: Mapping[str, str], options: dict[str, Any], *, join: bool = False
) -> DeliveryProtocol:
    """Of a member of the group of `peers`, or of one that is to join it."""
    if me not in peers:
        raise InputError(f"{me!r} is not among the members {', '.join(sorted(peers)) or '(none)'}")
    if order not in PROTOCOLS:
        raise InputError(f"there is no order {order!r}; there are: {', '.join(PROTOCOLS)}")
    protocol, view = PROTOCOLS[order], View(sorted(peers))
    if join and not protocol.traits.views:
        raise InputError(f"nobody can join a group of order {order}: its members stay; {INSTEAD}")

    def bare(process: str, view: View, number: int = 0) -> DeliveryProtocol:
        made: DeliveryProtocol = protocol(process, view, number=number, **options)
        return made

    try:
        if join:
            return ReliableLink(Membership.joining(me, bare))
        if protocol.traits.views:
            return ReliableLink(Membership(me, view, bare, contacts=peers))
        unit = unit_ns(order)
        return ReliableLink(bare(me, view), resend_after=RESEND_NS // unit, resend_max=RESEND_MOST_NS // unit)
    except (TypeError, ValueError, BeforehandError) as error:
        raise InputError(f"{order} does not take these members or options: {error}") from None


def changing(protocol: DeliveryProtocol) -> ReliableLink:
    """The stack, for what changes its members; LocalProtocolError if they stay."""
    assert isinstance(protocol, ReliableLink)
    if not protocol.traits.views:
        name = protocol.traits.name
        raise LocalProtocolError(f"nobody leaves or enters a group of order {name}: its members stay; {INSTEAD}")
    return protocol
