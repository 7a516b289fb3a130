"""The pipeline on Spark with 10 to 1,000 processes, the number of events being the same.

    python -m benchmarks.pipeline_processes [MILLIONS]

Stamps have an entry for each process, so this is what their number costs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.pipeline import ABOUT, HOW, PACKAGES, Run, growth_table, measure, prepared
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, report_of, target

__all__ = ["main", "report"]

PROCESSES: Final = (10, 100, 1_000)


def report(runs: Sequence[Run]) -> Report:
    heads = tuple(f"{run.processes:,}" for run in runs)
    steps = tuple(
        Row((step,), tuple(Figure.of(run.steps[step], digits=1) if step in run.steps else None for run in runs))
        for step in dict.fromkeys(step for run in runs for step in run.steps)
    )
    calls = tuple(
        Row((f"{run.processes:,}",), (Figure.of(run.unread_ms), Figure.of(run.in_memory_ms, digits=1)))
        for run in runs
    )
    return report_of(
        "pipeline-processes",
        [
            Section("", "", growth_table(runs, name="processes", by="processes")),
            Section("Steps", "Seconds, by processes.", Table("steps", ("step", *heads), steps, HOW)),
            Section(
                "Explaining: the last 25 events that could have led to one",
                "",
                Table(
                    "explaining",
                    ("processes", "a block nobody read, ms", "a block in memory, ms"),
                    calls,
                    "Median of 25 events, in brackets the quartiles.",
                ),
            ),
        ],
        packages=PACKAGES,
        about=ABOUT,
    )


def main(arguments: Sequence[str]) -> int:
    rest, to = target(arguments)
    events = int(float(rest[0]) * 1_000_000) if rest else 1_000_000
    runs = []
    with prepared() as (spark, folder):
        for processes in PROCESSES:
            runs.append(measure(spark, folder, events, processes, rivals=False))
            print(f"{processes:,} processes: {runs[-1].seconds} s", file=sys.stderr, flush=True)
    return deliver(report(runs), to)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
