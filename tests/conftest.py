"""Settings for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No deadline and no health check on speed: these machines are noisy, and speed is for benchmarks/.
settings.register_profile("beforehand", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("beforehand")
