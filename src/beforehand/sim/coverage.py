"""Rare states: what a run went through that most runs do not, so that a campaign can show that it did.

A simulator that never reaches the hard states proves nothing. These are looked for after every call of a protocol, at
every packet and at every crash; `Record.seen` has the names of those that a run reached, and `STATES` has all names.
"""

from __future__ import annotations

from typing import Any, Final

from beforehand.ordering import DeliveryProtocol, Frame, Membership, Owed, Refused, ReliableLink
from beforehand.ordering.flush import InView
from beforehand.ordering.rotating_token import Token

__all__ = ["COUNTER_AT_END", "FULL_BUFFER", "OVERTAKING", "PENDING_LONG", "STATES", "Sights"]

PENDING_LONG: Final = 10
"""A queue of more messages than this counts as long."""

LONG_QUEUE: Final = "long pending queue"
FLUSH: Final = "flush"
TWO_FLUSHES: Final = "two flushes at once"
LEADER_CRASH: Final = "crash of a leader during its flush"
LOSS_AT_HOLDER: Final = "loss while holding the token"
LOSS_OF_TOKEN: Final = "loss of the token on its way"  # noqa: S105 (a token that goes round)
CRASH_AT_HOLDER: Final = "crash while holding the token"
CRASH_IN_PHASES: Final = "crash between the phases"
RESENT: Final = "resending after a restart"
FULL_BUFFER: Final = "full buffer"
FULL_AT_RECEIVER: Final = "full buffer at the receiver"
COUNTER_AT_END: Final = "counter at its end"
OVERTAKING: Final = "FIFO message overtakes its causal past"

STATES: Final = (
    LONG_QUEUE,
    FLUSH,
    TWO_FLUSHES,
    LEADER_CRASH,
    LOSS_AT_HOLDER,
    LOSS_OF_TOKEN,
    CRASH_AT_HOLDER,
    CRASH_IN_PHASES,
    RESENT,
    FULL_BUFFER,
    FULL_AT_RECEIVER,
    COUNTER_AT_END,
    OVERTAKING,
)
"""The states that a campaign over all protocols must reach. A run notes more: `crash while … is missing`."""


class Sights:
    """Watches one run and enters what it sees into `seen`."""

    def __init__(self, seen: set[str]) -> None:
        self._seen: Final = seen
        self._leading: set[str] = set()  # The members that lead a flush.

    def after_call(self, name: str, protocol: DeliveryProtocol, pending: int) -> None:
        if pending > PENDING_LONG:
            self._seen.add(LONG_QUEUE)
        layer = protocol.within if isinstance(protocol, ReliableLink) else protocol
        if not isinstance(layer, Membership):
            return
        self._leading.discard(name)
        if layer.flushing:
            self._seen.add(FLUSH)
            if any(missing.what is Owed.REPORT for missing in layer.missing()):
                self._leading.add(name)
            if len(self._leading) > 1:
                self._seen.add(TWO_FLUSHES)

    def transmitted(self, protocol: DeliveryProtocol, packet: Any, *, lost: bool, again: bool) -> None:
        """`again`: a process that came back sends what it had sent before."""
        if again:
            self._seen.add(RESENT)
        if lost:
            if getattr(_innermost(protocol), "holds_token", False):
                self._seen.add(LOSS_AT_HOLDER)
            while isinstance(packet, Frame | InView):
                packet = packet.packet
            if isinstance(packet, Token):
                self._seen.add(LOSS_OF_TOKEN)

    def refused(self, effect: Refused) -> None:
        if effect.why.endswith("is reached"):  # As BufferFullError says it: the link passes on the text only.
            self._seen.add(FULL_AT_RECEIVER)

    def at_crash(self, protocol: DeliveryProtocol) -> None:
        """What a process was in the middle of when it died."""
        owed = {missing.what for missing in protocol.missing()}
        self._seen.update(f"crash while {what} is missing" for what in owed)
        if getattr(_innermost(protocol), "holds_token", False):
            self._seen.add(CRASH_AT_HOLDER)
        if Owed.PROPOSAL in owed or Owed.FINAL in owed:
            self._seen.add(CRASH_IN_PHASES)
        if Owed.REPORT in owed:
            self._seen.add(LEADER_CRASH)


def _innermost(protocol: DeliveryProtocol) -> DeliveryProtocol:
    """The protocol itself, without the layers around it."""
    while isinstance(protocol, ReliableLink | Membership):
        protocol = protocol.within
    return protocol
