"""The shop of the demo: what an order promises decides whether a checkout can fail."""

from __future__ import annotations

import pytest

from beforehand.cli.demo import demo
from beforehand.cli.shop import ORDERS, PROCESSES, shop_run
from beforehand.events import Event
from beforehand.history import History
from beforehand.ordering import PROTOCOLS

SEEDS = range(50)


def failures(events: list[Event]) -> list[str]:
    return [str(event.id) for event in events if event.attributes.get("level") == "error"]


@pytest.mark.parametrize("order", ["unordered", "fifo"])
@pytest.mark.parametrize("seed", SEEDS)
def test_where_the_order_is_not_causal_every_day_breaks_it_once_and_a_checkout_fails(order: str, seed: int) -> None:
    events = shop_run(seed=seed, order=order)
    history = History(events)
    assert history.rejections == ()
    assert dict(history.check().counts) == {"fifo": 0, "causal": 1, "total": 0, "clock": 0}
    (failure,) = failures(events)
    assert {event.process for event in history.explain(failure).events} == set(PROCESSES) == set(history.processes)
    assert history.happened_before("stock:17", failure)
    assert history.happened_before(failure, "orders:18"), "the reservation is noted when it is too late"
    by_time = sorted(events, key=lambda event: event.time or 0)
    assert not history.judge_run(by_time).is_consistent, "sorted by time, the log tells nonsense"


@pytest.mark.parametrize("order", ["causal", "total"])
@pytest.mark.parametrize("seed", SEEDS)
def test_where_the_order_is_causal_no_checkout_can_fail(order: str, seed: int) -> None:
    assert PROTOCOLS[ORDERS[order]].traits.causal
    events = shop_run(seed=seed, order=order)
    history = History(events)
    assert history.rejections == ()
    assert dict(history.check().counts) == {"fifo": 0, "causal": 0, "total": 0, "clock": 0}
    assert failures(events) == []
    assert sum(event.name.endswith(" placed") for event in events) == 6


def test_in_causal_order_the_checkout_waits_for_the_reservation_that_is_late() -> None:
    """So the line was clogged all the same: it is the protocol that saves the checkout."""
    names = [event.name for event in shop_run(seed=1, order="causal") if event.process == "orders"]
    assert names[-3:] == ["reservation noted", "checkout arrives", "order 6 placed"]
    noted, arrives = (
        next(e for e in shop_run(seed=1, order="causal") if e.process == "orders" and e.index == index)
        for index in (16, 17)
    )
    assert noted.time == arrives.time, "it was there already and was delivered as soon as it could be"


@pytest.mark.parametrize("order", list(ORDERS))
def test_one_seed_decides_everything(order: str) -> None:
    assert shop_run(seed=7, order=order) == shop_run(seed=7, order=order)
    days = [shop_run(seed=seed, order=order) for seed in range(10)]
    sent, received = ([day[at].time for day in days] for at in (0, 1))
    assert len(set(sent)) == 1, "the first customer always comes at the same time"
    assert len(set(received)) == 10, "how long the network takes is another matter"
    worked = [day[2].time - day[1].time for day in days]
    assert len(set(worked)) == 10, "and so is how long the work takes"


@pytest.mark.parametrize("customers", [1, 3, 40])
def test_only_the_last_of_any_number_of_customers_is_unlucky(customers: int) -> None:
    events = shop_run(seed=1, customers=customers)
    assert len(events) == 18 * customers
    assert failures(events) == [f"orders:{3 * customers - 1}"]
    assert dict(History(events).check().counts) == {"fifo": 0, "causal": 1, "total": 0, "clock": 0}


def test_the_demo_offers_the_orders_of_the_shop() -> None:
    (choice,) = [parameter.type for parameter in demo.params if parameter.name == "order"]
    assert list(choice.choices) == list(ORDERS)
