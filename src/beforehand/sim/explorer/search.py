"""The search: every state that a configuration can get into, breadth first, so that what is found is shortest.

In a final state everything must be delivered and nobody may wait; one must be reached, and with `rest` one must be
within reach of every state: nothing goes round in circles for ever. `moves` says what is covered.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from beforehand.clocks import View
from beforehand.sim.explorer.automaton import OUTSIDE, Automaton
from beforehand.sim.explorer.configuration import PROCESSES, Configuration, Stack
from beforehand.sim.explorer.counterexample import Counterexample
from beforehand.sim.explorer.moves import Label, Moves, State
from beforehand.sim.explorer.operations import EVICT
from beforehand.sim.explorer.oracle import CAUSAL, FIFO, INTEGRITY, NAMES, NUMBERS_MAX, TOTAL, Oracle
from beforehand.sim.explorer.post import Flights, OrderedFlights, Post

__all__ = ["Exploration", "Explorer", "Search", "promised"]

RESTLESS: Final = "it never comes to rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What the search of one configuration came to."""

    configuration: Configuration
    states: int
    transitions: int
    finals: int
    depth: int
    seconds: float
    complete: bool  # Whether every state was seen; not if it was cut short by a finding or a limit.
    findings: tuple[Counterexample, ...] = ()  # The first of each kind.


def promised(stack: Stack) -> int:
    """The orders that the protocol promises, as the oracle's flags."""
    traits = stack.traits
    return FIFO * traits.fifo | CAUSAL * traits.causal | TOTAL * traits.total


class Explorer:
    """Of one stack. What it finds out about single processes serves all its configurations."""

    def __init__(self, stack: Stack) -> None:
        self.stack: Final = stack
        self.names: Final = PROCESSES
        self.post: Final = Post()
        view, durable = View(PROCESSES), stack.link is not None
        self.automata: Final = [
            Automaton(at, view, lambda at=at: stack.make(at, view), self.post, durable=durable)  # type: ignore[misc]
            for at in range(len(PROCESSES))
        ]
        self.flights: Final = OrderedFlights(self.post.outs, self.post) if stack.fifo else Flights(self.post.outs)
        self._oracles: Final[dict[tuple[int, int], Oracle]] = {}

    def explore(
        self,
        configuration: Configuration,
        *,
        wanted: int = 0,
        depth_max: int | None = None,
        states_max: int | None = None,
        reduce: bool = True,
        rest: bool = False,
        finals: set[State] | None = None,
    ) -> Exploration:
        """Search one configuration. The first breach of a promise ends it.

        `wanted`: orders that are not promised. The first breach of each is a finding too, and when there is one of
        each the search ends. `rest`: see the module; it takes twice the time and more memory. `finals` takes the
        final states.
        """
        search = Search(self, configuration, wanted=wanted, reduce=reduce)
        began = time.perf_counter()
        ends = set[State]() if finals is None else finals
        complete = search.run(depth_max=depth_max, states_max=states_max, finals=ends)
        if complete and rest:
            search.look_for_circles(ends)
        findings = tuple(search.counterexample(kind, end) for kind, end in search.ends.items())
        return Exploration(
            configuration=configuration,
            states=search.states,
            transitions=search.transitions,
            finals=search.finals,
            depth=search.depth,
            seconds=time.perf_counter() - began,
            complete=complete,
            findings=findings,
        )

    @property
    def remembered(self) -> int:
        """How much has been found out for good: states of single processes, flights, and histories."""
        cells = sum(len(automaton.up) for automaton in self.automata)
        return cells + len(self.flights.arriving) + sum(len(oracle.states) for oracle in self._oracles.values())

    def oracle(self, judge: int, deaf: int) -> Oracle:
        """The judge of these orders; see `Oracle`."""
        found = self._oracles.get((judge, deaf))
        if found is None:
            found = self._oracles[judge, deaf] = Oracle(len(PROCESSES), judge=judge, deaf=deaf)
        return found


