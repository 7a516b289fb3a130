"""A directory and a file in memory answer the questions of a store: as `History` does, and with the store's words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from service_stores import assert_agrees, events
from view_sources import WAYS, Way, histories, served

from beforehand.errors import InputError, UnknownEventError
from beforehand.events import EventId, Rejection
from beforehand.history import History
from beforehand.pipeline.rejecting import rejection_table
from beforehand.pipeline.schemas import VIOLATION
from beforehand.pipeline.stored import scanning
from beforehand.pipeline.tables import write_parquet
from beforehand.predicate import Predicate
from beforehand.service import opened, remembered
from beforehand.service.opened import open_history
from history_directories import make_pack_directory, random_events
from pipeline.by_hand import cut_by_hand

HISTORIES = histories()
FROZEN = [way for way in WAYS if way != "store"]


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("way", FROZEN)
def test_every_answer_is_that_of_the_history(way: str, name: str, tmp_path: Path) -> None:
    with served(way, HISTORIES[name], tmp_path) as one:
        assert_agrees(one, History(HISTORIES[name]), Random(name), asked=6)  # type: ignore[arg-type]


def documents(one: Way, name: str) -> dict[str, Any]:
    """Answers to many questions, without what only a store knows."""
    queries, random = one.queries, Random(name)
    execution = HISTORIES[name][0].execution
    chosen = random.sample(HISTORIES[name], 12)
    found: dict[str, Any] = {
        "missing": queries.missing(execution=execution),
        "rejected": queries.rejected(),
        "find": queries.find(Predicate.parse("attributes.n > 4 and not name ~ pay"), execution=execution, limit=15),
        "order": queries.order(execution=execution, limit=20),
    }
    for event in chosen:
        shown = queries.event(event.id)
        found[f"event {event.id}"] = {**shown, "arrival": None}
        found[f"past {event.id}"] = queries.past(event.id, last=4, where=Predicate.parse("kind != local"))
        found[f"complete {event.id}"] = {**queries.past(event.id, last=4, complete=True), "notes": None}
        found[f"of one {event.id}"] = queries.past(event.id, last=3, process=chosen[0].process)
        found[f"future {event.id}"] = queries.future(event.id, limit=3)
        found[f"concurrent {event.id}"] = queries.concurrent(event.id, limit=3)
        found[f"relate {event.id}"] = queries.relate(event.id, chosen[0].id)
    return found


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("way", FROZEN)
def test_documents_equal_those_of_a_store_that_got_the_same_events(way: str, name: str, tmp_path: Path) -> None:
    with (
        served("store", HISTORIES[name], tmp_path / "a") as store,
        served(way, HISTORIES[name], tmp_path / "b") as one,
    ):
        assert documents(one, name) == documents(store, name)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_missing_is_named_in_the_same_words(way: str, tmp_path: Path) -> None:
    made = events("a1 !m", "a5 !o", "b1 ?m", "b2 ?n ?o", "b3", "c4 ?k")
    with served(way, made, tmp_path) as one:
        found = one.queries.past("b:3", last=10)
        assert (found["state"], found["complete"], found["past"]) == ("incomplete", False, 4)
        assert found["missing"] == ["a:2–4"]
        assert found["unsent"] == [{"message": "n", "received": "b:2"}]
        assert one.queries.past("b:1")["missing"] == []
        assert one.queries.past("b:3", complete=True)["events"] is None
        everything = one.queries.missing()
        assert everything["missing"] == ["a:2–4", "c:1–3"]
        assert {unsent["message"] for unsent in everything["unsent"]} == {"n", "k"}


def pages(ask: Callable[[str | None], dict[str, Any]]) -> list[str]:
    found, cursor = [], None
    while True:
        page = ask(cursor)
        found += [event["id"] for event in page["events"]]
        cursor = page["cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("kind", ["packs", "blocks"])
def test_pages_over_several_executions_have_each_event_once(kind: str, tmp_path: Path) -> None:
    executions = [
        random_events(seed, processes=3, steps=60, untimed=0.2, execution=f"e{seed}", gap=1 + seed % 2)
        for seed in range(5)
    ]
    case = make_pack_directory(executions, tmp_path, packs=2) if kind == "packs" else None
    path = case.path if case else cut_by_hand(executions, tmp_path, blocks=3).path
    queries = open_history(path).queries
    histories_ = {mine[0].execution: History(mine) for mine in executions}

    def place(event: Any) -> tuple[Any, ...]:
        history = histories_[event.execution]
        time = history.causal_time(event)
        return (
            -(2**63) if time is None else time,
            history.past_size(event),
            event.process,
            event.index,
            event.execution,
        )

    everything = [event for mine in executions for event in mine]
    newest = [str(event.id) for event in sorted(everything, key=place, reverse=True)]
    assert pages(lambda after: queries.find(limit=17, after=after)) == newest
    for text in ("name ~ pay", "attributes.n > 4 or kind = send"):
        where = Predicate.parse(text)
        meant = [str(event.id) for event in sorted(everything, key=place, reverse=True) if where(event)]
        assert pages(lambda after, where=where: queries.find(where, limit=9, after=after)) == meant  # type: ignore[misc]
    mine = [str(event.id) for event in histories_["e3"].order()]
    assert pages(lambda after: queries.order(limit=13, execution="e3", after=after)) == mine
    with pytest.raises(InputError, match="executions"):
        queries.order()
    with pytest.raises(InputError, match="no execution"):
        queries.find(execution="nothing")


@pytest.mark.parametrize("way", ["packs", "blocks"])
def test_what_sql_cannot_judge_is_judged_event_by_event(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "VALUES_MAX", 1)  # More values than are judged one by one beforehand.
    monkeypatch.setattr(opened, "_FIRST_ROWS", 5)
    where = Predicate.parse("attributes.n > 4 and not name ~ pay")
    run = History(HISTORIES["skewed"]).order()
    meant = [str(event.id) for event in reversed(run) if where(event)]
    with served(way, HISTORIES["skewed"], tmp_path) as one:
        assert pages(lambda after: one.queries.find(where, limit=4, after=after)) == meant


@pytest.mark.parametrize("way", FROZEN)
def test_a_page_ends_after_so_many_events_that_were_looked_at(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "VALUES_MAX", 1)
    monkeypatch.setattr(opened, "SCANNED_MAX", 30)
    monkeypatch.setattr(remembered, "SCANNED_MAX", 30)
    where = Predicate.parse("name ~ Über")
    run = History(HISTORIES["plain"]).order()
    with served(way, HISTORIES["plain"], tmp_path) as one:
        first = one.queries.find(where, limit=1_000)
        assert [event["id"] for event in first["events"]] == [str(e.id) for e in run[:-31:-1] if where(e)]
        assert first["more"]
        found = pages(lambda after: one.queries.find(where, limit=1_000, after=after))
        assert found == [str(event.id) for event in reversed(run) if where(event)]


@pytest.mark.parametrize("way", FROZEN)
def test_wrong_questions_are_refused(way: str, tmp_path: Path) -> None:
    with served(way, HISTORIES["plain"], tmp_path) as one:
        queries = one.queries
        for name in ("p0:99999", "nobody:1", "p0", "p0:0", EventId("x", "p0", 1)):
            with pytest.raises(UnknownEventError):
                queries.event(name)
        wrong: list[Callable[[], object]] = [
            lambda: queries.find(limit=0),
            lambda: queries.find(limit=10_001),
            lambda: queries.find(after="no cursor"),
            lambda: queries.past("p0:1", last=-1),
            lambda: queries.past("p0:1", process="nobody"),
            lambda: queries.cut_after(),
            lambda: queries.cut({"nobody": 1}),
            lambda: queries.cut({"p0": -1}),
            lambda: queries.rejected(after=-1),
        ]
        for ask in wrong:
            with pytest.raises(InputError):
                ask()


@pytest.mark.parametrize("way", ["packs", "memory"])
def test_no_events_at_all_are_answered_too(way: str, tmp_path: Path) -> None:
    with served(way, [], tmp_path) as one:
        assert one.queries.find()["events"] == []
        assert one.queries.order()["events"] == []
        assert one.queries.cut_at(5)["consistent"]
        assert one.queries.missing()["waiting"] == 0
        assert one.viewer.overview()["execution"] is None


def test_checks_and_rejections_of_a_directory_are_what_the_analysis_wrote(tmp_path: Path) -> None:
    case = make_pack_directory([events("a1 !m", "b1 ?m")], tmp_path, packs=1)
    folder = case.path
    rows = [
        {"execution": "", "kind": kind, "events": ["b:1"], "messages": ["m"], "why": f"because {at}", "reasons": []}
        for at, kind in enumerate(["fifo", "fifo", "fifo", "causal"])
    ]
    write_parquet(pa.Table.from_pylist(rows, schema=VIOLATION), folder / "violations" / "pack-00000.parquet")
    refused = [Rejection(reason="not-json", detail=f"line {at}", file="x.jsonl", line=at) for at in range(1, 6)]
    (folder / "rejected" / "all").mkdir(parents=True)
    write_parquet(rejection_table(refused[:2]), folder / "rejected" / "all" / "0.parquet")
    write_parquet(rejection_table(refused[2:]), folder / "rejected" / "all" / "1.parquet")
    report = json.loads((folder / "report.json").read_text())
    report["violations"] = {"fifo": 30, "causal": 1, "total": 0, "clock": 0}
    (folder / "report.json").write_text(json.dumps(report))
    directory = open_history(folder)

    checks = directory.queries.checks(limit=2)
    assert checks["counts"]["fifo"] == 30
    assert [one["why"] for one in checks["violations"]] == ["because 0", "because 1", "because 3"]
    assert directory.queries.checks(execution="", delta_ns=5)["counts"]["temporal"] is None  # No time.
    first = directory.queries.rejected(limit=3)
    assert [one["line"] for one in first["rejected"]] == [1, 2, 3]
    rest = directory.queries.rejected(limit=3, after=first["cursor"])
    assert [one["line"] for one in rest["rejected"]] == [4, 5]
    assert (rest["more"], rest["cursor"]) == (False, None)
