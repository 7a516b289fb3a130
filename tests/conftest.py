"""Settings for all tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline and no health check on speed: these machines are noisy, and speed is for benchmarks/.
settings.register_profile("beforehand", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("beforehand")


# Who runs the tests in the background may have SIGINT ignored, which every child would inherit: none would end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a Spark session is slow: the session alone takes ten seconds to start."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests of all folders: a process has one at a time, and starting one takes ten seconds."""
    from beforehand.pipeline.session import session

    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    with session(master="local[2]", conf=conf, brief=True) as one:
        yield one