class Search:
    """Of one configuration, in Python: the reference for `engine`, and the only one that finds anything."""

    def __init__(self, explorer: Explorer, configuration: Configuration, *, wanted: int, reduce: bool) -> None:
        self._explorer: Final = explorer
        self._configuration: Final = configuration
        self._wanted: Final = wanted
        self.oracle: Final = explorer.oracle(promised(explorer.stack) | wanted, configuration.leaving)
        self.moves: Final = Moves(explorer, configuration, self.oracle, reduce=reduce)
        self._seen: Final[set[State]] = set()
        self.ends: Final[dict[str, State]] = {}  # By kind of finding, where it shows.
        self.states = self.transitions = self.finals = self.depth = 0

    def run(self, *, depth_max: int | None, states_max: int | None, finals: set[State]) -> bool:
        """Whether the search is complete."""
        flags, moves_of = self.oracle.flags, self.moves.of
        seen = self._seen
        seen.add(self.moves.start())
        level = list(seen)
        while level:
            self.states = len(seen)
            if (depth_max is not None and self.depth >= depth_max) or (states_max and self.states > states_max):
                return False
            self.depth += 1
            following: list[State] = []
            for state in level:
                moves, final = moves_of(state)
                self.transitions += len(moves)
                if final:
                    self.finals += 1
                    finals.add(state)
                if why := self.moves.failure or (self.unfinished(state) if final else ""):
                    self.ends[why] = state
                    return False
                for successor in moves:
                    if successor not in seen:
                        seen.add(successor)
                        following.append(successor)
                        if flags[successor[4]] and self._enough(successor, flags[successor[4]]):
                            return False
            level = following
        if not self.finals:
            self.ends[RESTLESS] = self.moves.start()
        return True

    def look_for_circles(self, finals: set[State]) -> None:
        """After a complete search: is a final state within reach of every state?"""
        before: dict[State, list[State]] = {}
        for state in self._seen:
            for successor in self.moves.of(state)[0]:
                before.setdefault(successor, []).append(state)
        reaching, new = set(finals), list(finals)
        while new:
            for state in before.get(new.pop(), ()):
                if state not in reaching:
                    reaching.add(state)
                    new.append(state)
        if lost := self._seen - reaching:
            self.ends[RESTLESS] = min(lost)

    def counterexample(self, kind: str, end: State) -> Counterexample:
        """The shortest way to where a finding shows: the search again, now with a memory of where it came from."""
        start = self.moves.start()
        came: dict[State, tuple[State, Label]] = {}
        level = [start]
        while end != start and end not in came:
            following: list[State] = []
            for state in level:
                labels: list[Label] = []
                self.moves.labels = labels
                for successor, label in zip(self.moves.of(state)[0], labels, strict=False):
                    if successor != start and successor not in came:
                        came[successor] = (state, label)
                        following.append(successor)
            level = following
        path: list[Label] = []
        self.moves.labels = labels = []
        self.moves.of(end)
        if self.moves.failure == kind:
            path.append(next(label for label in labels if label.note == kind))
        while end != start:
            end, label = came[end]
            path.append(label)
        happenings = self._explorer.post.happenings.values
        return Counterexample.of(
            kind,
            self._explorer.stack.traits.name,
            self._configuration,
            self._explorer.names,
            [
                (label.what, label.process, label.note, [(at, happenings[number]) for at, number in label.happenings])
                for label in reversed(path)
            ],
        )

    def _enough(self, state: State, broken: int) -> bool:
        """Note the orders broken in a state; whether the search may end."""
        breaches = (promised(self._explorer.stack) | INTEGRITY) & ~self._wanted
        for flag, name in NAMES.items():
            if broken & flag & (breaches | self._wanted):
                self.ends.setdefault(name, state)
        found = all(name in self.ends for flag, name in NAMES.items() if flag & self._wanted)
        return bool(broken & breaches) or (bool(self._wanted) and found)

    def unfinished(self, state: State) -> str:
        """What is wrong with a final state; empty if nothing is."""
        oracle, names = self.oracle.states[state[4]], self._explorer.names
        gone = self._configuration.leaving
        members = [(at, automaton, state[at]) for at, automaton in enumerate(self._explorer.automata)]
        stays = [not (automaton.departed[cell] or gone >> at & 1) for at, automaton, cell in members]
        for at, automaton, cell in members:
            if automaton.waiting[cell] == OUTSIDE and self._configuration.stopping:
                continue  # Who was to admit it stopped; if somebody has it in its view, that one waits for it.
            if stays[at] and automaton.waiting[cell]:
                return f"{automaton.name} is stuck: {automaton.waiting[cell]}"
        for entry in oracle.live:
            sender, number = divmod(entry.message, NUMBERS_MAX)
            lacking = [at for at, _, _ in members if entry.lacks >> at & 1 and stays[at]]
            has = any(oracle.delivered[at] >> entry.message & 1 and stays[at] for at, _, _ in members)
            if lacking and (stays[sender] or has):
                return f"{names[lacking[0]]} never delivers {names[sender]}.{number + 1}"
        if not oracle.refused:
            for at, automaton, cell in members:
                sent = (oracle.sent >> at * NUMBERS_MAX & (1 << NUMBERS_MAX) - 1).bit_count()
                asked = sum(o < EVICT for o in self._configuration.operations[at][: automaton.done[cell]])
                if stays[at] and sent != asked:
                    return f"{automaton.name} has sent {sent} messages instead of {asked}"
        return ""
