"""Notices: what members tell each other of what they have, gathered over an interval.

A sender that waits until its messages are stable says so once (`Awaited`). From then on it is told at once what is
delivered of its messages, and while there is much of that, once in a hundredth of the interval. So who waits for
nothing pays nothing, and who waits is answered as fast as the network is.
"""

from __future__ import annotations

from typing import Final

from beforehand.clocks.view import View
from beforehand.ordering.effects import Effects
from beforehand.ordering.flush import Acknowledged, Awaited, Stable
from beforehand.ordering.stability import Stability

__all__ = ["Notice", "Notices"]

Notice = Acknowledged | Awaited | Stable


class Notices:
    """Of one process."""

    def __init__(self, process: str, interval: int) -> None:
        self._process: Final = process
        self._interval: Final = interval
        self._between: Final = max(1, interval // 100)  # At least so long between two that are given at once.
        self._at: int | None = None  # When to tell others what we have.
        self._soon: int | None = None  # When to tell those who wait for it; None: nothing is owed to them.
        self._last: int | None = None  # When we last told them.
        self.waiting: set[str] = set()  # Who waits to hear what we delivered; we, if we do. At most all members ever.

    @property
    def due(self) -> int | None:
        """When `tick` is to be called."""
        return min((at for at in (self._at, self._soon) if at is not None), default=None)

    def hasten(self, view: View, call: Effects) -> None:
        """We wait: the others are to tell us at once."""
        if self._process not in self.waiting:
            self.waiting.add(self._process)
            self.ask(tuple(p for p in view.processes if p != self._process), call)

    def ask(self, others: tuple[str, ...], call: Effects) -> None:
        """If we wait, these have not been told so."""
        if self._process in self.waiting:
            call.transmit(others, Awaited())

    def expect(self, stability: Stability, view: View, call: Effects, now: int) -> None:
        """Something may have happened that others should be told."""
        if self.waiting and self._soon is None and stability.owes(self.waiting):
            self._soon = now if self._last is None else max(now, self._last + self._between)
            self._give_soon(stability, view, call, now)
        if self._at is None and stability.has_news:
            self._at = now + self._interval

    def take(self, stability: Stability, sender: str, packet: Notice, view: View, call: Effects, now: int) -> None:
        """What another tells us. What it has is of interest in the view that it is said of."""
        match packet:
            case Awaited():
                self.waiting.add(sender)  # It may be new in a view that we have not come to.
            case _ if packet.view != view.number:
                return
            case Acknowledged():
                stability.acknowledged(sender, packet.numbers)
            case Stable():
                stability.is_stable(sender, packet.number)
        self.expect(stability, view, call, now)
        call.changed = True

    def tick(self, stability: Stability, view: View, call: Effects, now: int, *, flushing: bool) -> None:
        """Tell what it is time to tell; while the view is flushed, that is settled there."""
        if flushing:
            self._soon = None  # Otherwise it stays due, and our driver would tick again and again meanwhile.
        self._give_soon(stability, view, call, now)
        if self._at is None or now >= self._at:
            self._at = self._soon = None
            owed, stable = stability.take_news() if not flushing else ([], None)
            self._acknowledge(owed, view, call)
            if stable is not None:
                others = tuple(p for p in view.processes if p != self._process)
                call.transmit(others, Stable(view=view.number, number=stable))

    def settle_down(self) -> None:
        """A new view: nothing is owed in it."""
        self._at = self._soon = None

    def _give_soon(self, stability: Stability, view: View, call: Effects, now: int) -> None:
        if self._soon is not None and now >= self._soon:
            self._soon, self._last = None, now
            self._acknowledge(stability.take_owed(self.waiting), view, call)

    def _acknowledge(self, owed: list[tuple[str, tuple[int, ...]]], view: View, call: Effects) -> None:
        for sender, numbers in owed:
            call.transmit((sender,), Acknowledged(view=view.number, numbers=numbers))
