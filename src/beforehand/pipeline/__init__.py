"""Histories of any size: the analysis on Spark, and queries of what it writes. The merge of channels on Spark.

`StoredHistory` and `read_merged` need no Spark. `analyze` and `run_merge` import PySpark when they are first asked
for, so that queries do not wait for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

# At once: it is light, and a module of the same name would stand in its place.
from beforehand.pipeline.session import session

if TYPE_CHECKING:
    from beforehand.pipeline.inputs import InputOptions
    from beforehand.pipeline.jobs.analyze import Settings, analyze
    from beforehand.pipeline.jobs.merge import register_sources, run_merge
    from beforehand.pipeline.merging.options import SparkMergeOptions
    from beforehand.pipeline.merging.reader import merged_tables, read_merged, read_set_aside
    from beforehand.pipeline.progress import Progress
    from beforehand.pipeline.stored import StoredHistory

__all__ = [
    "InputOptions",
    "Progress",
    "Settings",
    "SparkMergeOptions",
    "StoredHistory",
    "analyze",
    "merged_tables",
    "read_merged",
    "read_set_aside",
    "register_sources",
    "run_merge",
    "session",
]

_PLACES: Final = {
    "InputOptions": "beforehand.pipeline.inputs",
    "Progress": "beforehand.pipeline.progress",
    "Settings": "beforehand.pipeline.jobs.analyze",
    "StoredHistory": "beforehand.pipeline.stored",
    "SparkMergeOptions": "beforehand.pipeline.merging.options",
    "analyze": "beforehand.pipeline.jobs.analyze",
    "merged_tables": "beforehand.pipeline.merging.reader",
    "read_merged": "beforehand.pipeline.merging.reader",
    "read_set_aside": "beforehand.pipeline.merging.reader",
    "register_sources": "beforehand.pipeline.jobs.merge",
    "run_merge": "beforehand.pipeline.jobs.merge",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
