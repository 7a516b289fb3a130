"""What Garg, chapter 12.3.1, says of a token that assigns sequence numbers, in our words."""

from __future__ import annotations

import pytest

from beforehand.ordering import Deliver, Transmit
from beforehand.ordering.rotating_token import RotatingToken
from ordering.wires import Wires, anyone


@pytest.mark.parametrize("seed", range(15))
def test_messages_are_delivered_in_the_sequence_that_the_token_assigned(seed: int) -> None:
    wires = Wires(RotatingToken, "abcd", seed=seed)
    numbers: dict[str, list[int]] = {name: [] for name in "abcd"}
    perform = wires.perform

    def recording(name, effects):
        numbers[name] += [effect.place[0] for effect in effects if isinstance(effect, Deliver)]
        perform(name, effects)

    wires.perform = recording
    wires.babble(40, destinations=anyone)
    assert all(given == sorted(given) for given in numbers.values())
    assert {number for given in numbers.values() for number in given} == set(range(1, 41))


def test_the_work_is_balanced_over_time() -> None:
    # A coordinator sends all multicasts; here every member sends its own.
    wires = Wires(RotatingToken, "abcd")
    sent = dict.fromkeys("abcd", 0)
    perform = wires.perform

    def counting(name, effects):
        sent[name] += sum(type(e.packet).__name__ == "TokenMessage" for e in effects if isinstance(e, Transmit))
        perform(name, effects)

    wires.perform = counting
    for _ in range(3):
        for name in "abcd":
            wires.send(name)
    wires.run()
    assert sent == {"a": 9, "b": 9, "c": 9, "d": 9}


def test_a_busy_member_does_not_keep_the_token_from_the_others() -> None:
    wires = Wires(lambda name, view: RotatingToken(name, view, burst_max=2), "abc")
    for _ in range(9):
        wires.send("b")
    wires.send("c")
    # b's request reaches the first holder, c's both a and b, and then the token goes from a to b.
    wires.flying.sort(key=lambda packet: (packet[1] != "a", packet[0], packet[1]))
    wires.fifo = True
    wires.random.randrange = lambda count: 0
    wires.run()
    assert [message.sender for message in wires.delivered["a"]] == list("bbcbbbbbbb")


def test_an_idle_group_sends_nothing() -> None:
    wires = Wires(RotatingToken, "abc")
    wires.send("c")
    wires.run()
    assert wires.packets == {"TokenRequest": 2, "Token": 1, "TokenMessage": 2}
    assert not wires.step()
