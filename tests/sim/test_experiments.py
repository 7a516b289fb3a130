"""The experiments: what the papers claim holds where it holds, at sizes that take seconds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from xml.etree import ElementTree as ET

import pytest

from beforehand.clocks import MatrixClock, OrderingClock, VectorClock
from beforehand.ordering import PROTOCOLS
from beforehand.sim import Delay, DelayKind, Operation, Scenario, simulate
from beforehand.sim.experiments import EXPERIMENTS, Findings, Size, Spread, Table, as_markdown, merge_stamps
from beforehand.sim.experiments.findings import quantile
from beforehand.sim.experiments.loads import delay_of, scenario_of
from beforehand.sim.experiments.observing import Notes, watch
from beforehand.sim.experiments.sensors import states
from beforehand.sim.experiments.single_phase_runs import EXACT, VARIANTS, D, Figures, Pattern, Variant, measured
from beforehand.sim.experiments.stamped_traffic import CLOCKS, bytes_per_message
from beforehand.sim.experiments.told_runs import ran
from beforehand.sim.network import Network
from beforehand.sim.scenario import MILLISECOND

BASIC, SUPPRESSED, TO_ORIGIN, SKEEN, LAMPORT, COORDINATOR = VARIANTS
SINGLE = (BASIC, SUPPRESSED)
NAMES = ("a", "b", "c", "d")


@cache
def findings(name: str) -> Findings:
    return EXPERIMENTS[name].run(Size(seeds=3, quick=True), lambda _: None)


def held(name: str) -> dict[str, bool]:
    return {claim.text: claim.holds for claim in findings(name).claims}


def one_claim(name: str, words: str) -> bool:
    (held_,) = [holds for text, holds in held(name).items() if words in text]
    return held_


# ---- every experiment


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_leaves_claims_tables_and_a_plot(name: str) -> None:
    found = findings(name)

    assert found.claims
    assert all(len(row) == len(table.head) for table in found.tables for row in table.rows)
    for picture in [found.plot, *found.examples.values()]:
        assert ET.fromstring(picture).tag.endswith("svg")
    page = as_markdown(EXPERIMENTS[name], found, pictures=[f"{name}.svg"])
    assert all(table.title in page for table in found.tables)
    assert f"({name}.svg)" in page


def test_an_experiment_gives_the_same_figures_again() -> None:
    assert EXPERIMENTS["star"].run(Size(seeds=2, quick=True), lambda _: None) == EXPERIMENTS["star"].run(
        Size(seeds=2, quick=True), lambda _: None
    )


def test_an_experiment_says_what_it_is_measuring() -> None:
    said: list[str] = []
    EXPERIMENTS["sensors"].run(Size(seeds=1, quick=True), said.append)
    assert "single-phase, 10 readings per delay" in said


def test_a_size_needs_seeds() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Size(seeds=0)


# ---- 004: single phase, every delay exactly d


def alone(variant: Variant, sender: str, *, at: Iterable[int] = (0,)) -> Notes:
    operations = [Operation(process=sender, at=time, to=NAMES) for time in at]
    return watch(scenario_of(variant.protocol, NAMES, operations, seed=0, delay=EXACT, options=variant.options))


def waits(notes: Notes) -> set[float]:
    return {(notes.delivered[key] - at) / D for key, at in notes.arrived.items()}


def own(notes: Notes) -> set[float]:
    return {(notes.delivered[m.rpartition(".")[0], m] - at) / D for m, at in notes.sent.items()}


@pytest.mark.parametrize("variant", SINGLE, ids=lambda v: v.name)
def test_the_lowest_identifier_waits_for_nobody_when_clocks_agree(variant: Variant) -> None:
    notes = alone(variant, "a")
    assert waits(notes) == {0}
    assert own(notes) == {0}


@pytest.mark.parametrize("variant", SINGLE, ids=lambda v: v.name)
def test_a_lone_origin_of_the_highest_identifier_waits_for_the_way_there_and_back(variant: Variant) -> None:
    notes = alone(variant, "d")
    assert waits(notes) == {1}, "arrival to execution: d, as the paper says"
    assert own(notes) == {2}, "generation to execution: 2d, which the paper does not say"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("load", [0.2, 2, 20])
@pytest.mark.parametrize("variant", SINGLE, ids=lambda v: v.name)
def test_latency_stays_within_d_at_remote_sites_and_2d_at_the_origin(
    variant: Variant, load: float, seed: int
) -> None:
    found = measured(variant, processes=4, count=max(40, int(6 * load)), load=load, seed=seed)
    assert 0 <= found.remote[0] <= found.remote[-1] <= 1
    assert 0 <= found.origin[0] <= found.origin[-1] <= 2
    assert found.agree


def test_where_delays_vary_arrival_to_execution_exceeds_the_longest_delay() -> None:
    delay = Delay(kind=DelayKind.UNIFORM, shortest=D // 10, longest=D)
    slowest = [
        measured(SUPPRESSED, processes=4, count=60, load=1, seed=seed, delay=delay).remote[-1] for seed in range(4)
    ]
    assert 1 < max(slowest) <= 2 - 0.1, "at most 2d less the shortest delay"


def test_acknowledging_to_the_origin_costs_one_delay_more() -> None:
    notes = alone(TO_ORIGIN, "d")
    assert waits(notes) == {2}
    assert own(notes) == {2}


def test_skeen_takes_exactly_2d_from_arrival_without_contention() -> None:
    notes = alone(SKEEN, "b", at=(0, 10 * D, 20 * D))
    assert waits(notes) == {2}
    assert own(notes) == {2}


@pytest.mark.parametrize("load", [0.5, 5, 30])
def test_skeen_never_takes_less_than_2d_and_more_under_contention(load: float) -> None:
    found = measured(SKEEN, processes=4, count=max(60, int(6 * load)), load=load, seed=1)
    assert found.remote[0] >= 2
    assert found.remote[-1] > 2


@pytest.mark.parametrize("load", [0.2, 2, 20])
def test_acknowledgements_per_operation_are_at_most_n_minus_1(load: float) -> None:
    found = [measured(SUPPRESSED, processes=4, count=80, load=load, seed=seed) for seed in range(3)]
    assert all(0 <= figures.acknowledgements <= 3 for figures in found)


def test_a_lone_sender_of_the_highest_identifier_gets_all_acknowledgements_and_of_the_lowest_half() -> None:
    last = measured(SUPPRESSED, processes=4, count=60, load=1, seed=0, senders=[3])
    first = measured(SUPPRESSED, processes=4, count=60, load=1, seed=0, senders=[0])
    assert last.acknowledgements == 3
    assert first.acknowledgements == 1.5


@pytest.mark.parametrize("pattern", list(Pattern))
def test_under_heavy_even_load_acknowledgements_fall_towards_none(pattern: Pattern) -> None:
    light = measured(SUPPRESSED, processes=4, count=60, load=0.5, seed=2, pattern=pattern)
    heavy = measured(SUPPRESSED, processes=4, count=400, load=60, seed=2, pattern=pattern)
    assert heavy.acknowledgements < 0.2
    assert light.acknowledgements > 5 * heavy.acknowledgements


def test_latency_falls_to_nothing_if_sites_keep_pace_and_not_if_they_send_at_random() -> None:
    def heavy(pattern: Pattern) -> Figures:
        return measured(SUPPRESSED, processes=4, count=600, load=60, seed=0, pattern=pattern)

    assert heavy(Pattern.REGULAR).remote[-1] == 0
    assert heavy(Pattern.ONE_AT_A_TIME).remote_mean < 0.15
    assert heavy(Pattern.RANDOM).remote_mean > 0.15


@pytest.mark.parametrize(
    ("variant", "multicasts", "singles"),
    [(BASIC, 4, 12), (SKEEN, 5, 9), (LAMPORT, 4, 12)],
    ids=lambda value: getattr(value, "name", None),
)
def test_packets_per_operation_are_as_counted_in_the_paper(variant: Variant, multicasts: int, singles: int) -> None:
    found = measured(variant, processes=4, count=30, load=0.5, seed=0)
    assert (found.multicasts, found.singles) == (multicasts, singles)


def test_the_findings_say_where_the_paper_is_right_and_where_not() -> None:
    assert one_claim("single-phase", "every delay being d")
    assert one_claim("single-phase", "lowest identifier")
    assert one_claim("single-phase", "at least 2d")
    assert one_claim("single-phase", "[0, N − 1]")
    assert not one_claim("single-phase", "generation to execution at the origin")
    assert not one_claim("single-phase", "varying delays")
    assert not one_claim("single-phase", "independently")


# ---- buffering


def test_buffering_grows_with_the_variance_of_delays() -> None:
    assert all(held("buffering").values()), held("buffering")


def test_delays_have_the_mean_and_the_deviation_that_were_asked_for() -> None:
    scenario = scenario_of("fifo", ("a", "b"), [], seed=1, delay=delay_of(1.0), fifo=False)
    network = Network(scenario)
    delays = [network.arrivals("a", "b", 0)[0] / MILLISECOND for _ in range(20_000)]
    mean = sum(delays) / len(delays)
    deviation = (sum((x - mean) ** 2 for x in delays) / len(delays)) ** 0.5
    assert mean == pytest.approx(1, abs=0.03)
    assert deviation == pytest.approx(1, abs=0.03)


def test_a_wait_is_from_arrival_to_delivery() -> None:
    """The second message arrives at 2 and waits for the first, which arrives at 5."""
    operations = [Operation(process="a", at=at * MILLISECOND, to=("b",)) for at in (0, 1)]
    scenario = Scenario(protocol="fifo", processes=("a", "b"), operations=tuple(operations))
    for seed in range(200):
        notes = watch(Scenario(protocol="fifo", processes=("a", "b"), operations=tuple(operations), seed=seed,
                               delay=Delay(shortest=0, longest=5 * MILLISECOND)), waits=True)  # fmt: skip
        arrived = [notes.arrived["b", m] for m in ("a.1", "a.2")]
        assert notes.waits == ([arrived[0] - arrived[1]] if arrived[1] < arrived[0] else [])
        assert notes.waiting_max == len(notes.waits)
    assert watch(scenario, waits=True).received == 2


# ---- stamp bytes


def test_stamps_grow_as_the_papers_say() -> None:
    assert all(held("stamp-bytes").values()), held("stamp-bytes")


def test_every_clock_is_measured() -> None:
    assert {"lamport", "hybrid", "offset", "bounded", "vector", "matrix", "ordering"} <= set(CLOCKS)


@pytest.mark.parametrize("name", CLOCKS)
def test_the_same_traffic_gives_the_same_bytes(name: str) -> None:
    sizes = [bytes_per_message(CLOCKS[name], 5, seed=3, rounds=2) for _ in range(2)]
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == 2


@pytest.mark.parametrize(
    ("name", "clock"), [("vector", VectorClock), ("matrix", MatrixClock), ("ordering", OrderingClock)]
)
def test_the_clocks_know_of_everybody_at_the_start(name: str, clock: type) -> None:
    made = {f"proc-{at}": 100 + at for at in range(4)}
    stamping = CLOCKS[name](made)
    assert {type(one) for one in stamping._clocks.values()} == {clock}  # type: ignore[attr-defined]
    stamp = stamping.send("proc-0", "proc-1")
    if name == "matrix":
        assert all(stamp.sent(a, b) > 0 for a in made for b in made if a != b)
    else:
        time = getattr(stamp, "time", stamp)
        assert all(time[process] >= events - 10 for process, events in made.items())
        if name == "ordering":
            assert set(stamp.table) == set(made) - {"proc-0"}


# ---- 003: sensors


def test_causal_order_leaves_replicas_unequal_and_total_order_does_not() -> None:
    assert all(held("sensors").values()), held("sensors")
    total = [row for row in findings("sensors").tables[0].records() if row["total"] == "yes"]
    assert len(total) == 5
    assert all(row["10"] == 0 for row in total)


def test_the_states_of_replicas_follow_from_the_orders_of_delivery() -> None:
    names = ("a", "b")
    operations = [Operation(process=p, at=0, to=names) for p in names]
    unequal = ran(scenario_of("causal-broadcast", names, operations, seed=0, delay=EXACT))
    equal = ran(scenario_of("lamport-total", names, operations, seed=0, delay=EXACT))

    assert unequal.delivered == {"a": ["a.1", "b.1"], "b": ["b.1", "a.1"]}
    assert equal.delivered == {"a": ["a.1", "b.1"], "b": ["a.1", "b.1"]}
    differ = [seed for seed in range(20) if len(set(states(unequal, seed).values())) > 1]
    assert differ, "unless the readings lie within 5 of each other, in which case it may not matter"
    assert all(len(set(states(equal, seed).values())) == 1 for seed in range(20))


# ---- 002: problems 12.5 and 12.1


def test_a_star_with_fifo_channels_is_causally_ordered_and_with_one_link_more_it_is_not() -> None:
    assert all(held("star").values()), held("star")
    assert "overtaken" in findings("star").examples["counterexample"]


def test_token_updates_agree_under_causal_order_and_not_under_fifo_order() -> None:
    assert all(held("token-updates").values()), held("token-updates")
    assert "sites differ" in findings("token-updates").examples["fifo"]
    assert "all sites agree" in findings("token-updates").examples["causal"]


# ---- what the experiments stand on


def test_an_application_reacts_to_what_is_delivered() -> None:
    """A ball goes to and fro until it was hit five times."""
    hits: list[tuple[str, int]] = []

    def hit(process: str, operation: Operation, now: int) -> list[Operation]:
        hits.append((process, now // D))
        return [Operation(process=process, at=now, to=(operation.process,))] if len(hits) < 5 else []

    first = Operation(process="a", at=0, to=("b",))
    outcome = simulate(scenario_of("fifo", ("a", "b"), [first], seed=0, delay=EXACT), application=hit)

    assert outcome.verdict.passed, outcome.verdict.failures
    assert hits == [("b", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)]


def test_a_reaction_goes_behind_what_is_due_before_it_and_gets_its_own_operation_back() -> None:
    reaction = Operation(process="b", at=5 * D, to=("a",))
    scenario = scenario_of(
        "fifo",
        ("a", "b"),
        [Operation(process="a", at=0, to=("b",)), *(Operation(process="b", at=at * D, to=("a",)) for at in (3, 9))],
        seed=0,
        delay=EXACT,
    )
    got: list[tuple[Operation, int]] = []

    def react(process: str, operation: Operation, now: int) -> list[Operation]:
        if process == "b":
            return [reaction]
        got.append((operation, now // D))
        return []

    assert simulate(scenario, application=react).verdict.passed
    assert [at for _, at in got] == [4, 6, 10]
    assert got[1][0] is reaction


def test_an_application_cannot_send_for_another_process() -> None:
    scenario = scenario_of("fifo", ("a", "b"), [Operation(process="a", at=0, to=("b",))], seed=0, delay=EXACT)

    def forge(_: str, __: Operation, now: int) -> list[Operation]:
        return [Operation(process="a", at=now, to=("b",))] if now <= D else []

    outcome = simulate(scenario, application=forge)
    assert "b heard of a message and cannot send for a" in outcome.verdict.failures[0]


def test_without_an_application_nothing_changes() -> None:
    operations = [Operation(process=p, at=0, to=NAMES) for p in NAMES]
    scenario = scenario_of("skeen", NAMES, operations, seed=5, delay=delay_of(1.0))
    quiet = simulate(scenario, application=lambda *_: [])
    assert simulate(scenario).record.events == quiet.record.events


def test_watching_changes_nothing() -> None:
    operations = [Operation(process=p, at=0, to=NAMES) for p in NAMES]
    for protocol in ("causal-broadcast", "single-phase", "skeen"):
        assert protocol in PROTOCOLS
        scenario = scenario_of(protocol, NAMES, operations, seed=5, delay=delay_of(1.0))
        assert watch(scenario, waits=True).order == simulate(scenario).record.delivered


def test_a_spread_is_shown_as_its_mean_and_its_ends() -> None:
    assert str(Spread.of([1.0, 2.0, 3.0])) == "2.00 (1.00–3.00)"
    assert str(Spread.of([13.71, 14.04])) == "13.9 (13.7–14.0)"
    assert str(Spread.of([0.0421, 0.0933])) == "0.068 (0.042–0.093)"
    assert str(Spread.of([0.5])) == "0.5"
    table = Table(title="t", head=("a", "b"), rows=(("x|y", Spread(1, 0, 2)),))
    assert table.records() == [{"a": "x|y", "b": {"mean": 1, "min": 0, "max": 2}}]


def test_quantiles_of_an_ordered_list() -> None:
    assert [quantile([1, 2, 3, 4], share) for share in (0, 0.5, 0.99, 1)] == [1, 3, 4, 4]


# ---- merge-stamps


def test_bounded_stamps_grow_with_the_logarithm_of_n_and_not_with_time_and_a_merge_recovers() -> None:
    assert len(held("merge-stamps")) == 3
    assert all(held("merge-stamps").values())


def test_a_stamp_that_knows_everything_takes_more_bytes_among_more_processes() -> None:
    assert merge_stamps._full_stamp(2, 1) < merge_stamps._full_stamp(2, 100) < merge_stamps._full_stamp(2, 1_000)
