"""The same input gives the same order, stamps and violations, however the work was divided."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzing import CHEAP, order_of, report_of, rows_of, run, write_histories


@pytest.mark.slow
def test_order_stamps_and_violations_do_not_depend_on_how_the_work_is_divided(tmp_path: Path) -> None:
    given = write_histories(tmp_path / "events.jsonl")
    divided: dict[str, list[object]] = {
        "packs": ["--master", "local[1]", "--conf", "spark.sql.shuffle.partitions=1"],
        "whole": ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=7", "--blocks", 1],
        "cut": ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=1", "--blocks", 9],
    }

    for name, options in divided.items():
        done = run("analyze", given, "--to", tmp_path / name, "--json", *options, *CHEAP)
        assert (done.returncode, done.stderr) == (0, ""), name

    orders = {name: order_of(tmp_path / name) for name in divided}
    assert orders["packs"].count(b"\n") == 420
    assert orders["whole"] == orders["packs"]
    assert orders["cut"] == orders["packs"]
    stamps = {name: stamps_of(tmp_path / name) for name in divided}
    assert stamps["whole"] == stamps["packs"]
    assert stamps["cut"] == stamps["packs"]
    violations = {name: report_of(tmp_path / name)["violations"] for name in divided}
    assert violations["whole"] == violations["packs"]
    assert violations["cut"] == violations["packs"]
    witnesses = {name: rows_of(tmp_path / name / "violations", sort_by=["kind", "why"]) for name in divided}
    assert witnesses["cut"] == witnesses["whole"]


def stamps_of(directory: Path) -> list[tuple[object, ...]]:
    columns = ["execution", "process", "index", "causal_time", "past_size"]
    return [tuple(row[name] for name in columns) for row in rows_of(directory / "events", sort_by=columns[:3])]
