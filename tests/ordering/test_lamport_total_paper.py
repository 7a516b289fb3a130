"""What Garg, chapter 12.3.2, says of Lamport's algorithm for total order, in our words."""

from __future__ import annotations

import pytest

from beforehand.clocks import View
from beforehand.ordering import Deliver
from beforehand.ordering.lamport_total import LamportTotal
from ordering.wires import Wires, anyone


def test_every_broadcast_is_acknowledged_by_every_other_process_to_all() -> None:
    wires = Wires(LamportTotal, "abcd")
    wires.send("b")
    wires.run()
    assert wires.packets == {"LamportMessage": 3, "LamportTime": 3 * 3}


def test_a_message_is_not_delivered_before_all_others_acknowledged_it() -> None:
    view = View("abc")
    a, b, c = (LamportTotal(name, view) for name in "abc")
    message = a.send(b"", now=0)[-1].packet
    from_b = b.receive("a", message, now=1)[-1].packet
    from_c = c.receive("a", message, now=1)[-1].packet
    assert not any(isinstance(effect, Deliver) for effect in a.receive("b", from_b, now=2))
    assert any(isinstance(effect, Deliver) for effect in a.receive("c", from_c, now=2))


@pytest.mark.parametrize("seed", range(10))
def test_the_total_order_is_that_of_the_logical_clocks_of_the_sends(seed: int) -> None:
    wires = Wires(LamportTotal, "abc", seed=seed)
    places: dict[str, list] = {name: [] for name in "abc"}
    perform = wires.perform

    def recording(name, effects):
        places[name] += [effect.place for effect in effects if isinstance(effect, Deliver)]
        perform(name, effects)

    wires.perform = recording
    wires.babble(30, destinations=anyone)
    assert all(placed == sorted(placed) for placed in places.values())
    assert sum(map(len, places.values())) == sum(len(message.to) for message in wires.sent)


def test_to_simulate_multicast_others_ignore_a_message_that_is_not_for_them() -> None:
    wires = Wires(LamportTotal, "abc")
    wires.send("a", to=["b"])
    wires.run()
    assert {name: len(messages) for name, messages in wires.delivered.items()} == {"a": 0, "b": 1, "c": 0}


def test_the_chapters_fourth_rule_taken_by_the_word_breaks_total_order() -> None:
    # Acknowledgements return to the sender only; who finds its message deliverable tells all, who then deliver it.
    class Literal:
        def __init__(self) -> None:
            self.queue: list[tuple[int, str]] = []
            self.delivered: list[tuple[int, str]] = []

        def told(self, message: tuple[int, str]) -> None:
            self.queue.remove(message)
            self.delivered.append(message)

    p0, p, q = Literal(), Literal(), Literal()
    m0, m = (1, "p0"), (1, "p1")
    for process in (p0, p, q):
        process.queue = [m0, m]  # Both broadcasts have arrived everywhere and are acknowledged to their senders.
    assert min(p0.queue) == m0
    p0.told(m0)  # p0 finds m0 deliverable and tells p and q.
    p.told(m0)
    assert min(p.queue) == m
    p.told(m)  # p finds m deliverable and tells q, which hears it before it hears p0.
    q.told(m)
    q.told(m0)
    assert p.delivered == [m0, m]
    assert q.delivered == [m, m0]
