"""Notices: what members tell each other of what they have, gathered over an interval."""

from __future__ import annotations

from typing import Final

from beforehand.clocks.view import View
from beforehand.ordering.effects import Effects
from beforehand.ordering.flush import Acknowledged, Stable
from beforehand.ordering.stability import Stability

__all__ = ["Notices"]


class Notices:
    """Of one process."""

    def __init__(self, interval: int) -> None:
        self._interval: Final = interval
        self.at: int | None = None  # When to tell others what we have.

    def expect(self, stability: Stability, now: int) -> None:
        """Something may have happened that others should be told."""
        if self.at is None and stability.has_news:
            self.at = now + self._interval

    def take(self, stability: Stability, sender: str, packet: Acknowledged | Stable, call: Effects, now: int) -> None:
        """Of the view that we are in."""
        if isinstance(packet, Acknowledged):
            stability.acknowledged(sender, packet.numbers)
        else:
            stability.is_stable(sender, packet.number)
        self.expect(stability, now)
        call.changed = True

    def give(self, stability: Stability, process: str, view: View, call: Effects) -> None:
        """Tell all that there is to be told."""
        owed, stable = stability.take_news()
        for sender, numbers in owed:
            call.transmit((sender,), Acknowledged(view=view.number, numbers=numbers))
        if stable is not None:
            others = tuple(p for p in view.processes if p != process)
            call.transmit(others, Stable(view=view.number, number=stable))
