"""Unordered: everything is delivered when it comes, once."""

from __future__ import annotations

import pytest

from beforehand.clocks import View
from beforehand.errors import BufferFullError, LocalProtocolError, NotInViewError, RemoteProtocolError
from beforehand.ordering import Deliver, Level, Message, Persist, ReliableLink, Sent, Transmit
from beforehand.ordering.fifo import FifoPacket
from beforehand.ordering.unordered import Unordered, UnorderedPacket
from ordering.mirrored import mirrored
from ordering.wires import Wires, anyone

VIEW = View("abc")


def packet(number: int, *, pair: int | None = None, sender: str = "a", to: tuple[str, ...] = ("b",)):
    message = Message(sender=sender, number=number, to=to)
    return UnorderedPacket(message=message, numbers=(number if pair is None else pair,) * len(message.others))


def numbers(effects) -> list[int]:
    return [effect.message.number for effect in effects if isinstance(effect, Deliver)]


@pytest.mark.parametrize("seed", range(40))
def test_everything_is_delivered_once_on_wires_that_reorder_and_repeat(seed: int) -> None:
    wires = Wires(mirrored(Unordered), "abcd", seed=seed, repeat=0.3)
    wires.babble(40, destinations=anyone)
    wires.check_complete()


@pytest.mark.parametrize("seed", range(10))
def test_a_full_set_on_a_lossy_link_empties_again(seed: int) -> None:
    def make(name, view):
        return ReliableLink(Unordered(name, view, pending_max=1), resend_after=50, resend_max=400)

    wires = Wires(make, "abc", seed=seed, repeat=0.2, lose=0.3)
    wires.babble(30, destinations=anyone)
    wires.check_complete()


def test_it_is_the_control_some_run_breaks_every_order() -> None:
    broken = {"fifo": 0, "causal": 0, "total": 0}
    for seed in range(10):
        wires = Wires(Unordered, "abcd", seed=seed)
        wires.babble(40, destinations=anyone)
        counts = wires.check().counts
        broken = {order: broken[order] + counts[order] for order in broken}
    assert all(broken.values())


def test_a_message_is_sent_at_once_and_delivered_to_oneself_at_once() -> None:
    effects = Unordered("a", VIEW, number=7).send(b"x", ["c", "a"], now=0)
    message = Message(sender="a", number=8, to=("a", "c"), payload=b"x")
    assert effects == [
        Sent(message=message, place=("a", 8)),
        Deliver(message=message, place=("a", 8)),
        Persist(),
        Transmit(to=("c",), packet=UnorderedPacket(message=message, numbers=(1,))),
    ]


def test_a_later_message_does_not_wait_and_a_repetition_is_nothing() -> None:
    member = Unordered("b", VIEW)
    assert numbers(member.receive("a", packet(3), now=0)) == [3]
    assert numbers(member.receive("a", packet(1), now=0)) == [1]
    before = member.snapshot()
    assert member.receive("a", packet(3), now=0) == []
    assert member.receive("a", packet(1), now=0) == []
    assert member.snapshot() == before
    assert (member.pending(), member.missing(), member.report().held) == ([], [], ())


def test_what_overtook_has_a_limit_and_what_is_overtaken_has_none() -> None:
    member = Unordered("b", VIEW, pending_max=2)
    member.receive("a", packet(2), now=0)
    member.receive("a", packet(4), now=0)
    before = member.snapshot()
    with pytest.raises(BufferFullError):
        member.receive("a", packet(5), now=0)
    assert member.snapshot() == before
    assert numbers(member.receive("c", packet(5, sender="c"), now=0)) == [5]
    assert numbers(member.receive("a", packet(1), now=0)) == [1]
    assert numbers(member.receive("a", packet(5), now=0)) == [5]


def test_the_numbers_of_a_pair_do_not_count_messages_to_others() -> None:
    member = Unordered("a", VIEW)
    member.send(b"", ["b"], now=0)
    transmit = member.send(b"", ["b", "c"], now=0)[-1]
    assert transmit.packet.numbers == (2, 1)


@pytest.mark.parametrize(
    ("sender", "forged"),
    [
        ("a", FifoPacket(message=Message(sender="a", number=1, to=("b",), level=Level.UNORDERED), numbers=(1,))),
        ("a", "hello"),
        ("a", packet(1, sender="c")),
        ("a", packet(1, to=("c",))),
        ("a", packet(1, to=("b", "z"))),
        ("z", packet(1, sender="z")),
        ("b", packet(1, sender="b", to=("b", "c"))),
        ("a", UnorderedPacket(message=Message(sender="a", number=1, to=("b",), level=Level.FIFO), numbers=(1,))),
    ],
)
def test_what_a_peer_may_not_send_is_refused_and_changes_nothing(sender: str, forged: object) -> None:
    member = Unordered("b", VIEW)
    before = member.snapshot()
    with pytest.raises(RemoteProtocolError):
        member.receive(sender, forged, now=0)
    assert member.snapshot() == before


@pytest.mark.parametrize("wrong", [(), (1, 1), (0,), (2,), ("1",), [1], (True,)])
def test_a_malformed_packet_cannot_exist(wrong: object) -> None:
    with pytest.raises(ValueError, match="number"):
        UnorderedPacket(message=Message(sender="a", number=1, to=("b",)), numbers=wrong)
    with pytest.raises(ValueError, match="message"):
        UnorderedPacket(message=None, numbers=())


def test_what_the_caller_may_not_do_is_refused_and_changes_nothing() -> None:
    member = Unordered("b", VIEW)
    before = member.snapshot()
    for to in ([], ["a", "a"], ["z"]):
        with pytest.raises(LocalProtocolError):
            member.send(b"", to, now=0)
    with pytest.raises(LocalProtocolError):
        member.send(b"", now=0, level=Level.CAUSAL)
    with pytest.raises(LocalProtocolError):
        member.restore(None)
    with pytest.raises(NotInViewError):
        Unordered("z", VIEW)
    assert member.snapshot() == before
