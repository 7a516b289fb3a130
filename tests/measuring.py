"""Which tests are slow because they compute for long: half a second or more, over all their parameters.

slow.txt has their names, so that `make quick` stays quick; `make test` runs all. To measure again (other work on the
machine counts little, for it is time of the processor that is measured):

    BEFOREHAND_TESTS=measure .venv/bin/pytest -m "not slow"
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

__all__ = ["SLOW_TESTS", "Measuring", "name_of", "slow_tests"]

SLOW_TESTS: Final = Path(__file__).parent / "slow.txt"
SECONDS_MIN: Final = 0.5


def slow_tests(path: Path = SLOW_TESTS) -> frozenset[str]:
    return frozenset(path.read_text(encoding="utf-8").split())


def name_of(item: pytest.Item) -> str:
    """A test's name, with its file below tests/, without its parameters."""
    return item.nodeid.partition("[")[0].removeprefix("tests/")


class Measuring:
    """A plugin that writes slow.txt anew from what the tests of this run took, children included."""

    def __init__(self, path: Path = SLOW_TESTS) -> None:
        self._path: Final = path
        self._seconds: Final[Counter[str]] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = sum(os.times()[:4])
        answer = yield
        self._seconds[name_of(item)] += sum(os.times()[:4]) - before
        return answer

    def pytest_sessionfinish(self) -> None:
        names = sorted(name for name, seconds in self._seconds.items() if seconds >= SECONDS_MIN)
        self._path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
