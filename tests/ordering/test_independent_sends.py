"""IndependentSends on random wires with random declarations, judged by a history in which each send has a lane."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from beforehand.clocks import View
from beforehand.errors import (
    BufferFullError,
    FutureStampError,
    ImpossibleStampError,
    LocalProtocolError,
    RemoteProtocolError,
)
from beforehand.events import Event
from beforehand.history import History
from beforehand.ordering import Deliver, Level, Message, Missing, Owed
from beforehand.ordering.independent_sends import IndependentSends, IndependentSendsPacket
from beforehand.ordering.unordered import UnorderedPacket
from ordering.mirrored import PlacedWires, mirrored
from ordering.wires import anyone, one_other

VIEW = View("abc")


class DeclaringWires(PlacedWires):
    """Every message comes after a few random ones that its sender has sent or delivered."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.declared: dict[str, set[str]] = {}

    def babble(self, messages: int, *, destinations) -> None:
        for _ in range(messages):
            name = self.random.choice(self.view.processes)
            known = {m.id: m for m in [m for m in self.sent if m.sender == name] + self.delivered[name]}
            after = self.random.sample(sorted(known), min(len(known), self.random.choice([0, 0, 1, 1, 2, 3])))
            self.declared[f"{name}.{self.members[name].within.snapshot().number + 1}"] = set(after)
            to = destinations(self.random, name, self.view)
            self.send(name, b"", to, after=[known[m].key for m in after])
            for _ in range(self.random.randrange(4)):
                self.step()
                self.check_nothing_is_held_without_need()
        self.run()

    def lanes(self) -> list[Event]:
        """Each send on a lane of its own, where all that it declares is received at once; deliveries as they were."""
        events: list[Event] = []
        count: Counter[str] = Counter()
        for event in self.events:
            for message in event.sends:
                lane = f"{event.process}/{message.split('.')[1]}"
                events.append(Event(process=lane, index=1, receives=tuple(sorted(self.declared[message]))))
                events.append(Event(process=lane, index=2, sends=(message,)))
            for message in event.receives:
                count[event.process] += 1
                events.append(Event(process=event.process, index=count[event.process], receives=(message,)))
        return events

    def past(self, message: str) -> set[str]:
        past, todo = set(), [message]
        while todo:
            todo += (news := self.declared[todo.pop()] - past)
            past |= news
        return past

    def check_nothing_is_held_without_need(self) -> None:
        to = {m.id: m.to for m in self.sent}
        for name, member in self.members.items():
            here = {m.id for m in self.delivered[name]}
            for pending in member.within.pending():
                assert any(name in to[m] and m not in here for m in self.past(pending.message.id))

    def check_places(self) -> None:
        for message in self.declared:
            for earlier in self.past(message):
                assert self.places[earlier] < self.places[message]


@pytest.mark.parametrize("destinations", [anyone, one_other])
@pytest.mark.parametrize("seed", range(40))
def test_declared_order_is_kept_and_nothing_is_held_without_need(seed: int, destinations) -> None:
    wires = DeclaringWires(mirrored(IndependentSends), "abcd", seed=seed, repeat=0.2)
    wires.babble(40, destinations=destinations)
    wires.check_complete()
    wires.check_places()
    assert History(wires.lanes()).check().counts["causal"] == 0
    assert all(not m.within.pending() and not m.within.missing() for m in wires.members.values())


def test_it_keeps_less_than_the_order_of_processes_and_the_oracle_can_say_no() -> None:
    broken = {"fifo": 0, "causal": 0, "lanes": 0}
    for seed in range(10):
        wires = DeclaringWires(mirrored(IndependentSends), "abcd", seed=seed)
        wires.babble(40, destinations=anyone)
        counts = wires.check().counts
        wires.delivered = {name: messages[::-1] for name, messages in wires.delivered.items()}
        wires.events = [e for e in wires.events if e.sends] + [
            Event(process=name, index=1, receives=(m.id,)) for name, ms in wires.delivered.items() for m in ms
        ]
        broken["fifo"] += counts["fifo"]
        broken["causal"] += counts["causal"]
        broken["lanes"] += History(wires.lanes()).check().counts["causal"]
    assert all(broken.values())


def members(**options: int) -> tuple[IndependentSends, IndependentSends, IndependentSends]:
    a, b, c = (IndependentSends(name, VIEW, **options) for name in "abc")
    return a, b, c


def sent(member: IndependentSends, payload: bytes, to: str, *after: IndependentSendsPacket) -> IndependentSendsPacket:
    return member.send(payload, list(to), now=0, after=[p.message.key for p in after])[-1].packet


