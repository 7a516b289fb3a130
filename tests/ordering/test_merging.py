"""Settings, rules and buffer of a merger, against an oracle that sorts everything and shares no code with them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beforehand.clocks import BoundedStamp, Bounds, OffsetStamp
from beforehand.errors import InvariantError, LocalProtocolError
from beforehand.ordering.merging import MergeBuffer, MergeRules, MergeSettings, Published, SetAside

LATE, FUTURE, REPEATED, PASSED, FULL = (
    SetAside.LATE,
    SetAside.FUTURE,
    SetAside.REPEATED,
    SetAside.PASSED,
    SetAside.FULL,
)


def rules_of(
    epsilon: int, delta: int, *, events: int = 1, processes: int = 5, c_max: int | None = None
) -> MergeRules:
    bounds = Bounds(
        epsilon=epsilon, delta=delta, processes=processes, events_per_tick=events, modulus=10**6 + 6 * epsilon + delta
    )
    return MergeRules(bounds=bounds, c_max=c_max)


RULES = rules_of(3, 10)  # w = 3, wait = 13, span = 18.


def bounded(r: int, c: int = 0, *below: int, rules: MergeRules = RULES) -> BoundedStamp:
    """`below`: kn[c], kn[c-1], … as far as they are not 1, 0, 0, …"""
    width = rules.bounds.width
    kn = [0] * (2 * width)
    for at, count in enumerate(below or (1,)):
        kn[c + width - at] = count
    return BoundedStamp(r, c, tuple(kn), rules.bounds.modulus)


def message(r: int, c: int = 0, *below: int, of: str = "p", number: int = 1, rules: MergeRules = RULES) -> Published:
    return Published(publisher=of, sequence=number, stamp=bounded(r, c, *below, rules=rules))


# The oracle: what must come out of a list of (message, arrival), in the paper's words.


@dataclass
class Oracle:
    epsilon: int
    delta: int
    events: int = 1
    processes: int = 5
    c_max: int | None = None

    @property
    def wait(self) -> int:
        return self.delta + (self.epsilon or 1)

    def place(self, published: Published) -> tuple:
        stamp = published.stamp
        if isinstance(stamp, OffsetStamp):
            middle: list[int] = [stamp.r]
        else:
            kn = {t - len(stamp.kn) // 2: count for t, count in enumerate(stamp.kn)}
            middle = [kn[stamp.c - i] for i in range(len(stamp.kn) // 2)]
        return (stamp.r + stamp.c, middle, published.publisher, published.sequence)

    def reason(self, published: Published, arrival: int) -> str | None:
        stamp = published.stamp
        if isinstance(stamp, OffsetStamp) != (self.c_max is not None):
            return "other bounds"
        if isinstance(stamp, OffsetStamp):
            if stamp.c > self.c_max:
                return "ahead"
        else:
            half = len(stamp.kn) // 2
            if half != max(self.epsilon, 0 if self.events == 1 else 1):
                return "other bounds"
            known = {t - half: count for t, count in enumerate(stamp.kn)}
            sound = stamp.c == 0 if half == 0 else stamp.c < half and known[stamp.c] > 0
            sound = sound and all(count == 0 for t, count in known.items() if t > stamp.c)
            if not sound or any(count > self.processes * self.events for count in stamp.kn):
                return "corrupted"
        if arrival - stamp.r > self.delta:
            return "late"
        return "future" if stamp.r - arrival > self.epsilon else None

    def merge(self, arrivals: list[tuple[Published, int]]) -> tuple[list[Published], list[str | None]]:
        """The order, and for each arrival why it is not in it."""
        reasons: list[str | None] = []
        kept: list[Published] = []
        for published, arrival in arrivals:
            reason = self.reason(published, arrival)
            if reason is None and published in kept:
                reason = "repeated"
            reasons.append(reason)
            if reason is None:
                kept.append(published)
        return sorted(kept, key=self.place), reasons


def any_stamp(rng: random.Random, oracle: Oracle, arrival: int, modulus: int):
    """Mostly sound and in time, often exactly at a bound."""
    early, late = arrival - oracle.delta, arrival + oracle.epsilon
    r = rng.choice([early, late, rng.randint(early, late), rng.randint(early - 3, late + 3)])
    if oracle.c_max is not None:
        return OffsetStamp(max(0, r), rng.choice([0, oracle.c_max, rng.randint(0, oracle.c_max + 1)]))
    width = max(oracle.epsilon, 0 if oracle.events == 1 else 1)
    if width == 0:
        return BoundedStamp(r, int(rng.random() < 0.1), (), modulus)
    c = rng.randrange(width)
    kn = [0] * (2 * width)
    kn[: c + width + 1] = [rng.choice([0, 0, 1, 2]) for _ in range(c + width + 1)]
    kn[c + width] = rng.randint(1, oracle.processes * oracle.events)
    if rng.random() < 0.1:
        kn[rng.randrange(2 * width)] = rng.choice([0, 1, oracle.processes * oracle.events + 1])
    return BoundedStamp(r, c if rng.random() < 0.95 else width + 1, tuple(kn), modulus)


def arrivals_of(rng: random.Random, oracle: Oracle, modulus: int, count: int = 60) -> list[tuple[Published, int]]:
    arrivals: list[tuple[Published, int]] = []
    time = 1_000
    for _ in range(count):
        time += rng.choice([0, 0, 1, 2, 7])
        if arrivals and rng.random() < 0.2:
            arrivals.append((rng.choice(arrivals[-8:])[0], time))  # A repetition, in time or late.
        else:
            stamp = any_stamp(rng, oracle, time, modulus)
            name, number = rng.choice(["p", "q", "pq", "é"]), rng.randint(1, 300)
            arrivals.append((Published(publisher=name, sequence=number, stamp=stamp), time))
    return arrivals


VARIANTS = [
    Oracle(epsilon=3, delta=10),
    Oracle(epsilon=1, delta=0),
    Oracle(epsilon=0, delta=5),
    Oracle(epsilon=0, delta=0, events=4),
    Oracle(epsilon=2, delta=9, events=100, processes=400),
    Oracle(epsilon=2, delta=6, c_max=4),
    Oracle(epsilon=0, delta=3, c_max=2),
]


def rules_for(oracle: Oracle) -> MergeRules:
    return rules_of(
        oracle.epsilon, oracle.delta, events=oracle.events, processes=oracle.processes, c_max=oracle.c_max
    )


@pytest.mark.parametrize("oracle", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", range(25))
def test_p1_p2_p4_p7_a_buffer_equals_sorting_everything(oracle: Oracle, seed: int) -> None:
    rng = random.Random(seed)
    rules = rules_for(oracle)
    # With the mending of P5 time is not behind arrivals; without it, it may lag as far as it likes.
    lag = rng.choice([0, 0, 3, 100])
    buffer: MergeBuffer[Published] = MergeBuffer(rules, ahead_max=rng.choice([None, lag]))
    arrivals = arrivals_of(rng, oracle, rules.bounds.modulus)
    order, reasons = oracle.merge(arrivals)
    released: list[Published] = []
    said: list[SetAside | None] = []
    for published, arrival in arrivals:
        if rng.random() < 0.7:
            released += [one.item for one in buffer.advance(arrival - lag)]
        said.append(buffer.offer(published, published, arrival=arrival))
        buffer.check_invariants()
    released += [one.item for one in buffer.advance(arrivals[-1][1] + 2 * rules.span)]
    assert said == reasons
    assert released == order
    assert len(buffer) == 0


@pytest.mark.parametrize("oracle", VARIANTS, ids=str)
def test_p3_each_message_leaves_at_its_due_time_and_none_waits_longer_than_span(oracle: Oracle) -> None:
    rules = rules_for(oracle)
    buffer: MergeBuffer[tuple[Published, int]] = MergeBuffer(rules)
    arrivals = arrivals_of(random.Random(7), oracle, rules.bounds.modulus, count=200)
    waits = []
    for time in range(990, arrivals[-1][1] + rules.span + 1):
        due = buffer.next_due()
        assert due is None or due >= time
        for one in buffer.advance(time):
            published, arrival = one.item
            assert time == published.stamp.r + published.stamp.c + oracle.wait == rules.due(published.stamp)
            waits.append(time - arrival)
        for published, arrival in arrivals:
            if arrival == time:
                buffer.offer(published, (published, arrival), arrival=arrival)
    assert len(buffer) == 0
    assert max(waits) <= rules.span


def test_lemma_4_2_span_is_the_paper_s_bound_less_one() -> None:
    # c is below ε (lemma 3.2), so δ + 3ε - 1.
    assert RULES.span == 10 + 3 * 3 - 1
    assert rules_of(0, 10).span == 11  # ε = 0: δ and a tick.
    assert rules_of(2, 10, c_max=7).span == 2 + 7 + 10 + 2


@pytest.mark.parametrize("seed", range(20))
def test_p1_two_mergers_agree_whatever_each_of_them_gets(seed: int) -> None:
    oracle, rng = VARIANTS[0], random.Random(seed)
    arrivals = arrivals_of(rng, oracle, RULES.bounds.modulus, count=100)
    orders = []
    for _ in range(2):
        buffer: MergeBuffer[Published] = MergeBuffer(RULES)
        mine = sorted(
            ((m, a + rng.randint(0, 6)) for m, a in arrivals if rng.random() < 0.7), key=lambda pair: pair[1]
        )
        order: list[Published] = []
        for published, arrival in mine:
            order += [one.item for one in buffer.advance(arrival)]
            buffer.offer(published, published, arrival=arrival)
        orders.append(order + [one.item for one in buffer.advance(10_000)])
    common = set(orders[0]) & set(orders[1])
    assert len(common) > 5
    first, second = ([m for m in order if m in common] for order in orders)
    assert first == second


# One thing at a time.


@pytest.mark.parametrize(
    ("stamp", "arrival", "reason"),
    [
        (bounded(100), 100, None),
        (bounded(100), 110, None),  # r + δ is in time.
        (bounded(100), 111, LATE),
        (bounded(100), 97, None),  # ε ahead is possible.
        (bounded(100), 96, FUTURE),
        (bounded(100, 2, 5), 100, None),  # c < ε; n·K = 5 events.
        (bounded(100, 2, 6), 100, SetAside.CORRUPTED),
        (bounded(100, 2, 0, 1), 100, SetAside.CORRUPTED),  # kn[c] > 0.
        (replace(bounded(100, 2, 1), c=1), 100, SetAside.CORRUPTED),  # kn[t] = 0 for t > c.
        (replace(bounded(100), c=3), 100, SetAside.CORRUPTED),
        (replace(bounded(100), c=10**9), 100, SetAside.CORRUPTED),
        (replace(bounded(100), modulus=77), 100, SetAside.OTHER_BOUNDS),
        (bounded(100, rules=rules_of(4, 10)), 100, SetAside.OTHER_BOUNDS),
        (OffsetStamp(100, 0), 100, SetAside.OTHER_BOUNDS),
        (bounded(-5), 3, None),  # Clocks may start below zero.
    ],
)
def test_p4_what_is_set_aside_and_why(stamp, arrival: int, reason: SetAside | None) -> None:
    assert RULES.judge(stamp, arrival=arrival) is reason
    published = Published(publisher="p", sequence=1, stamp=stamp)
    assert MergeBuffer(RULES).offer(published, None, arrival=arrival) is reason


@pytest.mark.parametrize(
    ("stamp", "reason"),
    [
        (OffsetStamp(100, 7), None),
        (OffsetStamp(100, 8), SetAside.AHEAD),
        (OffsetStamp(89, 0), LATE),
        (OffsetStamp(103, 0), FUTURE),
        (bounded(100), SetAside.OTHER_BOUNDS),
    ],
)
def test_offset_stamps_are_judged_by_c_max(stamp, reason: SetAside | None) -> None:
    assert rules_of(2, 10, c_max=7).judge(stamp, arrival=100) is reason


ORDERED = [
    message(-3),
    message(98, 1, 1),
    message(99, 0, 1, 1),
    message(99, 0, 2),
    message(98, 2, 1),  # From here on r + c = 100.
    message(100, 0, 1, 0, 7),
    message(99, 1, 1, 1),
    message(100, 0, 1, 1, of="p"),
    message(100, 0, 1, 1, of="p", number=2),
    message(100, 0, 1, 1, of="p", number=256),
    message(100, 0, 1, 1, of="p\x01"),
    message(100, 0, 1, 1, of="pa"),
    message(100, 0, 1, 1, of="q"),
    message(100, 0, 1, 1, of="é"),
    message(100, 0, 2),
    message(101),
]


def test_p1_keys_compare_as_r_plus_c_then_counts_then_publisher_then_number() -> None:
    keys = [RULES.key(one) for one in ORDERED]
    # Rows 7 and 8 differ by nothing but the publisher and number, so they stand as written.
    assert sorted(keys) == keys
    assert [RULES.due_of(key) for key in keys] == [RULES.due(one.stamp) for one in ORDERED]


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=4)


@given(
    st.lists(
        st.tuples(st.integers(-(10**12), 10**12), st.integers(0, 9), names, st.integers(1, 2**63 - 1)), max_size=8
    )
)
def test_p1_keys_of_offset_stamps_sort_as_their_parts(parts: list[tuple[int, int, str, int]]) -> None:
    rules = rules_of(2, 10, c_max=9)
    made = [Published(publisher=name, sequence=n, stamp=OffsetStamp(abs(r), c)) for r, c, name, n in parts]
    by_parts = sorted(made, key=lambda m: (m.stamp.r + m.stamp.c, m.stamp.r, m.publisher.encode(), m.sequence))
    assert sorted(made, key=rules.key) == by_parts


def test_p2_a_repetition_is_told_from_what_waits_and_is_late_afterwards() -> None:
    buffer: MergeBuffer[str] = MergeBuffer(RULES)
    assert buffer.offer(message(100), "m", arrival=100) is None
    assert buffer.offer(message(100), "m again", arrival=110) is REPEATED
    assert [one.item for one in buffer.advance(113)] == ["m"]
    assert buffer.offer(message(100), "m again", arrival=113) is LATE


def test_what_is_offered_after_time_went_past_it_is_set_aside() -> None:
    buffer: MergeBuffer[str] = MergeBuffer(RULES)
    buffer.offer(message(100), "m", arrival=100)
    buffer.advance(113)
    # Its arrival is told too late by whoever runs the merger.
    assert buffer.offer(message(99), "n", arrival=105) is PASSED
    assert buffer.offer(message(100), "m", arrival=105) is PASSED
    assert buffer.offer(message(101), "o", arrival=105) is None


def test_epsilon_0_waits_for_the_end_of_the_tick() -> None:
    # Δ-causal delivery: what takes δ is delivered, in order with what took as long.
    rules = rules_of(0, 10)
    buffer: MergeBuffer[str] = MergeBuffer(rules)
    stamp = BoundedStamp(100, 0, (), rules.bounds.modulus)  # No counts at all.
    later, earlier = (Published(publisher=name, sequence=1, stamp=stamp) for name in "za")
    buffer.offer(later, "z", arrival=104)
    assert buffer.advance(110) == []
    assert buffer.offer(earlier, "a", arrival=110) is None
    assert [one.item for one in buffer.advance(111)] == ["a", "z"]


def test_a_full_buffer_sets_aside_and_time_makes_room() -> None:
    buffer: MergeBuffer[str] = MergeBuffer(RULES, waiting_max=1)
    buffer.offer(message(100), "m", arrival=100)
    assert buffer.offer(message(101), "n", arrival=101) is FULL
    assert buffer.offer(message(100), "m", arrival=101) is REPEATED
    buffer.advance(113)
    assert buffer.offer(message(110), "o", arrival=113) is None
    with pytest.raises(LocalProtocolError):
        MergeBuffer(RULES, waiting_max=0)


def test_a_snapshot_is_the_whole_state() -> None:
    rng = random.Random(3)
    arrivals = arrivals_of(rng, VARIANTS[0], RULES.bounds.modulus, count=80)
    buffer: MergeBuffer[Published] = MergeBuffer(RULES)
    straight: MergeBuffer[Published] = MergeBuffer(RULES)
    for published, arrival in arrivals:
        twin: MergeBuffer[Published] = MergeBuffer(RULES)
        twin.restore(buffer.snapshot())
        assert hash(twin.snapshot()) == hash(buffer.snapshot())
        buffer = twin
        assert buffer.advance(arrival) == straight.advance(arrival)
        assert buffer.offer(published, published, arrival=arrival) is straight.offer(
            published, published, arrival=arrival
        )
    assert buffer.snapshot() == straight.snapshot()
    assert buffer.passed == straight.passed != b""


def test_waiting_gives_what_waits_in_the_order_it_came() -> None:
    buffer: MergeBuffer[str] = MergeBuffer(RULES)
    buffer.offer(message(101), "n", arrival=101)
    buffer.offer(message(100), "m", arrival=101)
    assert [item for _, item in buffer.waiting()] == ["n", "m"]


# P5: whatever is in memory, it is right again after 2·span + 1.


def spoil(buffer: MergeBuffer[str], rng: random.Random, time: int) -> None:
    """Any contents of its memory, of the right types."""
    wide = rng.choice([5, 50, 10**6])
    garbage = [RULES.key(message(time + rng.randint(-wide, wide), of=f"ghost{n}")) for n in range(rng.randint(0, 30))]
    garbage += [rng.randbytes(rng.randint(0, 30)) for _ in range(rng.randint(0, 5))]
    buffer._waiting.update((key, "ghost") for key in garbage if rng.random() < 0.7)
    for key in list(buffer._waiting):
        if rng.random() < 0.3:
            del buffer._waiting[key]
    buffer._heap += garbage
    rng.shuffle(buffer._heap)
    del buffer._heap[: rng.randrange(len(buffer._heap) + 1)]
    buffer._made = rng.choice([None, time, time - 5, time + 5, time + 10**6, -(10**6)])
    buffer._passed = rng.choice([b"", b"\xff" * 20, *garbage])


@pytest.mark.parametrize("seed", range(60))
def test_p5_from_any_memory_a_buffer_is_right_again_after_two_spans(seed: int) -> None:
    rng = random.Random(seed)
    buffer: MergeBuffer[str] = MergeBuffer(RULES, waiting_max=60, ahead_max=0)
    expected: list[str] = []
    released: list[str] = []
    for time in range(1_000, 1_400):
        if time == 1_100:
            spoil(buffer, rng, time)
        for one in buffer.advance(time):
            if one.reason is None:
                released.append(one.item)
            assert time <= 1_101 + 2 * RULES.span or one.item != "ghost"
        if rng.random() < 0.8:  # So often that the buffer is never empty.
            published = message(time - rng.randint(0, 9), number=time)
            reason = buffer.offer(published, f"m{time}", arrival=time)
            if time > 1_101 + 2 * RULES.span:
                assert reason is None
                expected.append((RULES.key(published), f"m{time}"))
    released += [one.item for one in buffer.advance(2_000)]
    assert [item for item in released if item in {name for _, name in expected}] == [n for _, n in sorted(expected)]
    buffer.check_invariants()


def test_p5_garbage_that_is_due_far_ahead_does_not_take_up_room_for_ever() -> None:
    buffer: MergeBuffer[str] = MergeBuffer(RULES, waiting_max=3, ahead_max=0)
    for n in range(2):
        buffer._waiting[RULES.key(message(10**9, number=n + 1))] = "ghost"
    aside: list[str] = []
    for time in range(100, 160):
        aside += [one.item for one in buffer.advance(time) if one.reason is SetAside.CORRUPTED]
        buffer.offer(message(time), f"m{time}", arrival=time)  # Never empty: the ghosts are never at the front.
    assert aside == ["ghost", "ghost"]


def test_arrivals_may_run_ahead_of_time_where_partitions_are_read_at_different_speeds() -> None:
    # One partition was read up to 5,000; the channel's time is that of the other.
    read_ahead: MergeBuffer[str] = MergeBuffer(RULES)
    read_ahead.offer(message(5_000), "m", arrival=5_000)
    assert [one for time in (100, 200, 5_012) for one in read_ahead.advance(time)] == []
    assert [(one.item, one.reason) for one in read_ahead.advance(5_013)] == [("m", None)]
    bounded_lag: MergeBuffer[str] = MergeBuffer(RULES, ahead_max=100)
    bounded_lag.offer(message(200), "n", arrival=200)
    bounded_lag.offer(message(5_000), "m", arrival=5_000)
    assert [(one.item, one.reason) for one in bounded_lag.advance(100)] == [("m", SetAside.CORRUPTED)]


@pytest.mark.parametrize(
    ("spoiled", "number"),
    [
        (lambda buffer: buffer._heap.pop(), "P3"),
        (lambda buffer: setattr(buffer, "_passed", b"\xff" * 9), "P1"),
        (lambda buffer: buffer._waiting.update({b"%9d" % n: "x" for n in range(9)}), "P3"),
    ],
)
def test_invariants_name_what_is_broken(spoiled, number: str) -> None:
    buffer: MergeBuffer[str] = MergeBuffer(RULES, waiting_max=4)
    buffer.offer(message(100), "m", arrival=100)
    buffer.check_invariants()
    spoiled(buffer)
    with pytest.raises(InvariantError, match=number):
        buffer.check_invariants()


# Settings and messages.


def test_settings_are_rounded_up_to_ticks() -> None:
    settings = MergeSettings(epsilon_ns=2_500_000, delta_ns=10_000_001, publishers=7, events_per_tick=3)
    bounds = settings.bounds
    assert (bounds.epsilon, bounds.delta, bounds.processes, bounds.events_per_tick) == (3, 11, 7, 3)
    assert settings.reading(9_999_999) == 9
    assert settings.rules == MergeRules(bounds=bounds)
    assert replace(settings, c_max_ns=1).rules.c_max == 1


@pytest.mark.parametrize("wrong", [{"epsilon_ns": -1}, {"delta_ns": -1}, {"tick_ns": 0}, {"c_max_ns": -1}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(LocalProtocolError):
        MergeSettings(**{"epsilon_ns": 1, "delta_ns": 1, **wrong})
    with pytest.raises(LocalProtocolError):
        MergeSettings(epsilon_ns=1, delta_ns=1, publishers=0)


def test_theorem_4_3_the_next_level_counts_what_a_merger_adds() -> None:
    ms = 1_000_000
    settings = MergeSettings(epsilon_ns=3 * ms, delta_ns=10 * ms)
    above = settings.next_level(delta_ns=4 * ms)
    assert above.bounds.delta == 10 + 3 * 3 - 1 + 4
    assert above.bounds.epsilon == 3
    above.check_follows(settings, delta_ns=4 * ms)
    replace(above, delta_ns=above.delta_ns + 1).check_follows(settings, delta_ns=4 * ms)
    for wrong in (
        {"delta_ns": above.delta_ns - 1},
        {"epsilon_ns": 4 * ms},
        {"tick_ns": ms // 2},
        {"c_max_ns": 5},
        {"publishers": 7},
        {"events_per_tick": 7},
    ):
        with pytest.raises(LocalProtocolError):
            replace(above, **wrong).check_follows(settings, delta_ns=4 * ms)


@pytest.mark.parametrize(
    "wrong",
    [
        {"publisher": ""},
        {"publisher": "a\0b"},
        {"publisher": "x" * 256},
        {"publisher": "\ud800"},
        {"publisher": 3},
        {"sequence": 0},
        {"sequence": 2**63},
        {"sequence": 1.0},
        {"stamp": None},
        {"payload": "text"},
    ],
)
def test_an_impossible_message_cannot_exist(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"publisher|sequence|stamp|payload"):
        Published(**{"publisher": "p", "sequence": 1, "stamp": bounded(1), **wrong})
