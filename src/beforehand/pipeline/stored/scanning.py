"""Scans over whole tables, by DuckDB: finding events, all events in order, messages across a cut.

Memory is bounded: what does not fit is spilled to a temporary folder that goes with the connection. Texts sort by
their UTF-8 bytes, which is the order of code points, as everywhere else.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.formats.opening import shown_path
from beforehand.history.kernels import NO_TIME
from beforehand.pipeline.directory import Directory
from beforehand.pipeline.schemas import CAUSAL_TIME, EXECUTION, INDEX, MESSAGE_TABLE, PAST_SIZE, PROCESS, STORED
from beforehand.pipeline.stored.conditions import Condition
from beforehand.pipeline.stored.records import EVENT_COLUMNS, event_of

if TYPE_CHECKING:
    import duckdb

__all__ = ["Scanner"]

Integers = npt.NDArray[np.int64]

MEMORY_MAX: Final = "1GB"
VALUES_MAX: Final = 100_000
"""Values of a field that are judged one by one, so that no row need be."""

BATCH_ROWS: Final = 2_000
ARROW_ROWS: Final = 100_000
FIRST_ROWS: Final = 1_000
GROWTH: Final = 8

_TIME_KEY: Final = f'COALESCE("{CAUSAL_TIME}", {NO_TIME})'
_KEYS: Final = (_TIME_KEY, f'"{PAST_SIZE}"', f'"{PROCESS}"', f'"{INDEX}"', f'"{EXECUTION}"')
_ASCENDING: Final = ", ".join(_KEYS)
_DESCENDING: Final = ", ".join(f"{key} DESC" for key in _KEYS)
_EVENT: Final = ", ".join(f'"{name}"' for name in EVENT_COLUMNS)


class Scanner:
    """One connection to DuckDB, made when it is needed."""

    def __init__(
        self, directory: Directory, verify: Callable[[], None] = lambda: None, *, empty: bool = False
    ) -> None:
        """`verify` is called before the first scan of events: a file that is missing is not missed by a scan.

        `empty`: there may be no event at all.
        """
        self._empty = empty
        self._directory = directory
        self._verify: Callable[[], None] | None = verify
        self._made: duckdb.DuckDBPyConnection | None = None
        self._tables = 0

    def rows(self, sql: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, in batches. What cannot be read is an `InputError`."""
        with self._asking() as connection:
            connection.execute(sql, list(values))
            while batch := connection.fetchmany(BATCH_ROWS):
                yield from batch

    def batches(self, sql: str, values: Sequence[object] = ()) -> Iterator[pa.RecordBatch]:
        """The same for many rows: as Arrow batches."""
        with self._asking() as connection:
            answer = connection.sql(sql, params=list(values))
            # The name of old, which newer versions of DuckDB warn of.
            reader = getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader
            yield from reader(ARROW_ROWS)

    @contextmanager
    def table(self, sql: str, values: Sequence[object] = ()) -> Iterator[str]:
        """The rows of a query as a table that is there until the end of the block; what does not fit is spilled."""
        self._tables += 1
        name = f"made_{self._tables}"
        with self._asking() as connection:
            connection.execute(f"CREATE TABLE {name} AS {sql}", list(values))
        try:
            yield name
        finally:
            with self._asking() as connection:
                connection.execute(f"DROP TABLE {name}")

    @contextmanager
    def _asking(self) -> Iterator[duckdb.DuckDBPyConnection]:
        import duckdb

        connection = self._connection().cursor()
        try:
            yield connection
        except duckdb.Error as error:
            why = " ".join(str(error).split())[:300]
            shown = shown_path(self._directory.path)
            raise InputError(f"{shown} cannot be read ({why}): analyze again, or free some space") from error
        finally:
            connection.close()

    def events(self) -> str:
        """All of `events/`, as what stands behind FROM."""
        if self._verify is not None:
            self._verify()
            self._verify = None
        return _files(self._directory.events, "*.parquet", STORED, empty=self._empty)

    def messages(self) -> str:
        return _files(self._directory.messages, "**/*.parquet", MESSAGE_TABLE, empty=True)

    def ordered(self, condition: Condition) -> Iterator[Event]:
        """Events in the deterministic order."""
        sql = f"SELECT {_EVENT} FROM {self.events()} WHERE {condition.sql} ORDER BY {_ASCENDING}"  # noqa: S608
        for row in self.rows(sql, condition.values):
            yield event_of(*row)

    def newest(self, condition: Condition, limit: int) -> Iterator[Event]:
        """Events against the deterministic order; at most about as many as asked for are ever held.

        An inexact condition is asked for more and more, from where the last answer ended: whoever has enough stops.
        """
        rows = limit if condition.exact else max(limit, FIRST_ROWS)
        after: tuple[object, ...] = ()
        while rows:
            further = f" AND ({_ASCENDING}) < (?, ?, ?, ?, ?)" if after else ""
            sql = (
                f"SELECT {_EVENT}, {_TIME_KEY}, {PAST_SIZE} FROM {self.events()} "  # noqa: S608
                f"WHERE {condition.sql}{further} ORDER BY {_DESCENDING} LIMIT {rows:d}"
            )
            found = 0
            for *row, time, size in self.rows(sql, (*condition.values, *after)):
                found += 1
                event = event_of(*row)
                after = (time, size, event.process, event.index, event.execution)
                yield event
            if condition.exact or found < rows:
                return
            rows *= GROWTH

    def values(self, field: str, bound: tuple[object, ...]) -> list[str] | None:
        """All values that a field of events has, unless there are too many of them."""
        sql = f"SELECT DISTINCT {field} AS value FROM {self.events()} LIMIT {VALUES_MAX + 1}"  # noqa: S608
        found = [value for (value,) in self.rows(sql, bound)]
        if len(found) > VALUES_MAX:
            return None  # No value counts as one: there may be more behind it.
        return [value for value in found if value is not None]

    def matching(self, path: Path, condition: Condition) -> Integers:
        """The rows of one file that fulfil a condition, as positions from 0."""
        source = f"read_parquet({_quoted(path)}, file_row_number = true)"
        sql = f"SELECT file_row_number FROM {source} WHERE {condition.sql} ORDER BY 1"  # noqa: S608
        return np.array([row for (row,) in self.rows(sql, condition.values)], np.int64)

    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._made is None:
            import duckdb

            folder = tempfile.TemporaryDirectory(prefix="beforehand-duckdb-")
            # Nothing is installed or loaded from elsewhere.
            settings: dict[str, str | bool | int | float | list[str]] = {
                "memory_limit": MEMORY_MAX,
                "temp_directory": folder.name,
                "autoinstall_known_extensions": False,
                "preserve_insertion_order": False,
            }
            self._made = duckdb.connect(":memory:", config=settings)
            weakref.finalize(self, _end, self._made, folder)
        return self._made


def _end(connection: duckdb.DuckDBPyConnection, folder: tempfile.TemporaryDirectory[str]) -> None:
    connection.close()
    folder.cleanup()


def _files(folder: Path, pattern: str, schema: pa.Schema, *, empty: bool) -> str:
    if not any(folder.glob(pattern)):
        if empty and folder.exists():
            columns = ", ".join(f'NULL AS "{name}"' for name in schema.names)
            return f"(SELECT {columns} WHERE FALSE)"
        raise InputError(f"{shown_path(folder)} has no files: this history directory is not whole, analyze again")
    # Brackets and stars of the folder's own name would be taken for patterns: each file is named.
    named = ", ".join(_quoted(path) for path in sorted(folder.glob(pattern)))
    return f"read_parquet([{named}], hive_partitioning = false)"


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
