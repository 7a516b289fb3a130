"""The pictures of the pages: small histories and what is pointed out in them, drawn by our own diagrams.

The same code draws the same bytes, so that a picture on disk can be compared with what would be drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from beforehand.cli.shop import shop_run
from beforehand.diagram import Axis, LayoutOptions, Marks, Theme, layout, to_svg
from beforehand.events import Event
from beforehand.history import History
from beforehand.ordering import CausalBroadcast, Fifo
from beforehand.sim import Delay, Operation, Scenario, simulate

__all__ = ["BLOCKS", "BLOCKS_CUT", "PICTURES", "checkout", "event"]

SECOND: Final = 1_000_000_000
START: Final = 1_769_860_800 * SECOND  # 2026-01-31T12:00:00Z


def event(
    place: str, name: str = "", *, sends: str = "", receives: str = "", ms: int | None = None, resource: str = ""
) -> Event:
    """`event("cart:2", receives="m1")`: messages are separated by blanks, `ms` counts from `START`."""
    process, index = place.rsplit(":", 1)
    return Event(
        process=process,
        index=int(index),
        name=name,
        sends=tuple(sends.split()),
        receives=tuple(receives.split()),
        time=None if ms is None else START + ms * 1_000_000,
        attributes={"resource": resource} if resource else {},
    )


def checkout() -> list[Event]:
    """The tutorial's failing checkout: the order to pack overtakes the reservation that it depends on."""
    return [
        event("cart:1", "checkout", sends="reserve", ms=0),
        event("cart:2", "ask for payment", sends="pay", ms=20),
        event("payment:1", "charge card", receives="pay", ms=30),
        event("payment:2", "card charged", sends="pack", ms=50),
        event("stock:1", "order to pack", receives="pack", ms=56),
        event("stock:2", "no reservation", ms=57),
        event("stock:3", "reserve items", receives="reserve", ms=80),
        event("mail:1", "newsletter", ms=40),
    ]


def _draw(
    events: Iterable[Event],
    title: str,
    description: str,
    *,
    marks: Marks | None = None,
    options: LayoutOptions | None = None,
) -> str:
    drawn = layout(events, marks=marks or Marks(), options=options or LayoutOptions())
    return to_svg(drawn, title=title, description=description, theme=Theme.AUTO)


def _around(history: History, name: str) -> Marks:
    selected = history.event(name).id
    past = [e.id for e in history.past(name)]
    future = [e.id for e in history.future(name)]
    return Marks(selected=selected, past=past, future=future)


def _tutorial() -> str:
    history = History(checkout())
    (violation,) = history.check().violations
    selected = history.event("stock:2").id
    marks = replace(
        _around(history, "stock:2"),
        violations=[violation.events[-1]],
        violating_messages=[violation.messages[0]],
        notes={selected: "this is what failed", violation.events[-1]: "came too late: stock:1 depends on it"},
    )
    description = "The order to pack reaches stock before the reservation, although the reservation was sent first."
    return _draw(checkout(), "A failing checkout", description, marks=marks)


def _tutorial_time() -> str:
    options = LayoutOptions(axis=Axis.CLOCKS)
    return _draw(checkout(), "The same events by their clocks", "As before, by clock readings.", options=options)


HISTORY: Final = [
    event("a:1", "a1"),
    event("a:2", "a2", sends="m1"),
    event("a:3", "a3"),
    event("a:4", "a4", receives="m3"),
    event("b:1", "b1"),
    event("b:2", "b2", receives="m1"),
    event("b:3", "b3", sends="m2"),
    event("b:4", "b4"),
    event("c:1", "c1"),
    event("c:2", "c2", receives="m2"),
    event("c:3", "c3", sends="m3"),
]
"""Three processes and three messages: what most of the explanation is drawn from."""


def _past_and_future() -> str:
    marks = _around(History(HISTORY), "b:3")
    description = "Past of b3: a1, a2, b1, b2. Future: b4, c2, c3, a4. Concurrent with it: a3 and c1."
    return _draw(HISTORY, "The past and the future of b3", description, marks=marks)


