"""A causal domain: one member's part in the causal order of a set of processes, kept with a matrix clock.

Not a protocol but what `CausalUnicast` and `GroupLeaders` are made of: it knows nothing of messages and effects. An
*item* (anything) departs with a stamp to some members and arrives elsewhere with it.

Guarantees, for items that depart and arrive through the domains of one view:
  D1  Causal order: if depart(x) → depart(y) and both go to p, then p gets x before y. → is made of departures and
      gettings in this domain and of the order of events in each process.
  D2  No duplication: a repetition is recognised.
  D3  Liveness: when all that departed has arrived, nothing waits.

Assumes a fixed view and that nothing is lost for ever. Source: Garg, chapter 12, figure 12.2 with the multicast of
figure 12.4; see `beforehand.clocks.matrix` for M and for what figure 12.4 gets wrong.

Why it holds. W is x's stamp, M the matrix at p. In p's own column M[j,p] counts exactly what p got from j: it grows
by one at each, and p's condition keeps the rest of W's column from raising it. D1: every hop of a chain from
depart(x) to depart(y) merges matrices, so y's W has at least x's number in the cell of x's sender and p, and p waits
for it. D2: the cell of the sender must be exactly one more than M's. D3: of what departed to p and p has not got,
take one with none of the others in its past: all that its W asks for p has got, so it is got when it arrives.

Waiting: an item is parked on the first (sender, count) that p's column lacks and looked at again when that many of
the sender have been got. Counts of a sender come one by one, so none is jumped over; an item is parked at most n
times. What becomes free at once is taken in the order of (sum of W, sender, number), so the state alone decides.

Room: at most `pending_max` of each sender wait. A full room cannot block: the one of D3 never enters it, nor does an
earlier one from the same sender stand before it on a link that keeps its order.

Cost: O(n²) in time and numbers per item.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final, Generic, TypeAlias, TypeVar

from beforehand.clocks.matrix import MatrixClock, MatrixStamp
from beforehand.clocks.view import View
from beforehand.errors import DuplicateMessageError, FutureStampError, InvariantError, RemoteProtocolError
from beforehand.ordering.message import NUMBER_MAX
from beforehand.ordering.parking import Parking

__all__ = ["AHEAD_MAX", "CausalDomain", "DomainSnapshot", "refuse_malformed"]

AHEAD_MAX: Final = 2**40
"""A count further ahead of ours is forged: it would use up the range of the matrix."""

T = TypeVar("T")
Spot: TypeAlias = "tuple[str, int]"


def refuse_malformed(stamp: object) -> None:
    """Raise ValueError unless `stamp` is a matrix stamp with counts that a matrix can have."""
    if type(stamp) is not MatrixStamp or type(stamp.view) is not View:
        raise ValueError("it carries no matrix")
    counts, size = stamp.counts, len(stamp.view.processes)
    if type(counts) is not tuple or not all(type(n) is int and 0 <= n <= NUMBER_MAX for n in counts):
        raise ValueError("the matrix is not a tuple of counts")
    if any(counts[:: size + 1]):
        raise ValueError("the matrix counts messages of a process to itself")


@dataclass(frozen=True, slots=True)
class DomainSnapshot:
    counts: tuple[int, ...]
    parked: tuple[tuple[MatrixStamp, Any], ...]


class CausalDomain(Generic[T]):
    def __init__(self, process: str, view: View, *, pending_max: int) -> None:
        self.process: Final = process
        self.view: Final = view
        self._pending_max: Final = pending_max
        self._clock = MatrixClock(process, view)
        self._empty_room()

    def __iter__(self) -> Iterator[tuple[MatrixStamp, T]]:
        """What waits, in the order in which it was parked."""
        return iter(self._room)

    def depart(self, to: tuple[str, ...]) -> MatrixStamp:
        """An item departs to each of `to`, none of them this process: the stamp that it must carry."""
        return self._clock.send(*to)

    def stamp(self) -> MatrixStamp:
        """The matrix as it stands."""
        return self._clock.stamp()

    def arrive(self, stamp: MatrixStamp, item: T) -> list[tuple[MatrixStamp, T]] | None:
        """An item arrives: what is got now, in order; None if it is a repetition (D2).

        Raises RemoteProtocolError for a stamp that cannot be, BufferFullError if it would have to wait and there is
        no room.
        """
        self._refuse_impossible(stamp)
        try:
            missing = self._clock.missing(stamp)
        except DuplicateMessageError:
            return None
        if self._number(stamp) in self._here:
            return None
        if not missing:
            return self._get_all(stamp, item)
        self._room.refuse_if_full(stamp.sender)
        self._park(missing[0], stamp, item)
        return []

    def waiting(self) -> list[tuple[T, Spot]]:
        """Each item that waits, with the (sender, count) that it is parked on."""
        return [(item, spot) for spot, (_, item) in self._room.spots()]

    def missing(self) -> list[Spot]:
        """The (sender, count) that are not here: of each sender only the first, later ones may be waiting for it."""
        has = self._clock.stamp()
        first = {(sender, has.sent(sender, self.process) + 1) for (sender, _), _ in self._room.spots()}
        return sorted(first - self._here)

    def snapshot(self) -> DomainSnapshot:
        parked = sorted(self._room, key=lambda entry: self._number(entry[0]))
        return DomainSnapshot(self._clock.stamp().counts, tuple(parked))

    def restore(self, snapshot: DomainSnapshot) -> None:
        start = MatrixStamp(self.view, self.process, snapshot.counts)
        self._clock = MatrixClock(self.process, self.view, start=start)
        self._empty_room()
        for stamp, item in snapshot.parked:
            self._park(self._clock.missing(stamp)[0], stamp, item)

    def check_invariants(self) -> None:
        numbers = {self._number(stamp) for stamp, _ in self._room}
        if numbers != self._here or len(numbers) != len(self._room):
            raise InvariantError("D2: what waits is not what is known to wait")
        for spot, (stamp, _) in self._room.spots():
            if spot not in self._clock.missing(stamp):
                raise InvariantError(f"D3: an item of {stamp.sender!r} waits for {spot}, which it does not miss")

    def _refuse_impossible(self, stamp: MatrixStamp) -> None:
        if stamp.view == self.view and stamp.sender != self.process:
            if not stamp.sent(stamp.sender, self.process):
                raise RemoteProtocolError(f"an item of {stamp.sender!r} does not count itself")
            ahead = max(map(int.__sub__, stamp.counts, self._clock.stamp().counts))
            if ahead > AHEAD_MAX:
                raise FutureStampError(ahead=ahead, limit=AHEAD_MAX, unit="messages")

    def _get_all(self, stamp: MatrixStamp, item: T) -> list[tuple[MatrixStamp, T]]:
        """Get the item and everything that it sets free."""
        got: list[tuple[MatrixStamp, T]] = []
        free = [(sum(stamp.counts), self._number(stamp), stamp, item)]
        while free:
            _, number, stamp, item = heappop(free)  # The number tells any two apart.
            self._here.discard(number)
            self._clock.deliver(stamp)
            got.append((stamp, item))
            for woken, other in self._room.wake(number):
                missing = self._clock.missing(woken)
                if missing:
                    self._room.park(missing[0], (woken, other))
                else:
                    heappush(free, (sum(woken.counts), self._number(woken), woken, other))
        return got

    def _number(self, stamp: MatrixStamp) -> Spot:
        """Which item this is: its sender and its number among those from there to us."""
        return (stamp.sender, stamp.sent(stamp.sender, self.process))

    def _park(self, spot: Spot, stamp: MatrixStamp, item: T) -> None:
        self._here.add(self._number(stamp))
        self._room.park(spot, (stamp, item))

    def _empty_room(self) -> None:
        self._room = Parking[Spot, tuple[MatrixStamp, T]](
            sender_of=lambda entry: entry[0].sender, limit=self._pending_max
        )
        self._here: set[Spot] = set()  # The numbers of those in the room.
