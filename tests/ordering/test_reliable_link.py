"""The reliable link by hand: numbers, acknowledgements, resending, limits, crashes, departures."""

from __future__ import annotations

from typing import Any

import pytest

from beforehand.clocks import View
from beforehand.errors import BufferFullError, LocalProtocolError, RemoteProtocolError
from beforehand.ordering import (
    Deliver,
    Fifo,
    Frame,
    LamportTotal,
    Membership,
    Owed,
    Persist,
    Refused,
    ReliableLink,
    SetTimer,
    Transmit,
)

VIEW = View("ab")
AFTER = 100


def link(name: str, **options: Any) -> ReliableLink:
    return ReliableLink(Fifo(name, VIEW), resend_after=AFTER, resend_max=8 * AFTER, **options)


def frames(effects: list[Any]) -> list[Frame]:
    return [effect.packet for effect in effects if isinstance(effect, Transmit)]


def delivered(effects: list[Any]) -> list[bytes]:
    return [effect.message.payload for effect in effects if isinstance(effect, Deliver)]


def timer(effects: list[Any]) -> int | None:
    return next(effect.at for effect in effects if isinstance(effect, SetTimer))


def test_a_frame_is_sent_again_until_it_is_acknowledged_and_ever_less_often() -> None:
    a, b = link("a"), link("b")
    effects = a.send(b"x", ["b"], now=0)
    [first] = frames(effects)
    assert timer(effects) == 100
    for now, then in ((100, 200), (200, 400), (400, 800), (800, 1600), (1600, 2400)):
        effects = a.tick(now=now)
        assert [frame.packet for frame in frames(effects)] == [first.packet]
        assert timer(effects) == then
    [acknowledgement] = frames(b.receive("a", first, now=0))
    assert (acknowledgement.number, acknowledgement.mark) == (0, 1)
    assert SetTimer(at=None) in a.receive("b", acknowledgement, now=2_000)
    assert a.missing() == []


def test_a_repeated_frame_is_acknowledged_again_and_not_delivered_again() -> None:
    a, b = link("a"), link("b")
    [frame] = frames(a.send(b"x", ["b"], now=0))
    assert delivered(b.receive("a", frame, now=0)) == [b"x"]
    again = b.receive("a", frame, now=0)
    assert delivered(again) == []
    assert [f.mark for f in frames(again)] == [1]


def test_an_ordered_link_hands_over_in_order_whatever_comes() -> None:
    view = View("ab")
    a = ReliableLink(LamportTotal("a", view))
    b = ReliableLink(LamportTotal("b", view), ordered=True)
    [one], [two] = frames(a.send(b"1", now=0)), frames(a.send(b"2", now=0))
    early = frames(b.receive("a", two, now=0))
    assert [(f.mark, f.above) for f in early] == [(0, (2,))]
    b.receive("a", one, now=0)
    assert [p.message.payload for p in b.pending()] in ([b"1", b"2"], [])
    b.check_invariants()


def test_later_frames_that_come_through_do_not_put_the_oldest_off() -> None:
    # Found by the explorer: a member came back, and what it sent at each tick was acknowledged, the first one never.
    a = link("a")
    [lost] = frames(a.send(b"0", ["b"], now=0))
    for step in range(1, 5):
        now = step * (AFTER - 10)
        [frame] = [f for f in frames(a.send(b"x", ["b"], now=now)) if f.number > 1]
        a.receive("b", Frame(number=0, packet=None, mark=0, above=(frame.number,)), now=now)
        if any(f.number == lost.number for f in frames(a.tick(now=now))):
            break
    else:
        raise AssertionError("the first frame was never sent again")


class Chatty(Fifo):
    """Sends something at every tick, as a membership does."""

    def tick(self, *, now: int) -> list[Any]:
        return self.send(b"tick", ["b"], now=now)


def test_what_is_restored_is_sent_again_at_the_first_tick_even_if_the_protocol_sends_too() -> None:
    before = ReliableLink(Fifo("a", VIEW), resend_after=AFTER)
    before.send(b"x", ["b"], now=0)
    after = ReliableLink(Chatty("a", VIEW), resend_after=AFTER)
    after.restore(before.snapshot())
    assert [frame.number for frame in frames(after.tick(now=50))] == [1, 2]


