"""Stores fed with histories as reports come in life: out of order, twice, late, in batches of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from beforehand.events import Event, EventId
from beforehand.history import History
from beforehand.service import Ingest, Queries, Settings, Store

__all__ = ["DEADLINE", "Service", "assert_agrees", "events", "feed", "opened"]

DEADLINE = 1_000


class Service:
    """A store with its writer and its queries, and a clock that stands still unless it is moved."""

    def __init__(self, path: Path, **settings: int) -> None:
        self.store = Store(path, settings=Settings(**{"deadline_ns": DEADLINE, **settings}))
        self.now = 1_000_000
        self.ingest = Ingest(self.store, clock=lambda: self.now)
        self.queries = Queries(self.store)

    def expire(self) -> int:
        """Let every deadline pass."""
        self.now += DEADLINE + 1
        return self.ingest.settle()

    def count(self, table: str) -> int:
        with self.store.reading() as db:
            return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@contextmanager
def opened(folder: Path, **settings: int) -> Iterator[Service]:
    service = Service(folder / "store.db", **settings)
    try:
        yield service
    finally:
        service.store.close()


def feed(service: Service, reports: Sequence[Event], random: Random, *, late: float = 0.0, size: int = 40) -> None:
    """All reports in this order in random batches, some of them again; `late`: now and then a deadline passes."""
    at = 0
    while at < len(reports):
        end = at + random.randint(1, size)
        service.ingest.report(reports[at:end])
        at = end
        if random.random() < 0.2:
            service.ingest.report([random.choice(reports[:at]) for _ in range(random.randint(1, size))])
        if random.random() < late:
            service.expire()


def events(*lines: str) -> list[Event]:
    """`a1 !m ?n @5 name`: event 1 of process a sends m, receives n, at time 5."""
    made = []
    for line in lines:
        head, *words = line.split()
        fields: dict[str, list[str]] = {"!": [], "?": [], "@": [], "n": []}
        for word in words:
            fields[word[0] if word[0] in "!?@" else "n"].append(word if word[0] not in "!?@" else word[1:])
        made.append(
            Event(
                process=head.rstrip("0123456789"),
                index=int(head[len(head.rstrip("0123456789")) :]),
                sends=tuple(fields["!"]),
                receives=tuple(fields["?"]),
                time=int(fields["@"][0]) if fields["@"] else None,
                name=" ".join(fields["n"]),
            )
        )
    return made


def ids(found: Iterable[Event]) -> list[str]:
    return [str(event.id) for event in found]


def assert_agrees(service: Service, history: History, random: Random, *, asked: int = 12) -> None:
    """Every stored stamp, and answers to some questions, are those of `History`."""
    queries = service.queries
    execution = history.execution or None
    assert service.count("waits") == service.count("raises") == service.count("wakes") == 0
    run = history.order()
    assert _pages(lambda after: queries.order(limit=37, after=after, execution=execution)) == ids(run)
    newest = _pages(lambda after: queries.find(limit=41, after=after, execution=execution))
    assert newest == ids(reversed(run))
    for event in run:
        shown = queries.event(event.id)
        assert shown["stamp"] == history.stamp(event), shown["id"]
        assert shown["causal_time"] == history.causal_time(event), shown["id"]
        assert shown["past_size"] == history.past_size(event), shown["id"]
    for event in random.sample(run, min(asked, len(run))):
        _agrees_on(service, history, event, random.choice(run))
    times = [event.time for event in run if event.time is not None]
    for time in random.sample(times, min(3, len(times))):
        assert _cut(queries.cut_at(time, execution=execution)) == _cut_of(history, "cut_at", time)
    chosen = random.sample(run, min(3, len(run)))
    assert _cut(queries.cut_after(*chosen)) == _cut_of(history, "cut_after", *chosen)
    partial = {process: random.randint(0, 60) for process in history.processes}
    assert _cut(queries.cut(partial, execution=execution)) == _cut_of(history, "cut", partial)


def _agrees_on(service: Service, history: History, event: Event, other: Event) -> None:
    queries = service.queries
    past = history.past(event)
    found = queries.past(event.id, last=10_000)
    assert found["past"] == len(past)
    assert [one["id"] for one in found["events"]] == ids(past)[-10_000:]
    last = queries.past(event.id, last=5)
    assert [one["id"] for one in last["events"]] == ids(history.explain(event, last=5).events)
    later, beside = ids(history.future(event)), ids(history.concurrent(event))
    future = queries.future(event.id, limit=10_000)
    assert [one["id"] for one in future["events"]] == later[:10_000]
    assert future["future"] == len(later)
    size = max(7, len(later) // 50)
    assert _pages(lambda after: queries.future(event.id, limit=size, after=after)) == later
    apart = queries.concurrent(event.id, limit=10_000)
    assert [one["id"] for one in apart["events"]] == beside[:10_000]
    assert apart["concurrent"] == len(beside)
    wide = max(9, len(beside) // 50)
    assert _pages(lambda after: queries.concurrent(event.id, limit=wide, after=after)) == beside
    related = queries.relate(event.id, other.id)
    assert related["relation"] == history.compare(event, other)
    pair = (other, event) if related["relation"] == "after" else (event, other)
    chain = history.chain(*pair)
    assert related["chain"] == [str(one) for one in chain]
    assert related["reasons"] == history.reasons(chain)


def _pages(ask: Callable[[str | None], dict[str, object]]) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = ask(cursor)
        found += [one["id"] for one in page["events"]]  # type: ignore[attr-defined]
        cursor = page["cursor"]  # type: ignore[assignment]
        assert page["more"] == (cursor is not None)
        if cursor is None:
            return found


def _cut(document: dict[str, object]) -> dict[str, object]:
    messages = {key: sorted(document[key]) for key in ("in_flight", "unreceived")}  # type: ignore[call-overload]
    return {**document, **messages}


def _cut_of(history: History, method: str, *values: object) -> dict[str, object]:
    cut = getattr(history, method)(*values)
    return {
        "cut": dict(cut.cut),
        "front": [str(event) for event in cut.front],
        "in_flight": sorted(cut.in_flight),
        "unreceived": sorted(cut.unreceived),
        "consistent": cut.consistent,
    }


def event_id(text: str) -> EventId:
    process, _, index = text.rpartition(":")
    return EventId("", process, int(index))
