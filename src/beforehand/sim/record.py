"""What a run leaves behind: the history as native events, and figures. The judge sees nothing else."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from beforehand.events import Event
from beforehand.ordering import Discard, Frame, Message, Place, Refused
from beforehand.ordering.flush import InView

__all__ = ["Record", "kind_of"]


@dataclass(slots=True)
class Record:
    """Filled by the world while it runs."""

    events: list[Event] = field(default_factory=list)
    sent: dict[str, tuple[Message, int]] = field(default_factory=dict)  # By id: the message and when it was sent.
    delivered: dict[str, list[str]] = field(default_factory=dict)  # Per process the ids, in order.
    places: dict[str, list[tuple[str, Place]]] = field(default_factory=dict)  # The same with the places.
    accepted: dict[int, str] = field(default_factory=dict)  # Operations that a protocol took, and of which process.
    latencies: list[int] = field(default_factory=list)  # From sending to delivery, true time, per delivery.
    latencies_remote: list[int] = field(default_factory=list)  # The same, deliveries at other processes only.
    packets: Counter[str] = field(default_factory=Counter)  # Multicasts count once.
    packets_single: Counter[str] = field(default_factory=Counter)  # Multicasts count once per destination.
    discarded: list[tuple[str, Discard]] = field(default_factory=list)
    refused: list[tuple[str, Refused]] = field(default_factory=list)
    departed: dict[str, int] = field(default_factory=dict)  # Processes that left, and when.
    views: dict[str, list[tuple[int, tuple[str, ...], int]]] = field(default_factory=dict)
    # ^ Per process, each view it installed: its number, its members, and how many messages were delivered before.
    acknowledged: dict[str, set[str]] = field(default_factory=dict)
    # ^ Per process, those of its messages that it knew, or was told, to be stable.
    crashes: int = 0
    retries: int = 0  # Sends that a full buffer refused and that were tried again.
    exhausted: int = 0  # Calls that a counter at its end refused: such a group is at its end and may stop.
    pending_max: int = 0  # The longest queue of waiting messages seen.
    seen: set[str] = field(default_factory=set)  # Rare states that the run went through; see `coverage`.
    end: int = 0  # True time at the end.
    lanes: bool = False  # IndependentSends: its sends stand on lanes of their own, for a process does not order them.
    _indexes: Counter[str] = field(default_factory=Counter)

    def note(self, process: str, name: str, time: int) -> None:
        """A local event."""
        self._add(process, time, name)

    def send(self, process: str, message: Message, time: int, now: int, depends: tuple[str, ...] = ()) -> None:
        self.sent[message.id] = (message, now)
        lane = f"{process}/{message.number}" if self.lanes else process
        if depends:
            self._add(lane, time, "depend", receives=depends)
        self._add(lane, time, f"send {message.id}", sends=(message.id,))

    def deliver(self, process: str, message: Message, place: Place, time: int, now: int) -> None:
        self.delivered.setdefault(process, []).append(message.id)
        self.places.setdefault(process, []).append((message.id, place))
        self._add(process, time, f"deliver {message.id}", receives=(message.id,))
        if message.id in self.sent:
            latency = now - self.sent[message.id][1]
            self.latencies.append(latency)
            if process != message.sender:
                self.latencies_remote.append(latency)

    def transmit(self, packet: Any, destinations: int, *, again: bool) -> None:
        kind = "resent" if again else kind_of(packet)
        self.packets[kind] += 1
        self.packets_single[kind] += destinations

    def _add(
        self, process: str, time: int, name: str, *, sends: tuple[str, ...] = (), receives: tuple[str, ...] = ()
    ) -> None:
        self._indexes[process] += 1
        index = self._indexes[process]
        self.events.append(Event(process=process, index=index, time=time, name=name, sends=sends, receives=receives))


def kind_of(packet: Any) -> str:
    """The kind of a packet in words: that of what a frame carries, `frame` for one without a packet."""
    if isinstance(packet, Frame) and packet.packet is None:
        return "frame"
    if isinstance(packet, Frame | InView):
        return kind_of(packet.packet)
    words = re.findall(r"[A-Z][a-z]*", type(packet).__name__)
    return words[-1].lower() if words else "packet"
