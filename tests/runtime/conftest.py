"""One real broker for all tests of this room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from beforehand.runtime import EmbeddedBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running
