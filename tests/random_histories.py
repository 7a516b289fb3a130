"""Random histories and an oracle of happened-before that shares no code with what it judges.

A history is a list of steps in an order in which they could have happened. Reachability is computed on the
plain graph of steps: one Python integer per step, one bit per step in its past.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from beforehand.events import Event


@dataclass
class Step:
    process: str
    index: int
    sends: list[str] = field(default_factory=list)
    receives: list[str] = field(default_factory=list)
    spawned_by: int | None = None  # The parent's step that this process was born after.
    time: int | None = None
    parents: list[int] = field(default_factory=list)  # Steps that directly precede this one.


def random_steps(
    random: Random,
    *,
    processes: int = 5,
    steps: int = 60,
    send: float = 0.4,
    receive: float = 0.4,
    loss: float = 0.1,
    skew_ns: int = 0,
    untimed: float = 0.0,
    spawn: float = 0.0,
) -> list[Step]:
    """Multicasts, self-delivery, several sends and receives in one step, lost messages, births."""
    names = [f"p{i}" for i in range(processes)]
    alive = names if not spawn else names[:1]
    unborn = [name for name in names if name not in alive]
    parent_of: dict[str, int] = {}
    last: dict[str, int] = {}
    count: dict[str, int] = dict.fromkeys(names, 0)
    waiting: dict[str, list[str]] = {name: [] for name in names}
    sent_at: dict[str, int] = {}
    offset = {name: random.randint(-skew_ns, skew_ns) for name in names}
    result: list[Step] = []
    messages = 0
    for now in range(steps):
        if unborn and last and random.random() < spawn:
            child = unborn.pop(0)
            parent_of[child] = last[random.choice(sorted(last))]
            alive = [*alive, child]
        process = random.choice(alive)
        count[process] += 1
        step = Step(process, count[process])
        if process in last:
            step.parents.append(last[process])
        elif process in parent_of:
            step.spawned_by = parent_of[process]
            step.parents.append(parent_of[process])
        while waiting[process] and random.random() < receive:
            at = random.randrange(len(waiting[process])) if random.random() < 0.5 else 0
            message = waiting[process].pop(at)
            step.receives.append(message)
            step.parents.append(sent_at[message])
        while random.random() < send:
            messages += 1
            message = f"m{messages}"
            step.sends.append(message)
            sent_at[message] = now
            to = random.sample(names, min(len(names), random.choice([1, 1, 2, 3])))
            for destination in to:
                if random.random() >= loss:
                    waiting[destination].append(message)
            if random.random() < 0.6:
                break
        if random.random() >= untimed:
            step.time = 1_000_000 + now * 100 + offset[process] + random.randint(0, 50)
        last[process] = now
        result.append(step)
    return result


def pasts(steps: list[Step]) -> list[int]:
    """For each step, the set of steps that happened before it, as bits."""
    result: list[int] = []
    for step in steps:
        past = 0
        for parent in step.parents:
            past |= result[parent] | 1 << parent
        result.append(past)
    return result


def as_events(steps: list[Step]) -> list[Event]:
    """The same history as events. A birth becomes a message from the parent's step to the child's first."""
    births: dict[int, list[str]] = {}
    for step in steps:
        if step.spawned_by is not None:
            births.setdefault(step.spawned_by, []).append(f"birth of {step.process}")
    return [
        Event(
            process=step.process,
            index=step.index,
            sends=(*step.sends, *births.get(at, ())),
            receives=(*step.receives, *([f"birth of {step.process}"] if step.spawned_by is not None else [])),
            time=step.time,
        )
        for at, step in enumerate(steps)
    ]
