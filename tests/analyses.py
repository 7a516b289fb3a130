"""Analyses on the Spark session of the tests, and what they wrote, read without our own readers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from beforehand.formats import FieldMap
from beforehand.pipeline.inputs import InputOptions
from beforehand.pipeline.jobs.analyze import Settings, analyze


@dataclass(frozen=True)
class Analysis:
    """A report and the directory that it is of."""

    report: dict[str, Any]
    path: Path

    @property
    def events(self) -> list[dict[str, Any]]:
        """In the order of (execution, process, index)."""
        rows = _rows(self.path / "events")
        for row in rows:
            row["attributes"] = dict(row["attributes"])
            row["clock"] = None if row["clock"] is None else dict(row["clock"])
        return sorted(rows, key=lambda row: (row["execution"], row["process"], row["index"]))

    @property
    def ids(self) -> list[tuple[str, str, int, str]]:
        return [(row["execution"], row["process"], row["index"], row["name"]) for row in self.events]

    @property
    def rejected(self) -> list[dict[str, Any]]:
        """In the order of (file, line, offset), with the file's name alone."""
        rows = _rows(self.path / "rejected")
        for row in rows:
            row["file"] = None if row["file"] is None else row["file"].rsplit("/", 1)[-1]
        return sorted(
            rows,
            key=lambda row: (row["file"] or "", row["line"] or 0, row["offset"] or 0, row["reason"], row["detail"]),
        )

    def refused(self, file: str | None) -> list[tuple[str, int | None]]:
        """Reason and line of what was refused of a file."""
        return [(row["reason"], row["line"]) for row in self.rejected if row["file"] == file]

    @property
    def reasons(self) -> Counter[str]:
        return Counter(row["reason"] for row in self.rejected)


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.rglob("*.parquet")) for row in pq.read_table(file).to_pylist()]


def analyzed(
    inputs: Path | str | list[Path] | list[str],
    to: Path,
    *,
    blocks: int | None = None,
    fields: FieldMap | None = None,
    **options: str,
) -> Analysis:
    """Analyze with the session that is there."""
    given = [str(path) for path in (inputs if isinstance(inputs, list) else [inputs])]
    settings = Settings(
        options=InputOptions(fields=fields, **options),  # type: ignore[arg-type]
        blocks=blocks,
        conf={"spark.sql.shuffle.partitions": "2"},
    )
    return Analysis(analyze(given, to, settings), to)
