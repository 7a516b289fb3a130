"""History against plain reachability on random histories: no shared code, exact agreement."""

from __future__ import annotations

from itertools import pairwise, permutations
from random import Random

import pytest

from beforehand.events import Event
from beforehand.history import History
from random_histories import Step, as_events, pasts, random_steps

SEEDS = range(40)


def world(seed: int) -> tuple[list[Step], list[Event], list[int], History]:
    random = Random(seed)
    steps = random_steps(
        random,
        processes=random.randint(1, 7),
        steps=random.randint(1, 70),
        loss=random.choice([0.0, 0.3]),
        skew_ns=random.choice([0, 50, 5_000]),
        untimed=random.choice([0.0, 0.2, 1.0]),
        spawn=random.choice([0.0, 0.4]),
    )
    events = as_events(steps)
    shuffled = events.copy()
    random.shuffle(shuffled)
    return steps, events, pasts(steps), History(shuffled)


def bits(past: int) -> set[int]:
    return {at for at in range(past.bit_length()) if past >> at & 1}


@pytest.mark.parametrize("seed", SEEDS)
def test_precedence_equals_reachability(seed: int) -> None:
    _, events, past, history = world(seed)
    for b, event in enumerate(events):
        for a, other in enumerate(events):
            assert history.happened_before(other, event) == bool(past[b] >> a & 1)
        expected = {"before": past[b] & 1, "after": past[0] >> b & 1}
        relation = "equal" if b == 0 else next((name for name, bit in expected.items() if bit), "concurrent")
        assert history.compare(events[0], event) == relation


@pytest.mark.parametrize("seed", SEEDS)
def test_past_future_and_concurrent_partition_the_events(seed: int) -> None:
    _, events, past, history = world(seed)
    for at, event in enumerate(events):
        before = {events[i].id for i in bits(past[at])}
        after = {events[i].id for i in range(len(events)) if past[i] >> at & 1}
        assert {e.id for e in history.past(event)} == before
        assert {e.id for e in history.future(event)} == after
        apart = {e.id for e in events} - before - after - {event.id}
        assert {e.id for e in history.concurrent(event)} == apart


@pytest.mark.parametrize("seed", SEEDS)
def test_stamps_causal_times_sizes_and_lamport_times(seed: int) -> None:
    steps, events, past, history = world(seed)
    lamport: list[int] = []
    for at, step in enumerate(steps):
        known = bits(past[at]) | {at}
        stamp = {
            p: max(steps[i].index for i in known if steps[i].process == p) for p in {steps[i].process for i in known}
        }
        assert history.stamp(events[at]) == stamp
        assert history.past_size(events[at]) == len(known)
        times = [steps[i].time for i in known if steps[i].time is not None]
        assert history.causal_time(events[at]) == (max(times) if times else None)
        lamport.append(1 + max((lamport[i] for i in step.parents), default=0))
        assert history.lamport_time(events[at]) == lamport[at]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_deterministic_order_is_a_linear_extension_and_does_not_depend_on_the_input_order(seed: int) -> None:
    _, events, past, history = world(seed)
    order = [event.id for event in history.order()]
    place = {event: at for at, event in enumerate(order)}
    for b, event in enumerate(events):
        assert all(place[events[a].id] < place[event.id] for a in bits(past[b]))
    assert [event.id for event in History(events).order()] == order
    assert history.judge_run(order).is_consistent


@pytest.mark.parametrize("seed", SEEDS)
def test_explain_gives_the_last_of_the_past_in_that_order(seed: int) -> None:
    _, events, past, history = world(seed)
    place = {event.id: at for at, event in enumerate(history.order())}
    for at, event in enumerate(events):
        before = sorted((events[i].id for i in bits(past[at])), key=place.__getitem__)
        explanation = history.explain(event, last=5)
        assert explanation.past == len(before)
        assert [e.id for e in explanation.events] == before[-5:]
        receives = history.explain(event, last=3, where=lambda e: bool(e.receives))
        wanted = [e for e in before if history.event(e).receives]
        assert [e.id for e in receives.events] == wanted[-3:]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_is_a_path_of_direct_edges_or_local_order(seed: int) -> None:
    _, events, past, history = world(seed)
    by_id = {event.id: event for event in events}
    for b in range(len(events)):
        for a in range(0, len(events), 3):
            chain = history.chain(events[a], events[b])
            assert bool(chain) == (a == b or bool(past[b] >> a & 1))
            if not chain:
                continue
            assert (chain[0], chain[-1]) == (events[a].id, events[b].id)
            for first, second in pairwise(chain):
                local = first.process == second.process and first.index < second.index
                carried = set(by_id[first].sends) & set(by_id[second].receives)
                assert local or carried
            assert len(history.reasons(chain)) == len(chain) - 1


