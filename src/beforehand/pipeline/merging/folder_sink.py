"""The data sink `beforehand-merged`: what a merge gives, in a folder, exactly once.

Tasks write files of their own under `merged/` and `aside/`; they count when the entry of their micro-batch in
`commits/` names them (`Ledger`). Files that no entry names are left over from a killed micro-batch: they can be
partial or double, so read through `read_merged`, which goes by the entries.

Takes rows of LANE_OUTPUT; or plain rows (ARRIVED), which are written as they are, without a position: with those a
benchmark compares.

Options: `path`, `form` (`parquet` or `jsonl`), `figures` (a folder for the sums).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from beforehand.pipeline.merging.ledger import Ledger, sync_folder

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ASIDE_FOLDER", "COMMITS_FOLDER", "MERGED_FOLDER", "Given", "MergedDataSource", "Written", "given_by"]

MERGED_FOLDER: Final = "merged"
ASIDE_FOLDER: Final = "aside"
COMMITS_FOLDER: Final = "commits"


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote, and what it saw."""

    merged: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    delivered: int = 0
    set_aside: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    waiting_bytes: int = 0
    channels: int = 0
    time: int | None = None

    def figures(self) -> dict[str, Any]:
        names = ("delivered", "set_aside", "waiting", "waiting_bytes", "channels", "time")
        return {name: getattr(self, name) for name in names}


class MergedDataSource(DataSource):
    """Register it with `spark.dataSource.register(MergedDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "beforehand-merged"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002, N802
        return _FolderWriter(self.options)


class _FolderWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._folder = Path(options["path"])
        self._form = options.get("form", "parquet")
        self._figures = Path(options["figures"]) if "figures" in options else None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from beforehand.pipeline.merging.table_files import TableFile

        written = Written()
        merged = TableFile(self._folder / MERGED_FOLDER, self._form)
        aside = TableFile(self._folder / ASIDE_FOLDER, self._form)
        with merged, aside:
            for given in given_by(iterator, written):
                merged.add(given.merged)
                aside.add(given.aside)
        written.merged, written.aside = merged.names, aside.names
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        total = combined(messages)
        ledger = Ledger(self._folder / COMMITS_FOLDER)
        if total.merged or total.aside:
            if ledger.has(batchId):
                self._remove(total)
            else:
                for name in (MERGED_FOLDER, ASIDE_FOLDER):
                    if (self._folder / name).is_dir():
                        sync_folder(self._folder / name)
                entry = {"merged": total.merged, "aside": total.aside, "delivered": total.delivered}
                ledger.write(batchId, {**entry, "set_aside": total.set_aside})
        if self._figures is not None:
            Ledger(self._figures).add_figures(batchId, total.figures())

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        self._remove(combined(messages))

    def _remove(self, written: Written) -> None:
        for folder, names in ((MERGED_FOLDER, written.merged), (ASIDE_FOLDER, written.aside)):
            for name in names:
                (self._folder / folder / name).unlink(missing_ok=True)


def combined(messages: list[WriterCommitMessage | None]) -> Written:
    """All tasks together. None stands for a task that failed."""
    total = Written()
    for message in messages:
        if isinstance(message, Written):
            total.merged += message.merged
            total.aside += message.aside
            total.delivered += message.delivered
            total.waiting += message.waiting
            total.waiting_bytes += message.waiting_bytes
            total.channels += message.channels
            total.time = max((time for time in (total.time, message.time) if time is not None), default=None)
            for reason, count in message.set_aside.items():
                total.set_aside[reason] = total.set_aside.get(reason, 0) + count
    return total


@dataclass
class Given:
    """What a lane gave in a micro-batch; None if nothing."""

    lane: int
    merged: pa.Table | None
    aside: pa.Table | None
    aside_before: int


def given_by(batches: Iterator[pa.RecordBatch], written: Written) -> Iterator[Given]:
    """The tables in rows of LANE_OUTPUT, by lane; what they tell is added to `written`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from beforehand.pipeline.merging.lane import table_from_bytes
    from beforehand.pipeline.merging.schemas import MERGED, MERGED_BLOCK, REASON

    for batch in batches:
        if MERGED_BLOCK not in batch.schema.names:
            plain = pa.Table.from_batches([batch])
            columns = [plain.column(name) if name in plain.column_names else _nothing(plain) for name in MERGED.names]
            table = pa.Table.from_arrays(columns, names=MERGED.names).cast(MERGED)
            written.delivered += table.num_rows
            yield Given(0, table, None, 0)
            continue
        for row in batch.to_pylist():
            merged, aside = (row[name] and table_from_bytes(row[name]) for name in ("merged", "aside"))
            written.waiting += row["waiting"]
            written.waiting_bytes += row["waiting_bytes"]
            written.channels += row["channels"]
            written.time = row["time"]
            if merged is not None:
                written.delivered += merged.num_rows
            if aside is not None:
                for found in pc.value_counts(aside.column(REASON)).to_pylist():
                    reason = found["values"]
                    written.set_aside[reason] = written.set_aside.get(reason, 0) + found["counts"]
            yield Given(row["lane"], merged, aside, row["aside_before"])


def _nothing(table: pa.Table) -> Any:
    import pyarrow as pa

    return pa.nulls(table.num_rows, pa.int64())
