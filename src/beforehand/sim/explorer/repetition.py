"""Repeated packets without a search for them: proof, process by process, that one that comes again does nothing.

Without a link, most states of a search differ only in which packet is under way for a second time. They need not be
searched where `harmless` holds: whatever a process has done since it received a packet, to receive it again changes
nothing of it, sends nothing and delivers nothing.

Why that is enough. Take a run in which packets arrive again, and leave these arrivals out. By what `harmless` says
the first of them changed no cell, sent nothing and told the judge nothing, so the run without it is one too, with
the same deliveries, and so on to the last. A repeated packet on its way holds up the timers, which wait until
nothing is under way; without it they may go off earlier as well. So every run with repetitions has its like among
those without, which are searched all: what those never break, these do not.

How it is found out. Per cell, the packets that may have come before: those of the cells that lead to it, and the one
that leads there, if somebody may have sent it. That takes in more than a search can come to, since it knows one
process at a time; if one of these would do something, the search with repetitions is made after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from beforehand.sim.explorer.automaton import Automaton, Step
from beforehand.sim.explorer.configuration import Configuration
from beforehand.sim.explorer.post import NOTHING, Post

__all__ = ["is_harmless"]


def is_harmless(automata: Sequence[Automaton], post: Post, configuration: Configuration) -> bool:
    """Whether no packet does anything when it comes again. Asked after the search without repetitions."""
    reached = [_Reached(automaton, configuration.operations[at]) for at, automaton in enumerate(automata)]
    sent: set[int] = set()
    new = [packet for automaton in automata for packet in post.outs.values[automaton.start.out]]
    for process in reached:
        process.begin()
    while True:
        for packet in new:
            if packet not in sent:
                sent.add(packet)
                reached[post.receivers[packet]].expect(packet)
        new = []
        for process in reached:
            for out in process.go_on():
                new += post.outs.values[out]
            if process.harm:
                return False
        if not new:
            return True


class _Reached:
    """What one process may come to."""

    def __init__(self, automaton: Automaton, operations: tuple[int, ...]) -> None:
        self._automaton: Final = automaton
        self._operations: Final = operations
        self._had: Final[dict[int, set[int]]] = {}  # By cell: packets that may have come before.
        self._onward: Final[dict[int, list[int]]] = {}  # By cell: where it leads to.
        self._expected: Final[set[int]] = set()  # Packets that somebody may have sent to it.
        self._new: list[tuple[int, int, Step]] = []  # Steps to look at: cell, packet or NOTHING.
        self._outs: set[int] = set()  # What the steps send, told already.
        self.harm = False

    def begin(self) -> None:
        self._come_to(self._automaton.start.cell, set())

    def expect(self, packet: int) -> None:
        """It may arrive, wherever the search has seen it arrive."""
        self._expected.add(packet)
        received = self._automaton.received
        self._new += [(cell, packet, received[cell][packet]) for cell in self._had if packet in received[cell]]

    def go_on(self) -> list[int]:
        """Look at all steps that are new; what they send, each list once."""
        told = []
        while self._new and not self.harm:
            cell, packet, step = self._new.pop()
            if step.out not in self._outs:
                self._outs.add(step.out)
                told.append(step.out)
            if step.cell != cell:
                self._onward[cell].append(step.cell)
            self._come_to(step.cell, self._had[cell] | ({packet} - {NOTHING}))
        return told

    def _come_to(self, cell: int, packets: set[int]) -> None:
        """These may have come before the cell, and so before all that it leads to."""
        left = [(cell, packets)]
        while left:
            cell, packets = left.pop()
            if cell not in self._had:
                self._had[cell], self._onward[cell] = set(), []
                known = self._automaton.known(cell, self._operations)
                self._new += [(cell, p, step) for p, step in known if p == NOTHING or p in self._expected]
            new = packets - self._had[cell]
            if new:
                self._had[cell] |= new
                self.harm |= not all(self._automaton.is_idle(cell, packet) for packet in new)
                left += [(after, new) for after in self._onward[cell]]
