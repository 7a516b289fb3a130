"""The explorer's judge against the checks of `history`, which share no code with it."""

from __future__ import annotations

import random

import pytest

from beforehand.events import Event
from beforehand.history import History
from beforehand.sim.explorer.oracle import CAUSAL, FIFO, NUMBERS_MAX, TOTAL, Happening, Oracle, What, bit_of

NAMES = "abc"
ORDERS = {"fifo": FIFO, "causal": CAUSAL, "total": TOTAL}


def random_history(rng: random.Random) -> list[tuple[int, Happening]]:
    """Sends and deliveries in any order that respects nothing but that a message is sent before it is delivered."""
    numbers = [0, 0, 0]
    waiting: list[tuple[int, int]] = []
    happened: list[tuple[int, Happening]] = []
    left = rng.randint(2, 5)
    while left or waiting:
        if left and (not waiting or rng.random() < 0.4):
            sender, to = rng.randrange(3), rng.randint(1, 7)
            numbers[sender] += 1
            left -= 1
            message = bit_of(sender, numbers[sender])
            happened.append((sender, Happening(What.SENT, message, to)))
            waiting += [(at, message) for at in range(3) if to >> at & 1]
        else:
            at, message = waiting.pop(rng.randrange(len(waiting)))
            happened.append((at, Happening(What.DELIVERED, message)))
    return happened


def judged_by_history(happened: list[tuple[int, Happening]]) -> int:
    indexes = [0, 0, 0]
    events = []
    for at, happening in happened:
        indexes[at] += 1
        sender, number = divmod(happening.message, NUMBERS_MAX)
        name = f"{NAMES[sender]}.{number + 1}"
        sends, receives = ((name,), ()) if happening.what == What.SENT else ((), (name,))
        events.append(Event(process=NAMES[at], index=indexes[at], sends=sends, receives=receives))
    counts = History(events).check().counts
    return sum(flag for order, flag in ORDERS.items() if counts[order])


def judged_by_oracle(oracle: Oracle, happened: list[tuple[int, Happening]]) -> int:
    state = Oracle.START
    for at, happening in happened:
        state = oracle.after(state, at, (happening,))
    return oracle.flags[state]


@pytest.mark.parametrize("judge", [FIFO | CAUSAL | TOTAL, FIFO, CAUSAL | FIFO, TOTAL])
def test_oracle_and_history_agree_on_random_histories(judge: int) -> None:
    oracle = Oracle(3, judge=judge)
    rng = random.Random(judge)
    verdicts = set()
    for _ in range(1_500 if judge == 7 else 500):
        happened = random_history(rng)
        expected = judged_by_history(happened) & judge
        assert judged_by_oracle(oracle, happened) == expected
        verdicts.add(expected)
    assert {0, judge} <= verdicts


def test_a_second_delivery_and_a_stray_one_are_seen() -> None:
    oracle = Oracle(3)
    sent = oracle.after(Oracle.START, 0, (Happening(What.SENT, 0, 0b010),))
    delivered = (Happening(What.DELIVERED, 0),)
    once = oracle.after(sent, 1, delivered)
    assert oracle.flags[once] == 0
    assert oracle.flags[oracle.after(once, 1, delivered)] == 8
    assert oracle.flags[oracle.after(sent, 2, delivered)] == 16
    assert oracle.flags[oracle.after(Oracle.START, 2, delivered)] == 16


def test_the_deliveries_of_those_who_leave_are_out_of_the_total_order() -> None:
    def crossed(oracle: Oracle) -> int:
        state = oracle.after(Oracle.START, 0, (Happening(What.SENT, 0, 0b110), Happening(What.SENT, 1, 0b110)))
        state = oracle.after(state, 1, (Happening(What.DELIVERED, 0), Happening(What.DELIVERED, 1)))
        state = oracle.after(state, 2, (Happening(What.DELIVERED, 1), Happening(What.DELIVERED, 0)))
        return oracle.flags[state] & TOTAL

    assert crossed(Oracle(3)) == TOTAL
    assert crossed(Oracle(3, deaf=0b100)) == 0
