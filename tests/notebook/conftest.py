"""One Spark for all tests of notebooks: starting one takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beforehand.pipeline import session


@pytest.fixture(scope="package", autouse=True)
def running_spark() -> Iterator[None]:
    with session(master="local[2]", conf={"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}):
        yield
