"""Limits and times of a store. Every one has a default that suits a service on one machine."""

from __future__ import annotations

from dataclasses import dataclass

from beforehand.errors import InputError

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is beyond a limit of one event is rejected with a reason; a batch beyond its limit is refused whole."""

    deadline_ns: int = 30_000_000_000  # How long an event may wait for its causes; then what is missing is given up.
    batch_events_max: int = 20_000
    event_bytes_max: int = 65_536  # Of an event's texts together, as they are stored.
    index_max: int = 2**40  # Also of clock entries. Sums over all processes then fit in 64 bits.
    processes_max: int = 10_000  # Per execution; so a stamp has no more entries than that.
    conflicts_max: int = 16  # Reports of one event that differ: so many are kept, the others are only counted.
    rejected_max: int = 100_000  # Rejections that are kept; the others are only counted.
    steps_max: int = 20_000  # Events that one transaction stamps, raises or completes beyond its own batch.
    stamps_kept: int = 65_536  # Recent stamps in memory.
    waiting_kept: int = 100_000  # Events that wait, in memory; if more do, the store has them.
    processes_kept: int = 100_000  # Processes in memory; beyond, all are read again from the store.
    readers_max: int = 8  # Connections that read at the same time; a ninth waits.
    power_safe: bool = False  # Wait for the disk at every commit, so that power loss takes nothing either.

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name != "power_safe" and (type(value) is not int or value < (name != "deadline_ns")):
                raise InputError(f"the setting {name} is {value!r}: give a whole number, 1 at least")
        if self.index_max * self.processes_max >= 2**63:
            raise InputError(
                f"index_max {self.index_max} times processes_max {self.processes_max} is beyond 64 bits: lower one"
            )
