"""Runs of total-order protocols under a load, and the figures of them that Sun and Maheshwari (1996) speak of.

Times are in units of the longest link delay, d. Two latencies are told apart, which the paper is not careful about:
*remote*, from the arrival of an operation at another site to its execution there (section 4.3 defines it so), and
*origin*, from the generation of an operation to its execution where it was generated, which is what `execute_gop`
waits for. Of latencies only the middle of a run is counted: the group starts with equal clocks, and ends with nobody
to hear from. Packets are those of the whole run.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from beforehand.sim.composing import process_names
from beforehand.sim.experiments.loads import arrivals, scenario_of
from beforehand.sim.experiments.observing import Notes, watch
from beforehand.sim.scenario import MILLISECOND, Delay, DelayKind, Operation

__all__ = ["EXACT", "VARIANTS", "Figures", "Pattern", "Variant", "measured"]

D: Final = MILLISECOND
EXACT: Final = Delay(kind=DelayKind.CONSTANT, shortest=D, longest=D)
"""Every packet takes exactly d."""

HEAD: Final = 2 * D  # Latencies of what is generated in the first of a run are not counted,
TAIL: Final = 3 * D  # nor in the last.


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A protocol with its options."""

    name: str
    protocol: str
    options: tuple[tuple[str, int | str | bool], ...] = ()


VARIANTS: Final = (
    Variant(name="single-phase basic", protocol="single-phase", options=(("acknowledge", "always"),)),
    Variant(name="single-phase optimized", protocol="single-phase", options=(("acknowledge", "suppressed"),)),
    Variant(name="single-phase to origin", protocol="single-phase", options=(("acknowledge", "point-to-point"),)),
    Variant(name="skeen", protocol="skeen"),
    Variant(name="lamport-total", protocol="lamport-total"),
    Variant(name="coordinator", protocol="coordinator"),
)


class Pattern(StrEnum):
    """When operations are generated."""

    RANDOM = "at random"  # Each site independently of the others.
    REGULAR = "in turn"  # All sites at the same steady pace, one after the other.
    ONE_AT_A_TIME = "one at a time"  # Each site when its last one was executed, after a pause: the paper's model.


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was seen in one run. Times in d, in ascending order."""

    load: float  # Operations in each d.
    remote: tuple[float, ...]
    origin: tuple[float, ...]
    multicasts: float  # Packets per operation; one to many destinations counts once.
    singles: float  # The same; it counts once per destination.
    agree: bool  # Whether all sites executed in one order.

    @property
    def remote_mean(self) -> float:
        return sum(self.remote) / len(self.remote)

    @property
    def origin_mean(self) -> float:
        return sum(self.origin) / len(self.origin)

    @property
    def acknowledgements(self) -> float:
        """Per operation, besides its own multicast, where all else are acknowledgements."""
        return self.multicasts - 1


def measured(
    variant: Variant,
    *,
    processes: int,
    count: int,
    load: float,
    seed: int,
    senders: Iterable[int] | None = None,
    delay: Delay = EXACT,
    pattern: Pattern = Pattern.RANDOM,
) -> Figures:
    """One run of about `count` operations, `load` in each d over all `senders` (positions; by default everybody)."""
    names = process_names(processes)
    sending = [names[at] for at in senders] if senders is not None else list(names)
    rng = random.Random(f"single-phase/{seed}")
    turns = None
    match pattern:
        case Pattern.RANDOM:
            times = arrivals(rng, count=count, per_delay=load, delay=D)
            operations = [Operation(process=rng.choice(sending), at=at, to=names) for at in times]
        case Pattern.REGULAR:
            operations = [
                Operation(process=sending[at % len(sending)], at=int(at * D / load), to=names) for at in range(count)
            ]
        case Pattern.ONE_AT_A_TIME:
            turns = _Turns(rng, names, pause=len(sending) / load * D, last=int(count / load * D))
            operations = [turns.next(process, 0) for process in sending]
    until = max(operation.at for operation in operations) if turns is None else turns.last
    scenario = scenario_of(
        variant.protocol, names, operations, seed=seed, delay=delay, options=variant.options, until=until
    )
    return _figures(watch(scenario, application=turns), until)


class _Turns:
    """An application at each site that generates an operation when its last one was executed there."""

    def __init__(self, rng: random.Random, names: tuple[str, ...], *, pause: float, last: int) -> None:
        self._rng: Final = rng
        self._names: Final = names
        self._pause: Final = pause  # The mean.
        self.last: Final = last

    def next(self, process: str, now: int) -> Operation:
        return Operation(process=process, at=now + int(self._rng.expovariate(1 / self._pause)), to=self._names)

    def __call__(self, process: str, operation: Operation, now: int) -> list[Operation]:
        following = self.next(process, now) if operation.process == process else None
        return [following] if following is not None and following.at <= self.last else []


def _figures(notes: Notes, until: int) -> Figures:
    head = min(HEAD, until // 4)
    counted = {message: at for message, at in notes.sent.items() if head <= at <= max(until - TAIL, until // 2)}
    origin, remote = [], []
    for (process, message), at in notes.delivered.items():
        if message in counted:
            if message.rpartition(".")[0] == process:
                origin.append((at - counted[message]) / D)
            else:
                remote.append((at - notes.arrived[process, message]) / D)
    generated = len(notes.sent)
    return Figures(
        load=generated * D / until,
        remote=tuple(sorted(remote)),
        origin=tuple(sorted(origin)),
        multicasts=len(notes.packets) / generated,
        singles=sum(notes.packets) / generated,
        agree=len({tuple(order) for order in notes.order.values()}) == 1,
    )
