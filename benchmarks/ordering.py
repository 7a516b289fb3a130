"""Waiting messages: parked on the first thing that they miss, beside a queue that is scanned again at every arrival.

Messages of one causal chain over four senders arrive at a fifth process in reverse, the worst order there is: all
but the last wait, and the last one sets all free. What is measured is the time from the first arrival to the last
delivery.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from beforehand.clocks import View
from beforehand.ordering import CausalBroadcast, CausalUnicast, Deliver, Fifo, SchiperCausal, Transmit

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


def report() -> Iterator[str]:
    yield "## Waiting messages"
    yield ""
    yield "Microseconds per message when all of them arrive in reverse; in brackets the ratio to the smallest size,"
    yield f"in one run, best of {REPEATS}. `rescanning` looks at its whole queue after each arrival."
    yield ""
    yield "| pending | " + " | ".join(f"{size:,}" for size in SIZES) + " |"
    yield "|---|" + "---|" * len(SIZES)
    for make in (Fifo, CausalBroadcast, CausalUnicast, SchiperCausal):
        packets = chain(make, SIZES[-1])
        times = {size: min(deliver_reversed(make, packets[:size]) for _ in range(REPEATS)) for size in SIZES}
        cells = [f"{times[size] * 1e6:.1f} ({times[size] / times[SIZES[0]]:.2f})" for size in SIZES]
        yield f"| **{make.__name__}** | " + " | ".join(cells) + " |"
    yield ""
    yield "| rescanning | " + " | ".join(f"{size:,}" for size in RESCANNED) + " |"
    yield "|---|" + "---|" * len(RESCANNED)
    packets = chain(CausalBroadcast, RESCANNED[-1])
    times, looks = {}, {}
    for size in RESCANNED:
        queue = Rescanning()
        start = time.perf_counter()
        done = sum(queue.receive(packet) for _, packet in reversed(packets[:size]))
        times[size] = (time.perf_counter() - start) / size
        looks[size] = queue.looks
        assert done == size
    yield (
        "| microseconds per message | "
        + " | ".join(f"{times[size] * 1e6:.1f} ({times[size] / times[RESCANNED[0]]:.2f})" for size in RESCANNED)
        + " |"
    )
    yield "| looks at a message | " + " | ".join(f"{looks[size]:,}" for size in RESCANNED) + " |"
    yield ""


def main() -> int:
    for line in report():
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
