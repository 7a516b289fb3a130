"""Reports of several requests in one transaction: each has its own answer, and none takes others with it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path
from random import Random

import pytest
from service_stores import assert_agrees, events, opened

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.history import History
from beforehand.service import Ingest, Store
from beforehand.service.http import combining
from beforehand.service.http.combining import Batch, Combined
from beforehand.service.http.limits import Limits
from beforehand.service.ingest import Receipt
from beforehand.service.work import BusyError, Work
from random_histories import as_events, random_steps


def test_each_batch_of_a_transaction_has_its_own_receipt(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.ingest.report(events("a1 first"))
        nonsense = Rejection(reason="not-json", detail="no JSON", text="x")

        first, second, third = service.ingest.report_all(
            [
                [*events("a1 first", "a2"), nonsense, *events("a1 other")],
                events("b2", "b1 ?m"),
                [*events("a2"), Event(process="c", index=2**62), *events("a2 other", "c1 !m", "c3")],
            ]
        )

    assert (first.stored, first.repeated, first.conflicts, first.waiting) == (1, 1, 1, 0)
    assert [(one.at, one.reason) for one in first.refused] == [(2, "not-json")]
    assert (second.stored, second.repeated, second.conflicts, second.waiting) == (2, 0, 0, 0)
    assert second.refused == ()
    assert (third.stored, third.repeated, third.conflicts, third.waiting) == (2, 1, 1, 1)
    assert [(one.at, one.reason) for one in third.refused] == [(1, "index-too-large")]
    assert first.rejected + second.rejected + third.rejected == 2
    assert first.cursor == second.cursor == third.cursor


def test_batches_together_come_to_the_same_as_one_by_one(tmp_path: Path) -> None:
    random = Random(4)
    reports = as_events(random_steps(random, processes=6, steps=300))
    random.shuffle(reports)
    batches = [reports[at : at + 13] for at in range(0, len(reports), 13)]
    with opened(tmp_path) as service:
        while batches:
            group, batches = batches[:5], batches[5:]
            receipts = service.ingest.report_all(group)
            assert [receipt.stored for receipt in receipts] == [len(batch) for batch in group]
        service.expire()

        assert_agrees(service, History(reports), random, asked=3)


class Slow:
    """The writer of a store, which begins when it is told to."""

    def __init__(self, ingest: Ingest) -> None:
        self.ingest = ingest
        self.go = threading.Event()
        self.groups: list[int] = []
        self.fails: dict[str, Exception] = {}  # By the name of an event.

    def report_all(self, batches: list[Batch]) -> list[Receipt]:
        self.go.wait(20)
        self.groups.append(len(batches))
        for batch in batches:
            for event in batch:
                if isinstance(event, Event) and event.name in self.fails:
                    raise self.fails[event.name]
        return self.ingest.report_all(batches)


def combined(slow: Slow, *, waiting_max: int = 64, events_max: int = 100) -> Combined:
    return Combined(slow, Work(Limits()), events_max=events_max, waiting_max=waiting_max)  # type: ignore[arg-type]


async def begun(way: Combined, batches: list[list[Event]]) -> list[asyncio.Task[Receipt]]:
    """The first batch is at the writer, the others wait."""
    tasks = [asyncio.create_task(way.report(batch)) for batch in batches[:1]]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(way.report(batch)) for batch in batches[1:]]
    await asyncio.sleep(0)
    return tasks


def test_what_waits_goes_together(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        slow = Slow(Ingest(store))

        async def scene() -> list[Receipt]:
            tasks = await begun(combined(slow), [events(f"p{number}") for number in range(1, 6)])
            slow.go.set()
            return list(await asyncio.gather(*tasks))

        receipts = asyncio.run(scene())

    assert [receipt.stored for receipt in receipts] == [1] * 5
    assert slow.groups == [1, 4]


def test_what_is_being_decoded_is_waited_for_a_moment(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        slow = Slow(Ingest(store))
        slow.go.set()

        async def scene() -> None:
            way = combined(slow)
            with way.coming():
                first = asyncio.create_task(way.report(events("p1")))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            await asyncio.gather(first, way.report(events("p2")))
            with way.coming():  # This one never comes.
                await way.report(events("p3"))
            await way.report(events("p4"))

        asyncio.run(scene())

    assert slow.groups == [2, 1, 1]


def test_those_that_were_answered_together_are_waited_for_together(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        slow = Slow(Ingest(store))
        slow.go.set()

        async def scene() -> None:
            way = combined(slow)
            way._returning, way._returning_until = 2, time.monotonic() + 60  # Two were answered just now.
            with way.coming():
                pass
            first = asyncio.create_task(way.report(events("p1")))
            await asyncio.sleep(0.02)
            assert slow.groups == []  # The other may come.
            with way.coming():
                await asyncio.sleep(0)
            await asyncio.gather(first, way.report(events("p2")))
            assert way._returning == 2
            assert way._returning_until < time.monotonic() + 20

        asyncio.run(scene())

    assert slow.groups == [2]


@pytest.mark.parametrize("answered", [1, 2])
def test_one_that_comes_alone_or_late_is_not_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    monkeypatch.setattr(combining, "LINGER_SECONDS", 60.0)
    with Store(tmp_path / "store.db") as store:
        slow = Slow(Ingest(store))
        slow.go.set()

        async def scene() -> None:
            way = combined(slow)
            late = time.monotonic() - (1 if answered > 1 else -60)
            way._returning, way._returning_until = answered, late
            with way.coming():
                pass
            await asyncio.wait_for(way.report(events("p1")), 20)

        asyncio.run(scene())

    assert slow.groups == [1]


def test_together_they_are_no_larger_than_one_batch_may_be(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        slow = Slow(Ingest(store))

        async def scene() -> None:
            way = combined(slow, events_max=2)
            tasks = await begun(way, [events(f"p{number}") for number in range(1, 7)])
            slow.go.set()
            await asyncio.gather(*tasks)

        asyncio.run(scene())

    assert slow.groups == [1, 2, 2, 1]


def test_more_than_may_wait_is_refused_and_was_not_begun(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        slow = Slow(Ingest(store))

        async def scene() -> None:
            way = combined(slow, waiting_max=2)
            tasks = await begun(way, [events(f"p{number}") for number in range(1, 4)])
            with pytest.raises(BusyError):
                await way.report(events("q1"))
            slow.go.set()
            await asyncio.gather(*tasks)

        asyncio.run(scene())
        assert store.changes(0)[-1].event.process == "p"


def test_a_batch_that_meets_a_bug_fails_alone(tmp_path: Path) -> None:
    with Store(tmp_path / "store.db") as store:
        slow = Slow(Ingest(store))
        slow.fails["bug"] = KeyError("inside")

        async def scene() -> list[object]:
            tasks = await begun(combined(slow), [events("p1"), events("p2"), events("p3 bug"), events("p4")])
            slow.go.set()
            return list(await asyncio.gather(*tasks, return_exceptions=True))

        found = asyncio.run(scene())

    assert [type(one).__name__ for one in found] == ["Receipt", "Receipt", "KeyError", "Receipt"]


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk is full"), InputError("the store is closed")])
def test_a_store_that_fails_fails_for_all_of_them_once(tmp_path: Path, error: Exception) -> None:
    with Store(tmp_path / "store.db") as store:
        slow = Slow(Ingest(store))
        slow.fails["full"] = error

        async def scene() -> list[object]:
            tasks = await begun(combined(slow), [events("p1"), events("p2 full"), events("p3")])
            slow.go.set()
            return list(await asyncio.gather(*tasks, return_exceptions=True))

        found = asyncio.run(scene())

    assert found[1] is error
    assert found[2] is error
    assert slow.groups == [1, 2]