def _concurrent() -> str:
    marks = _around(History(HISTORY), "a:3")
    description = "a3 is concurrent with everything on b and c, for a sends nothing after it; its future is a4 alone."
    return _draw(HISTORY, "Concurrent with a3", description, marks=marks)


INCONSISTENT: Final = {"a": 1, "b": 3, "c": 3}


def _inconsistent_cut() -> str:
    history = History(HISTORY)
    assert not history.cut(INCONSISTENT).consistent
    marks = Marks(cut=INCONSISTENT, violating_messages=["m1"])
    description = "The cut has the receive of m1 at b2 inside and its send at a2 outside."
    return _draw(HISTORY, "An inconsistent cut", description, marks=marks)


def _consistent_cut() -> str:
    cut = History(HISTORY).largest_consistent_cut(INCONSISTENT).cut
    description = "The largest consistent cut inside it has a1, b1 and c1."
    return _draw(HISTORY, "The largest consistent cut inside it", description, marks=Marks(cut=cut))


FIGURE_12_1: Final = [
    event("P1:1", sends="direct"),
    event("P1:2", sends="first"),
    event("P2:1", receives="first"),
    event("P2:2", sends="second"),
    event("P3:1", receives="second"),
    event("P3:2", receives="direct"),
]


def _overtaken() -> str:
    marks = Marks(violations=[History(FIGURE_12_1).event("P3:2").id], violating_messages=["direct"])
    description = "P1 sends direct to P3, then first to P2, which sends second to P3; second arrives before direct."
    options = LayoutOptions(column_width=100)
    return _draw(FIGURE_12_1, "FIFO, and not causally ordered", description, marks=marks, options=options)


OBSERVER: Final = [
    event("p2:1", "valve closes", sends="r1"),
    event("p2:2", "asks", sends="ask"),
    event("p3:1", "is asked", receives="ask"),
    event("p3:2", "pump stops", sends="r2"),
    event("p1:1", "hears: pump stops", receives="r2"),
    event("p1:2", "hears: valve closes", receives="r1"),
]


def _observer() -> str:
    marks = Marks(violations=[History(OBSERVER).event("p1:2").id], violating_messages=["r1"])
    description = "Observer p1 hears of the effect before the cause, although each channel keeps its order."
    options = LayoutOptions(processes=("p1", "p2", "p3"))
    return _draw(OBSERVER, "What an observer hears over FIFO channels", description, marks=marks, options=options)


TOTAL: Final = [
    event("P:1", "sends x", sends="x"),
    event("Q:1", "sends y", sends="y"),
    event("R:1", "sends z", sends="z"),
    event("P:2", "first y", receives="y"),
    event("P:3", "then z", receives="z"),
    event("Q:2", "first z", receives="z"),
    event("Q:3", "then x", receives="x"),
    event("R:2", "first x", receives="x"),
    event("R:3", "then y", receives="y"),
]
"""Any two processes agree on the messages they both receive; the three together have no common order."""


def _total() -> str:
    (violation,) = History(TOTAL).check().violations
    assert violation.kind == "total"
    description = "P receives y before z, Q receives z before x, R receives x before y: no one order fits all three."
    options = LayoutOptions(column_width=150, lane_height=110)
    marks = Marks(violations=violation.events)
    return _draw(TOTAL, "No total order, though every pair agrees", description, marks=marks, options=options)


BLOCKS: Final = [
    event("a:1", "a1", receives="y"),
    event("a:2", "a2", sends="x"),
    event("a:3", "a3"),
    event("a:4", "a4"),
    event("b:1", "b1", sends="y"),
    event("b:2", "b2"),
    event("b:3", "b3", receives="z"),
    event("c:1", "c1"),
    event("c:2", "c2", receives="x"),
    event("c:3", "c3", sends="z"),
]
"""Two blocks: x is in flight across the cut between them, and was sent before the front of its process."""

BLOCKS_CUT: Final = {"a": 3, "b": 1, "c": 1}


