"""One traffic for every clock: what a message from one process to another carries, after much has happened.

The state at the start: each of n processes, with names of 8 characters, has made between 100 and 10,000 events, some
few and some many (the logarithm is uniform), half of them sends, to all others alike; and everybody knows of all of
them but the last ten of each other process. Then come rounds of n messages, each from a random process to a random
other one and received at once; each round ends with a message from the first process to the second, which is the one
that is measured. So between two messages of that pair the group sends n others. The first round is not counted.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final

from beforehand.clocks import (
    BoundedClock,
    Bounds,
    DifferenceEncoder,
    HybridClock,
    LamportClock,
    MatrixClock,
    MatrixStamp,
    OffsetClock,
    OrderingClock,
    OrderingStamp,
    Received,
    VectorClock,
    VectorStamp,
    View,
)

__all__ = ["CLOCKS", "bytes_per_message"]

_UNKNOWN: Final = 10
_TICK_MS: Final = 1_700_000_000_000  # A reading of a clock in milliseconds since 1970.
_BOUNDS: Final = {"epsilon": 10, "delta": 1_000}  # Ticks of 1 ms: clocks within 10, messages within a second.
_LIMIT: Final = 1 << 24


class Stamping(ABC):
    """The clocks of all processes, of one kind. `made`: the events of each so far."""

    def __init__(self, made: dict[str, int]) -> None:
        self.names: Final = list(made)
        self.made: Final = made
        self.known: Final = {name: events - _UNKNOWN for name, events in made.items()}  # To all others.
        self.now = 0  # Ticks: every event takes one.

    @abstractmethod
    def send(self, sender: str, to: str) -> Any:
        """The stamp of a message. Most clocks do not care to whom it goes."""

    @abstractmethod
    def receive(self, process: str, stamp: Any) -> None: ...

    def size(self, stamp: Any) -> int:
        """Bytes on the wire from the first process to the second."""
        return len(stamp.encode(limit=_LIMIT))


def bytes_per_message(
    kind: Callable[[dict[str, int]], Stamping], processes: int, *, seed: int, rounds: int
) -> list[int]:
    """The sizes of the measured messages, one for each of `rounds`."""
    names = [f"proc-{at:03}" for at in range(processes)]
    rng = random.Random(f"stamp-bytes/{seed}/{processes}")
    clocks = kind({name: int(10 ** rng.uniform(2, 4)) for name in names})
    sizes = []
    for _ in range(rounds + 1):
        for sender, to in _pairs(rng, names):
            clocks.receive(to, clocks.send(sender, to))
        stamp = clocks.send(names[0], names[1])
        clocks.receive(names[1], stamp)
        sizes.append(clocks.size(stamp))
    return sizes[1:]


def _pairs(rng: random.Random, names: list[str]) -> Iterator[tuple[str, str]]:
    for _ in names:
        sender, to = rng.sample(names, 2)
        yield sender, to


class _Lamport(Stamping):
    def __init__(self, made: dict[str, int]) -> None:
        super().__init__(made)
        self._clocks = {name: LamportClock(name, start=max(made.values())) for name in made}

    def send(self, sender: str, to: str) -> Any:  # noqa: ARG002
        return self._clocks[sender].tick()

    def receive(self, process: str, stamp: Any) -> None:
        self._clocks[process].receive(stamp)


class _Vector(Stamping):
    def __init__(self, made: dict[str, int]) -> None:
        super().__init__(made)
        self._clocks = {
            name: VectorClock(name, start=VectorStamp({**self.known, name: events})) for name, events in made.items()
        }

    def send(self, sender: str, to: str) -> Any:  # noqa: ARG002
        return self._clocks[sender].tick()

    def receive(self, process: str, stamp: Any) -> None:
        self._clocks[process].receive(stamp)


class _VectorInView(_Vector):
    """The members are agreed on, so their names need not be sent."""

    def size(self, stamp: Any) -> int:
        return len(stamp.encode(view=View(self.names), limit=_LIMIT))


class _VectorDifference(_Vector):
    """Only what changed since the last message of the pair."""

    def __init__(self, made: dict[str, int]) -> None:
        super().__init__(made)
        self._encoder = DifferenceEncoder(epoch=1)

    def size(self, stamp: Any) -> int:
        return len(self._encoder.encode(stamp, limit=_LIMIT))


class _Matrix(Stamping):
    def __init__(self, made: dict[str, int]) -> None:
        super().__init__(made)
        view = View(made)
        each = max(1, len(made) - 1)
        counts = tuple(
            0 if to == sender else self.known[sender] // 2 // each
            for sender in view.processes
            for to in view.processes
        )
        self._clocks = {name: MatrixClock(name, view, start=MatrixStamp(view, name, counts)) for name in made}

    def send(self, sender: str, to: str) -> Any:
        return self._clocks[sender].send(to)

    def receive(self, process: str, stamp: Any) -> None:
        self._clocks[process].deliver(stamp)


class _Ordering(Stamping):
    """It cannot start from a given state: each makes its events, then gets a message with the news of all others."""

    def __init__(self, made: dict[str, int]) -> None:
        super().__init__(made)
        names = self.names
        self._clocks = {name: OrderingClock(name) for name in names}
        for name, clock in self._clocks.items():
            for _ in range(made[name]):
                clock.tick()
        known, events = VectorStamp(self.known), VectorStamp(made)
        for name, clock in self._clocks.items():
            sent = self._clocks[names[1] if name == names[0] else names[0]].send(name)
            # As if all that went to this process before had been delivered: no row for it.
            table = {other: known for other in names if other != name}
            clock.deliver(OrderingStamp(sent.sender, sent.to, events.merged(sent.time), table), timeout=0)

    def send(self, sender: str, to: str) -> Any:
        return self._clocks[sender].send(to)

    def receive(self, process: str, stamp: Any) -> None:
        self._clocks[process].deliver(stamp, timeout=0)


class _Bounded(Stamping):
    def __init__(self, made: dict[str, int]) -> None:
        super().__init__(made)
        self._bounds = Bounds(processes=len(made), **_BOUNDS)
        self._clocks = {name: BoundedClock(name, self._bounds, now=_TICK_MS) for name in made}

    def send(self, sender: str, to: str) -> Any:  # noqa: ARG002
        self.now += 1
        return self._clocks[sender].tick(_TICK_MS + self.now)

    def receive(self, process: str, stamp: Any) -> None:
        self.now += 1
        received = self._clocks[process].receive(stamp, _TICK_MS + self.now)
        assert isinstance(received, Received), received


class _Offset(Stamping):
    def __init__(self, made: dict[str, int]) -> None:
        super().__init__(made)
        self._clocks = {name: OffsetClock(name, epsilon=_BOUNDS["epsilon"], now=_TICK_MS) for name in made}

    def send(self, sender: str, to: str) -> Any:  # noqa: ARG002
        self.now += 1
        return self._clocks[sender].tick(_TICK_MS + self.now)

    def receive(self, process: str, stamp: Any) -> None:
        self.now += 1
        self._clocks[process].receive(stamp, _TICK_MS + self.now)


class _Hybrid(Stamping):
    def __init__(self, made: dict[str, int]) -> None:
        super().__init__(made)
        self._clocks = {name: HybridClock(wall_ns=self._time, steady_ns=self._time) for name in made}

    def _time(self) -> int:
        return (_TICK_MS + self.now) * 1_000_000

    def send(self, sender: str, to: str) -> Any:  # noqa: ARG002
        self.now += 1
        return self._clocks[sender].tick()

    def receive(self, process: str, stamp: Any) -> None:
        self.now += 1
        self._clocks[process].receive(stamp)


CLOCKS: Final[dict[str, Callable[[dict[str, int]], Stamping]]] = {
    "lamport": _Lamport,
    "hybrid": _Hybrid,
    "offset": _Offset,
    "bounded": _Bounded,
    "vector": _Vector,
    "vector in a view": _VectorInView,
    "vector, difference": _VectorDifference,
    "matrix": _Matrix,
    "ordering": _Ordering,
}
