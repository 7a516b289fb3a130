"""A shop of six processes in the simulator, and the one checkout that goes wrong, or does not.

For every customer the cart reserves an item with the stock, has the payment authorised and sends the checkout to the
orders process. The stock tells the orders process of the reservation on its own, and then confirms it to the cart. So
the reservation was always sent before the checkout. When the last customer comes, the line from stock to orders is
clogged for a while, and the reservation arrives after the checkout.

What becomes of that is the protocol's doing, a real one of `beforehand.ordering` under every process:

  unordered, fifo   the checkout is delivered first: causal order is broken, and the checkout fails
  causal, total     the checkout is delivered after the reservation, whatever arrives first: it cannot fail

One seed decides everything: two runs of the same seed are the same, event for event. The clocks of the six disagree
by up to a tenth of a second: sorted by time, the log tells nonsense.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple

from beforehand.events import Event
from beforehand.ordering import PROTOCOLS, Channels
from beforehand.sim.experiments.told_runs import ran
from beforehand.sim.local_clock import EPOCH
from beforehand.sim.scenario import MILLISECOND, ClockFault, Clog, Delay, Operation, Scenario

__all__ = ["ORDERS", "PROCESSES", "shop_run"]

ORDERS: Final = {
    "unordered": "unordered",
    "fifo": "fifo",
    "causal": "causal-unicast",
    "total": "lamport-total",
}
"""What can be promised, as in `beforehand chat`, and the protocol that keeps it where a message goes to one process.

No `rendezvous`: its senders wait until a message is received, and these do other things meanwhile."""

OPENING: Final = 1_790_000_000_000 * MILLISECOND  # 2026-09-21T14:13:20Z
CLOCK_OFFSETS_MS: Final = {"web": 0, "cart": 12, "stock": -8, "payment": 55, "orders": -60, "mail": 30}
PROCESSES: Final = tuple(CLOCK_OFFSETS_MS)
BETWEEN_VISITS: Final = 100 * MILLISECOND
CLOGGED: Final = 150 * MILLISECOND
"""Longer than a visit takes: it has seven messages, each of 9 ms and 2 ms of work at most."""


class _Message(NamedTuple):
    """One kind of message. `{}` stands for the customer."""

    sender: str
    to: str
    said: str  # The name of the event that sends it,
    heard: str  # and of the one that receives it.
    answers: tuple[str, ...] = ()  # What its receiver sends because of it.


_MESSAGES: Final = {
    "voucher": _Message("mail", "web", "voucher {} mailed", "customer {} comes", ("add",)),
    "add": _Message("web", "cart", "item chosen", "item added", ("reserve",)),
    "reserve": _Message("cart", "stock", "reserve item", "reservation asked", ("reservation", "confirmed")),
    "reservation": _Message("stock", "orders", "tell orders", "reservation noted"),
    "confirmed": _Message("stock", "cart", "confirm to cart", "item is reserved", ("pay",)),
    "pay": _Message("cart", "payment", "ask for payment", "card checked", ("paid",)),
    "paid": _Message("payment", "cart", "card authorised", "payment is fine", ("checkout",)),
    "checkout": _Message("cart", "orders", "check out", "checkout arrives"),  # Answered by what orders knows.
    "placed": _Message("orders", "mail", "order {} placed", "receipt {} mailed"),
    "failed": _Message("orders", "web", "checkout failed", "customer {} sees an error"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errand(Operation):
    """A message of one customer, as the simulator sends it."""

    kind: str
    customer: int
    attributes: Mapping[str, str] = field(default_factory=dict)  # Of the event that sends it.


def shop_run(*, seed: int, customers: int = 6, order: str = "fifo") -> list[Event]:
    """The events of a day at the shop, in the order in which they happened. The last customer is the unlucky one."""
    protocol = ORDERS[order]
    shop = _Shop(Random(f"shop {seed}"))  # noqa: S311 - The same seed must give the same day.
    visits = [shop.errand("voucher", customer, BETWEEN_VISITS * customer) for customer in range(1, customers + 1)]
    last = BETWEEN_VISITS * customers
    record = ran(
        Scenario(
            protocol=protocol,
            processes=PROCESSES,
            operations=tuple(visits),
            seed=seed,
            delay=Delay(shortest=3 * MILLISECOND, longest=9 * MILLISECOND),
            fifo=PROTOCOLS[protocol].traits.channels is Channels.FIFO,
            clogs=(Clog(sender="stock", to="orders", at=last, until=last + CLOGGED),),
            clocks=tuple(
                ClockFault(process=name, offset=OPENING - EPOCH + ms * MILLISECOND)
                for name, ms in CLOCK_OFFSETS_MS.items()
            ),
            heal_at=last + CLOGGED,
        ),
        shop,
    )
    errands = {identity: shop.errands[int(message.payload)] for identity, (message, _) in record.sent.items()}
    return [_told(event, errands) for event in record.events]


class _Shop:
    """What the six processes do when a message is delivered to them."""

    def __init__(self, random: Random) -> None:
        self._random: Final = random
        self._reserved: Final[set[int]] = set()  # What the orders process knows of.
        self.errands: Final[list[_Errand]] = []  # By their place in the run.

    def __call__(self, process: str, operation: Operation, now: int) -> Iterable[Operation]:  # noqa: ARG002
        assert isinstance(operation, _Errand)
        kind, customer = operation.kind, operation.customer
        answers = _MESSAGES[kind].answers
        if kind == "reservation":
            self._reserved.add(customer)
        elif kind == "checkout":
            answers = ("placed",) if customer in self._reserved else ("failed",)
        sent = []
        for answer in answers:
            now += self._random.randint(MILLISECOND // 2, MILLISECOND)
            sent.append(self.errand(answer, customer, now))
        return sent

    def errand(self, kind: str, customer: int, at: int) -> _Errand:
        message = _MESSAGES[kind]
        attributes = {
            "reservation": {"resource": f"item-{customer}"},
            "failed": {"level": "error", "reason": "nothing is reserved"},
        }.get(kind, {})
        made = _Errand(
            process=message.sender, at=at, to=(message.to,), kind=kind, customer=customer, attributes=attributes
        )
        self.errands.append(made)
        return made


def _told(event: Event, errands: Mapping[str, _Errand]) -> Event:
    """An event of the simulator in the words of the shop. Each sends or receives one message."""
    errand = errands[(*event.sends, *event.receives)[0]]
    message, identity = _MESSAGES[errand.kind], (f"{errand.kind}-{errand.customer}",)
    return replace(
        event,
        name=(message.said if event.sends else message.heard).format(errand.customer),
        sends=identity if event.sends else (),
        receives=identity if event.receives else (),
        attributes=errand.attributes if event.sends else {},
    )
