"""`beforehand chat` on real terminals: an answer before its question, or not, as the order has it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from free_ports import free_addresses

NAMES = ("ada", "bob", "cy")


class Terminal:
    """A chat on a terminal of its own."""

    def __init__(self, *words: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "beforehand", "chat", *words], stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, pattern: str, seconds: float = 40) -> None:
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            assert time.monotonic() < deadline, self.seen
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 65536).decode()

    def said(self) -> list[str]:
        """What was delivered, in order; the echo of what was typed has no name before it."""
        return re.findall(r"^(?:ada|bob|cy)(?: to [a-z, ]+)?: [^\r\n]*", self.seen, re.MULTILINE)

    def hush(self) -> None:
        """No echo, which could come within a line that is printed at the same time."""
        settings = termios.tcgetattr(self.master)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(self.master, termios.TCSANOW, settings)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@contextmanager
def chatting(order: str, names: tuple[str, ...] = NAMES) -> Iterator[list[Terminal]]:
    """Three people; what ada says reaches cy late."""
    peers = ",".join(f"{name}={place}" for name, place in free_addresses(names).items())
    terminals = [
        Terminal(
            "--name", name, "--peers", peers, "--order", order, *(["--delay", "cy=2000"] if name == "ada" else [])
        )
        for name in names
    ]
    try:
        for name, terminal in zip(names, terminals, strict=True):
            terminal.until(f"{name} listens")
        yield terminals
    finally:
        for terminal in terminals:
            terminal.end()


def converse(terminals: list[Terminal]) -> list[str]:
    """Ada asks, bob answers what he has read; what cy sees."""
    ada, bob, cy = terminals
    ada.type("lunch at noon?\n")
    bob.until(r"ada: lunch at noon\?")
    bob.type("yes\n")
    cy.until(r"(?s)bob: yes.*ada: lunch|ada: lunch.*bob: yes")
    return cy.said()


@pytest.mark.parametrize("order", ["unordered", "fifo", "rendezvous"])
def test_an_answer_can_come_before_its_question(order: str) -> None:
    """A rendezvous is with one at a time: bob has met ada, and answers, before cy has."""
    with chatting(order) as terminals:
        assert converse(terminals) == ["bob: yes", "ada: lunch at noon?"]


@pytest.mark.parametrize("order", ["causal", "total"])
def test_an_answer_never_comes_before_its_question(order: str) -> None:
    with chatting(order) as terminals:
        assert converse(terminals) == ["ada: lunch at noon?", "bob: yes"]


def told_and_asked(terminals: list[Terminal]) -> list[str]:
    """Ada tells cy something, then bob that she has; bob speaks to cy of it. What cy sees."""
    ada, bob, cy = terminals
    ada.type("@cy noon\n@bob cy knows\n")
    bob.until("ada to bob: cy knows")
    bob.type("@cy so when?\n")
    cy.until(r"(?s)bob to cy: so when.*ada to cy: noon|ada to cy: noon.*bob to cy: so when")
    return cy.said()


@pytest.mark.parametrize("order", ["unordered", "fifo"])
def test_of_lines_to_one_each_the_later_can_come_first(order: str) -> None:
    with chatting(order) as terminals:
        assert told_and_asked(terminals) == ["bob to cy: so when?", "ada to cy: noon"]


@pytest.mark.parametrize("order", ["causal", "rendezvous"])
def test_of_lines_to_one_each_the_later_never_comes_first(order: str) -> None:
    with chatting(order) as terminals:
        assert told_and_asked(terminals) == ["ada to cy: noon", "bob to cy: so when?"]


@pytest.mark.parametrize("order", ["unordered", "fifo", "causal", "rendezvous"])
def test_a_line_goes_to_those_whom_it_names_and_says_so(order: str) -> None:
    with chatting(order, (*NAMES, "dee")) as (ada, bob, cy, dee):
        bob.type("@ada,ada,bob a secret\n")
        ada.until("bob to ada: a secret")
        bob.type("@cy,ada for both\n")
        for terminal in (ada, cy):
            terminal.until("bob to ada, cy: for both")
        bob.type("@ada,cy,dee for each\n")
        for terminal in (ada, cy, dee):
            terminal.until("bob: for each")
        bob.type(" @cy for all\n")
        for terminal in (ada, bob, cy, dee):
            terminal.until("bob:  @cy for all")
    for_all = ["bob: for each", "bob:  @cy for all"]
    assert dee.said() == for_all
    assert cy.said() == ["bob to ada, cy: for both", *for_all]
    assert ada.said() == bob.said() == ["bob to ada: a secret", "bob to ada, cy: for both", *for_all]


@pytest.mark.parametrize(
    ("order", "line", "said"),
    [
        ("causal", "@bob,zoe psst", r"not sent: there is no 'zoe' here; there are: ada, bob, cy\r\n"),
        ("causal", "@ psst", r"not sent: there is no '' here; there are: ada, bob, cy\r\n"),
        ("causal", "@bob", r"not sent: write what you have to say after @bob\r\n"),
        ("causal", "@ada psst", r"not sent: you named yourself only\r\n"),
        ("total", "@bob psst", r"not sent: with --order total every line goes to all: leave out the names\r\n"),
    ],
)
def test_a_line_that_cannot_go_where_it_should_is_told_of_and_goes_nowhere(order: str, line: str, said: str) -> None:
    with chatting(order) as (ada, bob, _):
        ada.type(f"{line}\nhello\n")
        ada.until(said)
        bob.until("ada: hello")
        assert bob.said() == ["ada: hello"]


def test_when_three_talk_at_once_all_see_the_same_lines_in_the_same_order() -> None:
    """Problem 12.10 of Garg; what ada says to cy is late."""
    lines = [f"line {number}" for number in range(5)]
    with chatting("total") as terminals:
        for terminal in terminals:
            terminal.hush()
        for line in lines:
            for terminal in terminals:
                terminal.type(f"{line}\n")
        for terminal in terminals:
            for name in NAMES:
                terminal.until(f"{name}: line 4")
    ada, bob, cy = (terminal.said() for terminal in terminals)
    assert ada == bob == cy
    assert sorted(ada) == [f"{name}: {line}" for name in NAMES for line in lines]


def test_control_d_leaves_and_hostile_text_is_shown_as_text() -> None:
    with chatting("causal") as (ada, bob, cy):
        ada.type("\x1b[31mred\n")
        bob.until(r"ada: .*red")
        assert "\x1b[31m" not in "".join(bob.said())
        bob.type("\x04")
        assert bob.process.wait(20) == 0
        cy.process.send_signal(signal.SIGINT)
        assert cy.process.wait(20) in (0, 130)


def test_json_is_a_line_for_each_message() -> None:
    (place,) = free_addresses(["ada"]).values()
    done = subprocess.run(
        [sys.executable, "-m", "beforehand", "chat", "--name", "ada", "--peers", f"ada={place}", "--json"],
        input="hello \u2713\n\nbye\n",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert said == [
        {"sender": "ada", "to": [], "text": "hello \u2713"},
        {"sender": "ada", "to": [], "text": "bye"},
    ], done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--name", "ada", "--peers", "ada"), "is not NAME=HOST:PORT"),
        (("--name", "zoe", "--peers", "ada=127.0.0.1:1"), "'zoe' is not among the members ada"),
        (("--name", "ada", "--peers", "ada=127.0.0.1:1", "--delay", "bob=5"), "no other member"),
        (("--name", "ada", "--peers", "ada=127.0.0.1:1,bob=127.0.0.1:2", "--delay", "bob=soon"), "milliseconds"),
        (("--name", "ada", "--peers", "ada=0.0.0.0:0"), "needs a key or TLS"),
        (("--name", "ada", "--peers", "ada=127.0.0.1:0", "--key-file", "/nonexistent"), "cannot be read"),
        (("--name", "ada", "--peers", "ada=127.0.0.1:1", "--peers", "ada=127.0.0.1:2"), "'ada' has two addresses"),
    ],
)
def test_wrong_words_are_one_line_and_exit_2(words: tuple[str, ...], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "beforehand", "chat", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
