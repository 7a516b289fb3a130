"""Questions to a history directory get the answers of the history in memory, whatever the blocks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from random import Random

import pytest

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import Event, EventId
from beforehand.history import History
from beforehand.pipeline.stored import StoredHistory
from beforehand.predicate import Predicate
from history_directories import Case

PLANS = ["whole", "blocks", "few", "many"]
PREDICATES = [
    "name = pay",
    'name ~ "pay"',
    "not name ~ pay",
    "name > pay",
    "attributes.n > 4",
    "not attributes.n > 4",
    'attributes.n < "4"',
    "attributes.level != error",
    'attributes.level = error and process ~ "[13]"',
    "kind = receive or time < 1020000",
    "not (kind = send and not attributes.resource = item-1)",
    "not time > 1020000",
    "process = p1 and not (name ~ out or attributes.n > 3)",
    'attributes."no such key" = x or execution ~ "b:"',
]


def opened(case: Case) -> Iterator[tuple[StoredHistory, History, list[Event]]]:
    """Each execution of a case, stored and in memory."""
    stored = StoredHistory.open(case.path)
    for history in case.histories.values():
        yield stored, history, list(history.columns.events)


@pytest.mark.parametrize("plan", PLANS)
def test_events_and_their_stamps_are_those_of_the_history_in_memory(plan: str, cut_cases: dict[str, Case]) -> None:
    for stored, history, events in opened(cut_cases[plan]):
        for event in events:
            assert stored.event(event.id) == event
            assert stored.stamp(event) == history.stamp(event)


@pytest.mark.parametrize("plan", PLANS)
def test_explanations_are_those_of_the_history_in_memory_for_every_k(plan: str, cut_cases: dict[str, Case]) -> None:
    random = Random(1)
    for stored, history, events in opened(cut_cases[plan]):
        for event in events:
            last = random.choice([0, 1, 2, 25, 100, 10_000])
            assert stored.explain(event, last=last) == history.explain(event, last=last)


@pytest.mark.parametrize("plan", PLANS)
def test_explanations_can_be_narrowed_by_a_predicate_a_function_and_a_process(
    plan: str, cut_cases: dict[str, Case]
) -> None:
    random = Random(2)
    for stored, history, events in opened(cut_cases[plan]):
        for text in PREDICATES:
            where, event = Predicate.parse(text), random.choice(events)
            process = random.choice(history.processes)
            expected = history.explain(event, last=5, where=where)
            assert stored.explain(event, last=5, where=where) == expected
            assert stored.explain(event, last=5, where=lambda one, where=where: where(one)) == expected
            assert stored.explain(event, last=5, where=where, process=process) == history.explain(
                event, last=5, where=lambda one, where=where, process=process: where(one) and one.process == process
            )


@pytest.mark.parametrize("plan", PLANS)
def test_relations_chains_and_reasons_are_those_of_the_history_in_memory(
    plan: str, cut_cases: dict[str, Case]
) -> None:
    random = Random(3)
    for stored, history, events in opened(cut_cases[plan]):
        for _ in range(300):
            a, b = random.choice(events), random.choice(events)
            relation = stored.relate(a, b)
            chain = history.chain(a, b) or history.chain(b, a)
            assert relation.relation == history.compare(a, b)
            assert list(relation.chain) == chain
            assert list(relation.reasons) == history.reasons(chain)
            assert stored.chain(a, b) == history.chain(a, b)


@pytest.mark.parametrize("plan", PLANS)
def test_the_order_of_all_events_is_the_deterministic_run(plan: str, cut_cases: dict[str, Case]) -> None:
    for stored, history, _ in opened(cut_cases[plan]):
        assert list(stored.order(execution=history.execution)) == history.order()
    ranked = [
        (key, event)
        for history in cut_cases[plan].histories.values()
        for event in history.order()
        for key in [
            (
                history.causal_time(event) is not None,
                history.causal_time(event) or 0,
                history.past_size(event),
                event.process,
                event.index,
                event.execution,
            )
        ]
    ]
    assert list(stored.order()) == [event for _, event in sorted(ranked, key=lambda pair: pair[0])]


@pytest.mark.parametrize("text", PREDICATES)
def test_finding_gives_what_the_predicate_means_newest_first(text: str, cut_cases: dict[str, Case]) -> None:
    where = Predicate.parse(text)
    for plan in ("blocks", "few"):
        for stored, history, _ in opened(cut_cases[plan]):
            expected = [event for event in reversed(history.order()) if where(event)]
            for limit in (1, 7, 10_000):
                found = stored.find(where, limit=limit, execution=history.execution)
                assert list(found) == expected[:limit]


@pytest.mark.parametrize("values_max", [0, 1, 2])  # With NULL among the values that are there, or without.
def test_finding_goes_on_where_values_are_too_many_to_be_judged_one_by_one(
    cut_cases: dict[str, Case], monkeypatch: pytest.MonkeyPatch, values_max: int
) -> None:
    monkeypatch.setattr("beforehand.pipeline.stored.scanning.VALUES_MAX", values_max)
    monkeypatch.setattr("beforehand.pipeline.stored.scanning.FIRST_ROWS", 3)
    for stored, history, _ in opened(cut_cases["few"]):
        for text in PREDICATES:
            where = Predicate.parse(text)
            expected = [event for event in reversed(history.order()) if where(event)]
            assert list(stored.find(where, limit=40, execution=history.execution)) == expected[:40]


def test_a_pattern_beyond_its_limits_matters_only_where_the_predicate_comes_to_it(
    cut_cases: dict[str, Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beforehand.predicate.patterns.SEARCH_LENGTH_MAX", 9)  # "Überweisung" is longer.
    stored = StoredHistory.open(cut_cases["blocks"].path)
    fine = Predicate.parse('not name = "Überweisung" and not (name = "pay failed") and name ~ pay')
    assert {event.name for event in stored.find(fine, limit=1_000)} == {"pay"}
    with pytest.raises(InputError, match="searches at most"):
        list(stored.find(Predicate.parse("name ~ pay"), limit=1_000))


def test_values_are_bound_and_never_become_sql(cut_cases: dict[str, Case]) -> None:
    stored = StoredHistory.open(cut_cases["blocks"].path)
    for text in ("""name = "x' OR TRUE --" """, """attributes."k'] OR TRUE --" = y""", 'name ~ "\'\\"; DROP"'):
        assert list(stored.find(Predicate.parse(text), limit=5)) == []


@pytest.mark.parametrize("plan", PLANS)
def test_surroundings_say_exactly_what_is_past_and_what_is_future(plan: str, cut_cases: dict[str, Case]) -> None:
    random = Random(4)
    for stored, history, events in opened(cut_cases[plan]):
        place = {event.id: at for at, event in enumerate(history.order())}
        for event in random.sample(events, 30):
            found = stored.around(event, 20)
            assert event in found.events
            assert [one.id for one in found.events] == sorted((one.id for one in found.events), key=place.__getitem__)
            assert set(history.explain(event, last=20).events) <= set(found.events)
            for one in (*found.events, *found.beyond):
                relation = history.compare(one, event)
                assert (one.id in (found.marks.past or ())) == (relation == "before")
                assert (one.id in (found.marks.future or ())) == (relation == "after")


@pytest.mark.parametrize("plan", ["blocks", "few"])
def test_no_message_of_the_surroundings_looks_lost_or_unsent_that_is_not(
    plan: str, cut_cases: dict[str, Case]
) -> None:
    from beforehand.diagram import ArrowKind, layout

    random = Random(5)
    for stored, history, events in opened(cut_cases[plan]):
        if history.execution == "untidy":
            continue  # Messages that are sent or received twice look odd to a diagram anyway.
        received = {message for event in events for message in event.receives}
        for event in random.sample(events, 10):
            found = stored.around(event, 15)
            arrows = layout([*found.events, *found.beyond], marks=found.marks).arrows
            lost = {m for arrow in arrows if arrow.kind is ArrowKind.UNRECEIVED for m in arrow.messages}
            assert not lost & received
            assert not [arrow for arrow in arrows if arrow.kind is ArrowKind.UNSENT]


# What is read.


def test_explaining_reads_a_few_blocks_however_many_there_are(cut_cases: dict[str, Case]) -> None:
    case = cut_cases["many"]
    for execution in ("skewed", "untimed"):  # With and without times to go by.
        events = case.histories[execution].columns.events
        assert StoredHistory.open(case.path).cut_execution(execution).full.size == 20
        reads = []
        for event in events[::3]:
            stored = StoredHistory.open(case.path)
            stored.explain(event, last=3)
            reads.append(stored.cache.reads["keys"])
            assert stored.cache.reads["structure"] == stored.cache.reads["front"] == 1
        assert sum(reads) / len(reads) < 3, "on average, though a block has but 25 events"


def test_asking_again_reads_nothing(cut_cases: dict[str, Case]) -> None:
    stored = StoredHistory.open(cut_cases["many"].path)
    event = EventId("skewed", "p1", 40)
    first = stored.explain(event)
    before = dict(stored.cache.reads)
    assert stored.explain(event) == first
    assert dict(stored.cache.reads) == before


def test_a_cache_that_holds_nothing_gives_the_same_answers(cut_cases: dict[str, Case]) -> None:
    case = cut_cases["few"]
    full = StoredHistory.open(case.path)
    bare = StoredHistory(full.directory, full.manifest, cache_bytes=0)
    for history in case.histories.values():
        for event in history.columns.events[::40]:
            assert bare.explain(event) == full.explain(event)
            assert bare.relate(history.columns.events[0], event) == full.relate(history.columns.events[0], event)


def test_neither_importing_nor_asking_loads_spark_or_pandas(cut_cases: dict[str, Case]) -> None:
    code = f"""
