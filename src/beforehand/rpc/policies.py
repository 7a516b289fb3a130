"""What a process does where a call does not go as it should; and how often that was so.

| case                                             | choices                                                    |
|--------------------------------------------------|------------------------------------------------------------|
| a peer carries no stamp, or one that is refused  | `Unstamped`: accept, warn (once per peer), refuse the call |
| a stamp is too large for its carrier             | `Oversize`: the call goes on without it, or is refused     |
| causal ordering: still waiting at the deadline   | `Late`: refuse the call, or go on out of order             |
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import Final

from beforehand.errors import InputError

__all__ = ["CallFigures", "Counter", "Late", "Oversize", "Policies", "Unstamped"]


class Unstamped(Enum):
    """A message without a stamp (Berry 1995, 3.4): causes may have come unseen with it."""

    ACCEPT = "accept"
    WARN = "warn"
    REFUSE = "refuse"


class Oversize(Enum):
    """A stamp above the limit of its carrier. It is never cut: half a stamp is a wrong stamp."""

    GO_ON = "go on"
    REFUSE = "refuse"


class Late(Enum):
    """A message whose causes did not arrive by the deadline."""

    REFUSE = "refuse"
    GO_ON = "go on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The choices of one process."""

    unstamped: Unstamped = Unstamped.WARN
    oversize: Oversize = Oversize.GO_ON
    late: Late = Late.REFUSE
    deadline: float = 5.0  # Seconds that a message may wait for its causes, in causal ordering.
    pool_size: int | None = None  # Calls that the server can have in hand at once: a warning when so many wait.
    ignore_replies_without_result: bool = False  # Such replies carry no stamp and make no event (3.5, iii).
    differences: bool = True  # Send stamps as differences to those who take them. Received they are always.

    def __post_init__(self) -> None:
        if not self.deadline >= 0:
            raise InputError(f"deadline {self.deadline!r} is not a number of seconds from 0")
        if self.pool_size is not None and self.pool_size < 1:
            raise InputError(f"pool_size {self.pool_size!r} is not a number from 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFigures:
    """How many messages so far, requests and replies alike; `waiting` is now."""

    sent: int = 0  # With a stamp.
    sent_differences: int = 0  # Of these, as a difference.
    sent_oversize: int = 0  # Stamps that were too large: the message went without, or did not go.
    sent_unordered: int = (
        0  # In causal ordering: without a stamp, for the receiver's name is not known, or it was away.
    )
    received: int = 0  # With a stamp that was taken over.
    received_unstamped: int = 0
    received_again: int = 0  # The same message a second time, as proxies repeat it.
    stamps_refused: int = 0  # Stamps that could not be used, as if there were none.
    bases_unknown: int = 0  # Differences whose base the receiver does not know: calls that were sent again in full.
    calls_refused: int = 0  # By a policy.
    calls_failed: int = 0  # Attempts without a reply.
    late: int = 0  # Messages that waited until their deadline.
    voided: int = 0  # Failed messages of peers that were skipped.
    tasks_sharing: int = 0  # Tasks that found no free lane and used the clock of the process.
    waiting: int = 0  # Messages that wait for their causes.


class Counter:
    """Counts under a lock of its own."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._counts: defaultdict[str, int] = defaultdict(int)

    def add(self, what: str, number: int = 1) -> int:
        with self._lock:
            count = self._counts[what] = self._counts[what] + number
            return count

    def add_difference(self) -> None:
        """A message was sent with a stamp, as a difference."""
        with self._lock:
            self._counts["sent"] += 1
            self._counts["sent_differences"] += 1

    def figures(self, *, sent: int = 0, received: int = 0) -> CallFigures:
        """With differences that were sent and received beside those counted here."""
        with self._lock:
            counts = self._counts.copy()
        counts["sent"] += sent
        counts["sent_differences"] += sent
        counts["received"] += received
        return CallFigures(**counts)
