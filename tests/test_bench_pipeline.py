"""What the runs of the pipeline become: ratios to the sorts beside them, growth, plots. No Spark runs here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import pipeline, pipeline_processes
from benchmarks.pipeline import Peak, Run, samples
from benchmarks.plots import plot_of
from benchmarks.report import Figure


def run(events: int, processes: int, seconds: list[float], baseline: list[float], **rivals: float) -> Run:
    steps = {"match": [second / 2 for second in seconds]}
    made = Run(events, processes, seconds, baseline, Peak(100, 2_000, 900), {}, steps)
    made.unread_ms, made.in_memory_ms, made.in_a_row_ms, made.command_s = [30.0, 40.0], [3.0], [4.0], [1.0, 1.2]
    made.rivals = rivals
    return made


ONE = run(1_000_000, 200, [40.0, 30.0], [5.0, 15.0, 25.0], rustworkx=2.5)
TEN = run(10_000_000, 200, [110.0], [20.0, 30.0])
THIRTY = run(30_000_000, 200, [330.0], [100.0, 100.0])


def test_a_ratio_is_to_the_sorts_before_and_after_the_same_run() -> None:
    assert ONE.ratios == [4.0, 1.5]
    assert pipeline.report([ONE]).figure("growth", ("1,000,000",), "ratio") == Figure(2.75, 2, 1.5, 4.0)


def test_what_ran_once_has_no_spread() -> None:
    made = pipeline.report([ONE, TEN])
    assert made.figure("growth", ("10,000,000",), "seconds") == Figure(110.0, 1)
    assert made.figure("growth", ("10,000,000",), "sort and write, s") == Figure(25.0, 1, 20.0, 30.0)
    table = made.table("growth")
    assert table is not None
    assert "beyond, one run" in table.how


def test_a_rival_that_was_not_asked_has_no_figure() -> None:
    made = pipeline.report([ONE, TEN])
    assert made.figure("explaining", ("1,000,000",), "rustworkx, s") == Figure(2.5, 1)
    assert made.figure("explaining", ("10,000,000",), "rustworkx, s") is None


def test_growth_from_ten_million_events_on_is_said() -> None:
    (first, *_) = pipeline.report([ONE, TEN, THIRTY]).sections
    assert first.after == "Time for 30,000,000 events over 3 times that for 10,000,000: 1.00."


def test_processes_are_the_rows_where_they_are_varied() -> None:
    made = pipeline_processes.report([run(1_000_000, n, [30.0], [10.0, 10.0]) for n in (10, 1_000)])
    assert made.figure("processes", ("1,000",), "ratio") == Figure(3.0, 2)
    svg = plot_of(made)
    assert svg is not None
    assert "pipeline: 3 at 1,000" in svg


def test_events_are_asked_for_that_every_process_has() -> None:
    for events, processes in ((10_000, 100), (1_000_000, 1_000), (1_000_000, 10)):
        asked = samples(run(events, processes, [1.0], [1.0, 1.0]))
        each = events // processes
        assert len(asked) == 25
        assert all(0 <= process < processes and each // 2 <= index <= each * 0.9 for process, index in asked)
