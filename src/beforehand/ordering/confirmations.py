"""Point-to-point acknowledging for `SinglePhase`: who acknowledges tells the origin, and the origin tells the rest.

Sun and Maheshwari (section 6) say that they are designing such a scheme and give none: this one is ours.

A member k acknowledges an operation to its origin o only. When o can deliver the operation, it multicasts one
*confirmation*, which has a claim (time, count) about every member: after its first `count` operations, all others of
that member have times above `time`. A member j that has had `count` operations of k straight from k may then treat
`time` as if k had told it. So an operation costs at most 2(N − 1) packets besides itself, instead of (N − 1)².

Why claims are true. o hears from k in FIFO order. When it hears from k that its clock is at t, it has had all
operations that k had multicast by then, say c, and those that follow have times above t. So (t, c) is true, and o
needs no count from k. Why they may be used: another member j may get o's confirmation before operations of k that
lie below t, as one channel may be faster than another. It waits until it has c of them, and then nothing of k below
t is missing.

Why one claim per member is enough to keep. True claims about k are points of k's own history, so the one with the
larger count has the larger time. If (t, c) gives way to (t', c') with c' > c, operation c + 1 of k is under way to
us, and it brings a time above t itself.

When o need not confirm: when what makes its operation deliverable was *public*, told to all by operations or
confirmations. And with two members, where nobody else is to be told.

No deadlock by full buffers. A confirmation of o travels behind o's operations, so a member that refuses an operation
of o for lack of room stops o's confirmations too. Therefore o sends no more than `limit` operations from its first
unconfirmed one on: all members have the same limit. Say j has h at its head, which lacks a time of k, and every
confirmation with such a time is behind a refused operation. Let C, of o, be the first in causal order, g the refused
operation before it, and p the first operation of o that waits at j. As j holds `limit` operations from p on, p was
complete when o sent g. p comes after h, so o knew a sufficient time of k by then: from an operation of k (then j
gets it too, or refuses it because operations of k wait, which lie after h, so that h lacks nothing of k), or from an
earlier confirmation than C (C was the first), or from an acknowledgement, and then o confirmed p before it sent g,
and j has that. A contradiction in every case.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from beforehand.errors import BufferFullError, RemoteProtocolError
from beforehand.ordering.message import NUMBER_MAX

__all__ = ["ConfirmationState", "Confirmations", "SinglePhaseConfirmation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePhaseConfirmation:
    """By position in the view, the claim (time, count) about each member; the sender's own is its clock now."""

    claims: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if type(self.claims) is not tuple or not all(type(c) is tuple and len(c) == 2 for c in self.claims):
            raise ValueError("the claims are not pairs of a time and a count")
        if not all(type(n) is int and 0 <= n <= NUMBER_MAX for claim in self.claims for n in claim):
            raise ValueError("a time or a count is out of range")


@dataclass(frozen=True, slots=True)
class ConfirmationState:
    counts: tuple[int, ...]
    public: tuple[int, ...]
    claims: tuple[tuple[int, int, int], ...]
    unconfirmed: tuple[tuple[int, int], ...]


class Confirmations:
    """The counts, claims and unconfirmed operations of one member, `me`, by positions in the view."""

    def __init__(self, me: int, members: int, *, floor: int, limit: int) -> None:
        self._me: Final = me
        self._limit: Final = limit
        self.counts = [0] * members  # Operations had from each member; ours: that we sent.
        self.public = [floor] * members  # The time of each member that all others hear of too.
        self.public[me] = 0  # Unused.
        self.claims: dict[int, tuple[int, int]] = {}  # Per member (time, count) whose count we have not reached.
        self.unconfirmed: deque[tuple[int, int]] = deque()  # (time, count) of our own operations; at most limit.

    def refuse_if_full(self) -> None:
        if self.unconfirmed and self.counts[self._me] - self.unconfirmed[0][1] + 1 >= self._limit:
            raise BufferFullError(what="operations of ours since the first unconfirmed one", limit=self._limit)

    def refuse_impossible(self, packet: SinglePhaseConfirmation, *, origin: int, name: str, clock: int) -> None:
        """Raise RemoteProtocolError if `packet` of member `origin` claims what cannot be."""
        if len(packet.claims) != len(self.counts):
            raise RemoteProtocolError(f"{name!r} sent a confirmation of another group")
        time, count = packet.claims[self._me]
        if time > clock or count > self.counts[self._me]:
            raise RemoteProtocolError(f"{name!r} claims a time or a count of ours that we have not reached")
        if packet.claims[origin][1] != self.counts[origin]:
            raise RemoteProtocolError(f"{name!r} confirms after {packet.claims[origin][1]} operations of its own")

    def take(self, packet: SinglePhaseConfirmation) -> list[tuple[int, int]]:
        """The (member, time) pairs that may be used now; other claims are kept until their operations are here."""
        usable = []
        for at, (time, count) in enumerate(packet.claims):
            if at == self._me:
                continue
            if self.counts[at] >= count:
                usable.append((at, time))
                self.public[at] = max(self.public[at], time)
            else:
                kept = self.claims.get(at, (0, 0))
                self.claims[at] = max(kept, (time, count), key=lambda claim: (claim[1], claim[0]))
        return usable

    def confirmed(self, heard: list[int]) -> None:
        """All that we have heard is public from now on."""
        self.public = list(heard)
        self.public[self._me] = 0

    def count(self, at: int, time: int) -> int:
        """An operation of member `at` with `time` is here: the time up to which nothing of `at` is missing now."""
        self.counts[at] += 1
        claim = self.claims.get(at)
        if claim is not None and claim[1] <= self.counts[at]:
            del self.claims[at]
            time = max(time, claim[0])
        self.public[at] = max(self.public[at], time)
        return time

    def state(self) -> ConfirmationState:
        claims = tuple((at, *claim) for at, claim in sorted(self.claims.items()))
        return ConfirmationState(tuple(self.counts), tuple(self.public), claims, tuple(self.unconfirmed))

    def restore(self, state: ConfirmationState) -> None:
        self.counts, self.public = list(state.counts), list(state.public)
        self.claims = {at: (time, count) for at, time, count in state.claims}
        self.unconfirmed = deque(state.unconfirmed)
