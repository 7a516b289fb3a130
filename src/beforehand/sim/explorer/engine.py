"""The explorer's engine: the compiled search where it applies, and the search in Python where there is more to say.

Its `Exploration` equals that of `Explorer.explore` in every figure, on the same explorer: `native` makes the same
moves, and this module answers its questions by asking the same automata and the same oracle, each question once. It
finds nothing by itself. When a step fails, an order is broken, a final state lacks something or none is reached, what
was computed is thrown away and the configuration is searched again in Python, which yields the counterexample.

With `prove_repeats` the states in which a packet is under way again are not searched where it can be proved that such
a packet does nothing (`repetition`): there are fewer states then, and final ones only without repetitions.

It applies to configurations whose members stay, without early timers: the parts `bare` and `link`. All others go to
the search in Python at once.

A state takes 26 to 52 bytes, what is under way some more. At `memory_max` bytes the configuration is cut short, as at
`states_max`: it is not complete, and says so.

Why on the same explorer: packets are numbered as they come up, and of several acknowledgements under way the one with
the lowest number is taken first (`moves`, *Reduction*). Another numbering leads to the same final states by others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.sim.explorer import native
from beforehand.sim.explorer.automaton import Step
from beforehand.sim.explorer.configuration import Configuration
from beforehand.sim.explorer.moves import State
from beforehand.sim.explorer.operations import EVICT
from beforehand.sim.explorer.repetition import is_harmless
from beforehand.sim.explorer.search import Exploration, Explorer, Search

__all__ = ["MEMORY_MAX", "Engine"]

MEMORY_MAX: Final = 6 << 30
"""Bytes for the states of one configuration, and what is under way in them."""

STATES_MIN: Final = 1 << 13
ANSWERS_MIN: Final = 1 << 12
ASKED_MAX: Final = 1 << 14
FINALS_MAX: Final = 1 << 12
CELLS_MAX: Final = 1 << 21
ORACLES_MAX: Final = 1 << 24
NUMBERS: Final = (1 << 29) - 1

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


class Engine:
    """Of one explorer, which it may share with searches in Python."""

    def __init__(self, explorer: Explorer, *, memory_max: int = MEMORY_MAX, prove_repeats: bool = False) -> None:
        self.explorer: Final = explorer
        self._prove_repeats: Final = prove_repeats and explorer.stack.link is None
        self._memory_max: Final = memory_max
        self._answers: Integers = np.zeros((ANSWERS_MIN, 2), np.int64)
        self._answered = 0
        self._steps: Final = _Rows(5)
        self._cuts: Final = _Rows(3)
        self._numbers: Final[dict[Step, int]] = {}
        self._outs: Final = _Rows(1)  # Where each list begins; the last row is where the next one will.
        self._outs.extend([0])
        self._sent: Final = _Rows(1)
        self._packets: Final = _Rows(3)
        self._cells: Integers = np.zeros((3, 256), np.int64)
        self._entered: Final = [0, 0, 0]  # Cells of each process that are in `_cells`.
        self._asked: Final = np.zeros(ASKED_MAX, np.int64)
        self._finals: Final = np.zeros((FINALS_MAX, 2), np.int64)
        self._moves: Final = np.zeros((native.MOVES_MAX, 7), np.int64)
        self._bag: Final = np.zeros(native.BAG_MAX, np.int64)
        # Of one configuration; kept for the next one, which is often as large.
        self._control: Final = np.zeros(native.COUNTERS, np.int64)
        self._seen: Integers = np.zeros((STATES_MIN, 2), np.int64)
        self._queue: Integers = np.zeros((STATES_MIN, 2), np.int64)
        self._flights: Integers = np.zeros(STATES_MIN, np.int64)
        self._places: Integers = np.zeros(STATES_MIN, np.int64)
        self._arena: Numbers = np.zeros(native.MOVES_MAX * native.BAG_MAX * 2, np.int32)

    def explore(
        self, configuration: Configuration, *, states_max: int | None = None, finals: set[State] | None = None
    ) -> Exploration:
        """Search one configuration, as `Explorer.explore` does."""
        began, explorer = time.perf_counter(), self.explorer
        if self.applies_to(configuration):
            ends, complete = set[State](), None
            if self._prove_repeats and configuration.faults.repeats:
                once = replace(configuration, faults=replace(configuration.faults, repeats=0))
                complete = self._search(once, states_max or 0, ends)
                if complete and not is_harmless(explorer.automata, explorer.post, once):
                    ends, complete = set[State](), None
            if complete is None:
                complete = self._search(configuration, states_max or 0, ends)
            if complete is not None:
                if finals is not None:
                    finals |= ends
                control = self._control
                return Exploration(
                    configuration=configuration,
                    states=int(control[native.SEEN]),
                    transitions=int(control[native.TRANSITIONS]),
                    finals=len(ends),
                    depth=int(control[native.DEPTH]),
                    seconds=time.perf_counter() - began,
                    complete=complete,
                )
            explorer = Explorer(explorer.stack)  # A new one: what is found depends on nothing that came before.
        found = explorer.explore(configuration, states_max=states_max, finals=finals)
        return replace(found, seconds=time.perf_counter() - began)

    def applies_to(self, configuration: Configuration) -> bool:
        """Whether the compiled search knows all moves that may come up."""
        stack, faults = self.explorer.stack, configuration.faults
        sends_only = all(operation < EVICT for line in configuration.operations for operation in line)
        # Without a link nothing is on a disk, and who crashes has stopped.
        return (
            sends_only and stack.membership is None and not faults.early and (not faults.crashes or bool(stack.link))
        )

    @property
    def remembered(self) -> int:
        """What the explorer remembers, and the answers kept here."""
        return self.explorer.remembered + self._answered

    def _search(self, configuration: Configuration, states_max: int, ends: set[State]) -> bool | None:
        """Whether the search is complete; None: it is for the search in Python."""
        judge = Search(self.explorer, configuration, wanted=0, reduce=True)
        start = judge.moves.start()
        if judge.oracle.flags[start[4]]:
            return None
        self._begin(configuration, start, states_max)
        lines = _lines(configuration)
        control = self._control
        while True:
            why = native.search(
                control,
                self._seen,
                self._queue,
                self._flights,
                self._arena,
                self._places,
                self._answers,
                self._steps.array,
                self._cuts.array,
                self._outs.flat,
                self._sent.flat,
                self._packets.array,
                self._cells,
                lines,
                self._asked,
                self._finals,
                self._moves,
                self._bag,
            )
            for first, second in self._finals[: control[native.FINALS]].tolist():
                state = _unpacked(first, second)
                if judge.unfinished(state):
                    return None
                ends.add(state)
            control[native.FINALS] = 0
            if why == native.DONE:
                return True if ends else None
            if why == native.LIMIT:
                return False
            if why == native.ASK:
                self._fill(judge)
                if max(self._entered) >= CELLS_MAX or len(judge.oracle.states) >= ORACLES_MAX:
                    return False
            elif why == native.FULL:
                if not self._grow():
                    return False
            else:
                return None

    def _begin(self, configuration: Configuration, start: State, states_max: int) -> None:
        control, last = self._control, int(self._control[native.SEEN])
        last_flights = int(self._control[native.FLIGHTS])
        control[:] = 0
        control[native.STATES_MAX] = states_max
        control[native.CRASHING] = configuration.faults.crashing
        control[native.REDUCE] = self.explorer.stack.link is not None
        self._seen = _emptied(self._seen, last)
        self._places = _emptied(self._places, last_flights)
        content = self.explorer.flights.content(start[3])
        self._enter_known()
        self._flights[:2] = 0
        control[native.FLIGHTS] = 1
        if content:
            self._arena[: len(content)] = content
            self._flights[2] = len(content)
            control[native.FLIGHTS] = 2
            native.place_flights(self._flights, self._arena, self._places, 2)
        packed = _packed(start, flight=1 if content else 0)
        native.widen(np.array([packed], np.int64), self._seen)
        self._queue[0] = packed
        control[native.SEEN] = control[native.TAIL] = control[native.END] = control[native.LEVEL_END] = 1
        control[native.DEPTH] = 1

    def _fill(self, judge: Search) -> None:
        """Answer all questions."""
        asked = dict.fromkeys(self._asked[: self._control[native.ASKED]].tolist())
        self._control[native.ASKED] = 0
        if not asked:
            return
        rows = np.array([(question, self._answer(question, judge)) for question in asked], np.int64)
        self._enter_known()
        self._answered += len(rows)
        if self._answered * 2 > len(self._answers):
            old = self._answers
            self._answers = np.zeros((1 << (self._answered * 4).bit_length(), 2), np.int64)
            native.enter(self._answers, old)
        native.enter(self._answers, rows)

    def _answer(self, question: int, judge: Search) -> int:
        kind, at = question >> 60, question >> 58 & 3
        first, second = question >> 29 & NUMBERS, question & NUMBERS
        automaton, step = self.explorer.automata[at], None
        match kind:
            case native.RECEIVE:
                step = automaton.receive(first, second)
            case native.OPERATE:
                step = None if automaton.departed[first] else automaton.operate(first, second)
            case native.TICK:
                step = automaton.tick(first)
            case native.RESTART:
                step = automaton.restart(first)
            case native.CRASH:
                return automaton.crash(first)
            case _:
                happened = self.explorer.post.happenings.values[second]
                oracle = judge.oracle.after_list(first, at, second, happened)
                return native.FAILS if judge.oracle.flags[oracle] else oracle
        if step is None:
            return native.NEVER
        if step.failure:
            return native.FAILS
        number = self._numbers.get(step)
        if number is None:
            number = self._numbers[step] = len(self._numbers)
            begin = self._cuts.count
            self._cuts.extend([n for cut in step.cuts for n in cut])
            self._steps.extend([step.cell, step.out, step.happenings, begin, self._cuts.count])
        return number

    def _enter_known(self) -> None:
        """Bring the arrays of lists, packets and cells up to what the explorer knows."""
        post = self.explorer.post
        for sent in post.outs.values[self._outs.count - 1 :]:
            self._sent.extend(sent)
            self._outs.extend([self._sent.count])
        for packet in range(self._packets.count, len(post.packets)):
            to = post.receivers[packet]
            key = post.senders[packet] * 3 + to if self.explorer.stack.fifo else packet
            self._packets.extend([to, key, post.acknowledgements[packet]])
        most = max(len(automaton.up) for automaton in self.explorer.automata)
        if most > self._cells.shape[1]:
            wider = np.zeros((3, most * 2), np.int64)
            wider[:, : self._cells.shape[1]] = self._cells
            self._cells = wider
        for at, automaton in enumerate(self.explorer.automata):
            known, now = self._entered[at], len(automaton.up)
            if known < now:
                done = np.array(automaton.done[known:now], np.int64)
                self._cells[at, known:now] = done * 2 + np.array(automaton.up[known:now], np.int64)
                self._entered[at] = now

    def _grow(self) -> bool:
        """Double what has become too small; False: there is no memory for it."""
        control = self._control
        moves, flights = native.MOVES_MAX, int(control[native.FLIGHTS]) + native.MOVES_MAX
        states = (int(control[native.SEEN]) + moves) * 8 > len(self._seen) * 5
        ring = int(control[native.TAIL] - control[native.BEGIN]) + moves > len(self._queue)
        places = flights * 2 > len(self._places)
        starts = flights >= len(self._flights)
        arena = int(self._flights[flights - moves]) + moves * native.BAG_MAX > len(self._arena)
        takes = sum(
            2 * array.nbytes if grows else array.nbytes
            for array, grows in (
                (self._seen, states),
                (self._queue, ring),
                (self._places, places),
                (self._flights, starts),
                (self._arena, arena),
            )
        )
        if takes > self._memory_max:
            return False
        if states:
            old, self._seen = self._seen, np.zeros((2 * len(self._seen), 2), np.int64)
            native.widen(old, self._seen)
        if ring:
            old, self._queue = self._queue, np.zeros((2 * len(self._queue), 2), np.int64)
            native.unroll(control, old, self._queue)
        if starts:
            self._flights = np.concatenate([self._flights, np.zeros_like(self._flights)])
        if arena:
            self._arena = np.concatenate([self._arena, np.zeros_like(self._arena)])
        if places:
            self._places = np.zeros(2 * len(self._places), np.int64)
            native.place_flights(self._flights, self._arena, self._places, int(control[native.FLIGHTS]))
        return True


class _Rows:
    """Rows of numbers that become more."""

    def __init__(self, width: int) -> None:
        self.array: Integers = np.zeros((256, width), np.int64)
        self.count = 0  # Rows.

    @property
    def flat(self) -> Integers:
        return self.array.reshape(-1)

    def extend(self, numbers: Iterable[int]) -> None:
        """Whole rows, one after the other."""
        new = np.array(tuple(numbers), np.int64).reshape(-1, self.array.shape[1])
        if self.count + len(new) > len(self.array):
            self.array = np.concatenate([self.array, np.zeros((len(self.array) + len(new), new.shape[1]), np.int64)])
        self.array[self.count : self.count + len(new)] = new
        self.count += len(new)


def _emptied(table: Integers, last: int) -> Integers:
    """The table without its contents; a small one if the last configuration, of so many rows, was small."""
    if len(table) > max(8 * last, STATES_MIN):
        return np.zeros((STATES_MIN, *table.shape[1:]), np.int64)
    table.fill(0)
    return table


def _lines(configuration: Configuration) -> Integers:
    lines = np.full((3, max(map(len, configuration.operations)) + 1), -1, np.int64)
    for at, line in enumerate(configuration.operations):
        lines[at, : len(line)] = line
    return lines


def _packed(state: State, *, flight: int) -> tuple[int, int]:
    first, second, third, _, oracle, left = state
    return first | second << 21 | third << 42, flight | oracle << 32 | left << 56


def _unpacked(first: int, second: int) -> State:
    """Of a final state: nothing is under way."""
    cell = CELLS_MAX - 1
    return (first & cell, first >> 21 & cell, first >> 42, 0, second >> 32 & ORACLES_MAX - 1, second >> 56)
