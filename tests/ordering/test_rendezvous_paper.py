"""Garg, chapter 12.4.1: the chat with the order "synch"; 12.1 for how the orders relate."""

from __future__ import annotations

import pytest

from beforehand.errors import DestinationError
from beforehand.ordering.causal_unicast import CausalUnicast
from beforehand.ordering.rendezvous import Rendezvous
from ordering.wires import Wires


def crossing(protocol) -> list[tuple[str, str, str]]:
    """P0 and P1 send to each other at the same time: the events in the order in which they happened."""
    wires = Wires(protocol, ["P0", "P1"])
    wires.send("P0", b"", ["P1"])
    wires.send("P1", b"", ["P0"])
    wires.run()
    return [(e.process, "send" if e.sends else "receive", *(e.sends or e.receives)) for e in wires.events]


def test_figure_12_5_a_synchronous_chat_talks_to_one_destination() -> None:
    wires = Wires(Rendezvous, ["P0", "P1", "P2"])
    with pytest.raises(DestinationError):
        wires.send("P0", b"query", ["P1", "P2"])


def test_section_12_4_1_two_who_talk_at_once_are_ordered_one_after_the_other() -> None:
    # Two crossing messages are causally ordered, but no vertical arrows: each send precedes the other receive.
    assert crossing(CausalUnicast)[:2] == [("P0", "send", "P0.1"), ("P1", "send", "P1.1")]
    assert crossing(Rendezvous) == [
        ("P1", "send", "P1.1"),
        ("P0", "receive", "P1.1"),
        ("P0", "send", "P0.1"),
        ("P1", "receive", "P0.1"),
    ]


def test_section_12_1_a_message_is_not_overtaken_by_a_sequence_of_messages() -> None:
    # Figure 12.1 cannot happen: P0's message to P2 has arrived before its next one leaves.
    for seed in range(20):
        wires = Wires(Rendezvous, ["P2", "P1", "P0"], seed=seed)
        wires.send("P0", b"direct", ["P2"])
        wires.send("P0", b"first leg", ["P1"])
        while not wires.delivered["P1"]:
            wires.step()
        wires.send("P1", b"second leg", ["P2"])
        wires.run()
        assert [m.payload for m in wires.delivered["P2"]] == [b"direct", b"second leg"]
