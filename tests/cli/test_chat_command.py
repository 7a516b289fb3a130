"""`beforehand chat` on real terminals: an answer before its question, or not, as the order has it."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
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
        return re.findall(r"^(?:ada|bob|cy): [^\r\n]*", self.seen, re.MULTILINE)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@contextmanager
def chatting(order: str) -> Iterator[list[Terminal]]:
    """Three people; what ada says reaches cy late."""
    peers = [word for name, place in free_addresses(NAMES).items() for word in ("--peer", f"{name}={place}")]
    terminals = [
        Terminal(name, *peers, "--order", order, *(["--delay", "cy=2000"] if name == "ada" else [])) for name in NAMES
    ]
    try:
        for name, terminal in zip(NAMES, terminals, strict=True):
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


@pytest.mark.parametrize("order", ["unordered", "fifo"])
def test_an_answer_can_come_before_its_question(order: str) -> None:
    with chatting(order) as terminals:
        assert converse(terminals) == ["bob: yes", "ada: lunch at noon?"]


@pytest.mark.parametrize("order", ["causal", "total"])
def test_an_answer_never_comes_before_its_question(order: str) -> None:
    with chatting(order) as terminals:
        assert converse(terminals) == ["ada: lunch at noon?", "bob: yes"]


def test_control_d_leaves_and_hostile_text_is_shown_as_text() -> None:
    with chatting("causal") as (ada, bob, cy):
        ada.type("\x1b[31mred\n")
        bob.until(r"ada: .*red")
        assert "\x1b[31m" not in "".join(bob.said())
        bob.type("\x04")
        assert bob.process.wait(20) == 0
        cy.process.send_signal(signal.SIGINT)
        assert cy.process.wait(20) in (0, 130)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ada", "--peer", "ada"), "is not NAME=HOST:PORT"),
        (("zoe", "--peer", "ada=127.0.0.1:1"), "'zoe' is not among the members ada"),
        (("ada", "--peer", "ada=127.0.0.1:1", "--delay", "bob=5"), "no other member"),
        (("ada", "--peer", "ada=127.0.0.1:1", "--peer", "bob=127.0.0.1:2", "--delay", "bob=soon"), "milliseconds"),
        (("ada", "--peer", "ada=0.0.0.0:0"), "needs a key or TLS"),
        (("ada", "--peer", "ada=127.0.0.1:0", "--key-file", "/nonexistent"), "cannot be read"),
    ],
)
def test_wrong_words_are_one_line_and_exit_2(words: tuple[str, ...], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "beforehand", "chat", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
