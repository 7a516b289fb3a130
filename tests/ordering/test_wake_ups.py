"""A message that waits is looked at when what it waits for has come, and at no other time."""

from __future__ import annotations

import pytest

from beforehand.clocks import View
from beforehand.clocks.gate import Gate
from beforehand.ordering import CausalBroadcast, CausalUnicast, Deliver, SchiperCausal, Transmit
from beforehand.ordering.parking import Parking

MESSAGES = 4_000
VIEW = View(["a", "b", "c", "d", "e"])


def chain(make):
    """What reaches e of messages that four senders send in turn, each after it has received the one before."""
    members = {name: make(name, VIEW) for name in "abcd"}
    packets = []
    for number in range(MESSAGES):
        sender = "abcd"[number % 4]
        effects = members[sender].send(b"", [p for p in VIEW.processes if p != sender], now=0)
        packets.append((sender, next(effect.packet for effect in effects if isinstance(effect, Transmit))))
        for name in members.keys() - {sender}:
            members[name].receive(*packets[-1], now=0)
    return packets


def test_four_thousand_messages_in_reverse_are_parked_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    parked = 0
    for room, name in ((Parking, "park"), (Gate, "_park")):
        park = getattr(room, name)

        def counted(self, *arguments, park=park):
            nonlocal parked
            parked += 1
            return park(self, *arguments)

        monkeypatch.setattr(room, name, counted)
    for make in (CausalBroadcast, CausalUnicast, SchiperCausal):
        packets = chain(make)
        receiver = make("e", VIEW, pending_max=MESSAGES)
        parked = delivered = 0
        for sender, packet in reversed(packets):
            delivered += sum(isinstance(effect, Deliver) for effect in receiver.receive(sender, packet, now=0))
        assert delivered == MESSAGES
        # Whatever the number of messages: at most once for each of the four others that one can wait for.
        assert parked <= 4 * MESSAGES, make.__name__
