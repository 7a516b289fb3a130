"""An event is a failure here if and only if the analysis calls it one."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from beforehand.formats.failing import is_failure
from beforehand.pipeline.schemas import STORED
from beforehand.pipeline.tables import failures_in
from beforehand.service.views.stores import _STEMS

KEYS = ["level", "severity", "priority", "log.level", "status", "otel.status_code", "error", "Level", "phase", "x"]
VALUES = ["error", "ERROR", "fatal", "Critical", "alert", "emergency", "panic", "severe", "failed", "failure", "true"]
VALUES += ["err", "crit", "errors", "info", "", "start", "end", "False", "ok", "warn", "0"]


@pytest.mark.parametrize("seed", range(20))
def test_failures_are_those_of_the_analysis(seed: int) -> None:
    random = Random(seed)
    made = [{random.choice(KEYS): random.choice(VALUES) for _ in range(random.randint(0, 3))} for _ in range(200)]
    column = pa.array([list(one.items()) for one in made], STORED.field("attributes").type)
    expected = failures_in(pa.table({"attributes": column})).tolist()
    assert [at for at, one in enumerate(made) if is_failure(one)] == expected


def test_a_store_suspects_every_failure() -> None:
    for value in VALUES:
        if is_failure({"level": value}):
            assert any(stem in value.lower().encode() for stem in _STEMS), value
