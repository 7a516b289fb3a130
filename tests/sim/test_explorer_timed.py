"""Timed delivery, explored: every sending, delay, clock and order within an instant; and wrong ones are found."""

from __future__ import annotations

import pytest

from beforehand.clocks import View
from beforehand.ordering import TimedDelivery
from beforehand.ordering.effects import Deliver, Effect
from beforehand.sim.explorer.timed import Timing, explore_timed, timed_runs


@pytest.mark.parametrize(
    ("timing", "subsets"), [(Timing(2, 0), False), (Timing(1, 1), False), (Timing(1, 0), True), (Timing(3, 0), False)]
)
def test_two_messages_are_delivered_in_one_causal_order_in_time(timing: Timing, subsets: bool) -> None:
    count, wrong = explore_timed(timed_runs(2, timing, subsets=subsets), timing)
    assert wrong == []
    assert count > 1_000


def test_orders_within_an_instant_are_all_tried() -> None:
    timing = Timing(1, 0)
    (run,) = [
        run
        for run in timed_runs(2, timing, subsets=False)
        if run.sends == (("a", 0, ("a", "b", "c")), ("b", 0, ("a", "b", "c")))
    ]
    count, _ = explore_timed([run], timing)
    assert count == 2 * 1, "both arrive at c at once; nothing else is due in the same instant at one process"


def shorter(name: str, view: View) -> TimedDelivery:
    return TimedDelivery(name, view, delay_max=1)


class Hasty(TimedDelivery):
    """Delivers at the bound, not past it."""

    def _deliver_due(self, effects: object) -> None:
        self._wait -= 1  # type: ignore[misc]
        super()._deliver_due(effects)  # type: ignore[arg-type]
        self._wait += 1  # type: ignore[misc]


class Repeating(TimedDelivery):
    """Delivers its own messages twice."""

    def tick(self, *, now: int) -> list[Effect]:
        effects = super().tick(now=now)
        return effects + [e for e in effects if isinstance(e, Deliver) and e.message.sender == self.process]


@pytest.mark.parametrize(
    ("timing", "make"),
    [
        (Timing(3, 0), shorter),
        (Timing(1, 1), lambda name, view: TimedDelivery(name, view, delay_max=1)),
        (Timing(2, 0), lambda name, view: Hasty(name, view, delay_max=2)),
        (Timing(1, 0), lambda name, view: Repeating(name, view, delay_max=1)),
        (Timing(2, 0), lambda name, view: TimedDelivery(name, view, delay_max=5)),
    ],
    ids=["waits too short", "clocks not allowed for", "at the bound", "twice", "too late"],
)
def test_what_is_wrong_is_found(timing: Timing, make: object) -> None:
    _, wrong = explore_timed(timed_runs(2, timing, subsets=False), timing, make)  # type: ignore[arg-type]
    assert wrong
