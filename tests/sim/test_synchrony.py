"""The check of synchronous order, by hand and on runs of protocols."""

from __future__ import annotations

from beforehand.events import Event
from beforehand.sim import draw, simulate
from beforehand.sim.synchrony import synchrony


def event(process: str, index: int, *, sends: str = "", receives: str = "") -> Event:
    return Event(
        process=process, index=index, sends=tuple(filter(None, [sends])), receives=tuple(filter(None, [receives]))
    )


def test_two_messages_that_cross_have_no_instants() -> None:
    crossing = [
        event("a", 1, sends="m"),
        event("a", 2, receives="n"),
        event("b", 1, sends="n"),
        event("b", 2, receives="m"),
    ]
    [failure] = synchrony(crossing)
    assert "no instants" in failure
    assert synchrony(crossing, without=["b"]) == []


def test_messages_one_after_the_other_have_instants() -> None:
    assert (
        synchrony(
            [
                event("a", 1, sends="m"),
                event("b", 1, receives="m"),
                event("b", 2, sends="n"),
                event("a", 2, receives="n"),
            ]
        )
        == []
    )


def test_rendezvous_keeps_it_and_causal_unicast_does_not() -> None:
    broken = 0
    for seed in range(30):
        assert simulate(draw("rendezvous", seed)).verdict.passed, seed
        broken += bool(synchrony(simulate(draw("causal-unicast", seed)).record.events))
    assert broken > 10
