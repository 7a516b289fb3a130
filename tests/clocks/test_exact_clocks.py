"""Happened-before from every exact clock equals reachability in the graph of events."""

from __future__ import annotations

from random import Random

import pytest

from beforehand.clocks import MatrixClock, OrderingClock, OrderingStamp, Relation, VectorClock, VectorStamp, View
from random_histories import pasts, random_steps


def expected(past: list[int], a: int, b: int) -> Relation:
    if a == b:
        return Relation.EQUAL
    if past[b] >> a & 1:
        return Relation.BEFORE
    return Relation.AFTER if past[a] >> b & 1 else Relation.CONCURRENT


@pytest.mark.parametrize("seed", range(40))
def test_vector_clock_equals_reachability(seed: int) -> None:
    random = Random(seed)
    steps = random_steps(random, processes=random.randint(1, 8), steps=80, spawn=random.choice([0.0, 0.3]))
    past = pasts(steps)
    clocks: dict[str, VectorClock] = {}
    carried: dict[str, VectorStamp] = {}
    stamps: list[VectorStamp] = []

    for step in steps:
        if step.process not in clocks:
            parent = None if step.spawned_by is None else steps[step.spawned_by]
            if parent is None:
                clocks[step.process] = VectorClock(step.process)
            else:
                # The parent may have gone on since; the child inherits what its parent knew at the birth.
                born = VectorClock(parent.process, start=stamps[step.spawned_by or 0])
                clocks[step.process] = born.spawn(step.process)
        clock = clocks[step.process]
        with clock.locked():
            for message in step.receives[1:]:
                clock.merge(carried[message])
            stamp = clock.receive(carried[step.receives[0]]) if step.receives else clock.tick()
        carried.update(dict.fromkeys(step.sends, stamp))
        stamps.append(stamp)

    for a in range(len(steps)):
        for b in range(len(steps)):
            assert stamps[a].compare(stamps[b]) is expected(past, a, b)
            assert (stamps[a] < stamps[b]) == (expected(past, a, b) is Relation.BEFORE)


@pytest.mark.parametrize("seed", range(40))
def test_ordering_clock_delivers_causally_and_stamps_exactly(seed: int) -> None:
    random = Random(seed)
    names = [f"p{i}" for i in range(random.randint(2, 6))]
    clocks = {name: OrderingClock(name) for name in names}
    last: dict[str, int] = {}
    graph: list[list[int]] = []
    stamps: list[VectorStamp] = []
    network: list[tuple[str, OrderingStamp]] = []
    sent_by: dict[VectorStamp, int] = {}
    deliveries: dict[str, list[VectorStamp]] = {name: [] for name in names}

    def happened(process: str, stamp: VectorStamp, *causes: int) -> int:
        graph.append([*causes, *([last[process]] if process in last else [])])
        stamps.append(stamp)
        last[process] = len(graph) - 1
        return last[process]

    def arrive() -> None:
        to, message = network.pop(random.randrange(len(network)))
        done = clocks[to].try_deliver(message)
        if done is None:
            network.append((to, message))
        else:
            happened(to, done, sent_by[message.time])
            deliveries[to].append(message.time)

    for _ in range(80):
        process = random.choice(names)
        match random.choice(["local", "send", "send", "arrive", "arrive"]):
            case "local":
                happened(process, clocks[process].tick())
            case "send":
                others = [name for name in names if name != process]
                message = clocks[process].send(*random.sample(others, random.randint(1, len(others))))
                sent_by[message.time] = happened(process, message.time)
                network.extend((to, message) for to in message.to)
            case _ if network:
                arrive()
    for _ in range(100_000):
        if not network:
            break
        arrive()

    assert not network, "liveness: when all has arrived, nothing waits"
    past: list[int] = []
    for causes in graph:
        past.append(_union(past, causes))
    for a in range(len(stamps)):
        for b in range(len(stamps)):
            assert stamps[a].compare(stamps[b]) is expected(past, a, b)
    for order in deliveries.values():
        at = [sent_by[time] for time in order]
        assert not any(past[at[i]] >> at[j] & 1 for i in range(len(at)) for j in range(i + 1, len(at)))


def _union(past: list[int], causes: list[int]) -> int:
    result = 0
    for cause in causes:
        result |= past[cause] | 1 << cause
    return result


@pytest.mark.parametrize("seed", range(30))
def test_matrix_clock_delivers_causally_and_is_exact_on_sends(seed: int) -> None:
    random = Random(seed)
    names = [f"p{i}" for i in range(random.randint(2, 5))]
    view = View(names)
    clocks = {name: MatrixClock(name, view) for name in names}
    knows: dict[str, int] = dict.fromkeys(names, 0)  # Per process, the sends in its past, as bits.
    sends: list = []  # (stamp, past bits)
    network: list[tuple[str, int]] = []
    delivered: dict[str, list[int]] = {name: [] for name in names}

    def arrive() -> None:
        to, number = network.pop(random.randrange(len(network)))
        stamp, past = sends[number]
        if clocks[to].deliverable(stamp):
            clocks[to].deliver(stamp)
            delivered[to].append(number)
            knows[to] |= past | 1 << number
        else:
            network.append((to, number))

    for _ in range(60):
        process = random.choice(names)
        if network and random.random() < 0.5:
            arrive()
        else:
            others = [name for name in names if name != process]
            to = random.sample(others, random.randint(1, len(others)))
            sends.append((clocks[process].send(*to), knows[process]))
            knows[process] |= 1 << len(sends) - 1
            network.extend((name, len(sends) - 1) for name in to)
    for _ in range(100_000):
        if not network:
            break
        arrive()

    assert not network
    past = [bits for _, bits in sends]
    for a in range(len(sends)):
        for b in range(len(sends)):
            assert sends[a][0].compare(sends[b][0]) is expected(past, a, b)
    for order in delivered.values():
        assert not any(past[a] >> b & 1 for i, a in enumerate(order) for b in order[i + 1 :])
