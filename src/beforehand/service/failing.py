"""Which events are failures: the rule of the analysis (`pipeline.tables.failures_in`), for one event at a time.

An event is a failure if one of its attributes named below has one of the values below, in any case. A span that
failed did so at its end, not at its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["is_failure"]

_KEYS: Final = ("level", "severity", "priority", "log.level", "status", "otel.status_code", "error")
_VALUES: Final = frozenset(
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
    for key in _KEYS:
        value = attributes.get(key)
        if value is not None and value.lower() in _VALUES:
            return attributes.get("phase") != "start"
    return False