def delivered(member: IndependentSends, packet: IndependentSendsPacket) -> list[bytes]:
    effects = member.receive(packet.message.sender, packet, now=0)
    return [effect.message.payload for effect in effects if isinstance(effect, Deliver)]


def test_independent_messages_of_one_sender_do_not_wait_for_each_other() -> None:
    a, b, _ = members()
    sent(a, b"1", "b")
    assert delivered(b, sent(a, b"2", "b")) == [b"2"]
    assert b.missing() == []


def test_a_declared_dependency_is_waited_for() -> None:
    a, b, _ = members()
    first = sent(a, b"1", "b")
    second = sent(a, b"2", "b")
    third = sent(a, b"3", "b", first)
    assert delivered(b, third) == []
    assert [p.waits_for for p in b.pending()] == [Missing(process="a", what=Owed.MESSAGE, number=1)]
    assert b.missing() == [Missing(process="a", what=Owed.MESSAGE, number=1)]
    assert [held.place for held in b.report().held] == [(2, "a", 3)]
    assert delivered(b, second) == [b"2"]
    assert delivered(b, first) == [b"1", b"3"]


def test_dependencies_go_through_processes_that_are_no_destinations() -> None:
    a, b, c = members()
    first = sent(a, b"a to c", "c")
    middle = sent(a, b"a to b", "b", first)
    delivered(b, middle)
    last = sent(b, b"b to c", "c", middle)
    assert last.barrier == (("c", "a", 1),)
    assert delivered(c, last) == []
    assert delivered(c, first) == [b"a to c", b"b to c"]


def test_a_message_to_oneself_carries_dependencies_on_and_is_delivered_at_once() -> None:
    a, b, _ = members()
    first = sent(a, b"1", "b")
    (note,) = (e.message for e in a.send(b"note", ["a"], now=0, after=[first.message.key]) if isinstance(e, Deliver))
    second = a.send(b"2", ["b"], now=0, after=[note.key])[-1].packet
    assert second.barrier == (("b", "a", 1),)
    assert delivered(b, second) == []


def test_a_barrier_holds_only_what_nothing_else_in_it_covers() -> None:
    a, b, c = members()
    first = sent(a, b"1", "bc")
    second = sent(a, b"2", "b", first)
    both = sent(a, b"3", "b", first, second)
    assert both.barrier == (("b", "a", 2), ("c", "a", 1))
    delivered(b, first)
    delivered(b, second)
    # What goes to b is of no use any more once b has it; what goes to c is.
    assert sent(b, b"4", "c", second).barrier == (("c", "a", 1),)
    assert delivered(c, sent(b, b"5", "c", first)) == []


def test_what_was_never_here_cannot_be_named_and_nothing_changes() -> None:
    a, b, _ = members()
    elsewhere = sent(b, b"", "c")
    before = a.snapshot()
    for after in ([elsewhere.message.key], [("a", 1)], "a.1", ("a", 1), [["a", 1]], [None], [("a", [])]):
        with pytest.raises(LocalProtocolError, match="can be named"):
            a.send(b"", ["b"], now=0, after=after)
    assert a.snapshot() == before
    waiting = sent(b, b"", "a", sent(b, b"", "a"))
    delivered(a, waiting)
    with pytest.raises(LocalProtocolError, match="can be named"):
        sent(a, b"", "b", waiting)  # It is here but not delivered.


def test_the_oldest_is_forgotten_and_naming_it_is_refused() -> None:
    a, _, _ = members(remembered_max=2)
    first, second, third = sent(a, b"1", "b"), sent(a, b"2", "b"), sent(a, b"3", "b")
    before = a.snapshot()
    with pytest.raises(LocalProtocolError, match="last 2"):
        sent(a, b"4", "b", first)
    assert a.snapshot() == before
    assert sent(a, b"4", "b", second, third).barrier == (("b", "a", 2), ("b", "a", 3))


def test_a_message_with_too_many_dependencies_is_refused_when_it_is_sent() -> None:
    a, _, _ = members(barrier_max=2)
    packets = [sent(a, b"", "b") for _ in range(3)]
    before = a.snapshot()
    with pytest.raises(LocalProtocolError, match="3 dependencies"):
        sent(a, b"", "b", *packets)
    assert a.snapshot() == before
    joint = sent(a, b"", "b", *packets[:2])
    assert len(sent(a, b"", "b", joint, packets[2]).barrier) == 2


def test_a_repetition_is_nothing_whether_it_waits_or_was_delivered() -> None:
    a, b, _ = members()
    first = sent(a, b"1", "b")
    second = sent(a, b"2", "b", first)
    delivered(b, second)
    before = b.snapshot()
    assert b.receive("a", second, now=0) == []
    assert b.snapshot() == before
    assert delivered(b, first) == [b"1", b"2"]
    before = b.snapshot()
    assert b.receive("a", first, now=0) == []
    assert b.receive("a", second, now=0) == []
    assert b.snapshot() == before


