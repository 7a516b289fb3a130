"""The reporter: numbering, stamps, what events hold, and that it gets in nobody's way."""

from __future__ import annotations

import threading
from collections import defaultdict
from enum import StrEnum

import pytest
from gated_target import GatedTarget

from beforehand.clocks import VectorClock, VectorStamp
from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.formats import Limits, read_lines
from beforehand.reporting import Reporter, ReportLimits, process_name

MINUTE = 60.0


def read_back(target: GatedTarget) -> list[Event]:
    found = list(read_lines(enumerate(target.lines), limits=Limits()))
    assert all(isinstance(one, Event) for one in found), found
    return found  # type: ignore[return-value]


def test_an_event_is_numbered_timed_and_sent_as_it_was_returned() -> None:
    target = GatedTarget(is_open=True)
    with Reporter(target, process="cart", execution="run-1", time_ns=lambda: 1234) as reporter:
        opened = reporter.event("opened")
        failed = reporter.event("failed", sends=["m2"], receives=["m1"], attributes={"n": 1.5, "ok": False}, time=7)
    assert opened == Event(process="cart", index=1, execution="run-1", time=1234, name="opened")
    assert failed == Event(
        process="cart",
        index=2,
        execution="run-1",
        sends=("m2",),
        receives=("m1",),
        time=7,
        name="failed",
        attributes={"n": "1.5", "ok": "false"},
    )
    assert read_back(target) == [opened, failed]
    assert target.closed


def test_indexes_follow_the_order_of_calls_of_each_of_16_threads() -> None:
    target = GatedTarget(is_open=True)
    reporter = Reporter(target, process="p")
    begin = threading.Barrier(16)
    returned: dict[int, list[int]] = defaultdict(list)

    def work(thread: int) -> None:
        begin.wait()
        for _ in range(200):
            returned[thread].append(reporter.event(f"t{thread}").index)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reporter.close(MINUTE)
    assert target.indexes() == list(range(1, 3201))  # Sent in the order of numbers, none twice, none lost.
    for number, indexes in returned.items():
        assert indexes == sorted(indexes)
        assert [e["index"] for e in target.events() if e["name"] == f"t{number}"] == indexes


def test_with_a_clock_the_stamps_own_entry_is_the_index_whatever_the_threads() -> None:
    target = GatedTarget(is_open=True)
    reporter = Reporter(target, process="p", stamps=True)
    others = [VectorClock(f"q{number}") for number in range(8)]

    def work(other: VectorClock) -> None:
        for number in range(50):
            reporter.receiving("got", f"{other.process}-{number}", stamp=other.tick().to_text())
            other.receive(VectorStamp.from_text(reporter.sending("gave").stamp or ""))

    threads = [threading.Thread(target=work, args=(other,)) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reporter.close(MINUTE)
    events = read_back(target)
    assert [event.index for event in events] == list(range(1, 801))
    assert all(event.clock is not None and event.clock["p"] == event.index for event in events)
    assert events[-1].clock is not None
    assert {process: events[-1].clock[process] for process in ("q0", "q7")} == {"q0": 99, "q7": 99}


def test_a_message_carries_its_id_and_the_stamp_of_its_send() -> None:
    target = GatedTarget(is_open=True)
    with (
        Reporter(target, process="cart", stamps=True) as sender,
        Reporter(target, process="stock", stamps=True) as receiver,
    ):
        sender.event("opened")
        sent = sender.sending("reserve")
        received = receiver.receiving("reserved", sent.message, stamp=sent.stamp)
    assert (sent.message, sent.event.sends) == ("cart:2", ("cart:2",))
    assert VectorStamp.from_text(sent.stamp or "").to_dict() == {"cart": 2}
    assert received.receives == ("cart:2",)
    assert received.clock == {"cart": 2, "stock": 1}


def test_a_message_may_have_an_id_of_its_own_and_needs_no_clock() -> None:
    with Reporter(GatedTarget(is_open=True), process="cart") as reporter:
        sent = reporter.sending("reserve", "m1")
        received = reporter.receiving("answer", "m2", stamp="whatever came")
    assert (sent.message, sent.stamp, sent.event.clock) == ("m1", None, None)
    assert (received.receives, received.clock) == (("m2",), None)


@pytest.mark.parametrize("stamp", ["no stamp", "\udcff", "x" * 100_000, VectorStamp({"p": 99}).to_text()])
def test_a_peers_bad_stamp_does_not_raise_but_is_noted(stamp: str) -> None:
    with Reporter(GatedTarget(is_open=True), process="p", stamps=True) as reporter:
        event = reporter.receiving("got", "m1", stamp=stamp)
        after = reporter.event("after")
        refused = reporter.status().stamps_refused
    assert (event.index, event.receives, event.clock) == (1, ("m1",), None)
    assert event.attributes["stamp.refused"]
    assert (after.clock, refused) == ({"p": 2}, 1)


def test_a_clock_of_the_application_may_be_held_around_a_report() -> None:
    clock = VectorClock("p")
    with Reporter(GatedTarget(is_open=True), process="p", clock=clock) as reporter:
        with clock.locked():
            clock.merge(VectorStamp({"q": 3}))
            event = reporter.event("both")
        assert reporter.clock is clock
    assert event.clock == {"p": 1, "q": 3}


def test_a_clock_that_ticked_before_goes_on_and_start_goes_on_without_one() -> None:
    clock = VectorClock("p", start=VectorStamp({"p": 6}))
    with Reporter(GatedTarget(is_open=True), process="p", clock=clock) as first:
        assert first.event("next").index == 7
    with Reporter(GatedTarget(is_open=True), process="p", start=7) as second:
        assert second.event("next").index == 7
    with Reporter(GatedTarget(is_open=True), process="p", start=7, stamps=True) as third:
        assert third.event("next").clock == {"p": 7}


def test_a_stamp_that_the_application_made_is_kept_as_it_came() -> None:
    with Reporter(GatedTarget(is_open=True), process="p") as reporter:
        assert reporter.event("a", clock=VectorStamp({"p": 4})).clock == {"p": 4}
        assert reporter.event("b", clock={"p": 5}).clock == {"p": 5}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 3},
        {"sends": "m1"},
        {"sends": [""]},
        {"sends": ["m", "m"]},
        {"receives": [1]},
        {"receives": 5},
        {"attributes": ["a"]},
        {"attributes": {"a": object()}},
        {"attributes": {1: "a"}},
        {"time": 1.5},
        {"time": 2**64},
        {"clock": {"p": -1}},
    ],
)
def test_wrong_arguments_raise_and_take_no_index(wrong: dict[str, object]) -> None:
    with Reporter(GatedTarget(is_open=True), process="p") as reporter:
        with pytest.raises(ValueError, match=next(iter(wrong)).removesuffix("s")):
            reporter.event(**{"name": "x", **wrong})  # type: ignore[arg-type]
        assert reporter.event("right").index == 1


