"""A shop of six processes, and the one checkout that goes wrong.

For every customer the cart reserves an item with the stock, has the payment authorised and sends the checkout to the
orders process. The stock tells the orders process of the reservation on its own, and then confirms it to the cart. So
the reservation was always sent before the checkout; but for one customer its message is slow and arrives after. Every
channel is FIFO; causal order is broken, and the checkout fails.

The clocks of the six disagree by up to a tenth of a second: sorted by time, the log tells nonsense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Final

from beforehand.events import Event

__all__ = ["shop_run"]

MILLISECOND: Final = 1_000_000
OPENING: Final = 1_790_000_000_000 * MILLISECOND  # 2026-09-21T14:13:20Z
CLOCK_OFFSETS_MS: Final = {"web": 0, "cart": 12, "stock": -8, "payment": 55, "orders": -60, "mail": 30}
SLOW_MS: Final = 140

Then = Callable[[int], None]


def shop_run(*, seed: int, customers: int = 6) -> list[Event]:
    """The events of a day at the shop, in the order in which they happened. The last customer is the unlucky one."""
    shop = _Shop(Random(seed))  # noqa: S311 - The same seed must give the same day.
    for customer in range(1, customers + 1):
        shop.later(100 * customer, partial(shop.visit, customer=customer, unlucky=customer == customers))
    return shop.run()


@dataclass
class _Shop:
    random: Random
    events: list[Event] = field(default_factory=list)
    agenda: list[tuple[int, int, Then]] = field(default_factory=list)  # (time, number, what happens then)
    planned: int = 0
    counts: dict[str, int] = field(default_factory=dict)  # Events so far, per process.
    reserved: set[int] = field(default_factory=set)  # What the orders process knows of.

    def run(self) -> list[Event]:
        while self.agenda:
            now, _, then = heappop(self.agenda)
            then(now)
        return self.events

    def later(self, time: int, then: Then) -> None:
        self.planned += 1
        heappush(self.agenda, (time, self.planned, then))

    def happen(
        self, now: int, process: str, name: str, *, receives: str = "", sends: str = "", **attributes: str
    ) -> None:
        self.counts[process] = self.counts.get(process, 0) + 1
        clock = OPENING + (now + CLOCK_OFFSETS_MS[process]) * MILLISECOND + self.random.randrange(MILLISECOND)
        self.events.append(
            Event(
                process=process,
                index=self.counts[process],
                name=name,
                sends=(sends,) if sends else (),
                receives=(receives,) if receives else (),
                time=clock,
                attributes=attributes,
            )
        )

    def delay(self) -> int:
        return self.random.randint(3, 9)

    def visit(self, now: int, customer: int, *, unlucky: bool) -> None:
        self.happen(now, "mail", f"voucher {customer} mailed", sends=f"voucher-{customer}")
        self.later(now + self.delay(), lambda t: self.basket(t, customer, unlucky=unlucky))

    def basket(self, now: int, customer: int, *, unlucky: bool) -> None:
        self.happen(now, "web", f"customer {customer} comes", receives=f"voucher-{customer}")
        self.happen(now + 1, "web", "item chosen", sends=f"add-{customer}")
        self.later(now + 1 + self.delay(), lambda t: self.reserve(t, customer, unlucky=unlucky))

    def reserve(self, now: int, customer: int, *, unlucky: bool) -> None:
        self.happen(now, "cart", "item added", receives=f"add-{customer}")
        self.happen(now + 1, "cart", "reserve item", sends=f"reserve-{customer}")
        self.later(now + 1 + self.delay(), lambda t: self.stock(t, customer, unlucky=unlucky))

    def stock(self, now: int, customer: int, *, unlucky: bool) -> None:
        self.happen(now, "stock", "reservation asked", receives=f"reserve-{customer}")
        self.happen(now + 1, "stock", "tell orders", sends=f"reservation-{customer}", resource=f"item-{customer}")
        self.happen(now + 2, "stock", "confirm to cart", sends=f"confirmed-{customer}")
        slow = SLOW_MS if unlucky else 1
        self.later(now + 1 + slow, lambda t: self.note_reservation(t, customer))
        self.later(now + 2 + self.delay(), lambda t: self.pay(t, customer))

    def note_reservation(self, now: int, customer: int) -> None:
        self.reserved.add(customer)
        self.happen(now, "orders", "reservation noted", receives=f"reservation-{customer}")

    def pay(self, now: int, customer: int) -> None:
        self.happen(now, "cart", "item is reserved", receives=f"confirmed-{customer}")
        self.happen(now + 1, "cart", "ask for payment", sends=f"pay-{customer}")
        self.later(now + 1 + self.delay(), lambda t: self.authorise(t, customer))

    def authorise(self, now: int, customer: int) -> None:
        self.happen(now, "payment", "card checked", receives=f"pay-{customer}")
        self.happen(now + 2, "payment", "card authorised", sends=f"paid-{customer}")
        self.later(now + 2 + self.delay(), lambda t: self.check_out(t, customer))

    def check_out(self, now: int, customer: int) -> None:
        self.happen(now, "cart", "payment is fine", receives=f"paid-{customer}")
        self.happen(now + 1, "cart", "check out", sends=f"checkout-{customer}")
        self.later(now + 1 + self.delay(), lambda t: self.order(t, customer))

    def order(self, now: int, customer: int) -> None:
        self.happen(now, "orders", "checkout arrives", receives=f"checkout-{customer}")
        if customer in self.reserved:
            self.happen(now + 1, "orders", f"order {customer} placed", sends=f"placed-{customer}")
            self.later(now + 1 + self.delay(), lambda t: self.thank(t, customer))
        else:
            reason = "nothing is reserved"
            self.happen(
                now + 1, "orders", "checkout failed", sends=f"failed-{customer}", level="error", reason=reason
            )
            self.later(now + 1 + self.delay(), lambda t: self.apologise(t, customer))

    def thank(self, now: int, customer: int) -> None:
        self.happen(now, "mail", f"receipt {customer} mailed", receives=f"placed-{customer}")

    def apologise(self, now: int, customer: int) -> None:
        self.happen(now, "web", f"customer {customer} sees an error", receives=f"failed-{customer}")
