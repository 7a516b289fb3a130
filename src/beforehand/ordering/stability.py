"""Which messages everybody has: what a membership keeps until it is sure.

Each destination tells a sender what it has delivered; the sender tells everybody up to which of its numbers all is
delivered everywhere. Until a member has heard that, it keeps the message: whoever lacks it when a member is evicted
gets it from there. One number per sender is enough, and nothing is kept twice: at a flush the largest number that
anyone has heard counts for all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from beforehand.clocks.sequence import SequenceSet
from beforehand.errors import InvariantError, RemoteProtocolError
from beforehand.ordering.effects import Place
from beforehand.ordering.message import Message
from beforehand.ordering.protocol import Held

__all__ = ["Stability", "StabilitySnapshot"]

Kept: TypeAlias = "tuple[Message, Place | None, bool, Place | None]"
"""A message, its place, whether it is delivered here, and the last place delivered before we sent it."""


@dataclass(frozen=True, slots=True)
class StabilitySnapshot:
    number: int
    kept: tuple[Kept, ...]
    unconfirmed: tuple[tuple[int, tuple[str, ...]], ...]
    confirmed: tuple[int, tuple[int, ...]]
    stable: tuple[tuple[str, int], ...]
    owed: tuple[tuple[str, tuple[int, ...]], ...]
    announced: int
    reached: Place | None


class Stability:
    """Of one process in one view."""

    def __init__(self, process: str, number: int = 0) -> None:
        self._process = process
        self.number = number  # Of our last message.
        self._kept: dict[
            str, dict[int, Kept]
        ] = {}  # Per sender: sent or delivered (the flag) here, not known to be stable.
        self._unconfirmed: dict[int, set[str]] = {}  # Our messages, and who has not told us that it delivered them.
        self._confirmed = SequenceSet(number)  # Our messages that everybody has.
        self._stable: dict[str, int] = {process: number}  # Per sender, up to where all is delivered everywhere.
        self._owed: dict[str, list[int]] = {}  # Per sender, what we delivered and have not told it.
        self._announced = number  # The last number that we told everybody.
        self.reached: Place | None = None  # The largest place delivered here.

    def sent(self, message: Message, place: Place | None) -> None:
        self.number = max(self.number, message.number)
        self._unconfirmed[message.number] = set(message.to)  # Also ourselves: our own may have to wait here.
        self._keep(message, place, delivered=False, after=self.reached)

    def delivered(self, message: Message, place: Place) -> None:
        self.reached = place if self.reached is None else max(self.reached, place)
        if message.number > self._stable.get(message.sender, 0):
            self._keep(message, place, delivered=True, after=None)
        if message.sender == self._process:
            self._has(self._process, message.number)
        else:
            self._owed.setdefault(message.sender, []).append(message.number)

    def set_aside(self, message: Message) -> None:
        """This process will not deliver the message: for it the message is done with."""
        if message.number > self._stable.get(message.sender, 0):
            self._keep(message, None, delivered=True, after=None)
        if message.sender == self._process:
            self._has(self._process, message.number)
        else:
            self._owed.setdefault(message.sender, []).append(message.number)

    def has_delivered(self, message: Message) -> bool:
        """Whether this process has delivered the message in this view."""
        if message.number <= self._stable.get(message.sender, 0):
            return True
        kept = self._kept.get(message.sender, {}).get(message.number)
        return kept is not None and kept[2]

    def acknowledged(self, sender: str, numbers: tuple[int, ...]) -> None:
        """`sender` has delivered these of our messages."""
        if any(number > self.number for number in numbers):
            raise RemoteProtocolError(f"{sender!r} acknowledges messages that were never sent")
        for number in numbers:
            self._has(sender, number)

    def is_stable(self, sender: str, number: int) -> None:
        """Everybody has the messages of `sender` up to `number`."""
        if number > self._stable.get(sender, 0):
            self._stable[sender] = number
            kept = self._kept.get(sender, {})
            for old in [n for n in kept if n <= number]:
                del kept[old]

    def known(self) -> dict[str, int]:
        return dict(self._stable)

    @property
    def has_news(self) -> bool:
        """Whether there is something that others should be told."""
        return bool(self._owed) or self._confirmed.mark > self._announced

    def take_news(self) -> tuple[list[tuple[str, tuple[int, ...]]], int | None]:
        """What each sender is to be told that we delivered, and the number to tell everybody, if it has grown."""
        owed = [(sender, tuple(numbers)) for sender, numbers in sorted(self._owed.items())]
        self._owed.clear()
        if self._confirmed.mark <= self._announced:
            return owed, None
        self._announced = self._confirmed.mark
        return owed, self._announced

    def owes(self, senders: Collection[str]) -> bool:
        """Whether one of these is to be told that we delivered something of it."""
        return not self._owed.keys().isdisjoint(senders)

    def take_owed(self, senders: Collection[str]) -> list[tuple[str, tuple[int, ...]]]:
        """What each of these is to be told that we delivered."""
        return [(sender, tuple(self._owed.pop(sender))) for sender in sorted(senders) if sender in self._owed]

    def lacking(self, number: int) -> tuple[str, ...]:
        """Who has not told us that it delivered this message of ours."""
        return tuple(sorted(self._unconfirmed.get(number, ())))

    def held(self) -> list[Held]:
        """All that is kept, for a flush. What is delivered has its place for good; so has what was sent with one."""
        return [
            Held(message=message, place=place, after=after)
            for _, kept in sorted(self._kept.items())
            for _, (message, place, done, after) in sorted(kept.items())
            if place is not None or not done  # What was set aside here has no place here.
        ]

    def snapshot(self) -> StabilitySnapshot:
        return StabilitySnapshot(
            self.number,
            tuple(entry for _, kept in sorted(self._kept.items()) for _, entry in sorted(kept.items())),
            tuple((number, tuple(sorted(lack))) for number, lack in sorted(self._unconfirmed.items())),
            (self._confirmed.mark, self._confirmed.above),
            tuple(sorted(self._stable.items())),
            tuple((sender, tuple(numbers)) for sender, numbers in sorted(self._owed.items())),
            self._announced,
            self.reached,
        )

    def restore(self, snapshot: StabilitySnapshot) -> None:
        self.number = snapshot.number
        self._kept = {}
        for entry in snapshot.kept:
            self._kept.setdefault(entry[0].sender, {})[entry[0].number] = entry
        self._unconfirmed = {number: set(lack) for number, lack in snapshot.unconfirmed}
        self._confirmed = SequenceSet(*snapshot.confirmed)
        self._stable = dict(snapshot.stable)
        self._owed = {sender: list(numbers) for sender, numbers in snapshot.owed}
        self._announced = snapshot.announced
        self.reached = snapshot.reached

    def check_invariants(self) -> None:
        for sender, kept in self._kept.items():
            if any(number <= self._stable.get(sender, 0) for number in kept):
                raise InvariantError(f"a message of {sender!r} is stable and still kept")
        for number, lack in self._unconfirmed.items():
            if not lack or number in self._confirmed:
                raise InvariantError(f"message {number} is confirmed by all and still waited for")

    def _keep(self, message: Message, place: Place | None, *, delivered: bool, after: Place | None) -> None:
        self._kept.setdefault(message.sender, {})[message.number] = (message, place, delivered, after)

    def _has(self, process: str, number: int) -> None:
        """`process` has delivered message `number` of ours."""
        lack = self._unconfirmed.get(number)
        if lack is None:
            return
        lack.discard(process)
        if not lack:
            del self._unconfirmed[number]
            self._confirmed.add(number)
            self.is_stable(self._process, self._confirmed.mark)
