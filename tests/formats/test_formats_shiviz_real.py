"""Real ShiViz logs: everything is read, and every reported clock is confirmed."""

from __future__ import annotations

from collections import Counter

import pytest

from beforehand.formats.vector_logs.layouts import choose_layout
from beforehand.formats.vector_logs.shiviz import read_shiviz
from beforehand.history import History
from real_data import real_file
from vector_logs import split

VOLDEMORT = (
    r"\[(?<date>\d{4}-\d{2}-\d{2} (\d{2}:){2}\d{2},\d{3}) (?<path>\S*)\] (?<priority>(INFO|WARN)) (?<event>.*)\n"
    r"(?<host>.*) (?<clock>{.*})"
)
AKKA = r"\[\w+\] \[(?<date>([^ ]+ [^ ]+))\] [^ ]+ \[akka://Broadcast/user/(?<host>\w+)\] (?<clock>.*\}) (?<event>.*)"
FACEBOOK = (
    r"(?<ip>(\d{1,3}\.){3}\d{1,3}) (?<date>(\d{1,2}/){2}\d{4} (\d{2}:){2}\d{2} (AM|PM)) "
    r"(?<action>(INFO|GET|POST)) (?<event>.*)\n(?<host>\w*) (?<clock>.*)"
)
TSVIZ = r"(?<timestamp>(\d*)) (?<event>.*)\n(?<host>\w*) (?<clock>.*)"
DELIMITER = "^=== (?<trace>.*) ===$"


@pytest.mark.parametrize(
    ("name", "regex", "events", "processes", "received", "left_over"),
    [
        ("shiviz/chord.log", None, 1235, 8, 541, []),
        ("shiviz/simpledb.log", None, 509, 5, 85, []),
        ("shiviz/voldemort.log", VOLDEMORT, 864, 20, 34, ["."]),
        ("shiviz/reliable-broadcast.log", AKKA, 116, 4, 48, ["[INFO] [10/13/2014"]),
        ("shiviz/tsviz_shared_var_4_threads.log", TSVIZ, 5000, 4, 548, []),
        ("tracing/echo-shiviz.log", None, 169, 3, 40, []),
    ],
)
def test_real_log_is_read_whole_and_its_clocks_are_confirmed(
    name: str, regex: str | None, events: int, processes: int, received: int, left_over: list[str]
) -> None:
    found, rejections = split(read_shiviz(real_file(name), regex=regex))
    history = History(found)

    assert len(history) == events
    assert len(history.processes) == processes
    assert sum(bool(e.receives) for e in found) == received
    assert [r.text[:18] for r in rejections] == left_over
    assert history.check().counts["clock"] == 0
    assert not history.rejections


def test_real_log_with_times_keeps_them() -> None:
    found, _ = split(read_shiviz(real_file("shiviz/tsviz_shared_var_4_threads.log"), regex=TSVIZ))

    assert found[0].time == 256824341944726
    assert all(e.time is not None for e in found)


@pytest.mark.parametrize(
    ("name", "events", "processes"),
    [
        ("facebook-multiple.log", {"Execution #1": 47, "Execution #2": 41}, {4}),
        (
            "multiple-comparison.log",
            {
                "Base execution": 8,
                "Same as base": 8,
                "Different host from base": 8,
                "All events are different from base": 8,
                "Some events are different from base": 8,
            },
            {2},
        ),
    ],
)
def test_real_log_of_several_executions(name: str, events: dict[str, int], processes: set[int]) -> None:
    found, rejections = split(read_shiviz(real_file(f"shiviz/{name}"), regex=FACEBOOK, delimiter=DELIMITER))
    histories = History.by_execution(found)

    assert not rejections
    assert Counter(e.execution for e in found) == events
    assert {len(history.processes) for history in histories.values()} == processes
    assert sum(history.check().counts["clock"] for history in histories.values()) == 0


def test_real_log_of_train_ticket() -> None:
    lines = real_file("train-ticket/regex.txt").read_text().split("\n")

    found, rejections = split(read_shiviz(real_file("train-ticket/shiviz.log"), regex=lines[2], delimiter=lines[-1]))
    [history] = History.by_execution(found).values()

    assert not rejections
    assert history.execution == "TestCase1 case1\\success\\example Success execution 1"
    assert (len(history), len(history.processes), sum(bool(e.receives) for e in found)) == (314, 16, 156)
    assert history.check().counts["clock"] == 0


def test_layout_of_real_logs_is_clear() -> None:
    chord = choose_layout(real_file("shiviz/chord.log").read_text())
    simpledb = choose_layout(real_file("shiviz/simpledb.log").read_text())

    assert (chord.layout.name, chord.clear) == ("govector", True)
    assert (simpledb.layout.name, simpledb.clear) == ("shiviz", True)
