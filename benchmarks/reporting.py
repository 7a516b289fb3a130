"""Reporting: what one event costs the program that reports it, beside a log line to a file; memory at the bound.

python -m benchmarks.reporting
"""

from __future__ import annotations

import logging
import socket
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from beforehand.clocks import VectorClock, VectorStamp
from beforehand.reporting import Reporter, ReportingHandler, ReportLimits
from benchmarks.report import (
    ONE_RUN,
    Figure,
    Report,
    Row,
    Section,
    Table,
    deliver,
    median_of,
    report_of,
    target,
)
from benchmarks.timing import REPEATS, Timing, compare

__all__ = ["report"]

BASELINE = "logging to a file"
ATTRIBUTES = {"level": "error", "order": "o-4711"}
STAMP_ENTRIES = 50


def report() -> Report:
    timings = event_timings()
    calls = tuple(
        Row(
            (name,),
            (timing.figure(per=1_000, digits=1), Figure.of([timing.over(timings[BASELINE])], digits=2)),
        )
        for name, timing in timings.items()
    )
    held = tuple(
        Row((f"{reported:,}",), (Figure(queued), Figure(dropped), Figure.of([megabytes], digits=1)))
        for reported, queued, dropped, megabytes in memory_at_the_bound()
    )
    return report_of(
        "reporting",
        [
            Section(
                "",
                "Microseconds per call in the thread that reports; ratio to a call of `logging` with a `FileHandler` "
                "and a plain formatter in the same run. Another thread takes the events at the same time (a target "
                "that throws them away), and needs the same interpreter lock.",
                Table("calls", ("call", "µs", "ratio"), calls, median_of(REPEATS, "All in turns.")),
            ),
            Section(
                "Memory at the bound",
                "Held by tracemalloc, with a server that does not answer, default limits, events of two attributes.",
                Table("memory", ("events reported", "queued", "dropped", "MB"), held, ONE_RUN),
            ),
        ],
    )


def event_timings() -> dict[str, Timing]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        plain = stack.enter_context(Reporter(_throw_away, process="p"))
        known = VectorStamp({f"node-{number:04}": 1000 + number for number in range(STAMP_ENTRIES - 1)})
        clock = VectorClock("p", start=known)
        stamped = stack.enter_context(Reporter(_throw_away, process="p", clock=clock))
        to_file = stack.enter_context(Reporter(folder / "events.jsonl", process="p"))
        logged = stack.enter_context(Reporter(_throw_away, process="p"))
        dead = Reporter(_refuse, process="p", limits=ReportLimits(events_max=1))
        stack.callback(dead.close, 0.0)
        dead.event("fills the queue")
        file_log = _logger("file", logging.FileHandler(folder / "log.txt"), stack)
        report_log = _logger("reports", ReportingHandler(logged), stack)
        calls: dict[str, Callable[[], object]] = {
            BASELINE: lambda: file_log.error("checkout of %s failed", "o-4711"),
            "`event`": lambda: plain.event("checkout failed", attributes=ATTRIBUTES),
            "`event`, to a file": lambda: to_file.event("checkout failed", attributes=ATTRIBUTES),
            f"`event`, stamped, {STAMP_ENTRIES} entries": lambda: stamped.event("checkout failed"),
            "`event`, dropped at a full queue": lambda: dead.event("checkout failed", attributes=ATTRIBUTES),
            "`logging` with a `ReportingHandler`": lambda: report_log.error("checkout of %s failed", "o-4711"),
        }
        return compare(calls)


def memory_at_the_bound() -> Iterator[tuple[int, int, int, float]]:
    with socket.socket() as silent:  # Takes connections and never answers.
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        reporter = Reporter(f"http://127.0.0.1:{silent.getsockname()[1]}", process="p")
        reported = 0
        for events in (25_000, 25_000, 50_000, 100_000):
            for _ in range(events):
                reporter.event("checkout failed", attributes=ATTRIBUTES)
            reported += events
            status = reporter.status()
            held = tracemalloc.get_traced_memory()[0] - before
            yield reported, status.queued, sum(status.dropped.values()), held / 1e6
        tracemalloc.stop()
        logging.getLogger("beforehand.reporting").setLevel(logging.ERROR)
        reporter.close(0.0)


def _logger(name: str, handler: logging.Handler, stack: ExitStack) -> logging.Logger:
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger = logging.getLogger(f"benchmarks.reporting.{name}")
    logger.propagate = False
    logger.addHandler(handler)
    stack.callback(handler.close)
    stack.callback(logger.removeHandler, handler)
    return logger


def _throw_away(lines: Sequence[bytes]) -> None:
    """A target that costs nothing."""


def _refuse(lines: Sequence[bytes]) -> None:
    raise ConnectionError(f"{len(lines)} events, and nobody there")


if __name__ == "__main__":
    logging.getLogger("beforehand.reporting").addHandler(logging.NullHandler())
    sys.exit(deliver(report(), target(sys.argv[1:])[1]))
