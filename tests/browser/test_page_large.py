"""More events than can be drawn: counts far out, single events near, and never more than a bounded number of things.

How fast that is, `make bench-page` measures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from browsing import Seen, Visitor

from beforehand.events import Event
from beforehand.service import Ingest, Store
from service.servers import Running, running

EVENTS = 24_000
PROCESSES = 24
DRAWN_MAX = 15_000  # Things in one picture, whatever the history.


def busy(random: Random) -> Iterator[Event]:
    waiting: list[list[str]] = [[] for _ in range(PROCESSES)]
    index = [0] * PROCESSES
    for now in range(EVENTS):
        process = random.randrange(PROCESSES)
        index[process] += 1
        sends: tuple[str, ...] = ()
        receives: tuple[str, ...] = ()
        if waiting[process] and random.random() < 0.9:
            receives = (waiting[process].pop(),)
        elif random.random() < 0.6:
            sends = (f"m{now}",)
            waiting[random.randrange(PROCESSES)].append(sends[0])
        yield Event(
            process=f"service-{process:02}",
            index=index[process],
            name="failed" if now % 997 == 0 else "work",
            sends=sends,
            receives=receives,
            time=10**18 + now * 100_000 + random.randrange(1_000_000),
            attributes={"level": "error"} if now % 997 == 0 else {},
        )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("large")
    with Store(folder / "store.db") as store:
        ingest = Ingest(store)
        events = list(busy(Random(1)))
        for at in range(0, EVENTS, 4_000):
            ingest.report(events[at : at + 4_000])
    with running(folder) as service:
        yield service


def zoom(seen: Seen, by: int) -> None:
    seen.canvas.focus()
    for _ in range(abs(by)):
        seen.page.keyboard.press("+" if by > 0 else "-")
    seen.settled()


def test_far_out_there_are_counts_and_near_there_are_events(large: Running, visitor: Visitor) -> None:
    seen = visitor.open(large.url)
    assert seen.detail == "columns"
    assert 500 < seen.drawn < DRAWN_MAX
    assert len(seen.colours()) > 8
    seen.page.wait_for_function("() => document.querySelector('#facts').textContent.includes('24,000 events')")

    for _ in range(8):
        zoom(seen, 2)
        assert seen.drawn < DRAWN_MAX

    assert seen.detail == "events"
    assert 0 < len(seen.roles()) < 2_000
    zoom(seen, -20)
    assert seen.detail == "columns"


def test_moving_through_it_loads_windows_and_keeps_a_bounded_number(large: Running, visitor: Visitor) -> None:
    seen = visitor.open(large.url)
    zoom(seen, 11)
    before = len([url for url in visitor.requests if "/api/window" in url])

    for _ in range(12):
        seen.page.keyboard.press("PageDown")
        seen.settled()
        assert seen.drawn < DRAWN_MAX

    asked = len([url for url in visitor.requests if "/api/window" in url]) - before
    assert 1 <= asked < 80
    loaded = seen.js("() => [...beforehand.pane.trees.values()].map((tree) => tree.loaded.size)")
    assert max(loaded) <= 120


def test_past_and_future_are_told_apart_far_out_too(large: Running, visitor: Visitor) -> None:
    seen = visitor.open(large.url)
    plain = {tuple(pixel) for pixel in seen.colours()}

    seen.js("() => beforehand.selection.choose(beforehand.pane, 'service-07:500')")
    seen.page.wait_for_function("() => beforehand.selection.relations !== null")
    seen.settled()

    assert seen.detail == "columns"
    relations = seen.js(
        """() => [0, 0.5, 1].map((share) =>
          beforehand.selection.relations.atTime(3, beforehand.pane.overview.span * share))"""
    )
    assert relations[0] == "past"
    assert relations[2] == "future"
    new = {tuple(pixel) for pixel in seen.colours()} - plain
    assert any(blue > red + 40 for red, _, blue in new)
    assert any(red > blue + 40 for red, _, blue in new)


def test_a_search_match_is_shown_as_one_event_among_its_neighbours(large: Running, visitor: Visitor) -> None:
    seen = visitor.open(large.url)

    seen.page.get_by_role("searchbox").fill("attributes.level = error")
    seen.page.get_by_role("searchbox").press("Enter")

    seen.page.wait_for_function("() => beforehand.pane.spots.some((one) => one.role === 'selected')")
    seen.settled()
    assert seen.detail == "events"


def test_hidden_processes_are_not_loaded(large: Running, visitor: Visitor) -> None:
    seen = visitor.open(large.url)
    seen.js(
        """() => {
          const {pane} = beforehand;
          for (const {name} of pane.overview.processes.slice(2)) pane.lanes.hide(name);
          pane.relay();
        }"""
    )
    seen.settled()

    last = [url for url in visitor.requests if "/api/window" in url][-1]
    assert "lanes=0%2C1" in last
    assert seen.detail == "events" or seen.drawn < DRAWN_MAX