def test_a_snapshot_brings_back_what_was_not_acknowledged() -> None:
    a, b = link("a"), link("b")
    a.send(b"x", ["b"], now=0)  # And the packet is lost, with the process.
    back = link("a")
    back.restore(a.snapshot())
    assert back.snapshot() == a.snapshot()
    [frame] = frames(back.tick(now=0))
    assert delivered(b.receive("a", frame, now=0)) == [b"x"]


def test_persist_stands_before_what_is_transmitted() -> None:
    effects = link("a").send(b"x", ["b"], now=0)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(Persist) < kinds.index(Transmit)


def test_a_full_window_refuses_to_send_and_changes_nothing() -> None:
    a = link("a", window_max=2)
    a.send(b"1", ["b"], now=0)
    a.send(b"2", ["b"], now=0)
    before = a.snapshot()
    with pytest.raises(BufferFullError, match="'b' has not acknowledged"):
        a.send(b"3", ["b"], now=0)
    assert a.snapshot() == before
    assert [(m.process, m.what, m.number) for m in a.missing()] == [("b", Owed.ACKNOWLEDGEMENT, 1)]


def test_what_the_protocol_has_no_room_for_is_not_acknowledged() -> None:
    a = link("a", ordered=False)
    b = ReliableLink(Fifo("b", VIEW, pending_max=1), ordered=False)
    first, second, third = (frames(a.send(payload, ["b"], now=0))[0] for payload in (b"1", b"2", b"3"))
    b.receive("a", third, now=0)
    effects = b.receive("a", second, now=0)
    assert any(isinstance(effect, Refused) for effect in effects)
    assert [(f.mark, f.above) for f in frames(effects)] == [(0, (3,))]
    assert delivered(b.receive("a", first, now=0)) == [b"1"]
    assert delivered(b.receive("a", second, now=0)) == [b"2", b"3"]


def test_a_frame_far_ahead_is_refused() -> None:
    a, b = link("a"), link("b", window_max=2)
    [frame] = frames(a.send(b"x", ["b"], now=0))
    effects = b.receive("a", Frame(number=9, packet=frame.packet, mark=0), now=0)
    assert "too far ahead" in next(effect.why for effect in effects if isinstance(effect, Refused))
    assert b.snapshot().peers[0].above == ()


@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("a", Frame(number=0, packet=None, mark=7)),
        ("a", Frame(number=0, packet=None, mark=0, above=(3,))),
        ("a", "no frame"),
        ("z", Frame(number=0, packet=None, mark=0)),
        ("b", Frame(number=0, packet=None, mark=0)),
    ],
)
def test_what_a_peer_must_not_say_is_refused_and_changes_nothing(sender: str, packet: Any) -> None:
    b = link("b")
    before = b.snapshot()
    with pytest.raises(RemoteProtocolError):
        b.receive(sender, packet, now=0)
    assert b.snapshot() == before


def test_a_packet_that_breaks_the_rules_is_told_and_does_not_come_again() -> None:
    b = link("b")
    effects = b.receive("a", Frame(number=1, packet="nonsense", mark=0), now=0)
    assert any(isinstance(effect, Refused) for effect in effects)
    assert [f.mark for f in frames(effects)] == [1]


def test_one_that_wants_to_leave_waits_for_the_others() -> None:
    view = View("abc")
    a = ReliableLink(
        Membership("a", view, lambda name, v, number: Fifo(name, v, number=number), notice_interval=10),
        resend_after=AFTER,
        resend_max=AFTER,
    )
    a.leave(now=0)
    now = 0
    for _ in range(40):  # Nobody answers.
        now += AFTER
        effects = a.tick(now=now)
    assert a.missing() != []  # It cannot leave by itself: the others have to report.
    assert frames(effects)


def test_only_a_group_with_a_membership_can_be_left() -> None:
    with pytest.raises(LocalProtocolError, match="no membership layer"):
        link("a").leave(now=0)
    with pytest.raises(LocalProtocolError, match="no membership layer"):
        link("a").evict(["b"], now=0)
