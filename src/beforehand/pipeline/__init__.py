"""Histories of any size: the analysis on Spark, and queries of what it writes.

`StoredHistory` needs no Spark. `analyze` and `session` import PySpark when they are first asked for, so that queries
do not wait for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from beforehand.pipeline.inputs import InputOptions
    from beforehand.pipeline.jobs.analyze import Settings, analyze
    from beforehand.pipeline.progress import Progress
    from beforehand.pipeline.session import session
    from beforehand.pipeline.stored import StoredHistory

__all__ = ["InputOptions", "Progress", "Settings", "StoredHistory", "analyze", "session"]

_PLACES: Final = {
    "InputOptions": "beforehand.pipeline.inputs",
    "Progress": "beforehand.pipeline.progress",
    "Settings": "beforehand.pipeline.jobs.analyze",
    "StoredHistory": "beforehand.pipeline.stored",
    "analyze": "beforehand.pipeline.jobs.analyze",
    "session": "beforehand.pipeline.session",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
