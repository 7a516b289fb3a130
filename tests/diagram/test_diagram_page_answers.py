"""What a file answers to the questions of the page, against the history and the predicates that it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from beforehand.diagram import diagram_page
from beforehand.errors import PredicateError
from beforehand.events import Event, EventId
from beforehand.history import History
from beforehand.predicate import Predicate
from drawn_pages import Diagram, Reader, launched
from random_histories import as_events, random_steps

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture
def reader(browser: Any, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(browser, tmp_path)
    yield reader
    reader.close()


def answer(seen: Diagram, path: str, **question: object) -> Any:
    return seen.ask("({api}, [path, question]) => api.get(path, question)", [path, question])


def random_history(seed: int) -> list[Event]:
    """Forty events of four processes, most with a time; the clocks disagree."""
    random = Random(seed)
    skew = {process: random.randrange(50) for process in "abcdefgh"}
    events = as_events(random_steps(random, processes=4, steps=40))
    return [
        Event(
            process=event.process,
            index=event.index,
            name=event.name,
            sends=event.sends,
            receives=event.receives,
            time=None if random.random() < 0.2 else 10**18 + 10 * at + skew.get(event.process[-1], 0),
        )
        for at, event in enumerate(events)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_past_future_and_concurrent_are_those_of_the_history(reader: Reader, seed: int) -> None:
    events = random_history(seed)
    history = History(events)
    seen = reader.open(diagram_page(events))

    for event in events:
        name = str(event.id)
        past = {str(one.id) for one in history.past(event.id)}
        found = answer(seen, "/api/past", id=name, last=1_000)
        assert {one["id"] for one in found["events"]} == past
        assert found["past"] == len(past)
        assert answer(seen, "/api/future", id=name)["future"] == len(history.future(event.id))
        assert answer(seen, "/api/concurrent", id=name)["concurrent"] == len(history.concurrent(event.id))
        for earlier, later in zip(found["events"], found["events"][1:], strict=False):
            assert not history.happened_before(later["id"], earlier["id"])
        rows = answer(seen, "/api/relations", id=name)["lanes"]
        lanes = answer(seen, "/api/overview")["processes"]
        for other in events:
            row = rows[[lane["name"] for lane in lanes].index(other.process)]
            assert (other.index <= row["past_to"]) == (str(other.id) in past)
            after = row["future_from"] is not None and other.index >= row["future_from"]
            assert after == history.happened_before(event.id, other.id)


@pytest.mark.parametrize("seed", range(4))
def test_cuts_are_those_of_the_history(reader: Reader, seed: int) -> None:
    events = random_history(seed)
    history = History(events)
    seen = reader.open(diagram_page(events))

    for event in events[::5]:
        wanted = history.cut_after(event.id)
        found = answer(seen, "/api/cut", after=str(event.id))
        assert found["cut"] == {process: index for process, index in wanted.cut.items() if index}
        assert sorted(found["in_flight"]) == sorted(wanted.in_flight)
        assert sorted(found["unreceived"]) == sorted(wanted.unreceived)
    overview = answer(seen, "/api/overview", axis="time")
    places = {one["id"]: one["x"] for one in answer(seen, "/api/window", axis="time")["events"]}
    for x in range(0, overview["span"], max(1, overview["span"] // 7)):
        found = answer(seen, "/api/cut", at=str(int(overview["origin"]) + x))
        inside = {name for name, place in places.items() if place <= x}
        assert found["events"] == len(inside)
        for name in inside:
            assert {str(one.id) for one in history.past(name)} <= inside


@pytest.mark.parametrize("seed", range(3))
def test_causal_time_never_falls_along_what_happened(reader: Reader, seed: int) -> None:
    events = random_history(seed)
    history = History(events)
    seen = reader.open(diagram_page(events))

    places = {one["id"]: one["x"] for one in answer(seen, "/api/window", axis="time")["events"]}
    origin = int(answer(seen, "/api/overview", axis="time")["origin"])

    for event in events:
        times = [one.time for one in (*history.past(event.id), event) if one.time is not None]
        assert places[str(event.id)] == (max(times) - origin if times else 0)


ASKED = [
    "name = checkout",
    "name != checkout",
    'name ~ "^check.*d$" or kind = send',
    "not (process = cart and kind = local)",
    "not not process = cart",
    "NAME = x",
    "attributes.level = error",
    "attributes.level != error",
    'attributes."the key" = "a b"',
    'attributes.none = ""',
    'attributes.none != ""',
    "attributes.none < z",
    'attributes.none ~ ""',
    "not attributes.none < z",
    "not time < 5",
    "attributes.n < 10",
    "attributes.n > 9.5",
    'attributes.n > "9"',
    "attributes.n > 1e1",
    "time < 1500000000",
    "time = 1970-01-01T00:00:01.5Z",
    "time > 1970-01-01T01:00:01+01:00",
    "time != 5",
    "process < d",
    "process > d",
    "execution = x",
    "name ~ (",
    "kind < send",
    "name =",
    "= x",
    "(name = x",
    "name = x)",
    "name = x and",
    "nothing = x",
    "attributes = x",
    "name = and",
    "name = 'it\\'s'",
    'name = "back\\\\slash"',
]
EVENTS = [
    Event(process="cart", index=1, name="checkout", attributes={"level": "error", "n": "9"}, time=1_500_000_000),
    Event(process="cart", index=2, name="checked", attributes={"the key": "a b", "n": "10"}, sends=("m",), time=5),
    Event(process="desk", index=1, name="it's", attributes={"n": "no number"}, receives=("m",)),
    Event(process="e\U0001f600", index=1, name="back\\slash", attributes={"n": "1e2"}, time=2_000_000_000),
    Event(process="e\uffe6", index=1, name="checkout failed", attributes={"n": "-3"}),
]


def test_predicates_mean_what_they_mean_elsewhere(reader: Reader) -> None:
    seen = reader.open(diagram_page(EVENTS))

    for text in ASKED:
        try:
            predicate = Predicate.parse(text)
            wanted = {str(event.id) for event in EVENTS if predicate(event)}
        except PredicateError:
            wanted = None
        found = seen.ask(
            """({api}, where) => api.get("/api/find", {where}).then(
                 ({events}) => events.map((one) => one.id), () => null)""",
            text,
        )
        if wanted is None:
            assert not found, text  # Refused, or taken as words, which nobody said.
        else:
            assert found is not None, text
            assert set(found) == wanted, text


def test_an_event_that_is_not_drawn_is_said_to_be_none(reader: Reader) -> None:
    seen = reader.open(diagram_page(EVENTS))

    said = seen.ask("({api}) => api.get('/api/event', {id: 'cart:99'}).catch((error) => error.message)")

    assert said == "cart:99 is not drawn here"


def test_relations_from_outside_count_for_the_past(reader: Reader) -> None:
    apart = [Event(process=name, index=1) for name in "ABC"]
    seen = reader.open(diagram_page(apart, relations={EventId("", "B", 1): [EventId("", "A", 1)]}))

    assert [one["id"] for one in answer(seen, "/api/past", id="B:1", last=9)["events"]] == ["A:1"]
    assert answer(seen, "/api/concurrent", id="B:1")["concurrent"] == 1
