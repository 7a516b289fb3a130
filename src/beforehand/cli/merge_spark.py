"""`beforehand merge` on Spark: from what was asked for to a query that runs, with its progress and its end.

Light to import: Spark is loaded when the merge starts. Ctrl-C and SIGTERM end the merge in good order: the
micro-batch that runs is given up, and will be run again, with the same result, at the next start.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from beforehand.cli.extras import need
from beforehand.cli.live_line import LiveLine
from beforehand.pipeline.merging.options import SparkMergeOptions

__all__ = ["SparkMergeOptions", "run_on_spark"]


def run_on_spark(options: SparkMergeOptions) -> dict[str, Any]:
    """Merge until there is no more (`once`) or until interrupted; says and returns the figures of the merge."""
    if options.flush and not options.once:
        raise click.UsageError("--flush says that no more will come: it is for --once")
    need("pipeline", "pyspark", "pyarrow", "pandas", "numba")
    from beforehand.pipeline.jobs.merge import check_before, run_merge
    from beforehand.pipeline.merging.stream import STREAM_CONF
    from beforehand.pipeline.session import session

    check_before(options)
    line = LiveLine()
    with _stopping() as stop, session(master=options.master, conf={**STREAM_CONF, **dict(options.conf)}) as spark:
        line.show(lambda: "starting …")
        try:
            figures = run_merge(spark, options, stop=stop, watch=lambda figures: line.show(lambda: _told(figures)))
        finally:
            line.clear()
    if options.as_json:
        click.echo(json.dumps(figures))
    else:
        click.echo(_told(figures), err=True)
    return figures


def _told(figures: dict[str, Any]) -> str:
    aside = sum(figures["set_aside"].values())
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(figures["set_aside"].items()))
    waiting, size = figures["waiting"], figures["waiting_bytes"] / 1e6
    parts = [
        f"{figures['delivered']:,} delivered",
        f"{aside:,} set aside{f' ({reasons})' if aside else ''}",
        f"{waiting:,} waiting in {figures['channels']:,} channel(s) ({size:.1f} MB)",
    ]
    if figures["time"] is not None and figures["waiting"]:
        parts.append(f"{max(0.0, (time.time_ns() - figures['time']) / 1e9):.1f} s behind")
    return "; ".join(parts)


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, instead of breaking into whatever runs. A second one breaks in."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def heard(number: int, frame: object) -> None:  # noqa: ARG001
        stop.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in numbers:
        signal.signal(number, heard)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