import sys
from beforehand.pipeline.stored import StoredHistory
from beforehand.predicate import Predicate
assert not {{"pyspark", "pandas", "duckdb"}} & set(sys.modules)
stored = StoredHistory.open({str(cut_cases["blocks"].path)!r})
stored.explain("p1:40"); stored.relate("p1:3", "p2:40"); stored.cut_after("p1:40"); stored.around("p1:40")
list(stored.find(Predicate.parse("name ~ pay"), limit=3)); next(stored.order())
assert not {{"pyspark", "pandas"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Names.


def test_an_event_is_named_with_its_execution_whatever_its_name_holds(cut_cases: dict[str, Case]) -> None:
    stored = StoredHistory.open(cut_cases["few"].path)
    assert stored.find_id("a/b:c/p1:2") == EventId("a/b:c", "p1", 2)
    assert stored.find_id("skewed/p1:2") == EventId("skewed", "p1", 2)
    alone = StoredHistory.open(cut_cases["blocks"].path)
    assert alone.find_id("p1:2") == EventId("", "p1", 2)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("p1:2", "there are 4 executions, so an event is named execution/process:index"),
        ("skewed/p1:5000", "'p1' has indexes up to 76"),
        ("a/b:c/p1:3", "'p1' has indexes up to"),  # In a gap.
        ("skewed/p1:0", "indexes count from 1"),
        ("skewed/p1", "an event is named process:index"),
        ("/p1:3", "execution/process:index"),
        ("skewed/p1:99999999999999999999", "process:index"),
    ],
)
def test_an_event_that_is_not_there_is_refused_with_what_to_do(
    text: str, hint: str, cut_cases: dict[str, Case]
) -> None:
    stored = StoredHistory.open(cut_cases["few"].path)
    with pytest.raises(UnknownEventError, match=hint):
        stored.explain(text)


def test_events_of_different_executions_are_concurrent(cut_cases: dict[str, Case]) -> None:
    stored = StoredHistory.open(cut_cases["few"].path)
    assert stored.relate("skewed/p1:2", "untimed/p1:2").relation == "concurrent"
