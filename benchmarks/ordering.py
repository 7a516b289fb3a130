"""Waiting messages: parked on the first thing that they miss, beside a queue that is scanned again at every arrival.

Messages of one causal chain over four senders arrive at a fifth process in reverse, the worst order there is: all
but the last wait, and the last one sets all free. What is measured is the time from the first arrival to the last
delivery.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beforehand.clocks import View
from beforehand.ordering import CausalBroadcast, CausalUnicast, Deliver, Fifo, SchiperCausal, Transmit
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, median_of, report_of, target

__all__ = ["Rescanning", "chain", "report"]

VIEW = View(["a", "b", "c", "d", "e"])
SIZES = (1_000, 10_000, 100_000)
RESCANNED = (1_000, 4_000)
REPEATS = 3


class Rescanning:
    """How it is often done: a list, and after each arrival all of it is looked at until nothing moves."""

    def __init__(self) -> None:
        self.delivered = dict.fromkeys(VIEW.processes, 0)
        self.waiting: list[Any] = []
        self.looks = 0

    def receive(self, packet: Any) -> int:
        """How many messages this arrival delivers."""
        self.waiting.append(packet)
        count = 0
        moved = True
        while moved:
            moved = False
            for at, other in enumerate(self.waiting):
                self.looks += 1
                if self._free(other):
                    del self.waiting[at]
                    self.delivered[other.message.sender] += 1
                    count += 1
                    moved = True
                    break
        return count

    def _free(self, packet: Any) -> bool:
        sender = packet.message.sender
        for process, needed in zip(VIEW.processes, packet.vector, strict=True):
            if process == sender:
                if self.delivered[process] != needed - 1:
                    return False
            elif self.delivered[process] < needed:
                return False
        return True


def chain(make: Callable[..., Any], messages: int) -> list[tuple[str, Any]]:
    """The packets for e of messages that four senders send in turn, each after it has received the one before."""
    members = {name: make(name, VIEW, pending_max=messages + 1) for name in "abcd"}
    packets: list[tuple[str, Any]] = []
    for number in range(messages):
        sender = "abcd"[number % 4]
        effects = members[sender].send(b"", [p for p in VIEW.processes if p != sender], now=0)
        packet = next(effect.packet for effect in effects if isinstance(effect, Transmit))
        packets.append((sender, packet))
        for name, member in members.items():
            if name != sender:
                member.receive(sender, packet, now=0)
    return packets


def deliver_reversed(make: Callable[..., Any], packets: list[tuple[str, Any]]) -> float:
    """Seconds per message."""
    receiver = make("e", VIEW, pending_max=len(packets) + 1)
    count = 0
    gc.collect()
    start = time.perf_counter()
    for sender, packet in reversed(packets):
        count += sum(isinstance(effect, Deliver) for effect in receiver.receive(sender, packet, now=0))
    seconds = time.perf_counter() - start
    assert count == len(packets)
    return seconds / len(packets)


def report(*, sizes: Sequence[int] = SIZES) -> Report:
    rows = []
    for make in (Fifo, CausalBroadcast, CausalUnicast, SchiperCausal):
        packets = chain(make, sizes[-1])
        times = {size: [deliver_reversed(make, packets[:size]) for _ in range(REPEATS)] for size in sizes}
        rows.append(Row((f"**{make.__name__}**",), _grown(times)))
    packets = chain(CausalBroadcast, RESCANNED[-1])
    taken: dict[int, list[float]] = {size: [] for size in RESCANNED}
    looks = {}
    for _ in range(REPEATS):
        for size in RESCANNED:
            queue = Rescanning()
            start = time.perf_counter()
            done = sum(queue.receive(packet) for _, packet in reversed(packets[:size]))
            taken[size].append((time.perf_counter() - start) / size)
            looks[size] = queue.looks
            assert done == size
    rescanned = (
        Row(("microseconds per message",), _grown(taken)),
        Row(("looks at a message",), tuple(Figure(looks[size]) for size in RESCANNED)),
    )
    return report_of(
        "ordering",
        [
            Section(
                "",
                "Microseconds per message when all of them arrive in reverse; after × the ratio to the smallest.",
                Table("pending", ("pending", *(f"{size:,}" for size in sizes)), tuple(rows), median_of(REPEATS)),
            ),
            Section(
                "Beside a queue that is scanned again",
                "It looks at its whole queue after each arrival.",
                Table(
                    "rescanning", ("rescanning", *(f"{size:,}" for size in RESCANNED)), rescanned, median_of(REPEATS)
                ),
            ),
        ],
        about="A causal chain of messages over four senders arrives at a fifth process in reverse.",
    )


def _grown(times: Mapping[int, Sequence[float]]) -> tuple[Figure, ...]:
    """Microseconds by size, with the ratio to the smallest."""
    least = statistics.median(times[min(times)])
    return tuple(
        Figure.of((each * 1e6 for each in taken), digits=1, ratio=statistics.median(taken) / least)
        for taken in times.values()
    )


if __name__ == "__main__":
    rest, to = target(sys.argv[1:])
    sys.exit(deliver(report(sizes=[int(size) for size in rest]) if rest else report(), to))
