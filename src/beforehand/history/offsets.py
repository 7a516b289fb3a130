"""How far apart the clocks of the processes must be, from the messages alone.

A message from p, sent at reading s and received on q at reading r, took no negative time. With o the offset of a
clock from true time, (r − o_q) − (s − o_p) ≥ 0, so o_q − o_p ≤ r − s. The least such difference over all messages
from p to q is an edge; shortest paths give the tightest bounds that the messages imply. A cycle of negative length
is a contradiction: no constant offsets fit, a clock drifted or was set in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels import kernel

__all__ = ["ClockBounds", "Offsets", "clock_bounds"]

Integers = npt.NDArray[np.int64]
Distances = npt.NDArray[np.float64]

ALL_PAIRS_MAX: Final = 500
"""Up to this many processes every pair is bounded; beyond, bounds go through the reference process."""

PROCESSES_MAX: Final = 4_000
"""Beyond this many processes no clock is bounded: the distances alone would take gigabytes."""


@dataclass(frozen=True, slots=True)
class ClockBounds:
    """A clock's offset from the reference of its component lies between these; None: nothing bounds it."""

    offset_min_ns: int | None
    offset_max_ns: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Offsets:
    per_process: Mapping[str, ClockBounds]
    references: tuple[str, ...]
    distance: Distances  # distance[p, q] bounds o_q − o_p from above; infinite where nothing does.
    epsilon_min_ns: int | None
    epsilon_max_ns: int | None
    notes: tuple[str, ...]


def clock_bounds(
    processes: Sequence[str],
    sender: npt.NDArray[np.int32],
    receiver: npt.NDArray[np.int32],
    delay: Integers,
    count: Integers | None = None,
) -> Offsets:
    """The arrays have one entry per receive with times at both ends; or, with `count`, one per pair of processes with
    the least delay and the number of receives.
    """
    size = len(processes)
    if size > PROCESSES_MAX:
        nothing = dict.fromkeys(processes, ClockBounds(None, None))
        note = f"{size} processes are more than {PROCESSES_MAX}: the offsets of their clocks were not bounded"
        return Offsets(nothing, (), np.full((1, 1), np.inf), None, None, (note,))
    edges = np.full((size, size), np.inf)
    np.fill_diagonal(edges, 0.0)
    # Nanoseconds of a difference below 104 days are exact in a float64; beyond, the error is below a microsecond.
    np.minimum.at(edges, (sender, receiver), delay.astype(np.float64))
    np.fill_diagonal(edges, np.minimum(np.diag(edges), 0.0))

    component, references = _components(size, sender, receiver, np.ones_like(delay) if count is None else count)
    distance = edges.copy()
    if size <= ALL_PAIRS_MAX:
        _all_pairs(distance)
    else:
        distance = _through_references(edges, component, references)
    notes: list[str] = []
    broken: set[int] = {int(component[p]) for p in np.flatnonzero(np.diag(distance) < 0)}
    for number in sorted(broken):
        members = [processes[p] for p in np.flatnonzero(component == number).tolist()]
        shown = ", ".join(members[:5]) + (", …" if len(members) > 5 else "")
        notes.append(f"no constant offsets fit the clocks of {shown}: a clock drifted or was set")
        inside = component == number
        distance[np.ix_(inside, inside)] = np.inf

    per_process: dict[str, ClockBounds] = {}
    for p, process in enumerate(processes):
        reference = references[component[p]]
        low, high = -distance[p, reference], distance[reference, p]
        per_process[process] = ClockBounds(_finite(low), _finite(high))
    exchanged = sorted({int(component[p]) for p in np.concatenate([sender, receiver])})
    sound = [c for c in exchanged if c not in broken]
    epsilon_min, epsilon_max = _epsilon(distance, component, sound)
    if len(references) > 1 or broken:
        epsilon_max = None  # Nothing bounds what lies between components, or a clock that drifted.
    return Offsets(
        per_process,
        tuple(processes[references[c]] for c in exchanged),
        distance,
        epsilon_min,
        epsilon_max,
        tuple(notes),
    )


def _components(
    size: int, sender: npt.NDArray[np.int32], receiver: npt.NDArray[np.int32], count: Integers
) -> tuple[Integers, list[int]]:
    """Processes that are connected by messages; of each component the process with most messages."""
    root = list(range(size))

    def find(p: int) -> int:
        while root[p] != p:
            root[p] = root[root[p]]
            p = root[p]
        return p

    for p, q in {(int(p), int(q)) for p, q in zip(sender, receiver, strict=True)}:
        root[find(p)] = find(q)
    roots = [find(p) for p in range(size)]
    numbers = {r: at for at, r in enumerate(dict.fromkeys(roots))}
    traffic = np.bincount(sender, count, size) + np.bincount(receiver, count, size)
    references = [-1] * len(numbers)
    for p in range(size):
        number = numbers[roots[p]]
        if references[number] < 0 or traffic[p] > traffic[references[number]]:
            references[number] = p
    return np.array([numbers[r] for r in roots], np.int64), references


@kernel
def _all_pairs(distance: Distances) -> None:
    """Floyd and Warshall, in place. A negative diagonal tells a negative cycle."""
    size = distance.shape[0]
    for k in range(size):
        for i in range(size):
            through = distance[i, k]
            if through == np.inf:
                continue
            for j in range(size):
                if through + distance[k, j] < distance[i, j]:
                    distance[i, j] = through + distance[k, j]


@kernel
def _settles(edges: Distances, distance: Distances) -> bool:
    """Bellman and Ford from what `distance` begins with; whether it settled: no negative cycle can be reached."""
    size = edges.shape[0]
    for _ in range(size + 1):
        changed = False
        for p in range(size):
            if distance[p] == np.inf:
                continue
            for q in range(size):
                if distance[p] + edges[p, q] < distance[q]:
                    distance[q] = distance[p] + edges[p, q]
                    changed = True
        if not changed:
            return True
    return False


def _through_references(edges: Distances, component: Integers, references: list[int]) -> Distances:
    """For many processes: from and to each reference exactly, between others by way of it."""
    result = np.full_like(edges, np.inf)
    for number, reference in enumerate(references):
        inside = np.flatnonzero(component == number)
        own = np.ascontiguousarray(edges[np.ix_(inside, inside)])
        root = int(np.searchsorted(inside, reference))
        # From everywhere at once, so that a contradiction is found wherever it lies.
        block = own
        settled = _settles(own, np.zeros(inside.size))
        if settled:
            to, back = np.full(inside.size, np.inf), np.full(inside.size, np.inf)
            to[root] = back[root] = 0.0
            _settles(own, to)
            _settles(np.ascontiguousarray(own.T), back)
            block = np.minimum(back[:, None] + to[None, :], own)
        np.fill_diagonal(block, 0.0 if settled else -1.0)
        result[np.ix_(inside, inside)] = block
    return result


def _epsilon(distance: Distances, component: Integers, numbers: list[int]) -> tuple[int | None, int | None]:
    """ε from below: two clocks differ that much for certain. From above: no two can differ more."""
    low, high = 0.0, 0.0
    for number in numbers:
        inside = np.flatnonzero(component == number)
        block = distance[np.ix_(inside, inside)]
        low = max(low, float(-block.min()))
        high = max(high, float(block.max()))
    if not numbers:
        return None, None
    return int(low), _finite(high)


def _finite(value: float) -> int | None:
    return int(value) if np.isfinite(value) else None
