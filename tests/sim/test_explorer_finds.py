"""Bugs planted in protocols, each in a copy: the explorer finds every one of them, and says what it breaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from beforehand.ordering import (
    CausalBroadcast,
    CausalUnicast,
    Coordinator,
    Deliver,
    Effect,
    Fifo,
    LamportTotal,
    Membership,
    Persist,
    ReliableLink,
    Rendezvous,
    SinglePhase,
    Skeen,
    Transmit,
)
from beforehand.ordering.stability import Stability
from beforehand.sim.explorer import (
    Configuration,
    Counterexample,
    Explorer,
    Faults,
    Stack,
    departures,
    faults_of,
    sendings,
)


def first_finding(stack: Stack, *, messages_max: int = 3, faults: Faults | None = None) -> Counterexample | None:
    explorer = Explorer(stack)
    for messages in range(1, messages_max + 1):
        for lines in sendings(stack.traits, messages):
            configuration = Configuration(operations=lines, faults=faults or faults_of(stack))
            for found in explorer.explore(configuration, states_max=50_000).findings:
                return found
    return None


def first_of(stack: Stack, configurations: Iterable[Configuration]) -> Counterexample | None:
    explorer = Explorer(stack)
    for configuration in configurations:
        for found in explorer.explore(configuration, states_max=100_000).findings:
            return found
    return None


class RepeatingFifo(Fifo):
    """A duplicate is let through."""

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        effects = super().receive(sender, packet, now=now)
        return effects or [Deliver(message=packet.message, place=(0,)), Persist()]


class HastyFifo(Fifo):
    """Off by one: it also takes the one after the next."""

    def _drain(self, sender: str, effects: Any) -> None:
        waiting = self._waiting[sender]
        self._delivered.setdefault(sender, 0)
        for number in sorted(waiting):
            if number <= self._delivered[sender] + 2:
                effects.happen(Deliver(message=waiting.pop(number), place=(0,)))
                self._delivered[sender] += 1
        if not waiting:
            del self._waiting[sender]

    def check_invariants(self) -> None:
        pass


class SleepyFifo(Fifo):
    """No wake-up: what waited for the message just delivered stays where it is."""

    def _drain(self, sender: str, effects: Any) -> None:
        waiting = self._waiting[sender]
        message = waiting.pop(self._delivered.get(sender, 0) + 1, None)
        if message is not None:
            self._delivered[sender] = self._delivered.get(sender, 0) + 1
            effects.happen(Deliver(message=message, place=(0,)))
        if not waiting:
            del self._waiting[sender]

    def check_invariants(self) -> None:
        pass


class BlindCausal(CausalBroadcast):
    """One entry of the vector is ignored."""

    def _first_missing(self, packet: Any) -> tuple[int, int] | None:
        spot = super()._first_missing(packet)
        return None if spot is not None and spot[0] == 0 and packet.message.sender != "a" else spot


class ForgetfulCausal(CausalBroadcast):
    """The merge is dropped: what came from others is not passed on."""

    def send(self, *args: Any, **options: Any) -> list[Effect]:
        self._known = [count if at == self._me else 0 for at, count in enumerate(self._known)]
        return super().send(*args, **options)

    def check_invariants(self) -> None:
        pass


class SelfishUnicast(CausalUnicast):
    """What waits is delivered at once."""

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        effects = super().receive(sender, packet, now=now)
        waiting = [pending.message for pending in self.pending()]
        shown = [Deliver(message=message, place=(0,)) for message in waiting]
        return [*shown, *effects]


class ImpatientSkeen(Skeen):
    """Delivers what is final although something smaller is not."""

    def _deliver_ready(self, effects: Any) -> None:
        for key, waiting in sorted(self._queue.items(), key=lambda item: item[1].time):
            if waiting.final:
                del self._queue[key]
                self._per_sender[key[0]] -= 1
                effects.happen(Deliver(message=waiting.message, place=(waiting.time, *key)))


class LaggingSkeen(Skeen):
    """A final time does not raise the clock."""

    def _settle(self, waiting: Any, time: int) -> None:
        before = self._time
        super()._settle(waiting, time)
        self._time = before

    def check_invariants(self) -> None:
        pass


class AmnesicSkeen(Skeen):
    """The snapshot leaves out the proposals collected."""

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot)
        for collecting in self._collecting.values():
            collecting.time = 0


class RashLamport(LamportTotal):
    """Nobody is waited for."""

    def _deliver_ready(self, effects: Any) -> None:
        heard, bound = self._heard, self._bound
        self._heard, self._bound = [1_000] * len(heard), (1_000, 0)
        super()._deliver_ready(effects)
        self._heard, self._bound = heard, bound

    def check_invariants(self) -> None:
        pass


class SilentSinglePhase(SinglePhase):
    """No acknowledgement ever."""

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        effects = super().receive(sender, packet, now=now)
        return [effect for effect in effects if not isinstance(effect, Transmit)]


class ForgetfulCoordinator(Coordinator):
    """What leaves the coordinator leaves in the reverse order."""

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        effects = super().receive(sender, packet, now=now)
        happened = [effect for effect in effects if isinstance(effect, Deliver)]
        return [*[effect for effect in effects if not isinstance(effect, Deliver)], *happened[1:]]


class DeafRendezvous(Rendezvous):
    """An acknowledgement is not sent."""

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        effects = super().receive(sender, packet, now=now)
        if self.process == "a":
            return [effect for effect in effects if not isinstance(effect, Transmit)]
        return effects


class CarelessLink(ReliableLink):
    """A delivery is not persisted before its acknowledgement leaves."""

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        return [e for e in super().receive(sender, packet, now=now) if not isinstance(e, Persist)]


class LateLink(ReliableLink):
    """Transmits first, persists then."""

    def send(self, *args: Any, **options: Any) -> list[Effect]:
        effects = super().send(*args, **options)
        return sorted(effects, key=lambda effect: isinstance(effect, Persist))


class LooseLink(ReliableLink):
    """A frame that comes again is handed over again."""

    def _take_frame(self, sender: str, peer: Any, frame: Any, call: Any, now: int) -> None:
        if frame.number in peer.arrived:
            self._hand_over(sender, frame.packet, call, now)
        super()._take_frame(sender, peer, frame, call, now)


class TiredLink(ReliableLink):
    """Nothing is sent again."""

    def tick(self, *, now: int) -> list[Effect]:
        return [effect for effect in super().tick(now=now) if not isinstance(effect, Transmit)]


class EchoingLink(ReliableLink):
    """Even an acknowledgement is acknowledged: two processes that have begun never end."""

    def _take_acknowledgement(self, sender: str, frame: Any, call: Any, now: int) -> None:
        super()._take_acknowledgement(sender, frame, call, now)
        self._peers[sender].owed = True


class _NoMemory(Stability):
    def held(self) -> list[Any]:
        return []


class ForgetfulMembership(Membership):
    """A report leaves out what was delivered and may be lacked by others."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stability.__class__ = _NoMemory

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot)
        self._stability.__class__ = _NoMemory


