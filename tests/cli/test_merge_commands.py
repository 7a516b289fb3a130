"""`merge --live`, `publish` and `subscribe` as people use them: as processes, with their words and exit statuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beforehand.runtime import EmbeddedBroker
from free_ports import free_port

SETTINGS = ("--epsilon", "10", "--delta", "100")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.url


def command(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "beforehand", *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def fails(*words: str) -> str:
    """Exit status 2 and one line."""
    done = command(*words)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_from_nothing_to_a_merged_topic(tmp_path: Path) -> None:
    place = f"nats://127.0.0.1:{free_port()}"
    merging = [
        "merge",
        "--live",
        "--embedded-broker",
        "--from",
        f"{place}/ORDERS",
        "--to",
        f"{place}/MERGED",
        *SETTINGS,
    ]
    merger = subprocess.Popen([sys.executable, "-m", "beforehand", *merging], stderr=subprocess.PIPE, text=True)
    assert merger.stderr is not None
    assert merger.stderr.readline() == f"broker: {place}\n"
    target = ("--to", f"{place}/ORDERS", "--channel", "ORDERS.new", *SETTINGS)
    deadline = time.monotonic() + 20
    while (said := command("publish", *target, "--publisher", "alice", text="a 1\na 2\n")).returncode:
        assert "no such stream" in said.stderr  # The merger makes it as it starts.
        assert time.monotonic() < deadline
    command("publish", *target, "--publisher", "bob", text="b 1\nb 2")

    got = command("subscribe", "--from", f"{place}/MERGED", "--channel", "ORDERS.new", "--limit", "4")

    assert got.stdout == "1  alice:1  a 1\n2  alice:2  a 2\n3  bob:3  b 1\n4  bob:4  b 2\n"
    merger.send_signal(signal.SIGTERM)
    _, last = merger.communicate(timeout=20)
    assert merger.returncode == 0
    assert last == "4 delivered; 0 set aside; 0 waiting in 1 channel(s)\n"


def test_lines_go_to_a_file_and_what_is_set_aside_beside_it(url: str, tmp_path: Path) -> None:
    publishing = ("publish", "--to", f"{url}/FILED", "--channel", "FILED.a", "--publisher", "p")
    making = ("merge", "--live", "--once", "--create", "--from", f"{url}/FILED", *SETTINGS)
    assert command(*making, "--to", str(tmp_path / "empty")).returncode == 0
    done = command(*publishing, *SETTINGS, "--json", text="one\ntwo\r\n\nfour")
    sequences = {"first_sequence": 1, "last_sequence": 4}
    assert json.loads(done.stdout) == {"publisher": "p", "channel": "FILED.a", "messages": 4, **sequences}
    command(*publishing, "--epsilon", "20", "--delta", "100", text="other settings\n")
    target = tmp_path / "out.jsonl"

    done = command(*making, "--to", str(target), "--json")

    assert json.loads(done.stdout)["set_aside"] == {"other bounds": 1}
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert [record["payload"] for record in records] == ["one", "two", "", "four"]
    assert [record["position"] for record in records] == [1, 2, 3, 4]
    aside = json.loads((tmp_path / "out.jsonl.set-aside").read_text())
    assert (aside["reason"], aside["payload"]) == ("other bounds", "other settings")
    assert "is there already" in fails(*making, "--to", str(target))
    again = command(*making, "--to", "-")
    assert again.stdout == target.read_text()
    assert command(*making, "--to", str(target), "--replace").returncode == 0
    assert again.stdout == target.read_text()


def test_a_publisher_that_is_stopped_says_what_is_stored(url: str) -> None:
    command("merge", "--live", "--once", "--create", "--from", f"{url}/STOP", "--to", "-", *SETTINGS)
    words = ("publish", "--to", f"{url}/STOP", "--channel", "STOP.a", "--publisher", "p", *SETTINGS)
    publisher = subprocess.Popen(
        [sys.executable, "-m", "beforehand", *words],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert publisher.stdin is not None
    publisher.stdin.write("one\ntwo\n")
    publisher.stdin.flush()
    deadline = time.monotonic() + 30
    while "two" not in command("merge", "--live", "--once", "--from", f"{url}/STOP", "--to", "-", *SETTINGS).stdout:
        assert time.monotonic() < deadline
    publisher.send_signal(signal.SIGINT)

    _, said = publisher.communicate(timeout=30)

    assert publisher.returncode == 130
    assert said.startswith("published 2 message(s): numbers 1 to 2 are stored\n")
    assert "Traceback" not in said


def test_a_subscriber_may_begin_at_a_position_and_have_lines_of_json(url: str) -> None:
    merging = ("merge", "--live", "--once", "--create", "--from", f"{url}/SUB", "--to", f"{url}/SUBBED", *SETTINGS)
    command(*merging)
    command("publish", "--to", f"{url}/SUB", "--channel", "SUB.a", "--publisher", "p", *SETTINGS, text="1\n2\n3\n")
    command("publish", "--to", f"{url}/SUB", "--channel", "SUB.b", "--publisher", "q", *SETTINGS, text="\x1b[31m\n")
    command(*merging)

    got = command(
        "subscribe", "--from", f"{url}/SUBBED", "--channel", "SUB.a", "--from-position", "2", "--once", "--json"
    )

    assert [json.loads(line)["payload"] for line in got.stdout.splitlines()] == ["2", "3"]
    every = command("subscribe", "--from", f"{url}/SUBBED", "--once").stdout
    assert "SUB.b 1  q:4" in every
    assert "\x1b" not in every


@pytest.mark.parametrize(
    "words",
    [
        ("merge", "--live", "--from", "PLACE/IN", "--to", "PLACE/OUT", *SETTINGS),
        ("merge", "--live", "--from", "PLACE/IN", "--to", "-", *SETTINGS),
        ("publish", "--to", "PLACE/IN", "--channel", "a", "--publisher", "p", *SETTINGS),
        ("subscribe", "--from", "PLACE/OUT"),
    ],
)
def test_a_broker_that_is_not_there_is_one_line_and_exit_2(words: tuple[str, ...]) -> None:
    place = f"nats://user:hunter2@127.0.0.1:{free_port()}"
    said = fails(*(word.replace("PLACE", place) for word in words))

    assert "nothing listens there" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("merge", "--live", "--from", "IN", "--to", "-", *SETTINGS), "--from: give a stream"),
        (("merge", "--live", "--from", "nats://h", "--to", "-", *SETTINGS), "name a stream"),
        (("merge", "--live", "--from", "nats://h/A", "--to", "nats://h/A", *SETTINGS), "same stream"),
        (("merge", "--live", "--from", "nats://h/A", "--to", "-", "--json", *SETTINGS), "standard output"),
        (("merge", "--live", "--from", "nats://h/A", "--to", "-", "--lanes", "2", *SETTINGS), "--lanes is for"),
        (("merge", "--from", "nats://h/A", "--to", "x", "--embedded-broker", *SETTINGS), "with --live"),
        (("merge", "--from", "nats://h/A", "--to", "x", *SETTINGS), "--checkpoint"),
        (("merge", "--live", "--from", "nats://h/A", "--to", "-", "--epsilon", "-1", "--delta", "1"), "--epsilon"),
        (("merge", "--live", "--from", "nats://h/A", "--to", "-", "--epsilon", "1"), "--delta"),
        (("merge", "--live", "--from", "nats://h/A", "--to", "-", "--embedded-broker", *SETTINGS), "127.0.0.1 only"),
        (("merge", "--live", "--from", "nats://h/A", "--to", "-", "--broker-data", "x", *SETTINGS), "--broker-data"),
        (("merge", "--live", "--from", "nats://h/A", "--to", "nats://h/B?subject=x", *SETTINGS), "prefix"),
        (("merge", "--live", "--from", "nats://h/A?prefix=x", "--to", "-", *SETTINGS), "subject"),
        (("publish", "--to", "A", "--channel", "a", "--publisher", "p", *SETTINGS), "--to: give a stream"),
        (("subscribe", "--from", "nats://h/A?subject=x"), "--channel"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(words: tuple[str, ...], what: str) -> None:
    assert what in fails(*words)


def test_of_two_files_to_write_none_is_made_if_one_is_there(tmp_path: Path) -> None:
    (tmp_path / "out.set-aside").write_text("mine")
    words = ("merge", "--live", "--from", "nats://127.0.0.1:9/A", "--to", str(tmp_path / "out"), *SETTINGS)
    assert "out.set-aside is there already" in fails(*words)
    assert [path.name for path in tmp_path.iterdir()] == ["out.set-aside"]
