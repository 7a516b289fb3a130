"""Garg, chapter 12, and the lecture on order: their examples, and the claims about them."""

from __future__ import annotations

from random import Random

from beforehand.events import Event
from beforehand.history import History
from random_histories import as_events, random_steps


def event(name: str, *, sends: str = "", receives: str = "", time: int | None = None) -> Event:
    process, index = name.split(":")
    return Event(
        process=process, index=int(index), sends=tuple(sends.split()), receives=tuple(receives.split()), time=time
    )


FIGURE_12_1 = [
    event("P1:1", sends="direct"),
    event("P1:2", sends="first-leg"),
    event("P2:1", receives="first-leg"),
    event("P2:2", sends="second-leg"),
    event("P3:1", receives="second-leg"),
    event("P3:2", receives="direct"),
]


def test_garg_figure_12_1_is_fifo_but_not_causally_ordered() -> None:
    report = History(FIGURE_12_1).check()
    assert report.counts == {"fifo": 0, "causal": 1, "total": 0, "clock": 0}
    (violation,) = report.violations
    assert violation.messages == ("direct", "second-leg")
    assert [str(e) for e in violation.events] == ["P1:1", "P1:2", "P2:1", "P2:2", "P3:1", "P3:2"]
    assert violation.why == (
        "P3:2 received 'direct' after 'second-leg' (at P3:1), although 'direct' was sent first: P1:1 → P2:2"
    )
    assert violation.reasons == (
        "P1:1 came before P1:2 on P1",
        "P1:2 sent 'first-leg', which P2:1 received",
        "P2:1 came before P2:2 on P2",
    )


def test_garg_12_3_total_order_does_not_imply_fifo() -> None:
    # All processes receive m2 before m1, which were sent the other way round.
    events = [
        event("P:1", sends="m1"),
        event("P:2", sends="m2"),
        *(event(f"{q}:{i}", receives=m) for q in ("Q", "R") for i, m in ((1, "m2"), (2, "m1"))),
    ]
    counts = History(events).check().counts
    assert (counts["total"], counts["fifo"]) == (0, 2)


def test_garg_12_4_1_the_reply_that_is_shown_before_its_query() -> None:
    events = [
        event("P0:1", sends="query"),
        event("P1:1", receives="query"),
        event("P1:2", sends="reply"),
        event("P2:1", receives="reply"),
        event("P2:2", receives="query"),
    ]
    (violation,) = History(events).check().violations
    assert (violation.kind, violation.messages) == ("causal", ("query", "reply"))


def test_garg_problem_12_2_a_crossing_messages_are_causally_but_not_mysteriously_ordered() -> None:
    events = [
        event("P:1", sends="x"),
        event("Q:1", sends="y"),
        event("P:2", receives="y"),
        event("Q:2", receives="x"),
    ]
    judged = History(events).conditions()
    assert judged.holds("C3")
    assert not judged.holds("mysterious")
    assert set(judged.witnesses["mysterious"]) == {"x", "y"}


def test_garg_problem_12_2_b_mysterious_order_implies_causal_order() -> None:
    mysterious = 0
    for seed in range(400):
        random = Random(seed)
        steps = random_steps(random, processes=3, steps=random.randint(3, 10), receive=0.8)
        judged = History(as_events(steps)).conditions()
        if judged.holds("mysterious"):
            mysterious += 1
            assert judged.holds("C1")
            assert judged.holds("C3")
    assert mysterious > 30


def one_at_a_time(random: Random) -> list[Event]:
    """A history in which every message goes to one process and an event sends or receives at most one."""
    count = dict.fromkeys("abc", 0)
    waiting: dict[str, list[str]] = {name: [] for name in "abc"}
    events = []
    for number in range(random.randint(8, 30)):
        process = random.choice("abc")
        count[process] += 1
        if waiting[process] and random.random() < 0.5:
            message = waiting[process].pop(random.randrange(len(waiting[process])))
            events.append(event(f"{process}:{count[process]}", receives=message))
        else:
            waiting[random.choice("abc")].append(f"m{number}")
            events.append(event(f"{process}:{count[process]}", sends=f"m{number}"))
    return events


def test_garg_problem_12_3_the_three_conditions_are_equivalent_for_single_messages() -> None:
    broken = 0
    for seed in range(500):
        judged = History(one_at_a_time(Random(seed))).conditions()
        assert judged.holds("C1") == judged.holds("C2") == judged.holds("C3")
        broken += not judged.holds("C1")
    assert 50 < broken < 450, "both sides must occur"


def test_garg_problem_12_3_multicast_separates_c2_from_c3() -> None:
    # The chain from a:1 leaves on the multicast itself: no other message of a is involved.
    events = [
        event("a:1", sends="m1"),
        event("b:1", receives="m1"),
        event("b:2", sends="m2"),
        event("c:1", receives="m2"),
        event("c:2", receives="m1"),
    ]
    judged = History(events).conditions()
    assert judged.holds("C2")
    assert not judged.holds("C3")
    assert not judged.holds("C1")


