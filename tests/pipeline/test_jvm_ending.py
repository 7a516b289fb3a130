"""The JVM goes with its session, also when a second signal comes while we wait for its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from beforehand.pipeline.jvm import _end

STUBBORN = "import signal; print('up', flush=True); signal.pause()"
OBEDIENT = "import sys; print('up', flush=True); sys.stdin.read()"


class _SecondSignalError(BaseException):
    """As the command raises it for SIGTERM."""


@contextmanager
def child(code: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()  # A test that fails must not wait for it.


@contextmanager
def raised_soon(error: type[BaseException]) -> Iterator[None]:
    def raise_it(number: int, frame: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, raise_it)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_one_that_ends_by_itself_is_left_to_it() -> None:
    with child(OBEDIENT) as process:
        _end(process)
        assert process.returncode == 0


def test_a_second_signal_kills_one_that_takes_its_time_and_goes_on_its_way() -> None:
    with child(STUBBORN) as process:
        with pytest.raises(_SecondSignalError), raised_soon(_SecondSignalError):
            _end(process)
        assert process.returncode == -signal.SIGKILL


def test_a_second_ctrl_c_only_makes_it_faster() -> None:
    with child(STUBBORN) as process:
        with raised_soon(KeyboardInterrupt):
            _end(process)
        assert process.returncode == -signal.SIGKILL