def _two_blocks() -> str:
    assert History(BLOCKS).cut(BLOCKS_CUT).in_flight == ("x",)
    description = (
        "The cut has a1, a2, a3, b1 and c1 inside. Message x was sent inside and is received outside, at c2."
    )
    options = LayoutOptions(processes=("a", "b", "c"), column_width=80)
    return _draw(BLOCKS, "A history in two blocks", description, marks=Marks(cut=BLOCKS_CUT), options=options)


def _second_block() -> str:
    history = History(BLOCKS)
    selected = history.event("b:3").id
    past = [e.id for e in history.past("b:3")]
    marks = Marks(
        selected=selected,
        past=past,
        cut=BLOCKS_CUT,
        notes={
            history.event("a:2").id: "the send of x, which enters",
            history.event("b:1").id: "the front of b",
            history.event("c:1").id: "the front of c",
        },
    )
    description = "Of its past, b3 has b2, c2 and c3 inside its block; the rest is the past of a2, b1 and c1."
    options = LayoutOptions(processes=("a", "b", "c"), column_width=80)
    return _draw(BLOCKS, "The past of b3, across the cut", description, marks=marks, options=options)


def _failed_request() -> str:
    history = History(shop_run(seed=1))
    explanation = history.explain("orders:17", last=11)
    (violation,) = history.check().violations
    late = history.event(violation.events[-1])
    marks = Marks(
        selected=explanation.event.id,
        past=[e.id for e in explanation.events],
        violations=[late.id],
        violating_messages=[violation.messages[0]],
        notes={explanation.event.id: "the failed request", late.id: "what it needed, too late"},
    )
    description = "The last eleven events before the failure; the reservation, sent at stock:17, arrives after it."
    options = LayoutOptions(processes=("stock", "cart", "payment", "orders", "web"), column_width=78)
    shown = [*explanation.events, explanation.event, late, history.event("web:13")]
    return _draw(shown, "What led to the failed checkout", description, marks=marks, options=options)


PEOPLE: Final = ("ann", "bob", "eve")

CHAT: Final = Scenario(
    protocol="causal-broadcast",
    processes=PEOPLE,
    operations=(
        Operation(process="ann", at=0, to=PEOPLE),
        Operation(process="bob", at=0, to=PEOPLE, after=1),
    ),
    delay=Delay(longest=10_000_000),
    seed=5,
)
"""The scenario of the tutorial that builds a protocol, with the first seed at which its first version fails. The
page shows that `Fifo` has the same run, and that `CausalBroadcast` is what the tutorial arrives at."""


def _answer_first() -> str:
    outcome = simulate(CHAT, make=Fifo)
    (violation,) = [v for v in History(outcome.record.events).check().violations if v.kind == "causal"]
    late = violation.events[-1]  # Not the message: it went to all, and two of its three arrows are fine.
    marks = Marks(violations=[late], notes={late: "the question, after its answer"})
    description = "Eve delivers bob.1, which Bob sent after he had delivered ann.1, before she delivers ann.1."
    options = LayoutOptions(processes=PEOPLE, column_width=110)
    return _draw(outcome.record.events, "The answer comes first", description, marks=marks, options=options)


def _answer_waits() -> str:
    outcome = simulate(CHAT, make=CausalBroadcast)
    assert outcome.verdict.passed
    description = "The same packets with the same delays; Eve delivers ann.1 first, for bob.1 waits for it."
    options = LayoutOptions(processes=PEOPLE, column_width=110)
    return _draw(outcome.record.events, "The answer waits", description, options=options)


PICTURES: Final = {
    "checkout.svg": _tutorial,
    "checkout-time.svg": _tutorial_time,
    "past-and-future.svg": _past_and_future,
    "concurrent.svg": _concurrent,
    "inconsistent-cut.svg": _inconsistent_cut,
    "consistent-cut.svg": _consistent_cut,
    "overtaken.svg": _overtaken,
    "observer.svg": _observer,
    "no-total-order.svg": _total,
    "two-blocks.svg": _two_blocks,
    "second-block.svg": _second_block,
    "failed-request.svg": _failed_request,
    "answer-first.svg": _answer_first,
    "answer-waits.svg": _answer_waits,
}
"""File name below docs/pictures → what draws it."""
