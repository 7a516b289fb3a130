"""What to do with peers that carry no stamps (Berry 1995, sections 3.4 and 3.5).

A message without a stamp brings causes that nobody recorded: what follows it may look concurrent with
events that really led to it. A process can always *send* to such peers. To *receive* from them it
must choose:

REFUSE   no such message is taken: happened-before stays complete among those who take part (rule (i) of 3.4.1).
MARK     it is taken as a local event, and the peer is remembered in `unrecorded`, so that whoever
         reads the stamps knows through whom causes may have come unseen.

A reply that carries no result of the request ("done", or a failure of the network) tells nothing about
the peer, and may be ignored for happened-before under either policy (3.5, iii).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from beforehand.errors import BufferFullError, NonParticipantError

__all__ = ["PeerPolicy", "UnrecordedPeers"]

PEERS_MAX: Final = 10_000


class PeerPolicy(Enum):
    REFUSE = "refuse"
    MARK = "mark"


class UnrecordedPeers:
    """Counts, per peer, the messages that were taken without a stamp. Holds at most `PEERS_MAX` peers."""

    __slots__ = ("_counts", "policy")

    def __init__(self, policy: PeerPolicy) -> None:
        self.policy = policy
        self._counts: dict[str, int] = {}

    def admit(self, peer: str) -> None:
        """Note one message from `peer`, or raise if the policy refuses it."""
        if self.policy is PeerPolicy.REFUSE:
            raise NonParticipantError(peer=peer)
        if peer not in self._counts and len(self._counts) >= PEERS_MAX:
            raise BufferFullError(what="peers without stamps", limit=PEERS_MAX)
        self._counts[peer] = self._counts.get(peer, 0) + 1

    def counts(self) -> dict[str, int]:
        return dict(self._counts)
