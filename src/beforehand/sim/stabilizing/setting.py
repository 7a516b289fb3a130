"""What one run is made of: everything follows from a kind of fault and a seed.

Time is discrete and starts at `START`. Faults strike from `fault_from` on, the last of them before `fault_until`, T.
What is promised of messages sent later than T + `recovery` is judged until the end.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from beforehand.clocks import Bounds
from beforehand.ordering import MergeRules

__all__ = ["START", "Fault", "Setting", "draw_setting"]

START: Final = 1_000
"""The time at which a run begins."""


class Fault(StrEnum):
    """What goes wrong, in the words of section 2."""

    NONE = "none"
    STAMPS = "stamps"  # Stamps are corrupted in flight, in any field.
    PUBLISHERS = "publishers"  # The state of publishers' clocks is corrupted.
    MERGERS = "mergers"  # The state of mergers is corrupted: entries, keys, heap, what was passed.
    INITIAL = "initial"  # Processes begin in any state, and channels with anything in them.
    GARBAGE = "garbage"  # Messages are in the channels that nobody sent.
    LOSS = "loss"
    DUPLICATION = "duplication"
    CLOCKS = "clocks"  # G1 does not hold: clocks step and lie further apart than ε.
    DELAYS = "delays"  # G2 does not hold: messages take longer than δ.
    ALL = "all"  # All of them together.


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One run. Times and bounds are in ticks."""

    fault: Fault
    seed: int
    bounds: Bounds
    publishers: int
    mergers: int
    activity: float  # How likely a publisher does something, at each chance in a tick.
    talk: float  # Which share of what it sends goes to another publisher.
    haste: float  # How likely a message arrives at each chance; the rest come as late as they may.
    rate: float  # How likely a fault strikes, at each chance.
    wire: bool  # Whether stamps go through their wire form, with r modulo B.
    fault_from: int
    fault_until: int  # T: no fault from here on.
    end: int

    @cached_property
    def rules(self) -> MergeRules:
        return MergeRules(bounds=self.bounds)

    @cached_property
    def recovery(self) -> int:
        """How long after T messages must be sent for all promises to hold.

        The clocks need δ + 4ε: what is corrupted in flight is gone after δ and the clocks' skew, and what it left in
        stamps concerns readings that are 3ε old then (theorem 3.7). The buffers need 2·span + 1 on their own clocks
        (P5 of `MergeBuffer`), and ε as those may be behind the sender's.
        """
        clocks = self.bounds.delta + 4 * self.bounds.epsilon
        buffers = 2 * self.rules.span + 1 + self.bounds.epsilon
        return max(clocks, buffers)

    @property
    def harmless(self) -> bool:
        """Whether this fault breaks nothing even while it lasts: what is lost or repeated is not waited for."""
        return self.fault in (Fault.NONE, Fault.LOSS, Fault.DUPLICATION)

    def strikes(self, fault: Fault) -> bool:
        return self.fault in (fault, Fault.ALL)


def draw_setting(fault: Fault, seed: int) -> Setting:
    """The setting of this kind and seed."""
    rng = random.Random(f"stabilizing/{fault}/{seed}")
    epsilon = rng.choice((0, 1, 1, 2, 3, 5))
    delta = rng.choice((1, 2, 4, 8, 12)) + rng.choice((0, epsilon))
    publishers = rng.randint(2, 5)
    events = rng.choice((1, 1, 2, 4))
    least = 6 * epsilon + delta + 1
    bounds = Bounds(
        epsilon=epsilon,
        delta=delta,
        processes=publishers,
        events_per_tick=events,
        modulus=rng.choice((least, least + 1, 2**20)),
    )
    rules = MergeRules(bounds=bounds)
    fault_from = START + (0 if fault is Fault.INITIAL else rng.randint(2, 2 * rules.span))
    fault_until = fault_from + (1 if fault is Fault.INITIAL else rng.choice((1, 5, 2 * rules.span)))
    setting = Setting(
        fault=fault,
        seed=seed,
        bounds=bounds,
        publishers=publishers,
        mergers=rng.randint(2, 4),
        activity=rng.choice((0.2, 0.5, 0.9)),
        talk=rng.choice((0.2, 0.5, 0.8)),
        haste=rng.choice((0.1, 0.4, 1.0)),
        rate=rng.choice((0.1, 0.5)),
        wire=rng.random() < 0.25,
        fault_from=fault_from,
        fault_until=fault_until,
        end=0,
    )
    # Long enough for a good number of messages that are judged, and for these to be delivered.
    end = fault_until + setting.recovery + rng.choice((20, 60)) + 2 * rules.span
    return replace(setting, end=end)
