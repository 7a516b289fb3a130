"""Berry 1995, sections 3.4.2 and 4.3: the causal ordering library, and observers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from beforehand.clocks import ObserverClock, OrderingClock, OrderingStamp, PeerPolicy, Relation, VectorStamp
from beforehand.errors import (
    BufferFullError,
    DeliveryTimeoutError,
    DuplicateMessageError,
    ImpossibleStampError,
    LocalProtocolError,
    NonParticipantError,
    RemoteProtocolError,
)


def figure_3() -> tuple[OrderingClock, OrderingStamp, OrderingStamp]:
    """P1 sends M1 to P3 and then M2 to P2, which sends M4 to P3: M1 must be received before M4."""
    p1, p2, p3 = OrderingClock("P1"), OrderingClock("P2"), OrderingClock("P3")
    m1 = p1.send("P3")
    m2 = p1.send("P2")
    p2.deliver(m2)
    m4 = p2.send("P3")
    return p3, m1, m4


def test_figure_3_a_message_waits_for_one_that_causally_precedes_it() -> None:
    p3, m1, m4 = figure_3()
    assert p3.try_deliver(m4) is None
    assert not p3.deliverable(m4)
    first = p3.try_deliver(m1)
    second = p3.try_deliver(m4)
    assert first is not None
    assert second is not None
    assert first < second


def test_figure_5_ovt_deliver_blocks_the_thread_until_the_message_may_be_delivered() -> None:
    p3, m1, m4 = figure_3()
    order: list[tuple[str, VectorStamp]] = []
    thread = threading.Thread(target=lambda: order.append(("M4", p3.deliver(m4, timeout=30))))
    thread.start()
    while not p3.waiting():  # Until the thread stands at the gate.
        threading.Event().wait(0.001)
    assert p3.waiting() == [(m4, ("P1", 1))]
    first = p3.deliver(m1)
    thread.join(30)
    assert [name for name, _ in order] == ["M4"]
    assert first < order[0][1]
    assert p3.waiting() == []


def test_delivery_can_be_awaited() -> None:
    p3, m1, m4 = figure_3()

    async def run() -> tuple[VectorStamp, VectorStamp]:
        later = asyncio.create_task(p3.deliver_async(m4))
        await asyncio.sleep(0)
        assert [message for message, _ in p3.waiting()] == [m4]
        first = await p3.deliver_async(m1)
        return first, await later

    first, second = asyncio.run(run())
    assert first < second


def test_a_timeout_names_what_is_missing_and_the_message_may_be_tried_again() -> None:
    p3, m1, m4 = figure_3()
    with pytest.raises(DeliveryTimeoutError) as caught:
        p3.deliver(m4, timeout=0.01)
    assert caught.value.missing == ("P1", 1)
    assert isinstance(caught.value, TimeoutError)
    assert p3.waiting() == []
    p3.deliver(m1)
    assert p3.try_deliver(m4) is not None


def test_an_awaited_timeout_and_a_cancelled_wait_do_not_deliver() -> None:
    p3, m1, m4 = figure_3()

    async def run() -> None:
        with pytest.raises(DeliveryTimeoutError):
            await p3.deliver_async(m4, timeout=0.01)
        task = asyncio.create_task(p3.deliver_async(m4))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert p3.waiting() == []
        await p3.deliver_async(m1)
        await p3.deliver_async(m4)

    asyncio.run(run())


def test_a_third_party_chain_carries_the_dependency() -> None:
    # The whole table travels and is merged: a → c (m1), a → b (m2), b → d (m3), d → c (m4).
    a, b, c, d = (OrderingClock(name) for name in "abcd")
    m1 = a.send("c")
    b.deliver(a.send("b"))
    d.deliver(b.send("d"))
    m4 = d.send("c")
    assert c.try_deliver(m4) is None
    c.deliver(m1)
    assert c.try_deliver(m4) is not None


def test_a_multicast_is_known_to_go_to_its_other_destinations() -> None:
    # a → {b, c}; b, having it, writes to c: c must have a's message first.
    a, b, c = (OrderingClock(name) for name in "abc")
    question = a.send("b", "c")
    b.deliver(question)
    answer = b.send("c")
    assert c.try_deliver(answer) is None
    c.deliver(question)
    assert c.try_deliver(answer) is not None


def test_a_repetition_is_refused_however_late_it_comes() -> None:
    a, b = OrderingClock("a"), OrderingClock("b")
    messages = [a.send("b") for _ in range(5)]
    for message in messages:
        b.deliver(message)
    for message in messages:
        with pytest.raises(DuplicateMessageError):
            b.deliver(message)


def test_a_repetition_of_a_waiting_message_is_refused() -> None:
    a, b = OrderingClock("a"), OrderingClock("b")
    first, second = a.send("b"), a.send("b")

    async def run() -> None:
        waiting = asyncio.create_task(b.deliver_async(second))
        await asyncio.sleep(0)
        with pytest.raises(DuplicateMessageError):
            b.try_deliver(second)
        b.deliver(first)
        await waiting

    asyncio.run(run())


def test_arbitrary_local_events_are_recorded_too() -> None:
    a, b = OrderingClock("a"), OrderingClock("b")
    before = a.tick()
    delivered = b.deliver(a.send("b"))
    alone = a.tick()
    assert before < delivered
    assert alone.compare(delivered) is Relation.CONCURRENT


def test_3_4_2_an_observer_receives_in_causal_order_without_taking_part() -> None:
    a, b, observer = OrderingClock("a"), OrderingClock("b"), ObserverClock("watcher")
    cause = a.send("watcher")
    b.deliver(a.send("b"))
    effect = b.send("watcher")

    assert observer.try_deliver(effect) is None
    observer.deliver(cause)
    known = observer.deliver(effect)

    assert "watcher" not in known, "it has no events of its own"
    assert known == observer.stamp() == effect.time.merged(cause.time)


def test_3_4_a_message_without_a_stamp_follows_the_policy() -> None:
    with pytest.raises(NonParticipantError):
        OrderingClock("p").receive_unstamped("legacy")
    tolerant = OrderingClock("p", peer_policy=PeerPolicy.MARK)
    assert tolerant.receive_unstamped("legacy").to_dict() == {"p": 1}
    assert tolerant.unrecorded == {"legacy": 1}


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    p = OrderingClock("p")
    forged = OrderingStamp("q", {"p": 1}, VectorStamp({"q": 1, "p": 3}), {})
    strange = OrderingStamp("q", {"other": 1}, VectorStamp({"q": 1}), {})
    with pytest.raises(ImpossibleStampError):
        p.deliver(forged)
    with pytest.raises(RemoteProtocolError, match="not addressed"):
        p.deliver(strange)
    with pytest.raises(LocalProtocolError):
        p.send("p")
    assert p.stamp() == VectorStamp()


def test_the_gate_is_bounded() -> None:
    a, b = OrderingClock("a"), OrderingClock("b", waiting_max=1)
    _, second, third = (a.send("b") for _ in range(3))

    async def run() -> None:
        waiting = asyncio.create_task(b.deliver_async(second))
        await asyncio.sleep(0)
        with pytest.raises(BufferFullError, match="limit of 1"):
            b.deliver(third)
        waiting.cancel()

    asyncio.run(run())


def test_reversed_arrival_is_drained_completely() -> None:
    a, b = OrderingClock("a"), OrderingClock("b")
    messages = [a.send("b") for _ in range(200)]

    async def run() -> list[VectorStamp]:
        tasks = [asyncio.create_task(b.deliver_async(message)) for message in reversed(messages)]
        return await asyncio.gather(*tasks)

    stamps = asyncio.run(run())
    assert [stamp["b"] for stamp in stamps] == list(range(200, 0, -1))
    assert b.waiting() == []