def test_rooms_have_limits_and_what_is_missing_of_its_sender_has_none() -> None:
    a, b, c = members(pending_max=1)
    packets = [sent(a, b"", "b") for _ in range(4)]
    assert delivered(b, packets[1]) == [b""]
    before = b.snapshot()
    with pytest.raises(BufferFullError):
        b.receive("a", packets[3], now=0)
    assert b.snapshot() == before
    assert delivered(b, packets[0]) == [b""]
    assert delivered(b, packets[3]) == [b""]

    missing = sent(c, b"c", "b")
    waiting = [sent(c, b"w", "b", missing) for _ in range(2)]
    delivered(b, waiting[0])
    before = b.snapshot()
    with pytest.raises(BufferFullError):
        b.receive("c", waiting[1], now=0)
    assert b.snapshot() == before
    assert delivered(b, missing) == [b"c", b"w"]


@pytest.mark.parametrize("seed", range(10))
def test_rooms_for_one_message_do_not_stall_if_what_was_refused_comes_again(seed: int) -> None:
    wires = DeclaringWires(mirrored(IndependentSends, pending_max=1), "abcd", seed=seed)
    step = wires.step

    def step_and_retry() -> bool:
        flying = list(wires.flying)
        try:
            return step()
        except BufferFullError:
            wires.flying = flying
            return True

    wires.step = step_and_retry
    wires.babble(40, destinations=anyone)
    wires.check_complete()
    assert History(wires.lanes()).check().counts["causal"] == 0


MESSAGE = Message(sender="a", number=3, to=("b",), level=Level.CAUSAL)
HONEST = IndependentSendsPacket(message=MESSAGE, numbers=(3,), time=2, barrier=(("b", "a", 1), ("c", "a", 1)))


@pytest.mark.parametrize(
    ("sender", "forged", "error"),
    [
        ("a", "hello", RemoteProtocolError),
        ("a", UnorderedPacket(message=MESSAGE, numbers=(1,)), RemoteProtocolError),
        ("c", HONEST, RemoteProtocolError),
        ("z", HONEST, RemoteProtocolError),
        ("a", replace(HONEST, message=replace(MESSAGE, to=("c",))), RemoteProtocolError),
        ("a", replace(HONEST, message=replace(MESSAGE, level=Level.FIFO)), RemoteProtocolError),
        ("a", replace(HONEST, barrier=(("z", "c", 1),)), RemoteProtocolError),
        ("a", replace(HONEST, barrier=(("b", "z", 1),)), RemoteProtocolError),
        ("a", replace(HONEST, barrier=tuple(("b", "c", n) for n in range(1, 5))), RemoteProtocolError),
        ("a", replace(HONEST, barrier=(("c", "b", 1),)), ImpossibleStampError),
        ("a", replace(HONEST, barrier=(("b", "c", 2**41),)), FutureStampError),
        ("a", replace(HONEST, time=2**41), FutureStampError),
    ],
)
def test_what_a_peer_may_not_send_is_refused_and_changes_nothing(sender: str, forged: object, error: type) -> None:
    b = IndependentSends("b", VIEW, barrier_max=3)
    before = b.snapshot()
    with pytest.raises(error):
        b.receive(sender, forged, now=0)
    assert b.snapshot() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": None},
        {"numbers": (4,)},
        {"numbers": ()},
        {"numbers": (True,)},
        {"time": 0},
        {"time": "1"},
        {"barrier": [("b", "a", 1)]},
        {"barrier": (("b", "a"),)},
        {"barrier": (("b", "a", 0),)},
        {"barrier": (("b", 1, 1),)},
        {"barrier": (("c", "b", 1), ("b", "c", 1))},
        {"barrier": (("b", "c", 1), ("b", "c", 1))},
        {"barrier": (("c", "c", 1),)},
        {"barrier": (("a", "c", 1),)},
        {"barrier": (("b", "a", 3),)},
    ],
)
def test_a_malformed_packet_cannot_exist(wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"message|number|time|barrier"):
        replace(HONEST, **wrong)


def test_what_the_caller_may_not_do_is_refused_and_changes_nothing() -> None:
    a, _, _ = members()
    before = a.snapshot()
    for wrong in ({"to": []}, {"to": ["b", "b"]}, {"to": ["z"]}, {"level": Level.TOTAL}):
        with pytest.raises(LocalProtocolError):
            a.send(b"", now=0, **wrong)
    with pytest.raises(LocalProtocolError):
        a.restore(None)
    assert a.snapshot() == before
