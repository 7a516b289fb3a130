"""What Garg, chapter 12.3.1, says of the centralized algorithm, in our words."""

from __future__ import annotations

import pytest

from beforehand.clocks import View
from beforehand.ordering import Transmit
from beforehand.ordering.coordinator import Coordinator
from ordering.wires import Wires, anyone


def test_a_process_that_wants_to_multicast_sends_to_the_coordinator_only() -> None:
    effects = Coordinator("c", View("abcd")).send(b"", now=0)
    assert [effect.to for effect in effects if isinstance(effect, Transmit)] == [("a",)]


def test_all_multicasts_come_from_the_coordinator() -> None:
    wires = Wires(Coordinator, "abcd")
    wires.send("c")
    assert wires.step()
    assert [(sender, to) for sender, to, _ in wires.flying] == [("a", "b"), ("a", "c"), ("a", "d")]


@pytest.mark.parametrize("seed", range(20))
def test_with_fifo_channels_to_the_coordinator_the_order_is_causal_and_total(seed: int) -> None:
    wires = Wires(Coordinator, "abcde", seed=seed)
    wires.babble(50, destinations=anyone)
    assert wires.check().counts["causal"] == 0
    assert wires.check().counts["total"] == 0


def test_without_fifo_channels_it_would_not_be() -> None:
    # The assumption is needed: overtaken requests of one sender are noticed and refused.
    a, b = Coordinator("a", View("ab")), Coordinator("b", View("ab"))
    first, second = (b.send(b"", now=0)[-1].packet for _ in range(2))
    a.receive("b", second, now=1)
    with pytest.raises(Exception, match="before"):
        a.receive("b", first, now=2)


def test_the_coordinator_has_more_work_than_the_others() -> None:
    wires = Wires(Coordinator, "abcd")
    sent = dict.fromkeys("abcd", 0)
    perform = wires.perform

    def counting(name, effects):
        sent[name] += sum(len(effect.to) for effect in effects if isinstance(effect, Transmit))
        perform(name, effects)

    wires.perform = counting
    for name in "abcd":
        wires.send(name)
    wires.run()
    assert sent == {"a": 12, "b": 1, "c": 1, "d": 1}
