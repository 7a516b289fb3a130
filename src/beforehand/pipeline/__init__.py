"""Histories of any size: the analysis on Spark, and queries of what it writes.

`StoredHistory` needs no Spark. `analyze` imports PySpark when it is first asked for, so that queries do not wait
for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

# At once: it is light, and a module of the same name would stand in its place.
from beforehand.pipeline.session import session

if TYPE_CHECKING:
    from beforehand.pipeline.inputs import InputOptions
    from beforehand.pipeline.jobs.analyze import Settings, analyze
    from beforehand.pipeline.progress import Progress
    from beforehand.pipeline.stored import StoredHistory

__all__ = ["InputOptions", "Progress", "Settings", "StoredHistory", "analyze", "session"]

_PLACES: Final = {
    "InputOptions": "beforehand.pipeline.inputs",
    "Progress": "beforehand.pipeline.progress",
    "Settings": "beforehand.pipeline.jobs.analyze",
    "StoredHistory": "beforehand.pipeline.stored",
    "analyze": "beforehand.pipeline.jobs.analyze",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
