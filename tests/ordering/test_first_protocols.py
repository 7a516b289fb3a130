"""Fifo, CausalBroadcast, Skeen and the reliable link under them, on random wires judged by `history`."""

from __future__ import annotations

import pytest

from beforehand.ordering import CausalBroadcast, Fifo, ReliableLink, Skeen
from ordering.wires import Wires, anyone, everyone

SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_fifo_keeps_its_order_on_wires_that_reorder_and_repeat(seed: int) -> None:
    wires = Wires(Fifo, "abcd", seed=seed, repeat=0.2)
    wires.babble(40, destinations=anyone)
    wires.check_complete()
    assert wires.check().counts["fifo"] == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_causal_broadcast_keeps_causal_order(seed: int) -> None:
    wires = Wires(CausalBroadcast, "abcd", seed=seed, repeat=0.2)
    wires.babble(40, destinations=everyone)
    wires.check_complete()
    assert wires.check().counts["causal"] == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_skeen_keeps_one_order(seed: int) -> None:
    wires = Wires(Skeen, "abcd", seed=seed, repeat=0.2)
    wires.babble(40, destinations=anyone)
    wires.check_complete()
    assert wires.check().counts["total"] == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", [Fifo, CausalBroadcast, Skeen])
def test_a_reliable_link_makes_up_for_loss(protocol, seed: int) -> None:
    def make(name, view):
        return ReliableLink(protocol(name, view), resend_after=50, resend_max=400)

    wires = Wires(make, "abc", seed=seed, fifo=False, repeat=0.2, lose=0.3)
    wires.babble(20, destinations=everyone)
    wires.check_complete()
    assert not wires.refused
    report = wires.check()
    assert not (protocol.traits.fifo and report.counts["fifo"])
    assert not (protocol.traits.causal and report.counts["causal"])
    assert not (protocol.traits.total and report.counts["total"])
