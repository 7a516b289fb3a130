"""What a merge on Spark is asked for. Light to import: no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from beforehand.ordering.merging import WAITING_MAX, MergeSettings

if TYPE_CHECKING:
    from beforehand.runtime.nats import StreamAddress

__all__ = ["SparkMergeOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMergeOptions:
    """A path is a folder of files, a `StreamAddress` a stream of NATS."""

    source: Path | StreamAddress
    sink: Path | StreamAddress
    settings: MergeSettings
    checkpoint: Path
    also: tuple[str, ...] = ()  # Other streams of the same server, merged with it.
    subjects: tuple[str, ...] = ()  # Filters of a stream, each read by a task of its own; instead of its `subject`.
    form: str = "parquet"  # Of files that are written: "parquet" or "jsonl".
    grace_ns: int | None = None  # What is drained has the time of the wall clock less this. None: ε, at least 100 ms.
    once: bool = False  # Take what there is, and end.
    flush: bool = False  # With `once`: there is no more to come, so what waits at the end is released.
    interval_s: float = 1.0  # Between the starts of micro-batches.
    messages_max: int = 100_000  # Of a stream, in a micro-batch.
    bytes_max: int = 64 * 1024 * 1024  # Of files, in a micro-batch; at least one file.
    lanes: int | None = None  # Units of parallelism, fixed at the first start. None: twice the cores.
    waiting_max: int = WAITING_MAX  # Messages that may wait in a channel.
    credentials: Path | None = None
    tls_ca: Path | None = None
    master: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    as_json: bool = False
