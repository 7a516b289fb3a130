"""Packets on their way: each a number, and all that are under way at one moment a number too.

A flight is a sorted multiset where the network reorders, else the queues of all links one after the other.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar

from beforehand.ordering import Frame
from beforehand.sim.explorer.oracle import Happening

__all__ = ["NOTHING", "Flights", "OrderedFlights", "Post", "Table"]

NOTHING: Final = -1
"""No packet."""

T = TypeVar("T", bound=Hashable)


class Table(Generic[T]):
    """Numbers for values, in the order in which they come up; the first one is given."""

    def __init__(self, first: T) -> None:
        self._numbers: Final[dict[T, int]] = {first: 0}
        self.values: Final[list[T]] = [first]

    def number(self, value: T) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


class Post:
    """Gives each packet with its sender and receiver a number, and so each list of packets and of happenings."""

    def __init__(self) -> None:
        self.outs: Final = Table[tuple[int, ...]](())
        self.happenings: Final = Table[tuple[Happening, ...]](())
        self._numbers: Final[dict[tuple[int, int, Any], int]] = {}
        self.packets: Final[list[Any]] = []
        self.senders: Final[list[int]] = []
        self.receivers: Final[list[int]] = []
        self.acknowledgements: Final[list[bool]] = []  # Whether it is a frame that carries nothing else.

    def number(self, sender: int, to: int, packet: Any) -> int:
        key = (sender, to, packet)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.packets)
            self.packets.append(packet)
            self.senders.append(sender)
            self.receivers.append(to)
            self.acknowledgements.append(isinstance(packet, Frame) and not packet.number and packet.packet is None)
        return found


class Flights:
    """What is under way, as a number; 0: nothing. Any packet may come next.

    `known` is for the search, which looks there before it asks `after`: by flight, what follows when a packet is
    taken (NOTHING: none) and a list of packets, by its number in `outs`, is sent.
    """

    def __init__(self, outs: Table[tuple[int, ...]]) -> None:
        self._outs: Final = outs
        self._numbers: Final[dict[tuple[int, ...], int]] = {}
        self._flights: Final[list[tuple[int, ...]]] = []
        self.arriving: Final[list[tuple[int, ...]]] = []  # By flight: the packets that may come next, each once.
        self.known: Final[list[dict[tuple[int, int], int]]] = []
        self._enter(())

    def after(self, flight: int, taken: int, out: int) -> int:
        """One packet is taken out, or none, and others are sent."""
        key = (taken, out)
        found = self.known[flight].get(key)
        if found is None:
            found = self.known[flight][key] = self._enter(self._changed(self._flights[flight], taken, out))
        return found

    def content(self, flight: int) -> tuple[int, ...]:
        """The packets that are under way."""
        return self._flights[flight]

    def _changed(self, flight: tuple[int, ...], taken: int, out: int) -> tuple[int, ...]:
        bag = [*flight, *self._outs.values[out]]
        if taken != NOTHING:
            bag.remove(taken)
        return tuple(sorted(bag))

    def _next(self, flight: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(flight)))

    def _enter(self, flight: tuple[int, ...]) -> int:
        found = self._numbers.get(flight)
        if found is None:
            found = self._numbers[flight] = len(self._flights)
            self._flights.append(flight)
            self.arriving.append(self._next(flight))
            self.known.append({})
        return found


class OrderedFlights(Flights):
    """The same when the network keeps the order of each link: the oldest packet of each may come next."""

    def __init__(self, outs: Table[tuple[int, ...]], post: Post) -> None:
        self._post: Final = post
        super().__init__(outs)

    def _changed(self, flight: tuple[int, ...], taken: int, out: int) -> tuple[int, ...]:
        queue = [*flight, *self._outs.values[out]]
        if taken != NOTHING:
            queue.remove(taken)  # The oldest of its kind, which is the oldest of its link.
        return tuple(sorted(queue, key=self._link))  # Stable: within a link the order stays.

    def _next(self, flight: tuple[int, ...]) -> tuple[int, ...]:
        return tuple({self._link(packet): packet for packet in reversed(flight)}.values())

    def _link(self, packet: int) -> tuple[int, int]:
        return (self._post.senders[packet], self._post.receivers[packet])
