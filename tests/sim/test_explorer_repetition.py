"""Repeated packets that are proved to do nothing need no search; those that do something are searched, and found."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from test_explorer_finds import RepeatingFifo

from beforehand.ordering import PROTOCOLS, Skeen
from beforehand.sim.explorer import Configuration, Explorer, Stack, explorable, faults_of, sendings, stacks
from beforehand.sim.explorer.engine import Engine

REPEATED = [p for p in PROTOCOLS.values() if explorable(p) and faults_of(next(stacks(p))).repeats]
A, B, C = 1, 2, 4


class ForgetfulSkeen(Skeen):
    """Takes an offer again."""

    def _take_offer(self, sender: str, packet: Any, effects: Any) -> None:
        self._seen.pop(sender, None)
        super()._take_offer(sender, packet, effects)


@pytest.mark.parametrize("protocol", REPEATED, ids=[p.traits.name for p in REPEATED])
def test_with_the_proof_a_search_ends_where_one_with_repetitions_ends(protocol: Any) -> None:
    stack = next(stacks(protocol))
    explorer = Explorer(stack)
    proving, searching = Engine(explorer, prove_repeats=True), Engine(explorer)
    spared = 0
    for lines in (
        *islice(sendings(protocol.traits, 2), 0, None, 11),
        *islice(sendings(protocol.traits, 3), 50, None, 997),
    ):
        configuration = Configuration(operations=lines, faults=faults_of(stack))
        proved: set[Any] = set()
        searched: set[Any] = set()
        one = proving.explore(configuration, finals=proved)
        other = searching.explore(configuration, finals=searched)
        assert (one.configuration, one.complete, one.findings) == (configuration, True, ())
        assert {(*cells, oracle) for *cells, _, oracle, _ in proved} == {
            (*cells, oracle) for *cells, _, oracle, _ in searched
        }
        spared += other.states - one.states
    assert spared > 0


@pytest.mark.parametrize(
    ("protocol", "lines"), [(RepeatingFifo, ((B,), (), ())), (ForgetfulSkeen, ((B | C,), (), ()))]
)
def test_what_a_repeated_packet_breaks_is_found(protocol: Any, lines: Any) -> None:
    stack = Stack(protocol=protocol)
    configuration = Configuration(operations=lines, faults=faults_of(stack))

    found = Engine(Explorer(stack), prove_repeats=True).explore(configuration)

    assert [finding.kind for finding in found.findings] == [
        finding.kind for finding in Explorer(stack).explore(configuration).findings
    ]
    assert found.findings
