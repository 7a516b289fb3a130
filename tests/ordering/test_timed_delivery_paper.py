"""What the lecture on order says of delivery rule DR1, in our words ("global time", "synchronous systems")."""

from __future__ import annotations

import pytest

from beforehand.clocks import View
from beforehand.ordering import Deliver
from beforehand.ordering.timed_delivery import TimedDelivery, TimedMessage
from ordering.timed_world import TimedWorld


def same_clocks(seed: int, delay) -> TimedWorld:
    return TimedWorld(seed=seed, delay=delay, offsets={"a": 0, "b": 0, "c": 0, "d": 0}, delay_max=10)


def test_a_message_is_delivered_in_the_order_of_time_stamps_not_of_arrival() -> None:
    view = View("abc")
    a, b, c = (TimedDelivery(name, view, delay_max=10) for name in "abc")
    later = next(e.packet for e in b.send(b"", ["c"], now=2) if hasattr(e, "packet"))
    earlier = next(e.packet for e in a.send(b"", ["c"], now=1) if hasattr(e, "packet"))
    assert isinstance(later, TimedMessage)
    c.receive("b", later, now=3)
    c.receive("a", earlier, now=11)
    effects = [*c.tick(now=12), *c.tick(now=13)]
    assert [effect.message.sender for effect in effects if isinstance(effect, Deliver)] == ["a", "b"]


@pytest.mark.parametrize("seed", range(15))
def test_condition_1_with_bounded_delays_nothing_earlier_arrives_after_its_delivery_time(seed: int) -> None:
    world = same_clocks(seed, lambda rng: rng.randrange(11))
    world.run_all(40, within=100)
    world.check_complete()
    assert not world.discarded


@pytest.mark.parametrize("seed", range(15))
def test_condition_2_global_time_keeps_the_clock_condition_so_what_is_observed_is_causal(seed: int) -> None:
    world = same_clocks(seed, lambda rng: rng.randrange(11))
    world.run_all(40, within=100)
    assert world.check().counts["causal"] == 0
    assert world.check().counts["total"] == 0


def test_without_the_bound_on_delays_messages_are_lost() -> None:
    world = same_clocks(3, lambda rng: rng.choice([1, 40]))
    world.run_all(60, within=100)
    assert world.discarded


def test_a_clock_outside_the_uncertainty_makes_its_messages_late() -> None:
    # The disadvantage that the lecture names: global time must be available.
    world = TimedWorld(seed=1, delay=lambda rng: 10, offsets={"a": 0, "b": -15, "c": 0}, delay_max=10, uncertainty=0)
    world.members["b"].receive = lambda *args, **options: []  # It would refuse what comes from its future.
    world.run_all(60, within=100)
    assert {discard.message.sender for discard in world.discarded} == {"b"}
