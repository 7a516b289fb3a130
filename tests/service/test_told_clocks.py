"""Clocks that differ from the one before in the own entry only: looked through once, and judged each for itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from service_stores import opened

from beforehand.events import Event
from beforehand.service.reported_clocks import Told


def clocked(process: str, index: int, **clock: int) -> Event:
    return Event(process=process, index=index, clock=clock)


@pytest.mark.parametrize(
    ("clock", "same"),
    [
        ({"a": 2, "b": 1}, True),
        ({"b": 1, "a": 9}, True),
        ({"a": 2, "b": 2}, False),
        ({"a": 2}, False),
        ({"b": 1}, False),
        ({"a": 2, "b": 1, "c": 0}, False),
    ],
)
def test_a_clock_is_told_already_if_only_its_own_entry_differs(clock: dict[str, int], same: bool) -> None:
    assert Told({"a": 1, "b": 1}).is_also(clock, "a") is same


def test_a_clock_without_an_own_entry_is_never_told_already() -> None:
    assert not Told({"b": 1}).is_also({"a": 1, "b": 1}, "a")
    assert not Told({"b": 1}).is_also({"b": 1}, "a")


def test_a_wrong_own_entry_is_found_though_the_rest_was_told_before(tmp_path: Path) -> None:
    reports = [clocked("b", 1, b=1), clocked("a", 1, a=1, b=1), clocked("a", 2, a=7, b=1), clocked("a", 3, a=3, b=1)]
    with opened(tmp_path) as service:
        service.ingest.report(reports)

        assert [one["events"] for one in service.queries.checks()["violations"]] == [["a:2"]]
        for event in reports:
            assert service.queries.event(event.id)["clock"] == event.clock
        assert service.ingest.report(reports).repeated == 4


def test_an_own_entry_beyond_the_limit_is_refused_though_the_rest_was_told_before(tmp_path: Path) -> None:
    with opened(tmp_path, index_max=100) as service:
        reports = [clocked("a", 1, a=1, b=0), clocked("a", 2, a=101, b=0), clocked("a", 3, a=3)]
        receipt = service.ingest.report(reports)

    assert [(one.at, one.reason) for one in receipt.refused] == [(1, "index-too-large")]


def test_what_was_refused_is_no_measure_for_the_clock_after_it(tmp_path: Path) -> None:
    with opened(tmp_path, processes_max=2) as service:
        receipt = service.ingest.report([clocked("a", 1, a=1, b=1, c=1), clocked("a", 2, a=2, b=1, c=1)])

    assert [one.reason for one in receipt.refused] == ["too-many-processes"] * 2


def test_a_clock_is_measured_to_the_byte_where_it_comes_near_the_limit(tmp_path: Path) -> None:
    names = [f"process-{number:03}" for number in range(40)]
    clock = dict.fromkeys(names, 1)
    size = 3 + sum(1 + len(name) + 1 for name in names) + len(names[0])  # MessagePack, and the name of the process.
    event = Event(process=names[0], index=1, clock=clock)
    fits = Event(process=names[1], index=1, clock=clock)
    with opened(tmp_path, event_bytes_max=size) as service:
        assert service.ingest.report([event, fits]).stored == 2
    (tmp_path / "less").mkdir()
    with opened(tmp_path / "less", event_bytes_max=size - 1) as service:
        service.ingest.report([Event(process=name, index=2) for name in names])
        receipt = service.ingest.report([event, fits])

    assert [one.reason for one in receipt.refused] == ["event-too-large"] * 2
    assert f"an event of {size} bytes" in receipt.refused[0].detail
