"""The scan over the blocks of one execution: from summaries to the true stamps at every cut.

State: the stamps of the front of the cut (processes × processes), the same for the causal check, and the stamps of
the messages in flight. Nothing grows with the number of events. A message that nobody receives is never carried; a
send's stamp is kept once, until the last block that receives it has been passed; beyond a limit in bytes it is kept
in a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels import NO_TIME, expand
from beforehand.pipeline.block import Entry, Summary

__all__ = ["Scan"]

Integers = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]


FLIGHT_BYTES_MAX: Final = 256 << 20
"""Stamps of messages in flight that are kept in memory; more than that is spilled to a file."""


@dataclass(slots=True)
class _Flight:
    """One message in flight."""

    stamp: Stamps | int  # The number of its row in the file, once it was spilled.
    time: int
    until: int  # The last block that receives it.


@dataclass(slots=True)
class Scan:
    """Call `entry` and then `step` for each block in order."""

    width: int
    small: bool
    spill: Path | None = None  # Where stamps in flight go that are too many for memory.
    bytes_max: int = FLIGHT_BYTES_MAX
    front: Stamps = field(init=False)
    front_time: Integers = field(init=False)
    known_sends: Stamps = field(init=False)
    fifo_sends: Integers = field(init=False)
    flights: dict[tuple[int, int], _Flight] = field(init=False, default_factory=dict)
    block: int = field(init=False, default=0)
    in_flight_max: int = field(init=False, default=0)
    spilled: int = field(init=False, default=0)  # Rows in the file.

    def __post_init__(self) -> None:
        self.front = _zeros(self.width, small=self.small)
        self.front_time = np.full(self.width, NO_TIME, np.int64)
        self.known_sends = _zeros(self.width, small=self.small)
        self.fifo_sends = np.zeros((self.width, self.width), np.int64)

    def entry(self, summary: Summary) -> Entry:
        """What is known where this block begins."""
        flights = [
            self.flights[sender, send]
            for sender, send in zip(summary.entering_sender.tolist(), summary.entering_send.tolist(), strict=True)
        ]
        entering = np.zeros((len(flights), self.width), self.front.dtype)
        rows = None
        for at, flight in enumerate(flights):
            if isinstance(flight.stamp, int):
                if rows is None:
                    assert self.spill is not None
                    shape = (self.spilled, self.width)
                    rows = np.memmap(self.spill, dtype=self.front.dtype, mode="r", shape=shape)
                entering[at] = rows[flight.stamp]
            else:
                entering[at] = flight.stamp
        return Entry(
            front=self.front,
            front_time=self.front_time,
            known_sends=self.known_sends,
            fifo_sends=self.fifo_sends,
            entering=entering,
            entering_time=np.array([flight.time for flight in flights], np.int64),
        )

    def step(self, summary: Summary, entry: Entry, until: Integers) -> None:
        """Pass the block. `until` has, per leaving send, the last block that receives its message."""

        def expanded(partial: Stamps, times: Integers) -> tuple[Stamps, Integers]:
            partial, times = partial.copy(), times.copy()
            expand(
                partial,
                times,
                summary.cut,
                entry.front,
                entry.front_time,
                summary.entering_start,
                summary.entering_send,
                entry.entering,
                entry.entering_time,
            )
            return partial, times

        nothing = np.full(summary.active.size, NO_TIME, np.int64)
        front, front_time = expanded(summary.front, summary.front_time)
        known, _ = expanded(summary.known_sends, nothing)
        leaving, leaving_time = expanded(summary.leaving, summary.leaving_time)

        active = summary.active
        known_sends, fifo_sends = self.known_sends.copy(), self.fifo_sends.copy()
        known_sends[active] = np.maximum(known_sends[active], known)
        fifo_sends[active] = np.maximum(fifo_sends[active], summary.fifo_sends)
        arrived = entry.entering[summary.arrived]
        arrived[np.arange(arrived.shape[0]), summary.entering_sender[summary.arrived]] -= 1
        np.maximum.at(known_sends, summary.arrived_receiver, arrived)
        new_front, new_time = self.front.copy(), self.front_time.copy()
        new_front[active], new_time[active] = front, np.maximum(new_time[active], front_time)
        self.front, self.front_time = new_front, new_time
        self.known_sends, self.fifo_sends = known_sends, fifo_sends

        pairs = zip(summary.leaving_sender.tolist(), summary.leaving_send.tolist(), strict=True)
        held = sum(not isinstance(flight.stamp, int) for flight in self.flights.values()) + leaving.shape[0]
        first = self._spilled(leaving) if held * self.width * leaving.itemsize > self.bytes_max else None
        for at, pair in enumerate(pairs):
            stamp = leaving[at] if first is None else first + at
            self.flights[pair] = _Flight(stamp, int(leaving_time[at]), int(until[at]))
        self.in_flight_max = max(self.in_flight_max, len(self.flights))
        passed = [pair for pair, flight in self.flights.items() if flight.until <= self.block]
        for pair in passed:
            del self.flights[pair]
        self.block += 1

    def _spilled(self, stamps: Stamps) -> int | None:
        """Append stamps to the file; the number of the first. None if there is no file to spill to."""
        if self.spill is None:
            return None
        with self.spill.open("ab") as stream:
            stream.write(np.ascontiguousarray(stamps).tobytes())
        first, self.spilled = self.spilled, self.spilled + stamps.shape[0]
        return first


def _zeros(width: int, *, small: bool) -> Stamps:
    return np.zeros((width, width), np.int32) if small else np.zeros((width, width), np.int64)
