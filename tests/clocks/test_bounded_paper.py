"""Kulkarni and Ravikant, "Stabilizing Causal Deterministic Merge", section 3: each claim in our words."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from beforehand.clocks import BoundedClock, BoundedStamp, Bounds, Held, Received, Refusal, Refused
from beforehand.errors import LocalProtocolError, TooManyEventsError
from bounded_world import Figure1, World, less_figure1


def random_bounds(random: Random, *, epsilon_min: int = 0) -> Bounds:
    delta = random.randint(0, 20)
    return Bounds(
        epsilon=random.randint(epsilon_min, 8),
        delta=delta,
        processes=random.randint(2, 6),
        events_per_tick=random.choice([1, 1, 2, 3]),
        delta_min=random.choice([0, 0, random.randint(0, delta)]),
    )


def random_world(seed: int, *, ticks: int = 60, epsilon_min: int = 0) -> World:
    random = Random(seed)
    bounds = random_bounds(random, epsilon_min=epsilon_min)
    # Also just below the point where r modulo B wraps, and at readings as large as real ones.
    world = World(bounds, random, start=random.choice([0, 5, bounds.modulus - 3, 1_790_000_000_000]))
    world.run(ticks)
    return world


def test_theorem_3_6_no_event_is_ordered_against_happened_before() -> None:
    pairs = holds = 0
    for seed in range(120):
        world = random_world(seed)
        checked, wrong = world.inversions()
        assert not wrong, f"seed {seed}, {world.bounds}: {wrong[:3]}"
        pairs += checked
        holds += world.holds
    assert pairs > 100_000
    assert holds > 20, "the worlds must reach the states in which the hold rule matters"


def test_lemmas_3_1_3_2_and_3_4_hold_for_every_event() -> None:
    for seed in range(60):
        world = random_world(seed, epsilon_min=1)
        width, count_max = world.bounds.width, world.bounds.count_max
        for event in world.events:
            stamp = event.stamp
            if width == 0:
                assert (stamp.c, stamp.kn) == (0, ())
                continue
            assert stamp.known(stamp.c) > 0  # Lemma 3.1.
            assert not any(stamp.known(t) for t in range(stamp.c + 1, width))
            assert stamp.c < width  # Lemma 3.2.
            assert max(stamp.kn) <= count_max  # Lemma 3.4.
        assert sum(clock.resets for clock in world.clocks) == 0
        assert world.refused == 0, "a world that keeps G1 and G2 sends nothing that is beyond them"


def test_lemma_3_3_kn_never_counts_more_than_the_events_known_at_that_reading() -> None:
    for seed in range(40):
        world = random_world(seed, ticks=40, epsilon_min=1)
        for at, event in enumerate(world.events):
            stamp = event.stamp
            for t in range(-world.bounds.width, world.bounds.width):
                known = [
                    i
                    for i, other in enumerate(world.events[: at + 1])
                    if (i == at or event.past >> i & 1) and other.stamp.r == stamp.r + t
                ]
                assert stamp.known(t) <= len(known)


def test_observation_3_5_less_is_irreflexive_asymmetric_and_transitive() -> None:
    world = random_world(7, ticks=40, epsilon_min=2)
    stamps = [event.stamp for event in world.events][:60]
    for a in stamps:
        assert not a.less(a)
        for b in stamps:
            assert not (a.less(b) and b.less(a))
            for c in stamps:
                if a.less(b) and b.less(c):
                    assert a.less(c)


def test_clock_and_less_agree_with_figure_1_transcribed() -> None:
    epsilon = 4
    bounds = Bounds(epsilon=epsilon, delta=10, processes=2, events_per_tick=9)
    random = Random(1)
    ours = [BoundedClock("a", bounds), BoundedClock("b", bounds)]
    paper = [Figure1(epsilon), Figure1(epsilon)]
    carried: list[tuple[int, BoundedStamp, tuple[int, int, dict[int, int]]]] = []
    history: list[tuple[BoundedStamp, tuple[int, int, dict[int, int]]]] = []
    for time in range(1, 60):
        for i in (0, 1):
            now = time + i * 3  # Clock b is 3 ahead: within ε, and never so far that anything is held.
            if carried and carried[0][0] != i and random.random() < 0.5:
                _, stamp, message = carried.pop(0)
                result = ours[i].receive(stamp, now)
                if not isinstance(result, Received):
                    continue
                mine, theirs = result.stamp, paper[i].receive(message, now)
            else:
                mine, theirs = ours[i].tick(now), paper[i].tick(now)
                carried.append((i, mine, theirs))
            assert (mine.r, mine.c) == theirs[:2]
            assert list(mine.kn) == [theirs[2][t] for t in range(-epsilon, epsilon)]
            history.append((mine, theirs))
    assert len(history) > 60
    for a, theirs_a in history:
        for b, theirs_b in history:
            assert a.less(b) == less_figure1(theirs_a, theirs_b, epsilon)


def test_without_the_hold_rule_lemma_3_2_and_theorem_3_6_fail() -> None:
    # Clocks exactly ε = 1 apart, and a message that takes no time.
    ahead, behind = Figure1(epsilon=1, rt=0), Figure1(epsilon=1, rt=0)

    send = ahead.tick(rt=1)
    receive = behind.receive(send, rt=0)

    assert receive[1] == 1, "c reaches ε"
    assert not less_figure1(send, receive, epsilon=1), "the send does not come before its own receive"


def test_the_hold_rule_keeps_the_message_until_the_clock_may_know_of_it() -> None:
    bounds = Bounds(epsilon=1, delta=2, processes=2)
    ahead, behind = BoundedClock("ahead", bounds), BoundedClock("behind", bounds)

    send = ahead.tick(now=1)
    early = behind.receive(send, now=0)
    later = behind.receive(send, now=1)

    assert early == Held(until=1)
    assert isinstance(later, Received)
    assert send.less(later.stamp)


def test_the_least_delay_shrinks_kn_and_at_epsilon_removes_it() -> None:
    # The remark after lemma 3.4.
    widths = [Bounds(epsilon=5, delta=9, processes=3, delta_min=least).width for least in (0, 2, 5, 9)]
    assert widths == [5, 3, 0, 0]


def test_figure_4_c_does_not_grow_in_the_program_of_figure_1() -> None:
    epsilon = 6
    bounds = Bounds(epsilon=epsilon, delta=2 * epsilon, processes=3)
    j, k, m = (BoundedClock(name, bounds) for name in "jkl")
    largest = 0
    for turn in range(200):
        for stamp in figure_4_round(j, k, m, epsilon, turn):
            largest = max(largest, stamp.c)
    assert largest == epsilon - 1


def figure_4_round(j: BoundedClock, k: BoundedClock, m: BoundedClock, epsilon: int, turn: int) -> list[BoundedStamp]:
    """j is ε ahead; j → k → l → j, each message received as early as it may be."""
    start = 2 * turn + 1
    result = []
    hop = j.tick(epsilon + start)
    for clock, now in ((k, start), (m, start), (j, epsilon + start + 1)):
        received = clock.receive(hop, now)
        if isinstance(received, Held):
            received = clock.receive(hop, now := received.until)
        assert isinstance(received, Received)
        result.append(received.stamp)
        if clock is not j:
            hop = clock.tick(now + 1)
            result.append(hop)
    return result


def corrupt(world: World, random: Random) -> None:
    """Any state of the processes, any stamps in flight."""
    width, modulus = world.bounds.width, world.bounds.modulus
    for i, clock in enumerate(world.clocks):
        clock._r = random.choice([clock._r, world.reading(i) + random.randint(-40, 40), random.randrange(10**6)])
        clock._c = random.choice([0, random.randrange(width + 1), random.randrange(1000)])
        clock._kn = [random.choice([0, 1, random.randrange(50)]) for _ in range(2 * width)]
        clock._in_tick = random.randrange(5)
    for message in world.network:
        r = message.stamp.r + random.randint(-10, 10)
        kn = tuple(random.randrange(8) for _ in range(2 * width))
        message.stamp = BoundedStamp(r, random.randrange(width + 3), kn, modulus)
        message.wire = message.stamp.encode(limit=100_000)


@pytest.mark.parametrize("together", [True, False])
def test_theorem_3_7_order_is_right_again_within_delta_and_four_epsilon(together: bool) -> None:
    damaged = pairs = resets = 0
    for seed in range(150):
        random = Random(seed)
        bounds = random_bounds(random, epsilon_min=1)
        world = World(bounds, random)
        world.run(30)
        for _ in range(1 if together else 3):
            corrupt(world, random)
            world.run(0 if together else 3)
        fault = world.time + bounds.epsilon  # No reading was later than this when the last fault happened.
        world.run(bounds.delta + 4 * bounds.epsilon + 60)

        _, anywhere = world.inversions(after=fault - 40)
        checked, wrong = world.inversions(after=fault + bounds.delta + 4 * bounds.epsilon)

        assert not wrong, f"seed {seed}, {bounds}: {wrong[:3]}"
        damaged += bool(anywhere)
        pairs += checked
        resets += sum(clock.resets for clock in world.clocks)
    assert pairs > 100_000
    assert damaged > 10, "the corruption must do harm, or recovery shows nothing"
    assert resets > 50


def test_theorem_3_7_after_a_time_in_which_clocks_ran_apart() -> None:
    # G1 is violated for a while: one clock is far ahead, its stamps are taken in by nobody or mended.
    bounds = Bounds(epsilon=4, delta=6, processes=4)
    for seed in range(40):
        world = World(bounds, Random(seed))
        world.run(20)
        world.offsets[0] += 15
        for _ in range(5):
            world._act(0)
            world._act(1)
            world.time += 1
        # The clock is set right; the first reading after that is lower than the last one before.
        world.offsets[0] = 0
        fault = world.time + bounds.epsilon
        world.run(100)
        assert not world.inversions(after=fault + bounds.delta + 4 * bounds.epsilon)[1]


def test_theorem_3_8_bytes_do_not_grow_with_time_nor_much_with_processes() -> None:
    sizes = {}
    for processes in (4, 64, 1024):
        bounds = Bounds(epsilon=10, delta=50, processes=processes)
        clock = BoundedClock("p", bounds)
        stamps = [clock.tick(now) for now in (1, 2, 10**6, 10**12)]
        full = BoundedStamp(10**12, 9, (processes,) * 20, bounds.modulus)
        assert max(len(stamp.encode()) for stamp in stamps) <= 16
        sizes[processes] = len(full.encode())
    assert sizes == {4: 14, 64: 24, 1024: 34}


def test_stamps_beyond_the_guarantees_are_refused_as_a_result() -> None:
    bounds = Bounds(epsilon=2, delta=5, processes=2)
    clock = BoundedClock("a", bounds, now=100)
    before = clock.stamp()
    other = BoundedClock("b", Bounds(epsilon=3, delta=5, processes=2), now=100)

    def at(r: int) -> BoundedStamp:
        return BoundedClock("b", bounds, now=r).stamp()

    assert clock.receive(at(94), now=100) == Refused(Refusal.LATE)
    assert clock.receive(at(103), now=100) == Refused(Refusal.FUTURE)
    assert clock.receive(other.stamp(), now=100) == Refused(Refusal.OTHER_BOUNDS)
    assert clock.stamp() == before
    assert isinstance(clock.receive(at(96), now=101), Received)


def test_wrapped_readings_are_reconstructed_wherever_they_stand() -> None:
    # Section 3.2: with B large enough the receiver recovers the sender's reading from its remainder.
    bounds = Bounds(epsilon=3, delta=7, processes=2)
    for now in range(1000, 1000 + 3 * bounds.modulus):
        clock = BoundedClock("a", bounds, now=now)
        for r in range(now - bounds.delta, now + bounds.epsilon + 1):
            sent = BoundedStamp(r, 0, (0, 0, 0, 1, 0, 0), bounds.modulus)
            assert clock.decode(sent.encode(), now) == sent


def test_readings_may_be_incarnation_numbers() -> None:
    # Section 6: rt is any measure of progress that keeps G1 and G2, with K events each.
    bounds = Bounds(epsilon=1, delta=2, processes=3, events_per_tick=100)
    a, b = BoundedClock("a", bounds), BoundedClock("b", bounds)
    chain = [a.tick(now=1) for _ in range(50)]
    received = b.receive(chain[-1], now=1)
    assert isinstance(received, Received)
    chain += [received.stamp, *(b.tick(now=1) for _ in range(40)), b.tick(now=2)]
    assert all(x.less(y) for x, y in pairwise(chain))


def test_more_than_k_events_in_a_tick_are_refused_at_home_and_held_from_elsewhere() -> None:
    bounds = Bounds(epsilon=2, delta=5, processes=2, events_per_tick=2)
    clock, peer = BoundedClock("a", bounds), BoundedClock("b", bounds)
    clock.tick(now=1)
    clock.tick(now=1)
    before = clock.stamp()
    with pytest.raises(TooManyEventsError):
        clock.tick(now=1)
    assert clock.receive(peer.tick(now=1), now=1) == Held(until=2)
    assert clock.stamp() == before
    assert isinstance(clock.receive(peer.stamp(), now=2), Received)


@pytest.mark.parametrize(
    ("c", "kn"),
    [
        (3, (0, 0, 0, 1, 0, 0)),  # Lemma 3.2: c < ε.
        (1, (0, 0, 0, 1, 0, 0)),  # Lemma 3.1: kn[c] > 0.
        (0, (0, 0, 0, 1, 1, 0)),  # Lemma 3.1: kn[t] = 0 for t > c.
        (0, (0, 7, 0, 1, 0, 0)),  # Lemma 3.4: kn[t] ≤ n·K.
    ],
)
def test_section_3_3_a_stamp_that_breaks_a_lemma_is_reset_and_counted(c: int, kn: tuple[int, ...]) -> None:
    bounds = Bounds(epsilon=3, delta=5, processes=6)
    clock = BoundedClock("a", bounds, now=10)
    result = clock.receive(BoundedStamp(11, c, kn, bounds.modulus), now=11)
    assert isinstance(result, Received)
    assert result.mended
    assert clock.resets == 1
    # As if the message knew of nothing but its own send.
    assert result.stamp == BoundedStamp(11, 0, (0, 0, 1, 2, 0, 0), bounds.modulus)


def test_the_modulus_must_tell_all_readings_apart_that_can_meet() -> None:
    # Theorem 3.7: B ≥ 6ε + δ + 1.
    assert Bounds(epsilon=3, delta=7, processes=2).modulus == 26
    Bounds(epsilon=3, delta=7, processes=2, modulus=26)
    with pytest.raises(LocalProtocolError, match="26"):
        Bounds(epsilon=3, delta=7, processes=2, modulus=25)


def test_a_restored_clock_goes_on_in_the_same_tick() -> None:
    bounds = Bounds(epsilon=3, delta=8, processes=4, events_per_tick=2)
    clock = BoundedClock("p", bounds, now=9)
    clock.tick(10)
    again = BoundedClock("p", bounds, now=0)
    again.restore(clock.snapshot())
    assert again.snapshot() == clock.snapshot()
    assert clock.stamp().less(again.tick(10))
    with pytest.raises(TooManyEventsError):
        again.tick(10)
    with pytest.raises(LocalProtocolError):
        BoundedClock("p", Bounds(epsilon=4, delta=8, processes=4)).restore(clock.snapshot())


def test_section_3_3_a_negative_count_in_memory_is_reset_as_well() -> None:
    clock = BoundedClock("p", Bounds(epsilon=2, delta=8, processes=4), now=9)
    clock._kn = [0, -3, 1, 0]
    assert clock.tick(10).known(0) == 1
    assert clock.resets == 1
