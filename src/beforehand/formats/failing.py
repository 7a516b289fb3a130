"""Which events are failures: for the analysis, which looks at tables, and for the service, one event at a time.

An event is a failure if one of its attributes named below has one of the values below, in any case. A span that
failed did so at its end, not at its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["FAILURE_KEYS", "FAILURE_VALUES", "is_failure"]

FAILURE_KEYS: Final = ("level", "severity", "priority", "log.level", "status", "otel.status_code", "error")
FAILURE_VALUES: Final = frozenset(
    (
        "error",
        "fatal",
        "critical",
        "alert",
        "emergency",
        "panic",
        "severe",
        "failed",
        "failure",
        "true",
        "err",
        "crit",
    )
)


def is_failure(attributes: Mapping[str, str]) -> bool:
    """Whether the attributes of an event say that something failed."""
    if not attributes:
        return False
    for key in FAILURE_KEYS:
        value = attributes.get(key)
        if value is not None and value.lower() in FAILURE_VALUES:
            return attributes.get("phase") != "start"
    return False
