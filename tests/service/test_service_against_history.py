"""When all reports are here, the store answers what `History` answers, however they came."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from service_stores import assert_agrees, feed, opened

from beforehand.events import Event
from beforehand.formats.vector_logs.inference import infer_messages
from beforehand.history import History
from hard_histories import hard_history, with_broken_structure, with_reported_clocks
from random_histories import as_events, random_steps

SEEDS = range(8)


def tight(random: Random) -> dict[str, int]:
    """Limits so small that memory forgets and work is left over; or none."""
    return random.choice(
        [
            {},
            {"stamps_kept": 1, "steps_max": 1},
            {"stamps_kept": 4, "steps_max": 9, "processes_kept": 1},
            {"waiting_kept": 1},
            {"waiting_kept": 5, "steps_max": 7},
        ]
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_reports_out_of_order_and_twice_give_the_same_answers(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = as_events(random_steps(random, processes=random.choice([2, 5, 9]), steps=150, untimed=0.2))
    random.shuffle(reports)
    with opened(tmp_path, **tight(random)) as service:
        feed(service, reports, random)
        service.ingest.settle()  # No deadline has passed: nothing is given up.
        assert_agrees(service, History(reports), random)
        assert service.queries.missing()["missing"] == []
        assert {one["state"] for one in service.queries.find(limit=1_000)["events"]} == {"complete"}


@pytest.mark.parametrize("seed", SEEDS)
def test_hard_histories_agree_once_their_gaps_are_given_up(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = hard_history(seed + 50, execution=random.choice(["", "trace/9"]))
    random.shuffle(reports)
    with opened(tmp_path, **tight(random)) as service:
        feed(service, reports, random)
        service.expire()
        assert_agrees(service, History(reports), random)


@pytest.mark.parametrize("seed", SEEDS)
def test_late_reports_raise_all_that_is_behind_them(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = hard_history(seed + 200, execution="")
    random.shuffle(reports)
    with opened(tmp_path, **tight(random)) as service:
        feed(service, reports, random, late=0.4)
        service.expire()
        assert_agrees(service, History(reports), random)


@pytest.mark.parametrize("seed", range(4))
def test_after_late_reports_everything_is_complete(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = as_events(random_steps(random, processes=5, steps=120))
    random.shuffle(reports)
    with opened(tmp_path, **tight(random)) as service:
        feed(service, reports, random, late=0.5)
        service.ingest.settle()
        assert {one["state"] for one in service.queries.find(limit=1_000)["events"]} == {"complete"}
        assert service.count("blocked") == 0
        told = [change for change in service.store.changes(0, limit=10_000) if change.completed]
        assert sorted(change.event for change in told) == sorted(event.id for event in reports)


@pytest.mark.parametrize("seed", SEEDS)
def test_broken_structure_is_rejected_as_history_rejects_it(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = with_broken_structure(hard_history(seed + 300, execution=""), random)
    random.shuffle(reports)
    with opened(tmp_path, **tight(random)) as service:
        feed(service, reports, random)
        service.expire()
        history = History(reports)
        assert_agrees(service, history, random)
        expected = sorted(
            (one.reason, one.message, one.detail) for one in history.rejections if one.reason != "duplicate-event"
        )
        found = service.queries.rejected(limit=1_000)["rejected"]
        assert sorted((one["reason"], one["message"], one["detail"]) for one in found) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_reported_clocks_give_the_same_stamps_and_come_back_as_they_were(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = with_reported_clocks(hard_history(seed + 400, execution=""), random, wrong=0)
    random.shuffle(reports)
    with opened(tmp_path, **tight(random)) as service:
        feed(service, reports, random, late=random.choice([0, 0.4]))
        service.expire()
        assert_agrees(service, History(reports), random)
        assert service.queries.checks()["counts"]["clock"] == 0
        for event in reports:
            assert service.queries.event(event.id)["clock"] == event.clock
        again = service.ingest.report(reports)
        assert (again.stored, again.repeated, again.conflicts) == (0, len(reports), 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_clocks_alone_are_causes_as_the_inference_of_messages_has_it(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    clocked = with_reported_clocks(hard_history(seed + 500, execution=""), random, wrong=0)
    reports = [replace(event, sends=(), receives=()) for event in clocked]
    random.shuffle(reports)
    with opened(tmp_path, **tight(random)) as service:
        feed(service, reports, random, late=random.choice([0, 0.4]))
        service.expire()
        history = History(event for event in infer_messages(reports) if isinstance(event, Event))
        for event in reports:
            shown = service.queries.event(event.id)
            assert (
                shown["stamp"] == history.stamp(event) == {p: n for p, n in clocked_of(clocked, event).items() if n}
            )
            assert shown["causal_time"] == history.causal_time(event)
        assert [one["id"] for one in service.queries.order(limit=10_000)["events"]] == [
            str(event.id) for event in history.order()
        ]


def clocked_of(events: list[Event], event: Event) -> dict[str, int]:
    return next(dict(one.clock or {}) for one in events if one.id == event.id)


@pytest.mark.parametrize("seed", range(4))
def test_checks_are_those_of_history(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = with_broken_structure(hard_history(seed + 600, execution=""), random)
    with opened(tmp_path) as service:
        feed(service, reports, random)
        service.expire()
        expected = History(reports).check(delta_ns=100)
        found = service.queries.checks(delta_ns=100, limit=1_000)
        assert found["counts"] == expected.known
        assert sorted(one["why"] for one in found["violations"] if one["kind"] != "total") == sorted(
            one.why for one in expected.violations if one.kind != "total"
        )


def test_several_executions_are_kept_apart_and_found_together(tmp_path: Path) -> None:
    random = Random(5)
    reports = [
        replace(event, execution=f"trace-{at}")
        for at in range(12)
        for event in as_events(random_steps(random, processes=3, steps=20))
    ]
    random.shuffle(reports)
    with opened(tmp_path) as service:
        feed(service, reports, random)
        histories = History.by_execution(reports)
        for history in histories.values():
            for event in history.order():
                assert service.queries.event(event.id)["stamp"] == history.stamp(event)
        keyed = sorted(
            (history.causal_time(event) or 0, history.past_size(event), event.process, event.index, event.execution)
            for history in histories.values()
            for event in history.order()
        )
        expected = [f"{execution}/{process}:{index}" for _, _, process, index, execution in reversed(keyed)]
        found: list[str] = []
        cursor = None
        while True:
            page = service.queries.find(limit=13, after=cursor)
            found += [one["id"] for one in page["events"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert found == expected


@pytest.mark.parametrize("seed", range(4))
def test_answers_on_the_way_are_those_of_a_history_of_what_is_here(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = as_events(random_steps(random, processes=5, steps=70, untimed=0.1))
    if seed % 2:
        reports = with_reported_clocks(reports, random, wrong=0)
    whole = History(reports)
    random.shuffle(reports)
    with opened(tmp_path) as service:
        for end in range(10, len(reports), 20):
            service.ingest.report(reports[end - 10 : end + 10])
            present = reports[: end + 10]
            inferred = infer_messages(present) if seed % 2 else present  # A clock tells more than what is here.
            here = History(event for event in inferred if isinstance(event, Event))
            ids = {event.id for event in present}
            for event in random.sample(present, 8):
                found = service.queries.past(event.id, last=1_000)
                assert [one["id"] for one in found["events"]] == [str(one.id) for one in here.past(event)]
                lacking = [one.id for one in whole.past(event) if one.id not in ids]
                assert found["complete"] == (not lacking)
                named = " ".join(found["missing"]) + " ".join(one["received"] for one in found["unsent"])
                assert bool(named) == bool(lacking)


@pytest.mark.parametrize("seed", range(4))
def test_complete_means_that_all_of_the_past_is_here_whatever_was_given_up_before(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    reports = as_events(random_steps(random, processes=4, steps=60))
    whole = History(reports)
    random.shuffle(reports)
    with opened(tmp_path, **tight(random)) as service:
        for end in range(6, len(reports) + 1, 6):
            service.ingest.report(reports[end - 6 : end])
            if random.random() < 0.5:
                service.expire()
            else:
                service.ingest.settle()
            ids = {event.id for event in reports[:end]}
            complete = {event.id for event in reports[:end] if all(one.id in ids for one in whole.past(event))}
            found = service.queries.find(limit=1_000)["events"]
            assert {one["id"] for one in found if one["state"] == "complete"} == {str(one) for one in complete}
