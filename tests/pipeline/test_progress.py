"""What an analysis says while it runs: lines that stay, and on a terminal one that passes."""

from __future__ import annotations

import io
import re
import threading

import pytest

from beforehand.pipeline.progress import Progress


class Terminal(io.StringIO):
    """Says that it is one, and tells when it was written to for the n-th time."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.third = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.writes += 1
        if self.writes == 3:
            self.third.set()
        return super().write(text)


def test_each_step_leaves_a_line_with_its_time() -> None:
    stream = io.StringIO()
    progress = Progress(stream=stream)
    with progress.step("read"):
        pass
    with progress.step("write", rows=5):
        pass
    assert re.fullmatch(r" +0\.0 s  read\n +0\.0 s  write \(5\)\n", stream.getvalue())
    assert list(progress.seconds) == ["read", "write"]


def test_on_a_terminal_the_line_of_a_long_step_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beforehand.pipeline.progress.INTERVAL_S", 0.01)
    terminal = Terminal()
    with Progress(stream=terminal).step("read"):
        assert terminal.third.wait(20), "the time that has passed is drawn again and again"
    assert re.fullmatch(r"(\r\x1b\[K +\d\.\d s  read …)+\r\x1b\[K +\d\.\d s  read\n", terminal.getvalue())


def test_of_a_passing_step_nothing_stays() -> None:
    for stream in (io.StringIO(), Terminal()):
        progress = Progress(stream=stream, passing=True)
        with progress.step("read"):
            pass
        assert stream.getvalue().split("\r\x1b[K")[-1] == ""
        assert "\n" not in stream.getvalue()
        assert list(progress.seconds) == ["read"]


def test_a_step_that_fails_leaves_nothing_and_is_not_counted() -> None:
    terminal = Terminal()
    progress = Progress(stream=terminal)
    with pytest.raises(ZeroDivisionError), progress.step("read"):
        raise ZeroDivisionError
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert progress.seconds == {}


def test_nobody_is_told_where_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    progress = Progress()
    with progress.step("read"):
        pass
    assert list(progress.seconds) == ["read"]
