"""Kulkarni and Ravikant, "Stabilizing Causal Deterministic Merge", section 4.2, and section 5 as far as it merges.

`Merging` is the paper's system: processes that exchange stamped messages (`bounded_world`) and publish each of their
events to mergers, whose clocks keep G1 with theirs. What it says of order it knows from bookkeeping, not from stamps.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

import pytest

from beforehand.clocks import BoundedClock, BoundedStamp, Bounds, OffsetClock, OffsetStamp, Received
from beforehand.ordering.merging import MergeBuffer, MergeRules, MergeSettings, Published, SetAside
from bounded_world import World


@dataclass(frozen=True)
class Delivery:
    event: int  # Index into the world's events.
    waited: int  # On the merger's clock.
    sender_clock: int
    time: int


class Merging:
    """Events of a world as messages to mergers. `lose`: the share that does not arrive, at each merger by itself."""

    def __init__(self, epsilon: int, delta: int, *, seed: int, mergers: int = 2, lose: float = 0.1) -> None:
        self.random = random.Random(seed)
        self.bounds = Bounds(epsilon=epsilon, delta=delta, processes=4, modulus=10**6)
        self.world = World(self.bounds, random.Random(seed), start=1_000)
        self.rules = MergeRules(bounds=self.bounds)
        self.offsets = [self.random.choice([0, epsilon, self.random.randint(0, epsilon)]) for _ in range(mergers)]
        self.buffers: list[MergeBuffer[tuple[int, int]]] = [
            MergeBuffer(self.rules, ahead_max=0) for _ in range(mergers)
        ]
        self.lose = lose
        self.due: dict[tuple[int, int], list[int]] = defaultdict(list)  # (merger, reading): events that arrive.
        self.deliveries: list[list[Delivery]] = [[] for _ in range(mergers)]
        self.aside: list[SetAside] = []
        self.published = 0

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.world.run(1)
            for event in range(self.published, len(self.world.events)):
                self.publish(event)
            self.published = len(self.world.events)
            for merger in range(len(self.buffers)):
                self.merge(merger)

    def publish(self, event: int) -> None:
        for merger, offset in enumerate(self.offsets):
            first, last = self.world.time + offset, self.world.events[event].stamp.r + self.bounds.delta
            if first <= last and self.random.random() >= self.lose:
                self.due[merger, self.random.choice([first, last, self.random.randint(first, last)])].append(event)

    def message(self, event: int) -> Published:
        happened = self.world.events[event]
        return Published(publisher=f"p{happened.process}", sequence=event + 1, stamp=happened.stamp)

    def merge(self, merger: int) -> None:
        buffer, reading = self.buffers[merger], self.world.time + self.offsets[merger]
        for released in buffer.advance(reading):
            event, arrival = released.item
            clock = self.world.reading(self.world.events[event].process)
            if released.reason is None:
                self.deliveries[merger].append(Delivery(event, reading - arrival, clock, self.world.time))
            else:
                self.aside.append(released.reason)
        for event in self.due.pop((merger, reading), []):
            reason = buffer.offer(self.message(event), (event, reading), arrival=reading)
            if reason is not None:
                self.aside.append(reason)


def before(merging: Merging, e: int, f: int) -> bool:
    return bool(merging.world.events[f].past >> e & 1)


SHAPES = [(1, 0), (1, 4), (2, 6), (4, 12), (5, 3)]


@pytest.mark.parametrize(("epsilon", "delta"), SHAPES)
@pytest.mark.parametrize("seed", range(6))
def test_lemma_4_1_a_message_is_delivered_before_its_sender_s_clock_reaches_r_plus_delta_plus_3_epsilon(
    epsilon: int, delta: int, seed: int
) -> None:
    merging = Merging(epsilon, delta, seed=seed)
    merging.run(150)
    for delivery in (d for one in merging.deliveries for d in one):
        r = merging.world.events[delivery.event].stamp.r
        assert delivery.sender_clock < r + delta + 3 * epsilon


@pytest.mark.parametrize(("epsilon", "delta"), SHAPES)
@pytest.mark.parametrize("seed", range(6))
def test_lemma_4_2_no_message_is_buffered_for_longer_than_delta_plus_3_epsilon(
    epsilon: int, delta: int, seed: int
) -> None:
    merging = Merging(epsilon, delta, seed=seed)
    merging.run(150)
    assert max(d.waited for one in merging.deliveries for d in one) < delta + 3 * epsilon


def test_lemma_4_2_the_bound_is_reached_but_for_one_tick() -> None:
    # r is ε ahead of the merger, and c is the most that lemma 3.2 allows.
    epsilon, delta = 3, 10
    rules = MergeRules(bounds=Bounds(epsilon=epsilon, delta=delta, processes=2))
    ahead, sender = BoundedClock("ahead", rules.bounds), BoundedClock("sender", rules.bounds)
    received = sender.receive(ahead.tick(104), now=102)
    assert isinstance(received, Received)
    assert received.stamp.c == epsilon - 1
    buffer: MergeBuffer[str] = MergeBuffer(rules)
    assert buffer.offer(Published(publisher="sender", sequence=1, stamp=received.stamp), "m", arrival=99) is None
    assert buffer.advance(99 + delta + 3 * epsilon - 2) == []
    assert [one.item for one in buffer.advance(99 + delta + 3 * epsilon - 1)] == ["m"]


@pytest.mark.parametrize(("epsilon", "delta"), SHAPES)
@pytest.mark.parametrize("seed", range(6))
def test_theorem_4_4_two_mergers_deliver_what_both_received_in_the_same_order(
    epsilon: int, delta: int, seed: int
) -> None:
    merging = Merging(epsilon, delta, seed=seed, mergers=3, lose=0.3)
    merging.run(150)
    assert merging.aside == []  # And all that arrives within δ is delivered.
    orders = [[d.event for d in one] for one in merging.deliveries]
    for one in orders:
        for other in orders:
            common = set(one) & set(other)
            assert [e for e in one if e in common] == [e for e in other if e in common]
    assert delta == 0 or len(set(orders[0]) & set(orders[1])) > 20


@pytest.mark.parametrize(("epsilon", "delta"), SHAPES)
@pytest.mark.parametrize("seed", range(6))
def test_theorem_4_5_what_was_sent_before_is_delivered_before(epsilon: int, delta: int, seed: int) -> None:
    merging = Merging(epsilon, delta, seed=seed, mergers=1)
    merging.run(120)
    order = [d.event for d in merging.deliveries[0]]
    pairs = 0
    for at, late in enumerate(order):
        for early in order[:at]:
            assert not before(merging, late, early)
            pairs += before(merging, early, late)
    assert pairs > 100


@pytest.mark.parametrize("seed", range(12))
def test_theorem_4_6_from_any_state_order_is_right_again(seed: int) -> None:
    # Clocks, messages in flight and buffers are overwritten at one instant; G1 and G2 hold throughout.
    epsilon, delta = 3, 8
    merging = Merging(epsilon, delta, seed=seed, lose=0.0)
    rng, world = random.Random(seed), merging.world
    merging.run(60)
    fault = world.time
    for clock in world.clocks:
        clock._r, clock._c = fault + rng.randint(-20, 20), rng.randint(0, 9)
        clock._kn = [rng.randint(0, 9) for _ in clock._kn]
    for flying in world.network:
        width = merging.bounds.width
        kn = tuple(rng.randint(0, 4) for _ in range(2 * width))
        wrong = BoundedStamp(fault + rng.randint(-delta, epsilon), rng.randrange(width), kn, 10**6)
        flying.stamp, flying.wire = wrong, wrong.encode(limit=100_000)
    for buffer in merging.buffers:
        buffer._waiting.clear()
        buffer._heap = [rng.randbytes(20) for _ in range(9)]
        buffer._passed = b"\xff" * 9
    # The clocks: δ + 4ε (theorem 3.7). The buffers: what is offered from 2·span + 1 on.
    right = fault + max(delta + 4 * epsilon, 2 * merging.rules.span + 1) + epsilon
    merging.run(150)
    kept = [[d.event for d in one if world.events[d.event].stamp.r > right] for one in merging.deliveries]
    common = set(kept[0]) & set(kept[1])
    assert [e for e in kept[0] if e in common] == [e for e in kept[1] if e in common]
    assert len(common) > 60
    assert not any(before(merging, late, early) for at, late in enumerate(kept[0]) for early in kept[0][:at])


@pytest.mark.parametrize("seed", range(8))
def test_theorem_4_3_mergers_of_mergers(seed: int) -> None:
    # Two replicated mergers feed two of the next level, whose δ is computed: δ + 3ε and what the way there takes.
    tick = 1_000_000
    epsilon, delta, way = 3, 8, 5
    below = MergeSettings(epsilon_ns=epsilon * tick, delta_ns=delta * tick, publishers=4, events_per_tick=1)
    above = below.next_level(delta_ns=way * tick)
    assert above.bounds.delta == delta + 3 * epsilon - 1 + way
    merging = Merging(epsilon, delta, seed=seed, lose=0.2)
    rng = random.Random(seed)
    offsets = [0, epsilon]
    bounds = Bounds(epsilon=epsilon, delta=above.bounds.delta, processes=4, modulus=10**6)
    tops: list[MergeBuffer[int]] = [MergeBuffer(MergeRules(bounds=bounds), ahead_max=0) for _ in offsets]
    flying: list[list[tuple[int, int]]] = [[], []]  # (time of arrival, event)
    orders: list[list[int]] = [[], []]
    reasons: list[SetAside | None] = []
    seen = [0, 0]
    for _ in range(200):
        merging.run(1)
        now = merging.world.time
        for merger, deliveries in enumerate(merging.deliveries):
            for delivery in deliveries[seen[merger] :]:
                for each in flying:
                    each.append((now + rng.choice([0, way, rng.randint(0, way)]), delivery.event))
            seen[merger] = len(deliveries)
        for top, (buffer, offset) in enumerate(zip(tops, offsets, strict=True)):
            reading = now + offset
            orders[top] += [one.item for one in buffer.advance(reading)]
            arrived = [event for at, event in flying[top] if at == now]
            rng.shuffle(arrived)
            reasons += [buffer.offer(merging.message(e), e, arrival=reading) for e in arrived]
    assert set(reasons) == {None, SetAside.REPEATED}  # Nothing is late; replicas repeat each other.
    known = [d.event for one in merging.deliveries for d in one if d.time + way + 40 < merging.world.time]
    assert set(known) <= set(orders[0])
    assert len(orders[0]) == len(set(orders[0]))
    shared = set(orders[0]) & set(orders[1])
    assert [e for e in orders[0] if e in shared] == [e for e in orders[1] if e in shared]
    for deliveries in merging.deliveries:  # It extends the order of each merger below.
        got = [d.event for d in deliveries if d.event in set(orders[0])]
        assert got == [e for e in orders[0] if e in set(got)]


def test_section_7_with_one_global_clock_a_message_is_delivered_within_delta_and_a_tick() -> None:
    # Δ-causal order: [2] of the paper delivers at Δ. In discrete time that is as the tick r + Δ ends: see P7.
    rules = MergeRules(bounds=Bounds(epsilon=0, delta=10, processes=3))
    clock = BoundedClock("p", rules.bounds)
    buffer: MergeBuffer[str] = MergeBuffer(rules)
    stamps = {now: clock.tick(now) for now in (100, 101)}
    assert buffer.offer(Published(publisher="p", sequence=2, stamp=stamps[101]), "second", arrival=101) is None
    assert buffer.offer(Published(publisher="p", sequence=1, stamp=stamps[100]), "first", arrival=110) is None
    assert [one.item for one in buffer.advance(110)] == []
    assert [one.item for one in buffer.advance(111)] == ["first"]
    assert [one.item for one in buffer.advance(112)] == ["second"]
    assert buffer.offer(Published(publisher="p", sequence=1, stamp=stamps[100]), "", arrival=111) is SetAside.LATE


@pytest.mark.parametrize(("reset", "order"), [(True, ["after", "before"]), (False, ["before", "after"])])
def test_section_5_the_reset_of_figure_3_inverts_a_merge(reset: bool, order: list[str]) -> None:
    # The round of figure 4 until c is well above 2ε; then j rests for 2ε and sends once more.
    epsilon, delta = 1, 20
    j, k, m = (OffsetClock(name, epsilon=epsilon, reset=reset) for name in "jkl")
    for turn in range(1, 10):
        sent = j.tick(epsilon + 2 * turn)
        k.receive(sent, 2 * turn)
        m.receive(k.tick(2 * turn + 1), 2 * turn)
        j.receive(m.tick(2 * turn + 1), epsilon + 2 * turn + 1)
    first = j.tick(epsilon + 20)
    second = j.tick(first.r + 2 * epsilon + 1)
    assert first.c > 2 * epsilon + 1  # What the reset forgets.
    buffer: MergeBuffer[str] = MergeBuffer(
        MergeRules(bounds=Bounds(epsilon=epsilon, delta=delta, processes=3), c_max=50)
    )
    assert buffer.offer(Published(publisher="j", sequence=1, stamp=first), "before", arrival=first.r) is None
    assert buffer.offer(Published(publisher="j", sequence=2, stamp=second), "after", arrival=second.r) is None
    assert [one.item for one in buffer.advance(100)] == order


def test_section_5_2_without_the_reset_a_window_takes_2_epsilon_and_a_tick_off_c() -> None:
    clock = OffsetClock("p", epsilon=3)
    clock.receive(OffsetStamp(95, 24), now=99)
    assert clock.stamp().c == 21
    assert clock.tick(100 + 2 * 3 + 1 - 1).c == 21 - 7  # From 99, the last reading before [100, 105], to 106.


def test_theorem_3_8_stamp_bytes_are_constant_over_time() -> None:
    # A million ticks. Two processes talk all the time, at the skew that needs the most room.
    bounds = Bounds(epsilon=4, delta=6, processes=2)
    ahead, behind = BoundedClock("a", bounds), BoundedClock("b", bounds)
    rng = random.Random(0)
    largest: dict[int, int] = defaultdict(int)
    time = 10
    while time < 1_000_000:
        time += rng.randint(1, 40)
        sent = ahead.tick(time + 3)
        received = behind.receive(sent, time)
        assert isinstance(received, Received)
        for stamp in (sent, received.stamp):
            part = time // 100_000
            largest[part] = max(largest[part], len(stamp.encode()))
    assert len({largest[part] for part in range(10)}) == 1
    assert largest[0] <= 8 + 2 * bounds.epsilon


def test_theorem_3_8_stamp_bytes_grow_with_the_logarithm_of_the_processes() -> None:
    # All n processes in a chain within one tick, the last of them knows all: kn[0] = n.
    sizes = {}
    for n in (100, 10_000, 1_000_000):
        bounds = Bounds(epsilon=3, delta=6, processes=n)
        stamp = BoundedStamp(100, 0, (n, n, n, n, 0, 0), bounds.modulus)
        assert not bounds.broken(stamp.c, stamp.kn)
        sizes[n] = len(stamp.encode())
    assert sizes[10_000] - sizes[100] == sizes[1_000_000] - sizes[10_000] == 4  # One byte for each count.
    chain = Bounds(epsilon=3, delta=6, processes=300)
    stamp = BoundedClock("p0", chain).tick(50)
    for i in range(1, 300):
        received = BoundedClock(f"p{i}", chain).receive(stamp, 50)
        assert isinstance(received, Received)
        stamp = received.stamp
    assert stamp.known(0) == 300
    assert len(stamp.encode()) <= sizes[10_000]
