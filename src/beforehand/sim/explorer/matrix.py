"""The property matrix: which protocol keeps which order, and for every "no" the smallest run that shows it.

A "yes" stands for what the protocol promises and the exploration did not refute. A "no" is a counterexample: of all
with the fewest messages one with the fewest steps. A protocol that keeps an order which it does not promise, at the
sizes explored, is "not refuted": somebody should look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from beforehand.sim.explorer.configuration import Configuration, Stack, sendings
from beforehand.sim.explorer.counterexample import Counterexample
from beforehand.sim.explorer.oracle import CAUSAL, FIFO, NAMES, TOTAL
from beforehand.sim.explorer.plan import faults_of
from beforehand.sim.explorer.search import Explorer, promised

__all__ = ["Row", "matrix", "smallest"]

ORDERS: Final = (FIFO, CAUSAL, TOTAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One protocol. `breaches` are broken promises: there should be none."""

    protocol: str
    verdicts: Mapping[str, str]  # Per order: "yes", "no" or "not refuted".
    counterexamples: Mapping[str, Counterexample]  # For every "no".
    breaches: tuple[Counterexample, ...] = ()
    configurations: int = 0
    states: int = field(default=0, compare=False)


def matrix(protocols: Iterable[Any], *, messages_max: int = 3, messages_explored: int = 2) -> list[Row]:
    """A row per protocol class.

    Promises are tried with every configuration of up to `messages_explored` messages; refutations are looked for with
    up to `messages_max`.
    """
    return [_row(protocol, messages_max, messages_explored) for protocol in protocols]


def smallest(stack: Stack, order: int, *, messages_max: int) -> Counterexample | None:
    """The smallest run of the stack that breaks the order."""
    explorer = Explorer(stack)
    for messages in range(1, messages_max + 1):
        best: Counterexample | None = None
        for lines in sendings(stack.traits, messages):
            configuration = Configuration(operations=lines)
            limit = None if best is None else len(best.steps) - 1
            found = explorer.explore(configuration, wanted=order, depth_max=limit).findings
            best = next((one for one in found if one.kind == NAMES[order]), best)
        if best is not None:
            return best
    return None


def _row(protocol: Any, messages_max: int, messages_explored: int) -> Row:
    stack = Stack(protocol=protocol)
    explorer, faults = Explorer(stack), faults_of(stack)
    breaches: list[Counterexample] = []
    configurations = states = 0
    for messages in range(1, messages_explored + 1):
        for lines in sendings(stack.traits, messages):
            result = explorer.explore(Configuration(operations=lines, faults=faults))
            configurations += 1
            states += result.states
            breaches += result.findings
        if breaches:
            break
    verdicts: dict[str, str] = {}
    counterexamples: dict[str, Counterexample] = {}
    for order in ORDERS:
        name = NAMES[order]
        if promised(stack) & order:
            verdicts[name] = "no" if any(b.kind == name for b in breaches) else "yes"
        else:
            found = smallest(stack, order, messages_max=messages_max)
            verdicts[name] = "not refuted" if found is None else "no"
            if found is not None:
                counterexamples[name] = found
    return Row(
        protocol=stack.traits.name,
        verdicts=verdicts,
        counterexamples=counterexamples,
        breaches=tuple(breaches),
        configurations=configurations,
        states=states,
    )
