"""What is let in: reads what came with a message, and applies the policies for what is missing or wrong.

Guarantees:
  1. Whatever the headers hold, reading them raises nothing: a bad stamp is counted and then as good as none. Only a
     request that builds on a base which is not known here is refused, so that it is sent again with a full stamp.
  2. A stamp that claims events which this process or one of its lanes has not made is refused whole, and so is one
     that names a process which `known` denies.
  3. A message that comes a second time is not received twice, as long as it is among the last (see `remembered`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from beforehand.clocks import OrderingClock, OrderingStamp, VectorStamp, View
from beforehand.errors import (
    BeforehandError,
    BufferFullError,
    DeliveryTimeoutError,
    DuplicateMessageError,
    ImpossibleStampError,
    NonParticipantError,
    RemoteProtocolError,
    StampDecodeError,
    StampTooLargeError,
    UnknownBaseError,
)
from beforehand.rpc.headers import Carried, read
from beforehand.rpc.lane import Lane
from beforehand.rpc.policies import Counter, Late, Policies, Unstamped
from beforehand.rpc.remembered import Remembered

__all__ = ["Admission", "Outcome"]

_WARNED_MAX: Final = 1000

_log: Final = logging.getLogger("beforehand.rpc")


@dataclass(slots=True)
class Outcome:
    """What became of a message that had to be received in order."""

    lost: list[OrderingStamp] = field(default_factory=list)
    late: bool = False
    refused: bool = False  # Its stamp was no use.

    @property
    def delivered(self) -> bool:
        return not (self.late or self.refused)


class Admission:
    def __init__(
        self,
        policies: Policies,
        counter: Counter,
        lanes: Mapping[str, Lane],
        *,
        remembered: Remembered,
        known: Callable[[str], bool] | None,
        view: View | None,
        ordering: OrderingClock | None = None,
    ) -> None:
        self._policies: Final = policies
        self._counter: Final = counter
        self._lanes: Final = lanes  # All that count here: what a stamp may not run ahead of.
        self._remembered: Final = remembered
        self._known: Final = known
        self._view: Final = view
        self._ordering: Final = ordering
        self._lock: Final = Lock()
        self._warned: set[str] = set()  # Peers that were warned of; at most _WARNED_MAX.

    def read(
        self, headers: Mapping[str, str], limit: int, own: Callable[[], tuple[bytes, int]], *, is_reply: bool
    ) -> Carried:
        """`own` tells our life and its events so far. A request whose base is not known raises: it can come again."""
        try:
            carried = read(headers, limit=limit, view=self._view)
            if carried.bases is not None:
                _refuse_base(carried.bases, *own())
                if carried.ordered is not None and self._ordering is not None:
                    stamp_here = carried.ordered.stamp(self._ordering.process, self._ordering.known)
                    carried = carried._replace(stamp=stamp_here)
            for stamp in (carried.stamp, *carried.voids) if carried.voids else (carried.stamp,):
                if stamp is not None:
                    self._refuse(stamp.time if isinstance(stamp, OrderingStamp) else stamp)
        except (RemoteProtocolError, StampTooLargeError) as error:
            if isinstance(error, UnknownBaseError):
                self._counter.add("bases_unknown")
                if not is_reply:
                    raise
            self.count_refused(error)
            return Carried()
        return carried

    def count_refused(self, error: BeforehandError) -> None:
        self._counter.add("stamps_refused")
        _log.debug("a stamp was refused: %s", error)

    def receive(self, lane: Lane, name: str, carried: Carried, peer: str) -> bool:
        """Whether a stamp was taken over."""
        stamp = carried.stamp.time if isinstance(carried.stamp, OrderingStamp) else carried.stamp
        if stamp is None:
            self.admit_unstamped(carried.sender or peer)
        message, sender = carried.message, carried.sender
        attributes = {"peer": peer} if peer and sender is None else None
        is_new = sender is not None and self._remembered.note(sender, carried.event)
        if message is not None and not is_new:
            self._counter.add("received_again")
            attributes = {"message.repeated": message}
            message = None
        if stamp is None:
            lane.receive_unstamped(name, message, attributes)
            return False
        error = lane.receive(name, message, stamp, attributes)
        if error is not None:
            self.count_refused(error)
            return False
        if is_new and sender is not None:
            self._remembered.close(sender, carried.event)
        self._counter.add("received")
        return True

    def admit_unstamped(self, peer: str) -> None:
        """A message without a stamp, from a peer as far as it is known: count it, warn, or refuse the call."""
        self._counter.add("received_unstamped")
        match self._policies.unstamped:
            case Unstamped.REFUSE:
                self._counter.add("calls_refused")
                raise NonParticipantError(peer=peer or "a peer")
            case Unstamped.WARN:
                with self._lock:
                    is_new = peer not in self._warned and len(self._warned) < _WARNED_MAX
                    if is_new:
                        self._warned.add(peer)
                if is_new:
                    _log.warning("%r carries no stamp that can be used: what it causes is not seen", peer or "a peer")
            case Unstamped.ACCEPT:
                pass

    @contextmanager
    def ordered(self, name: str) -> Iterator[Outcome]:
        """Around the receiving of a message in causal order: what its errors mean."""
        outcome = Outcome()
        try:
            yield outcome
        except DeliveryTimeoutError as error:
            self._counter.add("late")
            _log.warning("%s: %s (waited %g s)", name, error, self._policies.deadline)
            if self._policies.late is Late.REFUSE:
                self._counter.add("calls_refused")
                raise
            outcome.late = True
        except (DuplicateMessageError, BufferFullError):
            self._counter.add("calls_refused")
            raise
        except RemoteProtocolError as error:
            self.count_refused(error)
            outcome.refused = True

    def _refuse(self, stamp: VectorStamp) -> None:
        for process, lane in self._lanes.items():
            if claimed := stamp[process]:
                made = lane.count
                if claimed > made:
                    raise ImpossibleStampError(process=process, claimed=claimed, made=made)
        if self._known is not None:
            for process in stamp:
                if not self._known(process):
                    raise StampDecodeError(f"it names {process!r}, which is not known here")


def _refuse_base(bases: Mapping[bytes, int], life: bytes, count: int) -> None:
    base = bases.get(life)
    if base is None or base > count:
        raise UnknownBaseError(base=max(bases.values()), have=None if base is None else count)
