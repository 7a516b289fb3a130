"""`beforehand simulate`: the verdict, the figures, the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from beforehand.cli.command import beforehand
from beforehand.formats import read_events
from beforehand.ordering import PROTOCOLS


def simulate(*arguments: object) -> Result:
    return CliRunner().invoke(beforehand, ["simulate", *map(str, arguments)])


def document(*arguments: object) -> dict[str, object]:
    done = simulate(*arguments, "--json")
    return json.loads(done.stdout)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_keeps_its_promises_on_the_command_line(protocol: str) -> None:
    done = simulate(protocol, "--messages", 20)
    assert (done.exit_code, done.output.count("FAILED")) == (0, 0), done.output


def test_the_document_has_the_keys_of_the_design() -> None:
    found = document("skeen", "--processes", 3, "--messages", 10, "--seed", 4)
    assert found.keys() >= {
        "protocol",
        "seed",
        "processes",
        "messages",
        "deliveries",
        "packets",
        "guarantees",
        "latency",
    }
    assert (found["protocol"], found["seed"], found["processes"], found["messages"]) == ("skeen", 4, 3, 10)
    assert found["deliveries"] == 30
    assert found["packets"] == {"offer": 20, "proposal": 20, "final": 20}
    assert found["guarantees"]["total"] is True  # type: ignore[index]
    assert found["latency"].keys() == {"mean", "max"}  # type: ignore[attr-defined]


def test_the_same_command_gives_the_same_run() -> None:
    command = ("causal-broadcast", "--loss", 0.2, "--crashes", 2, "--evict", 1, "--seed", 9, "--json")
    assert simulate(*command).stdout == simulate(*command).stdout


def test_faults_are_made_up_for_and_told() -> None:
    done = simulate("lamport-total", "--loss", 0.2, "--repeat", 0.2, "--partitions", 1, "--crashes", 2, "--leave", 1)
    assert done.exit_code == 0
    assert "crashes: 2, left or evicted: 1" in done.output
    assert "resent" in done.output


def test_what_is_not_promised_may_break_without_a_failure() -> None:
    done = simulate("unordered", "--load", "answers", "--delay", "exponential", "--delay-ms-max", 50)
    assert done.exit_code == 0
    assert "BROKEN  (not promised)" in done.output


def test_a_broken_promise_is_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    from beforehand.ordering import Unordered
    from beforehand.sim import stack

    class Liar(Unordered):
        traits = PROTOCOLS["fifo"].traits

    monkeypatch.setattr(stack, "PROTOCOLS", {**PROTOCOLS, "fifo": Liar})
    done = simulate("fifo", "--delay-ms-max", 50)
    assert done.exit_code == 1
    assert "FAILED fifo order" in done.output


def test_the_run_is_written_as_native_events_and_drawn(tmp_path: Path) -> None:
    events, picture, page = tmp_path / "run.jsonl", tmp_path / "run.svg", tmp_path / "run.html"
    assert simulate("fifo", "--messages", 5, "--to", events, "--draw", picture).exit_code == 0
    assert simulate("fifo", "--messages", 5, "--draw", page).exit_code == 0
    assert sum(event.name.startswith("send") for event in read_events(events)) == 5  # type: ignore[union-attr]
    assert picture.read_text().startswith("<svg")
    assert "<html" in page.read_text()


def test_nothing_is_run_or_written_for_a_picture_of_no_known_kind(tmp_path: Path) -> None:
    done = simulate("fifo", "--to", tmp_path / "run.jsonl", "--draw", tmp_path / "run.png")
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_saved_scenario_replays(tmp_path: Path) -> None:
    first = simulate("skeen", "--loss", 0.3, "--save", tmp_path / "s.json", "--json").stdout
    assert simulate("--replay", tmp_path / "s.json", "--json").stdout == first


def test_without_a_protocol_they_are_listed() -> None:
    done = simulate()
    assert done.exit_code == 0
    assert all(name in done.output for name in PROTOCOLS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("no-such",), "there is no protocol 'no-such'; there are: unordered, fifo"),
        (("fifo", "--option", "speed"), "NAME=VALUE"),
        (("fifo", "--option", "speed=3"), "fifo has no option 'speed'; it has: pending_max"),
        (("skeen", "--option", "start=soon"), "skeen does not take these options"),
        (("fifo", "--processes", 3, "--evict", 2), "a majority must stay"),
        (("timed-delivery", "--evict", 1), "timed-delivery has no views: its members stay"),
        (("timed-delivery", "--leave", 1), "nobody can leave, be evicted or join"),
        (("causal-merge", "--join", 1), "causal-merge has no views"),
        (("fifo", "--draw", "run.png"), "must end in .html or .svg"),
        (("--replay", "nowhere.json"), "No such file"),
        (("--replay", "s.json", "--loss", 0.2), "--loss goes without --replay"),
        (("--replay", "s.json", "--option", "a=1"), "--option goes without --replay"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(arguments: tuple[object, ...], says: str) -> None:
    done = simulate(*arguments)
    assert done.exit_code != 0
    assert says in str(done.exception) + done.output
    assert "Traceback" not in done.output
