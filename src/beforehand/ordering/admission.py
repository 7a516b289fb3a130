"""The first look at a packet: of the right type, from who it says, addressed to us, as this protocol sends them.

The transport vouches for the sender. All else is only what a peer says, so it is looked at before it is believed.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from beforehand.clocks.view import View
from beforehand.errors import RemoteProtocolError
from beforehand.ordering.message import Message
from beforehand.ordering.protocol import Destinations, Traits

__all__ = ["admit", "admit_message", "admit_sender"]


class _Member(Protocol):
    @property
    def traits(self) -> Traits: ...
    @property
    def process(self) -> str: ...
    @property
    def view(self) -> View: ...


class _Carrier(Protocol):
    @property
    def message(self) -> Message: ...


C = TypeVar("C", bound=_Carrier)


def admit_sender(member: _Member, sender: str) -> None:
    """Raise RemoteProtocolError unless `sender` is another member."""
    if sender == member.process or sender not in member.view:
        raise RemoteProtocolError(f"a packet from {sender!r}, which is not another member of the group")


def admit_message(member: _Member, message: Message, *, sender: str) -> None:
    """Raise RemoteProtocolError unless `message` is one that `sender` may send to us under this protocol."""
    if message.sender != sender:
        raise RemoteProtocolError(f"{sender!r} sent a message that claims to be of {message.sender!r}")
    if member.process not in message.to:
        raise RemoteProtocolError(f"message {message.id} is not addressed to {member.process!r}")
    for destination in message.to:
        if destination not in member.view:
            raise RemoteProtocolError(f"message {message.id} names {destination!r}, which is not in the view")
    if message.level not in member.traits.levels:
        raise RemoteProtocolError(f"message {message.id} asks for {message.level}, which {member.traits.name} lacks")
    others = len(message.others)
    match member.traits.destinations:
        case Destinations.ONE if others != 1 or len(message.to) != 1:
            raise RemoteProtocolError(f"message {message.id} does not go to one other process")
        case Destinations.ALL if others != len(member.view.processes) - 1:
            raise RemoteProtocolError(f"message {message.id} does not go to all members")


def admit(member: _Member, kind: type[C], packet: Any, *, sender: str) -> C:
    """`packet`, which must be a `kind` that carries a message of `sender` to this member."""
    admit_sender(member, sender)
    if type(packet) is not kind:
        raise RemoteProtocolError(f"{sender!r} sent a {type(packet).__name__}, not a {kind.__name__}")
    admit_message(member, packet.message, sender=sender)
    return packet
