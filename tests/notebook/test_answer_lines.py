"""Answers in a plain shell: each is one short line, whatever is in it."""

from __future__ import annotations

from beforehand.events import Event
from beforehand.history import Violation
from beforehand.notebook.answers import Check, Events, Past, Picture

EVENTS = tuple(Event(process="p", index=index, name=f"step {index}") for index in range(1, 6))


def test_events_name_the_first_of_them() -> None:
    assert repr(Events(EVENTS)) == "<Events: 5: p:1 'step 1', p:2 'step 2', p:3 'step 3', …>"
    assert repr(Events(EVENTS[:1])) == "<Events: 1: p:1 'step 1'>"
    assert repr(Events(())) == "<Events: 0>"


def test_a_past_names_the_newest_of_it() -> None:
    line = "<Past of p:5 'step 5': the last 4 of 9 events: …, p:2 'step 2', p:3 'step 3', p:4 'step 4'>"
    assert repr(Past(EVENTS[4], EVENTS[:4], 9)) == line


def test_a_check_has_its_counts_and_the_first_violation() -> None:
    found = Violation("fifo", (EVENTS[0].id,), ("m",), "p:1 received 'm' late")
    line = "<Check: fifo 1, clock not judged; the first: p:1 received 'm' late>"
    assert repr(Check({"fifo": 1, "clock": None}, (found,), ())) == line


def test_a_picture_does_not_show_its_source() -> None:
    line = repr(Picture("<svg>" * 1_000, "<html>" * 1_000))
    assert "<svg>" not in line
    assert len(line) < 120


def test_text_of_strangers_stays_on_the_line() -> None:
    line = repr(Events((Event(process="p\n\x1b[2J", index=1, name="x\n" * 500),)))
    assert line.isprintable()
    assert len(line) < 300