def test_a_reporter_with_a_clock_takes_no_other() -> None:
    with Reporter(GatedTarget(is_open=True), process="p", stamps=True) as reporter:
        with pytest.raises(ValueError, match="clock"):
            reporter.event("x", clock={"p": 1})
        assert reporter.event("right").index == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"process": ""}, "process is empty"),
        ({"process": "\udcff"}, "UTF-8"),
        ({"process": "p" * 2000}, "at most"),
        ({"start": 0}, "start 0"),
        ({"clock": VectorClock("q")}, "its own process"),
        ({"drop": "all"}, "newest, oldest and wait"),
        ({"linger": -1.0}, "seconds"),
        ({"target": "ftp://host/x"}, "ftp is not known"),
        ({"target": "file://elsewhere/x"}, "this machine"),
        ({"target": "http://user@host/"}, "give a token"),
        ({"target": "http:///x"}, "like http"),
        ({"target": "http://host/?a=1"}, "after a"),
        ({"target": "http://host:99999/"}, "url"),
        ({"target": "http://host/a b"}, "blanks"),
        ({"target": "http://host", "token": "a\r\nb"}, "token"),
        ({"target": 5}, "target is int"),
        ({"token": "t"}, "only a target"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(options: dict[str, object], said: str) -> None:
    options = {"target": GatedTarget(), "process": "p", **options}
    with pytest.raises(InputError, match=said) as raised:
        Reporter(**options)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


class _Names(StrEnum):
    OPENED = "opened"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\udcffb", "a\\udcffb"),
        ("nul\0 in it", "nul\0 in it"),
        ("line\nbreak\u2028", "line\nbreak\u2028"),
        ("<script>\u202e", "<script>\u202e"),
        ("", ""),
        (_Names.OPENED, "opened"),
        ("x" * 10_000_000, "x" * 1000 + "… (10000000 characters)"),
        ("\udcff" * 10_000_000, "\\udcff" * 1000 + "… (10000000 characters)"),
    ],
)
def test_hostile_text_is_reported_and_read_back(name: str, shown: str) -> None:
    target = GatedTarget(is_open=True)
    with Reporter(target, process="p") as reporter:
        event = reporter.event(name, attributes={name[:10]: name}, sends=[f"m{name[:10]}"])
    assert event.name == shown
    assert read_back(target) == [event]
    assert reporter.status().cut == (len(name) > 1000)


def test_an_event_that_is_too_large_keeps_its_messages_and_loses_its_attributes() -> None:
    target = GatedTarget(is_open=True)
    attributes = {f"key-{number}": "v" * 9_000 for number in range(100)}
    with Reporter(target, process="p") as reporter:
        event = reporter.event("large", receives=["m1"], attributes=attributes)
    assert list(event.attributes) == ["reporter.cut"]
    assert event.attributes["reporter.cut"].startswith("attributes left out: the event has 90")
    assert event.receives == ("m1",)
    assert read_back(target) == [event]
    assert (reporter.status().cut, reporter.dropped) == (1, {})


def test_an_event_too_large_even_so_is_dropped_and_told() -> None:
    target = GatedTarget(is_open=True)
    with Reporter(target, process="p", limits=ReportLimits(event_bytes_max=1000)) as reporter:
        reporter.event("many", sends=[f"message-{number}" for number in range(1000)])
        assert reporter.event("after").index > 1
    assert reporter.dropped == {"too-large": 1}
    (note,) = [event for event in read_back(target) if event.name != "after"]
    assert note.name == "reporter dropped 1 event"
    assert note.attributes == {
        "level": "warn",
        "reporter.dropped": "1",
        "reporter.dropped.indexes": "1",
        "reporter.dropped.reasons": "too-large=1",
    }


def test_process_name_is_the_same_in_one_program_and_names_service_host_and_pid() -> None:
    import os
    import socket

    name = process_name("cart")
    assert name == process_name("cart")
    assert name.startswith(f"cart@{socket.gethostname()}:{os.getpid()}:")
    with pytest.raises(InputError, match="service is empty"):
        process_name("")
