"""The compiled search: what `moves` does, on arrays of numbers, for configurations whose members stay.

It knows no protocol and no oracle. What one of them does is a row in `answers`; a question without a row is written
into `asked`, the state that led to it is put aside, and `search` returns: `engine` asks, and calls again. Every state
is expanded whole or not at all, so the figures are those of the search in Python, to the last digit.

A *state* is two numbers: the three cells, 21 bits each; and what is under way, 32 bits, what the oracle remembers,
24 bits, and the faults left, 6 bits. Cell 0 (stopped for good) does not come up: a first number of 0 is an empty
place. `seen` is a table with open addressing. `queue` is a ring that holds the level being expanded and the next one;
states put aside go to the front of their level, where room has become free.

What is under way is kept by content and found by content, as in `post`: sorted by packet, or by link where the
network keeps the order of each. The same key at two neighbours says, in both, that only the first may come next.

All functions stand in this file: numba's cache looks at the file of the function that is called, and at no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

from beforehand.history.kernels import kernel

__all__ = ["enter", "place_flights", "search", "unroll", "widen"]

P = ParamSpec("P")
R = TypeVar("R")
Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

MOVES_MAX: Final = 512  # Moves of one state; a configuration with more is not for this search.
BAG_MAX: Final = 64  # Packets under way; the same.

# Why `search` returns: every state was seen; questions are to be answered, or final states to be judged; a table or
# the ring is to grow; more states than allowed; a step fails or breaks an order; more moves or packets than fit.
DONE, ASK, FULL, LIMIT, FOUND, UNFIT = range(6)

# How a state goes on. One that is quiet, where no operation is left and the timers do nothing, is final.
LEADS_ON, QUIET, QUIET_LEADS_ON = range(3)

# Questions: kind, process, and two numbers of 29 bits.
RECEIVE: Final = 1  # Cell, packet: step.
OPERATE: Final = 2  # Cell, operation: step, or NEVER.
TICK: Final = 3  # Cell: step, or NEVER.
RESTART: Final = 4  # Cell: step.
CRASH: Final = 5  # Cell: cell.
JUDGE: Final = 6  # Oracle, happenings: oracle.

# Answers that are no number: not asked yet; nothing comes of it; it fails, or breaks an order.
UNKNOWN, NEVER, FAILS = -1, -2, -3


# Places in the array of counters. A level goes from BEGIN to LEVEL_END, the next one from there to TAIL; from HEAD to
# END goes what is expanded now: the level, or those of it that were ASIDE. MOVES and STATUS (DONE, ASK, FOUND, UNFIT)
# are of the state that is expanded. STATES_MAX is 0 if there is no limit, CRASHING a mask.
HEAD, BEGIN, END, LEVEL_END, TAIL, ASIDE, SEEN, FLIGHTS = range(8)
MOVES, ASKED, FINALS, TRANSITIONS, DEPTH, STATES_MAX, CRASHING, REDUCE, STATUS = range(8, 17)
COUNTERS: Final = 17

# As in `moves` and `post`: numba's cache looks at no other file.
_LOSS, _REPEAT, _CRASH, _SOME, _NOTHING = 1, 4, 16, 3, -1
_CELL, _FLIGHT, _ORACLE = (1 << 21) - 1, (1 << 32) - 1, (1 << 24) - 1


def part(function: Callable[P, R]) -> Callable[P, R]:
    """What kernels here call. Arrays are given one by one: those in a tuple would all be copied with every call."""
    return cast("Callable[P, R]", njit(nogil=True)(function))


@part
def _mixed(number: int) -> int:
    """A hash of a number, not negative."""
    number = (number ^ (number >> 32) & 0xFFFFFFFF) * 0x1E3779B97F4A7C15
    number = (number ^ (number >> 29) & 0x7FFFFFFFF) * 0x3F58476D1CE4E5B9
    return (number ^ (number >> 32) & 0xFFFFFFFF) & 0x7FFFFFFFFFFFFFFF


@part
def _hash(first: int, second: int) -> int:
    return _mixed(first * 0x1B873593CC9E2D51 ^ second * 0x2545F4914F6CDD1D ^ (second >> 31))


@part
def _answer(
    control: Integers, answers: Integers, asked: Integers, kind: int, process: int, first: int, second: int
) -> int:
    """The answer; UNKNOWN: the question is written down, and the state is put aside."""
    question = kind << 60 | process << 58 | first << 29 | second
    mask = answers.shape[0] - 1
    at = _mixed(question) & mask
    while answers[at, 0] != 0:
        if answers[at, 0] == question:
            answer = answers[at, 1]
            if answer == FAILS:
                control[STATUS] = FOUND
            return answer
        at = (at + 1) & mask
    if control[STATUS] == DONE:
        control[STATUS] = ASK
    asked[control[ASKED]] = question
    control[ASKED] += 1
    return UNKNOWN


@part
def _after(
    control: Integers, flights: Integers, arena: Numbers, places: Integers, outs: Integers, sent: Integers,
    packets: Integers, bag: Integers, flight: int, taken: int, out: int,
) -> int:  # fmt: skip
    """The flight without one packet and with others; a new one gets the next number."""
    if taken == _NOTHING and out == 0:
        return flight
    begin, end, new, new_end = flights[flight], flights[flight + 1], outs[out], outs[out + 1]
    if end - begin + new_end - new > BAG_MAX:
        control[STATUS] = UNFIT
        return 0
    size = 0
    for at in range(begin, end):
        packet = int(np.int64(arena[at]))
        if packet == taken:
            taken = _NOTHING
        else:
            bag[size] = packet
            size += 1
    for at in range(new, new_end):
        packet = sent[at]
        key, to = packets[packet, 1], size
        while to > 0 and packets[bag[to - 1], 1] > key:
            bag[to] = bag[to - 1]
            to -= 1
        bag[to] = packet
        size += 1
    if size == 0:
        return 0
    hashed = 0
    for at in range(size):
        hashed = hashed * 0x2545F4914F6CDD1D + bag[at] + 1
    hashed = _mixed(hashed)
    mask, mark = places.size - 1, hashed & ~_FLIGHT
    place = hashed & mask
    while places[place] != 0:
        if places[place] & ~_FLIGHT == mark:
            found = (places[place] & _FLIGHT) - 1
            begin = flights[found]
            if flights[found + 1] - begin == size:
                at = 0
                while at < size and arena[begin + at] == bag[at]:
                    at += 1
                if at == size:
                    return found
        place = (place + 1) & mask
    number, begin = control[FLIGHTS], flights[control[FLIGHTS]]
    control[FLIGHTS] = number + 1
    for at in range(size):
        arena[begin + at] = bag[at]
    flights[number + 1] = begin + size
    places[place] = mark | number + 1
    return number


@part
def _plan(
    control: Integers,
    moves: Integers,
    cells: int,
    second: int,
    taken: int,
    out: int,
    happened: int,
    at: int,
    left: int,
) -> None:
    """Write down a move: to these cells; a packet is taken, others are sent, something happens at a process."""
    number = control[MOVES]
    if number == MOVES_MAX:
        control[STATUS] = UNFIT
        return
    moves[number, 0], moves[number, 1], moves[number, 2] = cells, second, taken
    moves[number, 3], moves[number, 4], moves[number, 5], moves[number, 6] = out, happened, at, left
    control[MOVES] = number + 1


@part
def _step(
    control: Integers, moves: Integers, steps: Integers, cuts: Integers, first: int, second: int, at: int,
    step: int, taken: int, left: int, going: bool, dying: bool,
) -> None:  # fmt: skip
    """One call, if it ends (`going`), and the ways to die in it (`dying`)."""
    if step < 0:
        return
    shift = 21 * at
    others = first & ~(_CELL << shift)
    if going:
        cells = others | steps[step, 0] << shift
        _plan(control, moves, cells, second, taken, steps[step, 1], steps[step, 2], at, left)
    if dying and left & _SOME * _CRASH and control[CRASHING] >> at & 1:
        for cut in range(steps[step, 3], steps[step, 4]):
            cells = others | cuts[cut, 0] << shift
            _plan(control, moves, cells, second, taken, cuts[cut, 1], cuts[cut, 2], at, left - _CRASH)


@part
def _at_once(packets: Integers, cells: Integers, arena: Numbers, begin: int, end: int, first: int) -> int:
    """The acknowledgement that need not wait, or none."""
    for at in range(begin, end):
        packet = int(np.int64(arena[at]))
        if packets[packet, 2]:
            to = packets[packet, 0]
            if cells[to, first >> 21 * to & _CELL] & 1:
                return packet
    return _NOTHING


@part
def _expand(
    control: Integers, flights: Integers, arena: Numbers, answers: Integers, steps: Integers, cuts: Integers,
    packets: Integers, cells: Integers, lines: Integers, asked: Integers, moves: Integers, first: int,
    second: int,
) -> int:  # fmt: skip
    """Plan all moves of a state but the timers. QUIET: nothing is under way and nobody down, so they go off."""
    flight, left = second & _FLIGHT, second >> 56
    begin, end, before = flights[flight], flights[flight + 1], -1
    if control[REDUCE]:
        only = _at_once(packets, cells, arena, begin, end, first)
        if only != _NOTHING:
            to = packets[only, 0]
            step = _answer(control, answers, asked, RECEIVE, to, first >> 21 * to & _CELL, only)
            _step(control, moves, steps, cuts, first, second, to, step, only, left, True, False)
            if left & _SOME * _LOSS:
                _plan(control, moves, first, second, only, 0, 0, 0, left - _LOSS)
            return LEADS_ON
    for at in range(begin, end):
        packet = int(np.int64(arena[at]))
        if packets[packet, 1] == before:
            continue
        before, to = packets[packet, 1], packets[packet, 0]
        cell = first >> 21 * to & _CELL
        if not cells[to, cell] & 1:
            _plan(control, moves, first, second, packet, 0, 0, 0, left)
            continue
        step = _answer(control, answers, asked, RECEIVE, to, cell, packet)
        _step(control, moves, steps, cuts, first, second, to, step, packet, left, True, True)
        if left & _SOME * _REPEAT:
            _step(control, moves, steps, cuts, first, second, to, step, _NOTHING, left - _REPEAT, True, False)
        if left & _SOME * _LOSS:
            _plan(control, moves, first, second, packet, 0, 0, 0, left - _LOSS)
    leads_on, quiet = flight != 0, flight == 0
    for at in range(3):
        cell = first >> 21 * at & _CELL
        if cells[at, cell] & 1:
            operation = lines[at, cells[at, cell] >> 1]
            if operation >= 0:
                step = _answer(control, answers, asked, OPERATE, at, cell, operation)
                _step(control, moves, steps, cuts, first, second, at, step, _NOTHING, left, True, True)
                leads_on |= step >= 0
            if left & _SOME * _CRASH and control[CRASHING] >> at & 1:
                down = _answer(control, answers, asked, CRASH, at, cell, 0)
                if down >= 0:
                    shift = 21 * at
                    after = first & ~(_CELL << shift) | down << shift
                    _plan(control, moves, after, second, _NOTHING, 0, 0, at, left - _CRASH)
        else:
            step = _answer(control, answers, asked, RESTART, at, cell, 0)
            _step(control, moves, steps, cuts, first, second, at, step, _NOTHING, left, True, False)
            leads_on, quiet = True, False
    if quiet:
        return QUIET_LEADS_ON if leads_on else QUIET
    return LEADS_ON


@part
def _ticks(
    control: Integers, flights: Integers, arena: Numbers, places: Integers, answers: Integers, steps: Integers,
    cuts: Integers, outs: Integers, sent: Integers, packets: Integers, asked: Integers, moves: Integers,
    bag: Integers, first: int, second: int,
) -> bool:  # fmt: skip
    """All timers go off, one process after the other in one move; whether that leads on."""
    cells, flight, oracle, left = first, second & _FLIGHT, second >> 32 & _ORACLE, second >> 56
    for at in range(3):
        shift = 21 * at
        step = _answer(control, answers, asked, TICK, at, first >> shift & _CELL, 0)
        if step < 0:
            continue
        _step(control, moves, steps, cuts, first, second, at, step, _NOTHING, left, False, True)
        if steps[step, 2] and control[STATUS] == DONE:
            oracle = _answer(control, answers, asked, JUDGE, at, oracle, steps[step, 2])
        if control[STATUS] != DONE:
            return True
        cells = cells & ~(_CELL << shift) | steps[step, 0] << shift
        flight = _after(control, flights, arena, places, outs, sent, packets, bag, flight, _NOTHING, steps[step, 1])
    after = flight | oracle << 32 | left << 56
    if cells == first and after == second:
        return False
    _plan(control, moves, cells, after, _NOTHING, 0, 0, 0, left)
    return True


@part
def _see(control: Integers, seen: Integers, queue: Integers, moves: Integers) -> None:
    """Those moves that lead to new states go into the next level."""
    mask, ring = seen.shape[0] - 1, queue.shape[0] - 1
    tail, count = control[TAIL], control[SEEN]
    for number in range(control[MOVES]):
        first, second = moves[number, 0], moves[number, 1]
        at = _hash(first, second) & mask
        while seen[at, 0] != 0 and (seen[at, 0] != first or seen[at, 1] != second):
            at = (at + 1) & mask
        if seen[at, 0] == 0:
            seen[at, 0], seen[at, 1] = first, second
            queue[tail & ring, 0], queue[tail & ring, 1] = first, second
            count += 1
            tail += 1
    control[TAIL], control[SEEN] = tail, count


@kernel
def search(
    control: Integers,  # See above.
    seen: Integers,  # (2^k, 2)
    queue: Integers,  # (2^k, 2)
    flights: Integers,  # Where each begins in `arena`.
    arena: Numbers,
    places: Integers,  # 2^k: high bits of the hash of a flight, and its number + 1.
    answers: Integers,  # (2^k, 2): question, answer.
    steps: Integers,  # (n, 5): cell, out, happenings, first cut, end of cuts.
    cuts: Integers,  # (n, 3): cell, out, happenings.
    outs: Integers,  # Where each list begins in `sent`.
    sent: Integers,
    packets: Integers,  # (n, 3): receiver, key, whether it is only an acknowledgement.
    cells: Integers,  # (3, n): operations done * 2 + whether it is up.
    lines: Integers,  # (3, n): operations, then -1.
    asked: Integers,
    finals: Integers,  # (n, 2)
    moves: Integers,  # (MOVES_MAX, 7): see `_plan`; then the state that it leads to in the first two places.
    bag: Integers,  # (BAG_MAX)
) -> int:
    """Search on, level by level, until something is needed; why it returns."""
    ring = queue.shape[0] - 1
    while True:
        while control[HEAD] < control[END]:
            more = control[FLIGHTS] + MOVES_MAX
            if (
                (control[SEEN] + MOVES_MAX) * 8 > seen.shape[0] * 5
                or control[TAIL] - control[BEGIN] + MOVES_MAX > queue.shape[0]
                or more * 2 > places.size
                or more >= flights.size
                or flights[control[FLIGHTS]] + MOVES_MAX * BAG_MAX > arena.size
            ):
                return FULL
            if control[ASKED] + 2 * MOVES_MAX > asked.size or control[FINALS] == finals.shape[0]:
                return ASK
            head = control[HEAD]
            first, second = queue[head & ring, 0], queue[head & ring, 1]
            control[HEAD] = head + 1
            control[MOVES], control[STATUS] = 0, DONE
            ends = _expand(
                control, flights, arena, answers, steps, cuts, packets, cells, lines, asked, moves, first, second
            )
            if ends >= QUIET and _ticks(
                control, flights, arena, places, answers, steps, cuts, outs, sent, packets, asked, moves, bag,
                first, second,
            ):  # fmt: skip
                ends = LEADS_ON
            for number in range(control[MOVES]):
                before, happened = moves[number, 1], moves[number, 4]
                oracle = before >> 32 & _ORACLE
                if happened:
                    oracle = _answer(control, answers, asked, JUDGE, moves[number, 5], oracle, happened)
                if control[STATUS] == DONE:
                    flight = _after(
                        control, flights, arena, places, outs, sent, packets, bag,
                        before & _FLIGHT, moves[number, 2], moves[number, 3],
                    )  # fmt: skip
                    moves[number, 1] = flight | oracle << 32 | moves[number, 6] << 56
            if control[STATUS] == FOUND or control[STATUS] == UNFIT:
                return control[STATUS]
            if control[STATUS] == ASK:
                aside = control[BEGIN] + control[ASIDE] & ring
                queue[aside, 0], queue[aside, 1] = first, second
                control[ASIDE] += 1
                continue
            control[TRANSITIONS] += control[MOVES]
            if ends == QUIET:
                finals[control[FINALS], 0], finals[control[FINALS], 1] = first, second
                control[FINALS] += 1
            _see(control, seen, queue, moves)
        if control[ASIDE]:
            control[HEAD] = control[BEGIN]
            control[END] = control[BEGIN] + control[ASIDE]
            control[ASIDE] = 0
            return ASK
        control[BEGIN] = control[HEAD] = control[LEVEL_END]
        control[END] = control[LEVEL_END] = control[TAIL]
        if control[BEGIN] == control[TAIL]:
            return DONE
        if control[STATES_MAX] and control[SEEN] > control[STATES_MAX]:
            return LIMIT
        control[DEPTH] += 1


@kernel
def enter(answers: Integers, rows: Integers) -> None:
    """Put rows of question and answer into the table, which has room for them."""
    mask = answers.shape[0] - 1
    for row in range(rows.shape[0]):
        if rows[row, 0] != 0:
            at = _mixed(rows[row, 0]) & mask
            while answers[at, 0] != 0 and answers[at, 0] != rows[row, 0]:
                at = (at + 1) & mask
            answers[at, 0], answers[at, 1] = rows[row, 0], rows[row, 1]


@kernel
def widen(old: Integers, new: Integers) -> None:
    """Put all states of a table into a larger one, which is empty."""
    mask = new.shape[0] - 1
    for row in range(old.shape[0]):
        first, second = old[row, 0], old[row, 1]
        if first != 0:
            at = _hash(first, second) & mask
            while new[at, 0] != 0:
                at = (at + 1) & mask
            new[at, 0], new[at, 1] = first, second


@kernel
def unroll(control: Integers, old: Integers, new: Integers) -> None:
    """Copy what a ring holds into a larger one."""
    for at in range(control[BEGIN], control[TAIL]):
        new[at & new.shape[0] - 1] = old[at & old.shape[0] - 1]


@kernel
def place_flights(flights: Integers, arena: Numbers, places: Integers, count: int) -> None:
    """Fill an empty table of places; flight 0, with nothing under way, needs none."""
    mask = places.size - 1
    for number in range(1, count):
        hashed = 0
        for at in range(flights[number], flights[number + 1]):
            hashed = hashed * 0x2545F4914F6CDD1D + arena[at] + 1
        hashed = _mixed(hashed)
        at = hashed & mask
        while places[at] != 0:
            at = (at + 1) & mask
        places[at] = hashed & ~_FLIGHT | number + 1
