"""`beforehand.analyze` and `beforehand.open`: answers equal to those of `History`, that show themselves as text."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import beforehand
from beforehand.errors import InputError, UnknownEventError
from beforehand.events import Event, EventId
from beforehand.formats import write_events
from beforehand.history import History
from beforehand.notebook import Analysis, Events
from beforehand.notebook.tables import shown, table
from beforehand.pipeline import session
from history_directories import random_events

pytestmark = pytest.mark.usefixtures("spark")

HOSTILE = "</td><script>alert(1)</script>\u202e\x1b[2J"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Analysis, History]:
    """An analysis, and the same events in memory."""
    events = random_events(7, processes=5, steps=120, skew_ns=30_000)
    events.append(Event(process="p0", index=10_000, name=HOSTILE, attributes={"level": "error", HOSTILE: HOSTILE}))
    folder = tmp_path_factory.mktemp("notebook")
    write_events(events, folder / "run.jsonl")
    with (folder / "run.jsonl").open("a") as stream:
        stream.write("no event\n")
    # Brackets are patterns to Spark, and this folder's are none.
    return beforehand.analyze(folder / "run.jsonl", to=folder / "history [1]", quiet=True), History(events)


def test_answers_are_those_of_the_history_in_memory(made: tuple[Analysis, History]) -> None:
    analysis, history = made
    ordered = [event.id for event in history.order()]
    assert [event.id for event in analysis.order()] == ordered
    for one in ordered[:: len(ordered) // 12]:
        known = history.explain(one, last=7)
        past = analysis.explain(one, last=7)
        assert (past.event, past.events, past.past) == (known.event, known.events, known.past)
        assert analysis.event(str(one)) == history.event(one)
        other = ordered[len(ordered) // 2]
        chain = analysis.relate(one, other)
        assert chain.relation == history.compare(one, other)
        assert bool(chain.events) == (chain.relation != "concurrent")
        assert analysis.cut(one).cut == dict(history.cut_after(one).cut)
    middle = history.event(ordered[len(ordered) // 2]).time
    assert middle is not None
    assert analysis.cut(at=middle).cut == dict(history.cut_at(middle).cut)
    checked, known_check = analysis.check(limit=10_000), history.check(limit=10_000)
    assert checked.counts == known_check.known
    assert checked.judged == known_check.judged
    assert not checked.ok
    found = {(one.kind, one.events) for one in checked.violations}
    assert found <= {(one.kind, one.events) for one in known_check.violations}
    assert {kind for kind, _ in found} == {kind for kind, count in known_check.counts.items() if count}
    assert analysis.check(delta_ms=0).counts["temporal"] == history.check(delta_ns=0).counts["temporal"]


def test_finding_takes_predicates_and_failures_are_at_hand(made: tuple[Analysis, History]) -> None:
    analysis, history = made
    sends = analysis.find("kind = send", limit=5)
    assert len(sends) == 5
    assert all(event.sends for event in sends)
    assert isinstance(sends[1:], Events)
    assert {event.id for event in analysis.failures(limit=1_000)} == {
        event.id for event in history.order() if event.attributes.get("level") == "error"
    }
    kept = analysis.explain(history.order()[-1].id, where="kind = receive")
    assert all(event.receives for event in kept)


def test_no_events_are_found_where_none_are_asked_for(
    made: tuple[Analysis, History], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beforehand.pipeline.stored.scanning.VALUES_MAX", 0)  # So that rows are judged one by one.
    assert len(made[0].find('name ~ "."', limit=1)) == 1
    assert len(made[0].find('name ~ "."', limit=0)) == 0


def test_tables_are_given_to_arrow_and_to_spark(made: tuple[Analysis, History]) -> None:
    analysis, history = made
    count = len(list(history.order()))
    assert analysis.table().count_rows() == count
    assert analysis.table("violations").count_rows() > 0
    assert analysis.table("rejected").count_rows() == 1
    messages = analysis.table("messages").count_rows()
    with session() as spark:
        assert analysis.frame(spark).count() == count
        assert analysis.frame(spark, "messages").count() == messages > 0
        assert [row["text"] for row in analysis.frame(spark, "rejected").collect()] == ["no event"]
    with pytest.raises(InputError, match="events, messages, violations, rejected"):
        analysis.table("../events")


def test_what_a_notebook_shows_is_text(made: tuple[Analysis, History]) -> None:
    analysis, _ = made
    hostile = EventId("", "p0", 10_000)
    answers = [
        analysis,
        analysis.explain(hostile),
        analysis.find("attributes.level = error"),
        analysis.relate("p0:1", hostile),
        analysis.cut(hostile),
        analysis.check(),
    ]
    for answer in answers:
        html = answer._repr_html_()  # type: ignore[attr-defined]
        assert "<script" not in html
        assert "\u202e" not in html
        assert "\x1b" not in html
        opened = re.findall(r"<(\w+)[^>]*>", html)
        assert sorted(opened) == sorted(re.findall(r"</(\w+)>", html)), "every element is closed"
    picture = analysis.draw(hostile)._repr_html_()
    assert picture.startswith('<iframe sandbox="allow-scripts" srcdoc="')
    assert '"' not in picture.split('srcdoc="', 1)[1].split('" style=', 1)[0]
    assert shown("<b>") == "<bdi>&lt;b&gt;</bdi>"
    assert table(("a",), [("b",)]).count("<td") == 1


def test_pictures_are_drawn_and_written(made: tuple[Analysis, History], tmp_path: Path) -> None:
    analysis, _ = made
    picture = analysis.draw("p0:3", count=10, to=tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text() == picture.svg
    analysis.draw(axis="clocks", to=tmp_path / "x.html")
    assert "<svg" in (tmp_path / "x.html").read_text()
    assert '"failure":true' in analysis.draw(EventId("", "p0", 10_000), count=10).page, "as `beforehand draw` has it"
    with pytest.raises(InputError, match=r"must end in .html or .svg"):
        analysis.draw("p0:3", to=tmp_path / "x.png")
    with pytest.raises(InputError, match="no axis 'up': there are steps, clocks"):
        analysis.draw("p0:3", axis="up")


def test_mistakes_get_one_clear_line(made: tuple[Analysis, History], tmp_path: Path) -> None:
    analysis, _ = made
    with pytest.raises(UnknownEventError):
        analysis.explain("nobody:1")
    with pytest.raises(InputError, match="give one of them"):
        analysis.cut()
    with pytest.raises(InputError, match="give one of them"):
        analysis.cut("p0:1", at=5)
    with pytest.raises(InputError, match="nanoseconds since 1970 will do too"):
        analysis.cut(at="yesterday")
    with pytest.raises(InputError, match="analyze has no setting 'blcks'; there are: blocks, "):
        beforehand.analyze("x.jsonl", blcks=3)
    with pytest.raises(InputError, match="blocks is -1: it must be at least 1"):
        beforehand.analyze("x.jsonl", blocks=-1)
    with pytest.raises(InputError, match="delta_ms is nan: give a number of milliseconds from 0 up"):
        analysis.check(delta_ms=float("nan"))
    with pytest.raises(InputError, match="count is 0: it must be at least 1"):
        analysis.draw("p0:1", count=0)
    with pytest.raises(InputError, match="limit is -1: it must be at least 0"):
        analysis.check(limit=-1)
    for ask in (analysis.find, analysis.failures):
        with pytest.raises(InputError, match="limit is -1: it must be at least 0"):
            ask(limit=-1)
    with pytest.raises(InputError, match="last is 'x': it must be at least 0"):
        analysis.explain("orders:17", last="x")  # type: ignore[arg-type]
    for question in (analysis.find, analysis.order):
        with pytest.raises(InputError, match="no execution"):
            question(execution="nope")
    with pytest.raises(InputError, match="analyze what"):
        beforehand.analyze()
    with pytest.raises(InputError, match="nothing there"):
        beforehand.open(tmp_path / "nothing there")


def test_a_history_that_nobody_named_is_removed_with_its_analysis(tmp_path: Path) -> None:
    write_events([Event(process="a", index=1), Event(process="a", index=2)], tmp_path / "run.jsonl")
    analysis = beforehand.analyze(str(tmp_path / "*.jsonl"), quiet=True, format="native", witnesses=3)
    path = analysis.path
    assert path.is_dir()
    assert repr(analysis) == f"<Analysis {str(path)!r}: 2 events of 1 processes>"
    again = beforehand.open(path)
    assert [str(event.id) for event in again.order()] == ["a:1", "a:2"]
    assert again.table("violations").to_table(columns=["kind", "why"]).num_rows == 0, "empty, and of its columns"
    with session() as spark:
        assert again.frame(spark, "violations").select("kind", "why").count() == 0
    del analysis
    gc.collect()
    assert not path.parent.exists()


def test_a_name_that_can_be_read_in_two_ways_does_no_harm(tmp_path: Path) -> None:
    # As text, "a/b/c:2" is event c:2 of execution a/b, and event b/c:2 of execution a.
    events = [
        one
        for execution, process in (("a", "b/c"), ("a/b", "c"))
        for one in (
            Event(execution=execution, process="s", index=1, sends=("m",)),
            Event(execution=execution, process="s", index=2, sends=("n",)),
            Event(execution=execution, process=process, index=1, receives=("n",)),
            Event(execution=execution, process=process, index=2, receives=("m",), attributes={"level": "error"}),
        )
    ]
    write_events(events, tmp_path / "run.jsonl")
    analysis = beforehand.analyze(tmp_path / "run.jsonl", to=tmp_path / "history", quiet=True)
    last = {EventId("a", "b/c", 2), EventId("a/b", "c", 2)}
    assert {event.id for event in analysis.failures()} == last
    assert {violation.events[-1] for violation in analysis.check().violations} == last


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, beforehand; heavy = {'numpy', 'numba', 'pyarrow', 'pyspark', 'beforehand.notebook'}; "
        "assert not heavy & set(sys.modules); beforehand.open; assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError):
        beforehand.nothing  # type: ignore[attr-defined]  # noqa: B018