class BusyMembership(Membership):
    """Goes on delivering after its report."""

    @property
    def flushing(self) -> bool:
        return False


BARE = [
    (RepeatingFifo, "duplicate"),
    (HastyFifo, "fifo|duplicate"),
    (SleepyFifo, "stuck"),
    (BlindCausal, "causal"),
    (ForgetfulCausal, "causal"),
    (SelfishUnicast, "fifo"),
    (ImpatientSkeen, "total"),
    (LaggingSkeen, "total"),
    (AmnesicSkeen, "restore|Remote|total|never"),
    (RashLamport, "total|causal"),
    (SilentSinglePhase, "stuck"),
    (ForgetfulCoordinator, "never|stuck"),
    (DeafRendezvous, "stuck"),
]


@pytest.mark.parametrize(("protocol", "kind"), BARE, ids=[protocol.__name__ for protocol, _ in BARE])
def test_bugs_in_protocols_are_found(protocol: Any, kind: str) -> None:
    found = first_finding(Stack(protocol=protocol))

    assert found is not None
    assert any(word in found.kind for word in kind.split("|")), found
    assert found.confirmed, found


LINKS = [
    (CarelessLink, "duplicate|refused|Remote", Faults(crashes=1)),
    (LateLink, "duplicate|refused|Remote|stray", Faults(crashes=1)),
    (LooseLink, "duplicate", Faults(repeats=1)),
    (TiredLink, "stuck", Faults(losses=1)),
    (EchoingLink, "rest", Faults()),
]


@pytest.mark.parametrize(("link", "kind", "faults"), LINKS, ids=[link.__name__ for link, _, _ in LINKS])
def test_bugs_in_the_link_are_found(link: Any, kind: str, faults: Faults) -> None:
    """Under a protocol that relies on it."""
    found = first_finding(Stack(protocol=TakesAll, link=link), faults=faults, messages_max=2)

    assert found is not None
    assert any(word in found.kind for word in kind.split("|")), found


class TakesAll(Fifo):
    """Believes what the link promises: exactly once."""

    def receive(self, sender: str, packet: Any, *, now: int) -> list[Effect]:
        self._delivered[sender] = self._delivered.get(sender, 0) + 1
        return [Deliver(message=packet.message, place=(0,)), Persist()]


@pytest.mark.parametrize("membership", [ForgetfulMembership, BusyMembership])
def test_bugs_in_the_membership_are_found(membership: Any) -> None:
    stack = Stack(protocol=Skeen, link=ReliableLink, membership=membership)
    lines = ((), (), (0b011,))
    configurations = [
        *departures(lines, victim=2, by=0),
        *departures(((0b011,), (), (0b011,)), victim=2, by=0),
        *departures(((0b001,), (0b011,), (0b011,)), victim=2, by=0),
    ]

    found = first_of(stack, configurations)

    assert found is not None


def test_the_sound_stacks_pass_where_the_planted_ones_fail() -> None:
    assert (
        first_finding(Stack(protocol=TakesAll, link=ReliableLink), faults=Faults(crashes=1), messages_max=1) is None
    )
    assert first_finding(Stack(protocol=Skeen), messages_max=1) is None
