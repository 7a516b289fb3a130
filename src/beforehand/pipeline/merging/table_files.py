"""Tables as files of a merge: Parquet, or lines of JSON as `MergedRecord` and `SetAsideRecord` write them."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from beforehand.formats.merged import MergedRecord, SetAsideRecord
from beforehand.ordering.merging import SetAside
from beforehand.pipeline.merging.schemas import POSITION

__all__ = ["TableFile", "aside_record", "merged_record"]

LINES: Final = 5_000


class TableFile:
    """A context: one file in `folder`, made when the first table comes, complete and on the disk when it ends."""

    def __init__(self, folder: Path, form: str) -> None:
        self._folder: Final = folder
        self._form: Final = form
        self.names: list[str] = []
        self._part: Path | None = None
        self._stream: Any = None
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def add(self, table: pa.Table | None) -> None:
        if table is None or table.num_rows == 0:
            return
        if self._stream is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"part-{secrets.token_hex(12)}.{self._form}"
            self._part = self._folder / f".{name}"
            self._stream = self._part.open("xb")
            self.names.append(name)
            if self._form == "parquet":
                self._writer = pq.ParquetWriter(self._stream, table.schema, compression="zstd", compression_level=1)
        if self._writer is not None:
            self._writer.write_table(table)
        else:
            of = merged_record if POSITION in table.column_names else aside_record
            for batch in table.to_batches(max_chunksize=LINES):
                self._stream.write(b"".join([of(row).line() for row in batch.to_pylist()]))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._part is None:
            return
        if self._writer is not None:
            self._writer.close()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        if kind is None:
            self._part.replace(self._folder / self.names[0])
        else:
            self._part.unlink(missing_ok=True)


def merged_record(row: dict[str, Any]) -> MergedRecord:
    row["payload"] = row["payload"] or b""
    return MergedRecord(**row)


def aside_record(row: dict[str, Any]) -> SetAsideRecord:
    names = ("channel", "publisher", "sequence", "stamp", "arrival", "detail", "payload_bytes")
    values = {name: row[name] for name in names}
    return SetAsideRecord(**values, reason=SetAside(row["reason"]), payload=row["payload"] or b"")
