"""History directories that Spark made of random histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from beforehand.events import Event
from history_directories import Case, make_cut_directory, make_pack_directory, random_events, untidy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def skewed(execution: str = "") -> list[Event]:
    return random_events(1, processes=6, steps=500, skew_ns=30_000, execution=execution)


@pytest.fixture(scope="session")
def cut_cases(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """Random histories, cut into few and into many blocks."""
    folder = tmp_path_factory.mktemp("cut")
    several = [
        skewed("skewed"),
        random_events(2, processes=9, steps=500, gap=3, untimed=0.2, execution="a/b:c"),
        random_events(3, processes=4, steps=300, untimed=1.0, execution="untimed"),
        untidy(random_events(4, processes=5, steps=300, untimed=0.1, execution="untidy"), 6),
    ]
    plans = {"whole": ([skewed()], 1), "blocks": ([skewed()], 12), "few": (several, 7), "many": (several, 20)}
    result = {}
    for name, (executions, blocks) in plans.items():
        target = folder / name
        target.mkdir()
        result[name] = make_cut_directory(spark, executions, target, blocks=blocks)
    return result


@pytest.fixture(scope="session")
def pack_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Many small executions, some of them untidy."""
    folder = tmp_path_factory.mktemp("packs")
    executions = [
        random_events(seed, processes=3, steps=40, gap=1 + seed % 2, untimed=0.1, execution=f"trace/{seed}:x")
        for seed in range(12)
    ]
    executions += [untidy(random_events(20, processes=4, steps=200, execution="untidy"), 20)]
    executions += [random_events(21, processes=3, steps=60)]  # Without a name.
    return make_pack_directory(executions, folder, packs=3)