def test_garg_problem_12_3_several_receives_in_one_event_separate_c3_from_c1() -> None:
    # m1 and m3 arrive in one event; m3 tells of m2, which was sent after m1 and received elsewhere.
    events = [
        event("a:1", sends="m1"),
        event("a:2", sends="m2"),
        event("b:1", receives="m2"),
        event("b:2", sends="m3"),
        event("c:1", receives="m1 m3"),
    ]
    judged = History(events).conditions()
    assert judged.holds("C3")
    assert not judged.holds("C1")
    assert judged.witnesses["C1"] == ("m1", "m2")


def test_garg_problem_12_5_a_star_with_fifo_channels_is_causally_ordered() -> None:
    for seed in range(60):
        random = Random(seed)
        channels: dict[tuple[str, str], list[str]] = {}
        count: dict[str, int] = {}
        events = []
        for number in range(60):
            leaf = random.choice("ABC")
            sender, receiver = random.choice([(leaf, "hub"), ("hub", leaf)])
            queue = channels.setdefault((sender, receiver), [])
            if queue and random.random() < 0.5:
                count[receiver] = count.get(receiver, 0) + 1
                events.append(event(f"{receiver}:{count[receiver]}", receives=queue.pop(0)))
            else:
                count[sender] = count.get(sender, 0) + 1
                queue.append(f"m{number}")
                events.append(event(f"{sender}:{count[sender]}", sends=f"m{number}"))
        counts = History(events).check().counts
        assert (counts["fifo"], counts["causal"]) == (0, 0)


def test_lecture_fifo_d_is_insufficient_an_observer_sees_an_inconsistent_run() -> None:
    # p2 sends to p3; both report what they did to the observer p1. Every pair of processes is FIFO.
    events = [
        event("p2:1", sends="report-2"),
        event("p2:2", sends="request"),
        event("p3:1", receives="request"),
        event("p3:2", sends="report-3"),
        event("p1:1", receives="report-3"),
        event("p1:2", receives="report-2"),
    ]
    counts = History(events).check().counts
    assert (counts["fifo"], counts["causal"]) == (0, 1)
    # What p1 believes to have happened is a run, for it keeps each local order, and not a consistent one.
    observed = History(events[:4]).judge_run(["p3:1", "p3:2", "p2:1", "p2:2"])
    assert (observed.is_run, observed.is_consistent) == (True, False)
    assert observed.why == "p3:1 receives 'request' before p2:2 sends it"


def test_lecture_a_run_keeps_every_local_order() -> None:
    history = History(FIGURE_12_1)
    assert not history.judge_run(["P1:2", "P1:1", "P2:1", "P2:2", "P3:1", "P3:2"]).is_run
    assert history.judge_run(["P1:1", "P1:2"]).why == "4 events are missing, P2:1 for one"
    assert history.judge_run(["P1:1", "P1:1"]).why == "P1:1 occurs twice"


def test_lecture_a_cut_is_consistent_iff_it_contains_the_past_of_its_events() -> None:
    history = History(FIGURE_12_1)
    assert history.cut({"P1": 2, "P2": 1, "P3": 0}).consistent
    broken = history.cut({"P1": 1, "P2": 1, "P3": 0})
    assert not broken.consistent
    assert [str(e) for e in broken.front] == ["P1:1", "P2:1"]
    largest = history.largest_consistent_cut({"P1": 1, "P2": 2, "P3": 2})
    assert largest.cut == {"P1": 1, "P2": 0, "P3": 0}
    assert history.cut({"P1": 2, "P2": 2, "P3": 1}).in_flight == ("direct",)


def test_lecture_consistent_cuts_form_a_lattice() -> None:
    for seed in range(20):
        random = Random(seed)
        history = History(as_events(random_steps(random, processes=4, steps=40)))
        cuts = [history.cut_after(random.choice(history.order())).cut for _ in range(6)]
        for a in cuts:
            for b in cuts:
                assert history.cut({p: min(a[p], b[p]) for p in a}).consistent
                assert history.cut({p: max(a[p], b[p]) for p in a}).consistent


def test_lecture_temporal_order_implies_causal_order_when_delays_exceed_delta() -> None:
    # "A protocol that delivers in temporal order also delivers causally": with exact clocks and δ = 0.
    for seed in range(60):
        random = Random(seed)
        events = []
        waiting: dict[str, list[tuple[int, str]]] = {name: [] for name in "abc"}
        count = dict.fromkeys("abc", 0)
        for now in range(80):
            process = random.choice("abc")
            ready = sorted(m for m in waiting[process] if m[0] <= now - 10)
            count[process] += 1
            if ready:
                waiting[process].remove(ready[0])
                events.append(event(f"{process}:{count[process]}", receives=ready[0][1], time=now))
            else:
                events.append(event(f"{process}:{count[process]}", sends=f"m{now}", time=now))
                for to in "abc":
                    if to != process:
                        waiting[to].append((now, f"m{now}"))
        counts = History(events).check(delta_ns=0).counts
        if counts["temporal"] == 0:
            assert counts["causal"] == 0
        assert counts["temporal"] == 0, "DR1 delivers in order of timestamps"
