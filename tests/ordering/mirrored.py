"""What the tests of single protocols share: members that live twice, and wires that look at places.

A member that lives twice: every call is also made on a twin restored from its snapshot, and both must agree.
The twin takes over after each call, so what was restored carries the whole run. At first twins are new, then such as
have rested for a few calls, so that restoring goes over an old state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from beforehand.clocks import View
from beforehand.errors import BeforehandError
from beforehand.events import Event
from beforehand.ordering import Deliver
from ordering.wires import Wires


class Mirrored:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.within = make()
        self.retired: deque[Any] = deque()
        self.traits = self.within.traits

    def send(self, *args: Any, **options: Any) -> Any:
        return self._both("send", args, options)

    def receive(self, *args: Any, **options: Any) -> Any:
        return self._both("receive", args, options)

    def tick(self, **options: Any) -> Any:
        return self._both("tick", (), options)

    def check_invariants(self) -> None:
        self.within.check_invariants()

    def _both(self, call: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        before = self.within.snapshot()
        twin = self.make() if len(self.retired) < 5 else self.retired.popleft()
        twin.restore(before)
        assert twin.snapshot() == before
        assert hash(twin.snapshot()) == hash(before)
        try:
            effects = getattr(self.within, call)(*args, **options)
        except BeforehandError as error:
            assert self.within.snapshot() == before, "a call that raises changes nothing"
            try:
                getattr(twin, call)(*args, **options)
            except type(error):
                raise error from None
            raise AssertionError("the twin did not raise") from error
        assert getattr(twin, call)(*args, **options) == effects
        assert twin.snapshot() == self.within.snapshot()
        self.retired.append(self.within)
        self.within = twin
        return effects


def mirrored(protocol: Callable[..., Any], **options: Any) -> Callable[[str, View], Mirrored]:
    """For `Wires`: members of `protocol` that live twice."""
    return lambda name, view: Mirrored(lambda: protocol(name, view, **options))


class PlacedWires(Wires):
    """Wires that also record the place of every delivery, which must be the same wherever a message is delivered."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.places: dict[str, tuple[int | str, ...]] = {}
        super().__init__(*args, **options)

    def perform(self, name: str, effects: Iterable[object]) -> None:
        effects = list(effects)
        for effect in effects:
            if isinstance(effect, Deliver):
                assert self.places.setdefault(effect.message.id, effect.place) == effect.place
        super().perform(name, effects)

    def check_places(self) -> None:
        """Sorted by their places, the messages extend →: none stands before one of its past."""
        for message, past in pasts(self.events).items():
            for earlier in past:
                assert self.places[earlier] < self.places[message], (earlier, message)


def pasts(events: Iterable[Event]) -> dict[str, set[str]]:
    """Of each message all that was sent before it in the sense of →. The events come in the order of a run."""
    known: dict[str, set[str]] = {}
    past: dict[str, set[str]] = {}
    for event in events:
        mine = known.setdefault(event.process, set())
        for message in event.receives:
            mine |= past[message] | {message}
        for message in event.sends:
            past[message] = set(mine)
            mine.add(message)
    return past
