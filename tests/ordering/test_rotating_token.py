"""RotatingToken on random wires, its turns one by one, at its limits and against peers that lie."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from beforehand.clocks import View
from beforehand.errors import BufferFullError, FutureStampError, LocalProtocolError, RemoteProtocolError
from beforehand.ordering import Deliver, Held, Level, Message, Missing, Owed, ReliableLink, Sent, Transmit
from beforehand.ordering.message import NUMBER_MAX
from beforehand.ordering.rotating_token import RotatingToken, Token, TokenMessage, TokenRequest
from ordering.wires import Wires, anyone

ABC = View("abc")


def member(name: str, **options: object) -> RotatingToken:
    return RotatingToken(name, ABC, **options)


def message(sender: str, number: int, to: str = "abc", *, level: Level = Level.CAUSAL_TOTAL) -> Message:
    return Message(sender=sender, number=number, to=tuple(to), level=level)


def numbered(of: Message, *, number: int, sequence: int, before: int = 0) -> TokenMessage:
    return TokenMessage(message=of, number=number, sequence=sequence, before=before)


def token(**fields: object) -> Token:
    plain = Token(view=0, hop=1, number=0, sequences=(0, 0, 0), senders=(0, 0, 0), served=(0, 0, 0))
    return replace(plain, **fields)


def delivered(effects: list) -> list[tuple[str, tuple]]:
    return [(effect.message.id, effect.place) for effect in effects if isinstance(effect, Deliver)]


def transmitted(effects: list) -> list[tuple[tuple[str, ...], object]]:
    return [(effect.to, effect.packet) for effect in effects if isinstance(effect, Transmit)]


# On random wires.


@pytest.mark.parametrize("seed", range(60))
def test_all_is_delivered_in_one_causal_order_and_then_all_is_quiet(seed: int) -> None:
    wires = Wires(
        lambda name, view: RotatingToken(name, view, burst_max=1 + seed % 3),
        "abcd"[: 1 + seed % 4],
        seed=seed,
        repeat=0.2,
    )
    wires.babble(40, destinations=anyone)
    wires.check_complete()
    counts = wires.check().counts
    assert counts["causal"] == counts["total"] == counts["fifo"] == 0
    assert not any(m.missing() or m.pending() or m.report().held for m in wires.members.values())
    assert sum(m.snapshot().token is not None for m in wires.members.values()) == 1


@pytest.mark.parametrize("seed", range(20))
def test_a_token_that_never_rests_serves_all_without_being_asked(seed: int) -> None:
    wires = Wires(lambda name, view: RotatingToken(name, view, hold=False, burst_max=2), "abc", seed=seed, repeat=0.1)
    wires.perform("a", wires.members["a"].tick(now=0))
    for _ in range(25):
        name = wires.random.choice("abc")
        wires.send(name, to=anyone(wires.random, name, wires.view))
        wires.step()
    for _ in range(800):
        assert wires.step()
    wires.check_complete()
    assert wires.packets["TokenRequest"] == 0
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0


@pytest.mark.parametrize("seed", range(20))
def test_full_buffers_do_not_block(seed: int) -> None:
    def make(name, view):
        return ReliableLink(RotatingToken(name, view, pending_max=2), resend_after=50, resend_max=400)

    wires = Wires(make, "abc", seed=seed, repeat=0.1, lose=0.2)
    sends = 0
    for _ in range(3_000):
        if sends == 30:
            break
        name = wires.random.choice("abc")
        try:
            wires.send(name, to=anyone(wires.random, name, wires.view))
            sends += 1
        except BufferFullError:
            assert wires.step()
    assert sends == 30
    wires.run()
    wires.check_complete()
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_is_the_whole_state(seed: int) -> None:
    wires = Wires(RotatingToken, "abcd", seed=seed, repeat=0.1)
    rng = random.Random(seed)
    for _ in range(40):
        name = rng.choice("abcd")
        wires.send(name, to=anyone(rng, name, wires.view))
        for _ in range(rng.randrange(5)):
            wires.step()
        name = rng.choice("abcd")
        twin = RotatingToken(name, wires.view)
        twin.restore(wires.members[name].snapshot())
        assert twin.snapshot() == wires.members[name].snapshot()
        assert twin.missing() == wires.members[name].missing()
        wires.members[name] = twin
    wires.run()
    wires.check_complete()
    assert wires.check().counts["causal"] == wires.check().counts["total"] == 0


# Turn by turn.


def test_the_holder_numbers_its_messages_at_once() -> None:
    a = member("a")
    first, second = message("a", 1, "bc"), message("a", 2, "ac")
    assert transmitted(a.send(b"", list("bc"), now=0)) == [
        (("b",), numbered(first, number=1, sequence=1)),
        (("c",), numbered(first, number=1, sequence=1)),
    ]
    effects = a.send(b"", list("ac"), now=0)
    assert delivered(effects) == [("a.2", (2,))]
    assert transmitted(effects) == [(("c",), numbered(second, number=2, sequence=2))]


def test_whoever_has_no_token_asks_all_others_once() -> None:
    b = member("b")
    effects = b.send(b"", now=0)
    assert effects[0] == Sent(message=message("b", 1))
    assert transmitted(effects) == [(("a", "c"), TokenRequest(request=1))]
    assert transmitted(b.send(b"", now=0)) == []
    assert [held.place for held in b.report().held] == [None, None]
    assert b.missing() == [Missing(process="a", what=Owed.TOKEN, number=1)]
    assert [p.waits_for for p in b.pending()] == 2 * b.missing()


def test_an_idle_holder_passes_the_token_to_whoever_asks() -> None:
    a = member("a")
    assert transmitted(a.receive("c", TokenRequest(request=1), now=0)) == [(("c",), token())]
    assert a.snapshot().token is None
    assert a.receive("c", TokenRequest(request=1), now=0) == []  # Repeated.


def test_a_request_that_is_ahead_of_the_token_is_remembered() -> None:
    b = member("b")
    b.send(b"", "b", now=0)
    b.receive("c", TokenRequest(request=1), now=0)
    effects = b.receive("a", token(), now=0)
    assert delivered(effects) == [("b.1", (1,))]
    assert transmitted(effects) == [
        (("c",), token(hop=2, number=1, sequences=(0, 1, 0), senders=(0, 1, 0), served=(0, 1, 0)))
    ]


def test_the_token_goes_round_in_the_order_of_the_view() -> None:
    b = member("b")
    b.receive("a", TokenRequest(request=1), now=0)
    b.receive("c", TokenRequest(request=1), now=0)
    assert transmitted(b.receive("a", token(), now=0))[-1][0] == ("c",)


def test_a_turn_is_short_while_others_wait_and_its_request_stands() -> None:
    b = member("b", burst_max=2)
    for _ in range(3):
        b.send(b"", "b", now=0)
    b.receive("c", TokenRequest(request=1), now=0)
    effects = b.receive("a", token(), now=0)
    assert delivered(effects) == [("b.1", (1,)), ("b.2", (2,))]
    assert transmitted(effects)[-1][1].served == (0, 0, 0)
    assert b.missing() == [Missing(process="c", what=Owed.TOKEN, number=3)]


def test_a_turn_goes_on_while_nobody_else_waits() -> None:
    b = member("b", burst_max=2)
    for _ in range(5):
        b.send(b"", "b", now=0)
    assert len(delivered(b.receive("a", token(), now=0))) == 5
    assert b.snapshot().token is not None


def test_a_repeated_token_is_none() -> None:
    b = member("b")
    b.receive("a", token(), now=0)
    b.receive("c", TokenRequest(request=1), now=0)
    assert b.receive("a", token(), now=0) == []
    assert b.snapshot().token is None


def test_an_early_message_waits_for_the_one_before_it() -> None:
    c = member("c")
    late, early = message("a", 1), message("b", 1)
    assert delivered(c.receive("b", numbered(early, number=2, sequence=2, before=0), now=0)) == []
    assert c.missing() == [Missing(process="a", what=Owed.MESSAGE, number=1)]
    assert c.pending()[0].waits_for == Missing(process="a", what=Owed.MESSAGE, number=1)
    assert c.report().held == (Held(message=early, place=(2,)),)
    assert delivered(c.receive("a", numbered(late, number=1, sequence=1), now=0)) == [("a.1", (1,)), ("b.1", (2,))]
    assert c.receive("a", numbered(late, number=1, sequence=1), now=0) == []


def test_a_message_to_oneself_waits_for_those_before_it() -> None:
    b = member("b")
    b.send(b"", "b", now=0)
    before = token(number=1, sequences=(0, 1, 0))
    assert delivered(b.receive("a", before, now=0)) == []
    assert delivered(b.receive("a", numbered(message("a", 1), number=1, sequence=1), now=0)) == [
        ("a.1", (1,)),
        ("b.1", (2,)),
    ]


# Limits and lies.


def test_messages_without_a_number_have_a_limit() -> None:
    b = member("b", pending_max=1)
    b.send(b"", now=0)
    before = b.snapshot()
    with pytest.raises(BufferFullError):
        b.send(b"", now=0)
    assert b.snapshot() == before


def test_early_messages_have_a_limit_and_the_next_one_has_room() -> None:
    b = member("b", pending_max=1)
    b.receive("a", numbered(message("a", 2), number=2, sequence=2), now=0)
    with pytest.raises(BufferFullError):
        b.receive("a", numbered(message("a", 3), number=3, sequence=3), now=0)
    assert len(delivered(b.receive("a", numbered(message("a", 1), number=1, sequence=1), now=0))) == 2


def test_a_turn_has_at_least_one_message() -> None:
    with pytest.raises(LocalProtocolError):
        member("a", burst_max=0)


FORGED = [
    ("x", TokenRequest(request=1)),
    ("b", TokenRequest(request=1)),  # From ourselves.
    ("a", TokenRequest(request=2**41)),
    ("a", token(view=1, hop=9, number=9, sequences=(0, 9, 0))),
    ("a", Token(view=0, hop=9, number=9, sequences=(0, 9), senders=(0, 0), served=(0, 0))),
    ("a", token(hop=2**41, number=9, sequences=(0, 9, 0))),
    ("a", token(hop=9, number=2**41, sequences=(0, 9, 0))),
    ("a", token(hop=9, number=9, sequences=(0, 9, 0), served=(0, 2, 0))),  # We asked once.
    ("a", token(hop=9, number=9, sequences=(0, 2, 0))),  # Message 3 is here.
    ("a", numbered(message("c", 5), number=9, sequence=9)),
    ("a", numbered(message("a", 5, "ac"), number=9, sequence=9)),
    ("a", numbered(message("a", 5, "abx"), number=9, sequence=9)),
    ("a", numbered(message("a", 5, level=Level.FIFO), number=9, sequence=9)),
    ("a", numbered(message("a", 5), number=9, sequence=9, before=3)),
    ("a", numbered(message("a", 5), number=2**41, sequence=2**41)),
    ("a", ()),
]


@pytest.mark.parametrize("at", range(len(FORGED)))
def test_a_forged_packet_is_refused_and_changes_nothing(at: int) -> None:
    b = member("b")
    b.send(b"", now=0)
    b.receive("a", numbered(message("a", 3), number=3, sequence=3), now=0)
    before = b.snapshot()
    with pytest.raises(RemoteProtocolError):
        b.receive(*FORGED[at], now=0)
    assert b.snapshot() == before


def test_while_we_have_the_token_there_is_no_other_and_nobody_numbers() -> None:
    a = member("a")
    before = a.snapshot()
    with pytest.raises(RemoteProtocolError, match="here"):
        a.receive("b", token(hop=5), now=0)
    with pytest.raises(RemoteProtocolError, match="without the token"):
        a.receive("b", numbered(message("b", 1), number=1, sequence=1), now=0)
    assert a.snapshot() == before


def test_a_token_far_ahead_is_refused() -> None:
    with pytest.raises(FutureStampError):
        member("b").receive("a", token(hop=2**40 + 1), now=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: token(hop=-1),
        lambda: token(number=NUMBER_MAX + 1),
        lambda: token(sequences=(0, 0)),
        lambda: token(sequences=[0, 0, 0]),
        lambda: token(sequences=(1, 0, 0)),  # More than there are messages.
        lambda: token(senders=(3, 0, 0)),
        lambda: token(served=(0, None, 0)),
        lambda: TokenRequest(request=0),
        lambda: numbered(None, number=1, sequence=1),
        lambda: numbered(message("a", 1), number=1, sequence=2),
        lambda: numbered(message("a", 1), number=1, sequence=0),
        lambda: numbered(message("a", 1), number=1, sequence=True),
        lambda: numbered(message("a", 1), number=1, sequence=1, before=-1),
    ],
)
def test_an_impossible_packet_cannot_exist(make) -> None:
    with pytest.raises(ValueError, match=r"."):
        make()


def test_a_foreign_snapshot_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        member("a").restore(1)
    assert member("a").stable() == {}
    assert member("a").tick(now=1) == []
