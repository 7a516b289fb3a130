"""The data source `beforehand-files`: a folder of JSON Lines and Parquet files of published messages.

Columns as in `ARRIVED`; `source` is the file's name, `offset` the line (from 1) or the row (from 1).

Rules for the folder: files are read in the order of their names, each once; arrivals do not go back from one file to
the next (rows that break it may be set aside as PASSED); a file is complete when its name appears (write it under
a name that begins with `.` or `_` and rename it), and stays as it is. A file that appears with a name before those
that were read ends the query with an error, for it would never be read.

A line that is no record is set aside, and so is a whole file of Parquet that cannot be read. Neither moves the time,
and nor does an arrival beyond the wall clock plus the grace: one wrong line would else make all messages after it
late, for good. Such an arrival counts when the clock has reached it, or with `flush` at the end.

Options: `path`, `span_ns`, `grace_ns`, `flush`, `bytes_max` (per micro-batch, at least one file).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from beforehand.errors import InputError
from beforehand.pipeline.merging.file_reading import last_arrivals, read_file
from beforehand.pipeline.merging.schemas import ARRIVED
from beforehand.pipeline.merging.times import TimeRules, number_option
from beforehand.pipeline.schemas import spark_type

__all__ = ["FilesDataSource"]

BYTES_MAX: Final = 64 * 1024 * 1024
TASKS_MAX: Final = 16
_NAME: Final = "files"  # The one partition that times are kept for.

# {"last": name of the last file read, "count": how many, "arrival": the last one, "time": of the channels,
#  "ahead": the last arrival beyond the wall clock, 0 if there is none}
Offset = dict[str, Any]


@dataclass(frozen=True)
class _Options:
    folder: Path
    bytes_max: int
    times: TimeRules | None

    @classmethod
    def read(cls, given: Mapping[str, str]) -> _Options:
        if "path" not in given:
            raise InputError("the data source beforehand-files needs the option path")
        return cls(Path(given["path"]), number_option(given, "bytes_max", BYTES_MAX), TimeRules.read(given))

    def names(self) -> list[str]:
        try:
            names = [path.name for path in self.folder.iterdir() if path.is_file()]
        except OSError as error:
            raise InputError(f"cannot read the folder {self.folder}: {error.strerror}") from error
        names = sorted(name for name in names if name[0] not in "._")
        for name in names:
            if not name.isascii() and any(0xD800 <= ord(sign) <= 0xDFFF for sign in name):
                raise InputError(f"{self.folder}: the name of the file {name!r} is not UTF-8: rename the file")
        return names


class FilesDataSource(DataSource):
    """Register it with `spark.dataSource.register(FilesDataSource)`."""

    @classmethod
    def name(cls) -> str:
        return "beforehand-files"

    def schema(self) -> StructType:
        return spark_type(ARRIVED)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return _BatchReader(_Options.read(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return _StreamReader(_Options.read(self.options))


class _Files(InputPartition):
    def __init__(self, names: list[str], *, time_ns: int | None = None) -> None:
        super().__init__(None)
        self.names = names
        self.time_ns = time_ns


class _BatchReader(DataSourceReader):
    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return _shared_out(self._options.names()) or [_Files([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: _Options) -> None:
        self._options = options
        self._frozen: tuple[str, int] | None = None  # The last name and the time of the wall clock.

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"last": "", "count": 0, "arrival": 0, "time": 0, "ahead": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        now_ns = time.time_ns()
        self._frozen = (max(self._options.names(), default=""), now_ns)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        options = self._options
        now_ns = time.time_ns() if self._frozen is None else self._frozen[1]
        names = options.names()
        read = [name for name in names if name <= start["last"]]
        if len(read) > start["count"]:
            raise InputError(
                f"{options.folder}: {len(read) - start['count']} files appeared with names before {start['last']}, "
                "up to which all was read: name new files so that they come after it"
            )
        new = [name for name in names if name > start["last"] and (not self._frozen or name <= self._frozen[0])]
        taken: list[str] = []
        size = 0
        room = limit.max_bytes if isinstance(limit, ReadMaxBytes) else options.bytes_max
        for name in new:
            size += (options.folder / name).stat().st_size
            if taken and size > room:
                break
            taken.append(name)
        offset = dict(start)
        if taken:
            offset |= {"last": taken[-1], "count": start["count"] + len(taken)}
        if options.times is not None:
            drained = len(taken) == len(new)
            until_ns = now_ns + options.times.grace_ns
            found = [last_arrivals(options.folder / name, until_ns=until_ns) for name in taken]
            arrival = max([start["arrival"], *(reached for reached, _ in found)])
            ahead = max([start["ahead"], *(beyond for _, beyond in found)])
            if ahead <= until_ns or (drained and options.times.flush):
                arrival, ahead = max(arrival, ahead), 0
            offset |= {"arrival": arrival, "ahead": ahead}
            times = options.times.times({_NAME: start}, {_NAME: arrival}, {_NAME: drained}, now_ns=now_ns)
            offset["time"] = times[_NAME]
        return offset

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        names = [name for name in self._options.names() if start["last"] < name <= end["last"]]
        if len(names) != end["count"] - start["count"]:
            raise InputError(
                f"{self._options.folder}: files between {start['last']!r} and {end['last']!r} were added or removed "
                "while they were read: put them back as they were"
            )
        parts = _shared_out(names)
        if self._options.times is not None:
            parts = parts or [_Files([])]
            parts[0].time_ns = end["time"]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition)

    def commit(self, end: Offset) -> None:
        """Files stay where they are."""

    def stop(self) -> None:
        pass


def _shared_out(names: list[str]) -> list[_Files]:
    """In runs of neighbours, for at most TASKS_MAX tasks."""
    each = -(-len(names) // TASKS_MAX) or 1
    return [_Files(names[at : at + each]) for at in range(0, len(names), each)]


def _read(options: _Options, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, _Files)
    if partition.time_ns is not None:
        columns: list[Any] = [pa.nulls(1, field.type) for field in ARRIVED][:-1]
        yield pa.RecordBatch.from_arrays([*columns, pa.array([partition.time_ns])], schema=ARRIVED)
    for name in partition.names:
        yield from read_file(options.folder / name)
