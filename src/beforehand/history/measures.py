"""Measures: how far apart the clocks are, how synchronous the system is, what may have travelled unseen.

All times are the processes' own, in nanoseconds, as they came. A figure that could not be had is None, and `notes`
says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.events import EventId
from beforehand.history.columns import Columns
from beforehand.history.offsets import ClockBounds, clock_bounds

__all__ = ["HiddenChannel", "Lateness", "Measures", "Synchrony", "measure"]

Integers = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]

QUANTILES: Final = (0.5, 0.9, 0.95, 0.99, 0.999, 1.0)
HIDDEN_MAX: Final = 1_000
TIME_MAX: Final = 2**62
"""Times beyond this (before 1823, after 2116) are left out of measures: their differences would not fit 64 bits."""


@dataclass(frozen=True, slots=True)
class Synchrony:
    """On raw clocks, so skew counts in. The delivery time of a message is time(receive) − time(send)."""

    tightness_ns: int | None  # τ: the most that the delivery times of one message differ between receivers.
    steadiness_ns: int | None  # σ: the most that the delivery times of different messages to one process differ.
    uncertainty_ns: int | None  # The longest delivery time of all less the shortest.


@dataclass(frozen=True, slots=True)
class Lateness:
    """With this δ, this share of the messages would have been late (G2 of Kulkarni and Ravikant)."""

    delta_ns: int
    late: float


@dataclass(frozen=True, slots=True)
class HiddenChannel:
    """`later` surely came after `earlier` on the same resource, yet no message could have told it of that."""

    resource: str
    earlier: EventId
    later: EventId
    apart_ns: int  # At least this far apart, whatever the offsets of the two clocks are.


@dataclass(frozen=True, slots=True)
class Measures:
    clocks: Mapping[str, ClockBounds]  # Per process.
    references: tuple[str, ...]  # Per component that exchanged messages, the process whose clock is 0.
    epsilon_min_ns: int | None  # G1 needs an ε of at least this: some two clocks differ that much for certain.
    epsilon_max_ns: int | None  # No two clocks can differ by more; None where that is not bounded.
    delta_ns: int | None  # G2 held for every message with this δ.
    lateness: tuple[Lateness, ...]
    synchrony: Synchrony
    concurrency: float | None  # The share of pairs of events that are concurrent.
    hidden_channels: tuple[HiddenChannel, ...]
    notes: tuple[str, ...]


def measure(columns: Columns, stamps: Stamps, past_counts: Integers) -> Measures:
    """`past_counts` has, per row, how many events happened before it."""
    notes: list[str] = []
    source, row = columns.source, columns.receive_row
    timed = source >= 0
    usable = (columns.time > -TIME_MAX) & (columns.time < TIME_MAX)  # NO_TIME is not.
    timed[timed] = usable[source[timed]] & usable[row[timed]]
    chosen = np.flatnonzero(timed)
    if chosen.size < (source >= 0).sum():
        notes.append(f"{int((source >= 0).sum()) - chosen.size} receives lack a usable time at one end")
    delay = columns.time[row[chosen]] - columns.time[source[chosen]]
    sender, receiver = columns.process[source[chosen]], columns.process[row[chosen]]

    bounds = clock_bounds(columns.processes, sender, receiver, delay)
    notes += bounds.notes
    if not delay.size:
        notes.append("no message has times at both ends: delays, synchrony and clock offsets are unknown")
    else:
        notes.append("delays are on raw clocks: the offsets between clocks count in")
    hidden = _hidden_channels(columns, stamps, bounds.distance, notes)
    return Measures(
        clocks=bounds.per_process,
        references=bounds.references,
        epsilon_min_ns=bounds.epsilon_min_ns,
        epsilon_max_ns=bounds.epsilon_max_ns,
        delta_ns=max(0, int(delay.max())) if delay.size else None,
        lateness=_lateness(delay),
        synchrony=_synchrony(columns.receive_message[chosen], receiver, delay),
        concurrency=_concurrency(past_counts),
        hidden_channels=tuple(hidden),
        notes=tuple(notes),
    )


def _lateness(delay: Integers) -> tuple[Lateness, ...]:
    if not delay.size:
        return ()
    ordered = np.sort(delay)
    candidates = sorted(
        {max(0, int(ordered[min(delay.size - 1, int(np.ceil(q * delay.size)) - 1)])) for q in QUANTILES}
    )
    return tuple(
        Lateness(delta, float(delay.size - np.searchsorted(ordered, delta, side="right")) / delay.size)
        for delta in candidates
    )


def _synchrony(message: Integers, receiver: npt.NDArray[np.int32], delay: Integers) -> Synchrony:
    if not delay.size:
        return Synchrony(None, None, None)
    return Synchrony(
        tightness_ns=_largest_spread(message, delay),
        steadiness_ns=_largest_spread(receiver.astype(np.int64), delay),
        uncertainty_ns=int(delay.max() - delay.min()),
    )


def _largest_spread(group: Integers, value: Integers) -> int:
    """The largest difference between two values of one group."""
    by_group = np.lexsort((value, group))
    group, value = group[by_group], value[by_group]
    first = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    last = np.concatenate([first[1:], [group.size]]) - 1
    return int((value[last] - value[first]).max())


def _concurrency(past_counts: Integers) -> float | None:
    events = past_counts.size
    if events < 2:
        return None
    return 1.0 - int(past_counts.sum()) / (events * (events - 1) / 2)


def _hidden_channels(
    columns: Columns, stamps: Stamps, distance: npt.NDArray[np.float64], notes: list[str]
) -> list[HiddenChannel]:
    """Of each resource, look at accesses that follow each other in time on different processes.

    Process q's clock is at most distance[p, q] ahead of p's. If the readings differ by more, the order is sure.
    """
    if distance.shape[0] < len(columns.processes):
        return []  # The clocks were not bounded, and a note says so.
    by_resource: dict[str, list[int]] = {}
    for row, event in enumerate(columns.events):
        resource = event.attributes.get("resource")
        if resource and event.time is not None:
            by_resource.setdefault(resource, []).append(row)
    found: list[HiddenChannel] = []
    for resource, rows in sorted(by_resource.items()):
        for earlier, later in _neighbours(columns, rows):
            p, q = columns.process[earlier], columns.process[later]
            known = stamps[later, p] >= columns.index[earlier] or stamps[earlier, q] >= columns.index[later]
            apart = int(columns.time[later]) - int(columns.time[earlier]) - float(distance[p, q])
            if known or not apart > 0:
                continue
            if len(found) == HIDDEN_MAX:
                notes.append(f"hidden channels: more than {HIDDEN_MAX}, the first are listed")
                return found
            found.append(HiddenChannel(resource, columns.event_id(earlier), columns.event_id(later), int(apart)))
    return found


def _neighbours(columns: Columns, rows: Sequence[int]) -> list[tuple[int, int]]:
    ordered = sorted(rows, key=lambda row: (int(columns.time[row]), row))
    return [(a, b) for a, b in pairwise(ordered) if columns.process[a] != columns.process[b]]
