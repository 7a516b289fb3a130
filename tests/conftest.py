"""Settings for all tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# No deadline and no health check on speed: these machines are noisy, and speed is for benchmarks/.
settings.register_profile("beforehand", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("beforehand")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a Spark session is slow: the session alone takes ten seconds to start."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
