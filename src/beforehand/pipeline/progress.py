"""What a long analysis says while it runs: each step with its time and rate, and on a terminal how far Spark is."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Progress"]

INTERVAL_S: Final = 0.5
_BACK: Final = "\r\x1b[K"  # To the start of the line, and clear it.


class Progress:
    """Times every step. Says so on the stream unless quiet; on a terminal a line shows the step that is running.

    With `passing` that line is all: nothing stays of a step that is over.
    """

    def __init__(self, *, stream: TextIO | None = None, quiet: bool = False, passing: bool = False) -> None:
        chosen = sys.stderr if stream is None else stream
        self._shown = not quiet and chosen is not None  # None: standard error is closed.
        self._stream: TextIO = chosen
        self._stays = not passing
        self._live = self._shown and bool(getattr(self._stream, "isatty", lambda: False)())
        self._step = ""
        self._more = ""  # How far it is, if that is known.
        self._start = 0.0
        self._lock = threading.Lock()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, what: str, *, rows: int | None = None) -> Iterator[None]:
        self._step, self._more, self._start = what, "", time.perf_counter()
        try:
            with self._repeated(self._draw):
                yield
        except BaseException:
            self._end()
            self._clear()  # Whatever is said next stands alone on its line.
            raise
        taken = self._end()
        self.seconds[what] = self.seconds.get(what, 0.0) + taken
        rate = f", {rows / taken:,.0f} a second" if rows and taken > 0.5 else ""
        of = f" ({rows:,}{rate})" if rows else ""
        if self._stays:
            self._say(f"{taken:6.1f} s  {what}{of}")
        else:
            self._clear()

    def _end(self) -> float:
        with self._lock:
            self._step = ""
            return time.perf_counter() - self._start

    @contextmanager
    def watching(self, spark: SparkSession) -> Iterator[None]:
        """While the block runs, follow Spark's stages on a terminal."""
        with self._repeated(lambda: self._look(spark)):
            yield

    @contextmanager
    def _repeated(self, act: Callable[[], None]) -> Iterator[None]:
        """On a terminal, do this now and every while until the block ends."""
        if not self._live:
            yield
            return
        act()
        ended = threading.Event()

        def repeat() -> None:
            while not ended.wait(INTERVAL_S):
                act()

        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(timeout=2)

    def _look(self, spark: SparkSession) -> None:
        with suppress(Exception):  # The session may end in the middle of a question.
            tracker = spark.sparkContext.statusTracker()
            running = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in running if stage)
            total = sum(stage.numTasks for stage in running if stage)
            self._more = f", task {done} of {total}" if total else ""

    def _draw(self) -> None:
        with self._lock:
            if self._step:
                taken = time.perf_counter() - self._start
                line = f"{taken:6.1f} s  {self._step}{self._more} …"
                # A line that wraps could not be taken back. Columns are asked each time: windows change.
                self._stream.write(f"{_BACK}{line[: shutil.get_terminal_size().columns - 1]}")
                self._stream.flush()

    def _clear(self) -> None:
        with self._lock:
            if self._live:
                self._stream.write(_BACK)
                self._stream.flush()

    def _say(self, line: str) -> None:
        if self._shown:
            with self._lock:
                self._stream.write(f"{_BACK if self._live else ''}{line}\n")
                self._stream.flush()
