"""Settings for all tests."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from measuring import Measuring, name_of, slow_tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline and no health check on speed: these machines are noisy, and speed is for benchmarks/.
settings.register_profile("beforehand", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("beforehand")
_HOW = os.environ.get("BEFOREHAND_TESTS", "all")  # Or `quick`, of `make quick`; or `measure`: see measuring.py.
if _HOW != "all":
    settings.register_profile("quick", settings.get_profile("beforehand"), max_examples=20)
    settings.load_profile("quick")


# Who runs the tests in the background may have SIGINT ignored, which every child would inherit: none would end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_SLOW_FIXTURES = frozenset({"spark", "chromium", "browser", "reader", "broker"})
_TESTS = str(Path(__file__).parent)


def pytest_configure(config: pytest.Config) -> None:
    if _HOW == "measure":
        config.pluginmanager.register(Measuring())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts Spark, a browser, a broker or other programs is slow, and what measuring.py found to be."""
    measured = slow_tests() if _HOW != "measure" else frozenset()
    for item in items:
        needs = _SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if needs or name_of(item) in measured or _starts_programs(getattr(item, "function", None), set()):
            item.add_marker("slow")


def _starts_programs(thing: object, seen: set[object]) -> bool:
    """Whether a function of the tests names `subprocess` or `multiprocessing`, itself or by others of the tests."""
    if isinstance(thing, type):
        return any(_starts_programs(value, seen) for value in vars(thing).values() if isinstance(value, FunctionType))
    thing = inspect.unwrap(thing) if callable(thing) else thing
    if not isinstance(thing, FunctionType) or thing in seen or not thing.__code__.co_filename.startswith(_TESTS):
        return False
    seen.add(thing)
    codes = [thing.__code__, *(inner for inner in thing.__code__.co_consts if isinstance(inner, CodeType))]
    named = [thing.__globals__.get(name) for code in codes for name in code.co_names]
    return any(value is subprocess or value is multiprocessing or _starts_programs(value, seen) for value in named)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests of all folders: a process has one at a time, and starting one takes ten seconds."""
    from beforehand.pipeline.session import session

    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    with session(master="local[2]", conf=conf, brief=True) as one:
        yield one
