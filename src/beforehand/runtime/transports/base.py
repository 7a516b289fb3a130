"""What a group needs of a transport: packets as bytes from member to member, each from whom it says it is.

A transport may lose, repeat and reorder packets: the `ReliableLink` of the group mends that. It must not let anybody
in who is not a member, as far as its settings can tell, and it vouches for the sender of what it brings.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from beforehand.errors import InputError, RemoteProtocolError

__all__ = ["KEY_BYTES_MIN", "Identity", "Take", "Transport", "TransportFigures", "cancel_all", "is_loopback"]

KEY_BYTES_MIN: Final = 32
AGAIN_S: Final = 0.2
REASONS_MAX: Final = 100
OTHER_REASONS: Final = "other reasons"

Take: TypeAlias = Callable[[str, bytes], Awaitable[None]]
"""Takes a packet of a member. May wait for room. RemoteProtocolError: whoever sent it breaks the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a member is to the others. `incarnation` changes when it comes back without its state."""

    group: str
    process: str
    incarnation: str
    peers: dict[str, str]  # The addresses of the other members, by name. Nobody else is let in; `meet` adds to them.
    remember: Callable[[str, str], bool]  # A member, and its incarnation: whether it is the one that we know.
    waiting: bool = False  # It is to join: it listens to all peers, and goes to those only that it is told to meet.

    def check_incarnation(self, process: str, incarnation: str) -> None:
        """RemoteProtocolError if a member came back as another, or if we cannot write down who it is."""
        try:
            known = self.remember(process, incarnation)
        except InputError as error:
            raise RemoteProtocolError(f"{process!r} cannot be let in now: {error}") from None
        if not known:
            raise RemoteProtocolError(f"{process!r} came back without its state: evict it, or restore its state")


@dataclass(slots=True)
class TransportFigures:
    """What a transport has done."""

    packets_out: int = 0
    packets_in: int = 0
    dropped: int = 0  # Packets that had no room on their way out; the link sends them again.
    connected: set[str] = field(default_factory=set)  # Members that can be reached now.
    refused: Counter[str] = field(
        default_factory=Counter
    )  # Connections and packets, by reason: `refuse` counts them.

    def refuse(self, why: str) -> None:
        """Count it. A reason quotes who was refused, so strangers could make ever new ones: only so many are kept."""
        why = why[:100]
        known = why in self.refused or len(self.refused) < REASONS_MAX
        self.refused[why if known else OTHER_REASONS] += 1


class Transport(Protocol):
    @property
    def figures(self) -> TransportFigures: ...

    @property
    def packet_bytes_max(self) -> int:
        """What a packet may have, from `start` on; `send` drops a larger one. Others must take as much."""

    async def start(self, identity: Identity, address: str, take: Take, position: bytes | None) -> None:
        """Begin to bring packets to this member, at its own address, after a position. InputError if it cannot."""

    def check(self, address: str) -> None:
        """InputError if a member at this address could not be met."""

    def meet(self, process: str, address: str) -> None:
        """From now on this is a member, too, at this address. InputError if it cannot be met; nothing if it was."""

    def position(self) -> bytes:
        """How far what was sent to us is taken, for transports that keep it: it goes into the member's state."""

    def send(self, to: str, data: bytes) -> None:
        """Send a packet if there is room and it is not too large, without waiting."""

    async def close(self) -> None:
        """End. What is under way may be lost."""


async def cancel_all(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel and wait. Again if need be: `asyncio.wait_for` of Python 3.11 and nats-py swallow one now and then."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=AGAIN_S)


def is_loopback(host: str) -> bool:
    """Whether it is this machine for sure."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
