"""Lamport times over the blocks of one execution: the longest chain that ends in each event, block after block.

A longest chain is no maximum over the past: what a block adds to it depends on where in the block it enters, so it
cannot be summarized by one number and blocks cannot go at once. They are passed in order instead, each once, with
what is known where it begins: per process the Lamport time of its last event, and per message in flight that of its
send. Nothing grows with the number of events.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels import lamport_times
from beforehand.pipeline.block import Block, Wiring, rows_of
from beforehand.pipeline.room import SLICE, give_back

__all__ = ["Chains", "Links", "links_of"]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """How the events of a block hang together: all that a longest chain depends on."""

    order: Integers  # Rows, causes before effects.
    process: Numbers
    receive_start: Integers
    source: Integers  # Per receive: a row, -2 - e for entering message e, or -1.
    entering_sender: Numbers
    entering_send: Integers
    leaving_row: Integers  # The rows of the sends whose messages later blocks receive too.


def links_of(block: Block, wiring: Wiring, leaving_sender: Numbers, leaving_send: Integers) -> Links:
    """The block has no cycle."""
    return Links(
        order=wiring.order,
        process=block.process,
        receive_start=block.receive_start,
        source=wiring.source,
        entering_sender=wiring.entering.sender,
        entering_send=wiring.entering.send,
        leaving_row=rows_of(block, leaving_sender, leaving_send),
    )


@dataclass(slots=True)
class Chains:
    """Call `step` for each block in order."""

    width: int
    front: Integers = field(init=False)  # Per process, the Lamport time of its last event so far.
    flights: dict[tuple[int, int], tuple[int, int]] = field(init=False, default_factory=dict)
    # Per send in flight, its Lamport time and the last block that receives it.
    block: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.front = np.zeros(self.width, np.int64)

    def step(
        self, links: Links, leaving_sender: Numbers, leaving_send: Integers, until: Integers, times: Integers
    ) -> None:
        """Pass the block; writes the Lamport time of each row to `times`. `until` has, per leaving send, the last
        block that receives its message.
        """
        pairs = zip(links.entering_sender.tolist(), links.entering_send.tolist(), strict=True)
        entering = np.array([self.flights[pair][0] for pair in pairs], np.int64)
        arrays = (links.order, links.process, links.receive_start, links.source, times)
        for first in range(0, links.order.size, SLICE):
            order = links.order[first : first + SLICE]
            lamport_times(order, links.process, links.receive_start, links.source, self.front, entering, times)
            give_back(*arrays)
        leaving = zip(leaving_sender.tolist(), leaving_send.tolist(), strict=True)
        self.flights.update(
            zip(leaving, zip(times[links.leaving_row].tolist(), until.tolist(), strict=True), strict=True)
        )
        self.skip()

    def skip(self) -> None:
        """Pass a block without events."""
        passed = [pair for pair, (_, until) in self.flights.items() if until <= self.block]
        for pair in passed:
            del self.flights[pair]
        self.block += 1