def random_cut(random: Random, steps: list[Step]) -> dict[str, int]:
    last: dict[str, int] = {}
    for step in steps:
        last[step.process] = step.index
    return {process: random.randint(0, index) for process, index in last.items()}


def is_consistent(steps: list[Step], past: list[int], cut: dict[str, int]) -> bool:
    inside = [step.index <= cut[step.process] for step in steps]
    return all(inside[i] for at in range(len(steps)) if inside[at] for i in bits(past[at]))


def shrink(steps: list[Step], cut: dict[str, int]) -> dict[str, int]:
    """The definition: drop a receive whose send is outside, and what follows it; repeat until nothing changes."""
    cut = dict(cut)
    changed = True
    while changed:
        changed = False
        for step in steps:
            if step.index <= cut[step.process]:
                outside = [i for i in step.parents if steps[i].index > cut[steps[i].process]]
                if outside:
                    cut[step.process] = step.index - 1
                    changed = True
    return cut


@pytest.mark.parametrize("seed", SEEDS)
def test_cuts(seed: int) -> None:
    steps, events, past, history = world(seed)
    random = Random(seed)
    for _ in range(10):
        cut = random_cut(random, steps)
        described = history.cut(cut)
        assert described.cut == cut
        assert described.consistent == is_consistent(steps, past, cut)
        assert {(e.process, e.index) for e in described.front} == {(p, i) for p, i in cut.items() if i}

        largest = history.largest_consistent_cut(cut)
        assert largest.cut == shrink(steps, cut)
        assert largest.consistent

        inside = {m for s in steps if s.index <= cut[s.process] for m in s.sends}
        received = {m for s in steps for m in s.receives}
        outside = {m for s in steps if s.index > cut[s.process] for m in s.receives}
        assert (
            set(described.in_flight) - {m for m in described.in_flight if m.startswith("birth")} == inside & outside
        )
        assert set(described.unreceived) == inside - received

        chosen = random.sample(range(len(steps)), min(len(steps), 2))
        smallest = history.cut_after(*(events[i] for i in chosen))
        known = set(chosen).union(*(bits(past[i]) for i in chosen))
        assert smallest.consistent
        assert {p: i for p, i in smallest.cut.items() if i} == {
            p: max(steps[i].index for i in known if steps[i].process == p) for p in {steps[i].process for i in known}
        }


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cut_at_a_time(seed: int) -> None:
    steps, _, _, history = world(seed)
    for time in (0, 1_000_500, 1_003_000, 2_000_000):
        prefix: dict[str, int] = dict.fromkeys(history.processes, 0)
        closed: set[str] = set()
        for step in steps:
            if step.time is not None and step.time > time:
                closed.add(step.process)
            if step.process not in closed:
                prefix[step.process] = step.index
        assert history.cut_at(time).cut == shrink(steps, prefix)


@pytest.mark.parametrize("seed", range(8))
def test_runs_are_judged_by_their_definition(seed: int) -> None:
    random = Random(seed)
    steps = random_steps(random, processes=3, steps=5, receive=0.9, loss=0.0)
    events, past = as_events(steps), pasts(steps)
    history = History(events)
    for sequence in permutations(range(len(steps))):
        verdict = history.judge_run([events[i] for i in sequence])
        place = {i: at for at, i in enumerate(sequence)}
        local = all(
            place[i] < place[j]
            for i in range(len(steps))
            for j in range(i + 1, len(steps))
            if steps[i].process == steps[j].process
        )
        consistent = all(place[i] < place[j] for j in range(len(steps)) for i in bits(past[j]))
        assert (verdict.is_run, verdict.is_consistent) == (local, consistent)
        assert bool(verdict.why) != consistent
