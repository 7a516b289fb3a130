"""The checks against their definitions, pair by pair, on random histories."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from beforehand.events import Event
from beforehand.history import History
from random_histories import Step, as_events, pasts, random_steps

SEEDS = range(60)


def world(seed: int) -> tuple[list[Step], list[int], History]:
    random = Random(seed)
    steps = random_steps(
        random,
        processes=random.randint(2, 6),
        steps=random.randint(5, 60),
        loss=random.choice([0.0, 0.3]),
        skew_ns=random.choice([0, 2_000]),
        untimed=random.choice([0.0, 0.2]),
    )
    return steps, pasts(steps), History(as_events(steps))


def receives(steps: list[Step]) -> list[tuple[str, int, int]]:
    """(message, step of its send, step of its receive)."""
    sent = {message: at for at, step in enumerate(steps) for message in step.sends}
    return [(message, sent[message], at) for at, step in enumerate(steps) for message in step.receives]


@pytest.mark.parametrize("seed", SEEDS)
def test_fifo_and_causal_count_the_overtaken_receives(seed: int) -> None:
    steps, past, history = world(seed)
    all_receives = receives(steps)
    fifo = causal = 0
    for _, sent, received in all_receives:
        earlier = [
            other_sent
            for _, other_sent, other in all_receives
            if steps[other].process == steps[received].process and steps[other].index < steps[received].index
        ]
        causal += any(past[other] >> sent & 1 for other in earlier)
        fifo += any(steps[o].process == steps[sent].process and steps[o].index > steps[sent].index for o in earlier)
    report = history.check()
    assert (report.counts["fifo"], report.counts["causal"]) == (fifo, causal)
    assert sum(v.kind == "causal" for v in report.violations) == causal


@pytest.mark.parametrize("seed", SEEDS)
def test_every_causal_witness_is_one(seed: int) -> None:
    steps, past, history = world(seed)
    at = {(step.process, step.index): i for i, step in enumerate(steps)}
    sent = {message: i for i, step in enumerate(steps) for message in step.sends}
    for violation in history.check().violations:
        if violation.kind not in ("fifo", "causal"):
            continue
        late, early = violation.messages
        *chain, overtaker, received = (at[event.process, event.index] for event in violation.events)
        assert (chain[0], chain[-1]) == (sent[late], sent[early])
        assert past[sent[early]] >> sent[late] & 1
        assert late in steps[received].receives
        assert early in steps[overtaker].receives
        assert steps[overtaker].process == steps[received].process
        assert steps[overtaker].index < steps[received].index
        assert len(violation.reasons) == len(chain) - 1


def brute_force_total(steps: list[Step]) -> tuple[int, dict[str, set[str]]]:
    """Components of the relation "some process received a in an earlier event than b", by closing it transitively."""
    sequences: dict[str, list[list[str]]] = {}
    for step in steps:
        if step.receives:
            sequences.setdefault(step.process, []).append(step.receives)
    messages = sorted({m for groups in sequences.values() for group in groups for m in group})
    before = {m: set() for m in messages}
    for groups in sequences.values():
        for i, group in enumerate(groups):
            for later in groups[i + 1 :]:
                for a, b in product(group, later):
                    before[a].add(b)
    for k in messages:
        for i in messages:
            if k in before[i]:
                before[i] |= before[k]
    knots = {frozenset(b for b in messages if b in before[a] and a in before[b]) for a in messages if a in before[a]}
    return len(knots), before


@pytest.mark.parametrize("seed", SEEDS)
def test_total_counts_the_groups_that_no_one_order_fits(seed: int) -> None:
    steps, _, history = world(seed)
    count, before = brute_force_total(steps)
    report = history.check()
    assert report.counts["total"] == count
    for violation in report.violations:
        if violation.kind == "total":
            cycle = violation.messages
            assert len(cycle) == len(violation.reasons) == len(violation.events) // 2
            for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
                assert b in before[a]
                assert a in before[b]


def test_the_witness_of_total_order_is_the_shortest_cycle() -> None:
    # p and q swap m1 and m2; a longer cycle through m3 and m4 exists too, in the same knot.
    events = [
        Event(process="s", index=1, sends=("m1", "m2", "m3", "m4")),
        *(Event(process="p", index=i + 1, receives=(m,)) for i, m in enumerate(("m1", "m3", "m2"))),
        *(Event(process="q", index=i + 1, receives=(m,)) for i, m in enumerate(("m2", "m4", "m1"))),
        *(Event(process="r", index=i + 1, receives=(m,)) for i, m in enumerate(("m4", "m3", "m1"))),
    ]
    report = History(events).check()
    assert report.counts["total"] == 1
    (violation,) = [v for v in report.violations if v.kind == "total"]
    assert len(violation.messages) == 2, violation


def test_three_processes_can_break_total_order_without_any_two_of_them_doing_so() -> None:
    events = [
        Event(process="s", index=1, sends=("a", "b", "c")),
        *(Event(process="p", index=i + 1, receives=(m,)) for i, m in enumerate("ab")),
        *(Event(process="q", index=i + 1, receives=(m,)) for i, m in enumerate("bc")),
        *(Event(process="r", index=i + 1, receives=(m,)) for i, m in enumerate("ca")),
    ]
    report = History(events).check()
    assert report.counts["total"] == 1
    (violation,) = report.violations
    assert set(violation.messages) == {"a", "b", "c"}
    assert violation.why == "no one order fits 3 messages: 'a' before 'b' before 'c' before 'a'"


def test_messages_received_in_one_event_have_no_order() -> None:
    events = [
        Event(process="s", index=1, sends=("a",)),
        Event(process="s", index=2, sends=("b",)),
        Event(process="p", index=1, receives=("b", "a")),
        Event(process="q", index=1, receives=("a",)),
        Event(process="q", index=2, receives=("b",)),
    ]
    assert History(events).check().passed


@pytest.mark.parametrize("seed", SEEDS)
def test_temporal_order_for_a_given_delta(seed: int) -> None:
    steps, _, history = world(seed)
    for delta in (0, 150, 1_000):
        late = 0
        all_receives = [(s, r) for _, s, r in receives(steps) if steps[s].time is not None]
        for sent, received in all_receives:
            late += any(
                (steps[other_sent].time or 0) - (steps[sent].time or 0) > delta
                for other_sent, other in all_receives
                if steps[other].process == steps[received].process and steps[other].index < steps[received].index
            )
        assert history.check(delta_ns=delta).counts["temporal"] == late


@pytest.mark.parametrize("seed", SEEDS)
def test_the_finer_conditions(seed: int) -> None:
    steps, past, history = world(seed)

    def before(a: int, b: int) -> bool:
        return bool(past[b] >> a & 1)

    def local(a: int, b: int) -> bool:
        return steps[a].process == steps[b].process and steps[a].index < steps[b].index

    expected = dict.fromkeys(("C1", "C2", "C3", "mysterious"), 0)
    pairs = receives(steps)
    for (m, s1, r1), (n, s2, r2) in product(pairs, pairs):
        if m == n:
            continue
        expected["C1"] += before(s1, s2) and before(r2, r1)
        expected["C2"] += local(s1, s2) and before(r2, r1)
        expected["C3"] += before(s1, s2) and local(r2, r1)
        expected["mysterious"] += before(s1, r2) and before(s2, r1)
    expected["mysterious"] //= 2
    assert history.conditions().broken == expected


@pytest.mark.parametrize("seed", range(20))
def test_reported_clocks_are_compared_with_the_recomputed_ones(seed: int) -> None:
    steps, _, history = world(seed)
    events = as_events(steps)
    random = Random(seed)
    right = [with_clock(event, history.stamp(event)) for event in events]
    assert History(right).check().counts["clock"] == 0

    wrong = sorted(random.sample(range(len(events)), min(len(events), 3)))
    damaged = list(right)
    for at in wrong:
        stamp = history.stamp(events[at])
        change = random.choice(["more", "less", "stranger"])
        if change == "stranger":
            stamp["nobody"] = 1
        else:
            process = random.choice(sorted(stamp))
            stamp[process] += 1 if change == "more" else -1
        damaged[at] = with_clock(events[at], stamp)
    report = History(damaged).check()
    assert report.counts["clock"] == len(wrong)
    firsts: dict[str, int] = {}
    for at in wrong:
        firsts[steps[at].process] = min(firsts.get(steps[at].process, 10**9), steps[at].index)
    found = {v.events[0].process: v.events[0].index for v in report.violations if v.kind == "clock"}
    assert found == firsts


def test_wrong_clocks_are_listed_up_to_the_limit_as_all_findings_are() -> None:
    events = [Event(process=f"p{at}", index=1, clock={f"p{at}": 2}) for at in range(5)]
    report = History(events).check(limit=2)
    assert report.counts["clock"] == 5
    assert [violation.events[0].process for violation in report.violations] == ["p0", "p1"]
    assert "clock: 5 processes report wrong ones, the first 2 are listed" in report.notes


def with_clock(event: Event, clock: dict[str, int]) -> Event:
    return Event(process=event.process, index=event.index, sends=event.sends, receives=event.receives, clock=clock)


def test_a_cycle_says_how_many_messages_it_has_and_how_many_hang_together() -> None:
    orders = {"p": "abc", "q": "bac", "r": "acb"}
    events = [
        Event(process=process, index=at, receives=(message,))
        for process, order in orders.items()
        for at, message in enumerate(order, start=1)
    ]
    (violation,) = History(events).check().violations
    assert violation.messages == ("a", "b")
    assert violation.why == (
        "no one order fits 2 messages: 'a' before 'b' before 'a'; such cycles tie 3 messages together"
    )


def test_inferred_messages_are_left_out_and_said_so() -> None:
    events = [
        Event(process="s", index=1, sends=("~1",)),
        Event(process="s", index=2, sends=("~2",)),
        Event(process="p", index=1, receives=("~2",)),
        Event(process="p", index=2, receives=("~1",)),
    ]
    report = History(events).check()
    assert report.passed
    assert "inferred" in report.notes[0]
    assert report.known == {"fifo": None, "causal": None, "total": None, "clock": None}


def test_what_was_judged_is_counted_by_kind() -> None:
    events = [
        Event(process="s", index=1, sends=("~1", "2"), time=1),
        Event(process="s", index=2, sends=("3",), clock={"s": 2}),
        Event(process="p", index=1, receives=("~1", "2")),
        Event(process="p", index=2, receives=("3", "unsent")),
    ]
    report = History(events).check(delta_ns=0)
    assert {kind: (one.judged, one.of) for kind, one in report.judged.items()} == {
        "fifo": (2, 4),
        "causal": (2, 4),
        "total": (3, 4),
        "temporal": (1, 4),
        "clock": (1, 4),
    }
    assert None not in report.known.values()


def test_without_messages_no_order_is_judged() -> None:
    report = History([Event(process="p", index=1)]).check(delta_ns=0)
    assert set(report.known.values()) == {None}
    assert report.judged["causal"].why == "no event receives a message"


def test_an_inferred_message_is_not_overtaken_by_a_real_one() -> None:
    events = [
        Event(process="s", index=1, sends=("~1",)),
        Event(process="s", index=2, sends=("real",)),
        Event(process="p", index=1, receives=("real",)),
        Event(process="p", index=2, receives=("~1",)),
    ]
    assert History(events).check().passed


def test_a_long_list_of_findings_is_cut_and_says_so() -> None:
    sends = [Event(process="s", index=i, sends=(f"m{i}",)) for i in range(1, 21)]
    reversed_receives = [Event(process="p", index=i, receives=(f"m{21 - i}",)) for i in range(1, 21)]
    report = History([*sends, *reversed_receives]).check(limit=5)
    assert report.counts["fifo"] == 19
    assert sum(v.kind == "fifo" for v in report.violations) == 5
    assert "fifo: 19 found, the first 5 are listed" in report.notes


def test_a_wrong_clock_that_names_an_absent_event_says_so() -> None:
    # b:1 was told of a:2, which the log lost.
    events = [
        Event(process="a", index=1, clock={"a": 1}),
        Event(process="b", index=1, clock={"a": 2, "b": 1}),
        Event(process="b", index=2, clock={"b": 3}),
    ]
    report = History(events).check()
    assert report.counts["clock"] == 2
    (note,) = report.notes
    assert note.startswith("clock: 2 of the 2 wrong clocks name events that are not here")
    assert [v.why for v in report.violations] == [
        "b:1 reports the clock {'a': 2, 'b': 1}; its messages imply {'b': 1}"
    ]


def test_among_several_cycles_the_shortest_is_the_witness_wherever_it_stands() -> None:
    # One knot: a long cycle 0 1 2 3 4 5 and, entered late in the numbering, the short one 4 5.
    names = [f"m{i}" for i in range(6)]
    orders = [*([names[i], names[i + 1]] for i in range(5)), [names[5], names[0]], [names[5], names[4]]]
    events = [Event(process="s", index=1, sends=tuple(names))]
    events += [
        Event(process=f"p{at}", index=i + 1, receives=(m,))
        for at, order in enumerate(orders)
        for i, m in enumerate(order)
    ]
    report = History(events).check()
    assert report.counts["total"] == 1
    assert set(report.violations[0].messages) == {"m4", "m5"}


def test_the_first_overtaker_is_named_even_if_an_inferred_message_came_before_it() -> None:
    events = [
        Event(process="s", index=1, sends=("late",)),
        Event(process="s", index=2, sends=("~inferred",)),
        Event(process="s", index=3, sends=("early",)),
        Event(process="p", index=1, receives=("~inferred",)),
        Event(process="p", index=2, receives=("early",)),
        Event(process="p", index=3, receives=("late",)),
    ]
    violations = History(events).check().violations
    assert [(v.kind, v.messages) for v in violations] == [("fifo", ("late", "early")), ("causal", ("late", "early"))]
