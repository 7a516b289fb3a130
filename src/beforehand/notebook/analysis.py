"""An analyzed history, asked from Python: what the commands answer, as values that a notebook shows.

    import beforehand

    h = beforehand.analyze("traces/*.json")
    h.explain("checkout:12", last=25)

What is large stays where it is: `order` and `find` give events one by one, `table` and `frame` give the tables of the
history directory to Arrow and to Spark. Not safe for several threads at once.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from beforehand.errors import InputError
from beforehand.events import Event, EventId, parse_time
from beforehand.notebook.answers import Chain, Check, CutThrough, Events, Past, Picture
from beforehand.notebook.tables import paragraph, shown, table
from beforehand.predicate import Predicate

if TYPE_CHECKING:
    import pyarrow.dataset
    from pyspark.sql import DataFrame, SparkSession

    from beforehand.pipeline.stored import StoredHistory

__all__ = ["TABLES", "Analysis", "analyze", "open_history"]

TABLES: Final = ("events", "messages", "violations", "rejected")


def analyze(
    *inputs: str | Path,
    to: str | Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Analysis:
    """Analyze files, directories or globs on Spark.

    `to`: the history directory to make; without it one is made that is removed when the `Analysis` is gone.
    `settings` are the fields of `beforehand.pipeline.Settings` (`replace`, `master`, `blocks`, ...) and of
    `InputOptions` (`format`, `regex`, ...).
    """
    _needs_pipeline()
    if not inputs:
        raise InputError("analyze what? Name files, directories or globs")
    from dataclasses import fields

    from beforehand.pipeline import InputOptions, Progress, Settings
    from beforehand.pipeline import analyze as run

    reading = {field.name for field in fields(InputOptions)}
    known = reading | {field.name for field in fields(Settings)} - {"options"}
    for name in settings:
        if name not in known:
            raise InputError(f"analyze has no setting {name!r}; there are: {', '.join(sorted(known))}")
    options = InputOptions(**{name: value for name, value in settings.items() if name in reading})
    chosen = Settings(options=options, **{name: value for name, value in settings.items() if name not in reading})
    told = Progress(quiet=quiet)
    if to is not None:
        run([str(one) for one in inputs], to, chosen, progress=told)
        return Analysis(Path(to))
    folder = tempfile.mkdtemp(prefix="beforehand-")
    try:
        run([str(one) for one in inputs], Path(folder) / "history", chosen, progress=told)
        made = Analysis(Path(folder) / "history")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    return made


def open_history(path: str | Path) -> Analysis:
    """A history directory that is there."""
    _needs_pipeline()
    return Analysis(Path(path))


class Analysis:
    """A history directory. Events are named by an `EventId`, its text (`"cart:17"`) or the `Event`."""

    def __init__(self, path: Path) -> None:
        from beforehand.pipeline.stored import StoredHistory

        self.path: Final = path
        self._stored: Final[StoredHistory] = StoredHistory.open(path)

    @property
    def report(self) -> dict[str, Any]:
        """What the analysis found, as in report.json."""
        return dict(self._stored.report)

    @property
    def executions(self) -> list[str]:
        """Their names."""
        return list(self._stored.names())

    def event(self, event: str | EventId | Event) -> Event:
        """One event; `UnknownEventError` if there is none of this id."""
        return self._stored.event(self._stored.find_id(event))

    def find(self, where: str = "", *, limit: int = 100, execution: str | None = None) -> Events:
        """Events that a predicate chooses, newest first."""
        self._refuse_odd(limit=limit, execution=execution)
        predicate = Predicate.parse(where) if where else None
        return Events(tuple(self._stored.find(predicate, limit=limit, execution=execution)))

    def failures(self, *, limit: int = 100) -> Events:
        """The failures that the analysis kept."""
        from beforehand.pipeline.stored.naming import failure_id

        self._refuse_odd(limit=limit)
        found = self._stored.report.get("failures") or []
        assert isinstance(found, list)
        return Events(tuple(self.event(failure_id(one)) for one in found[:limit]))

    def explain(
        self, event: str | EventId | Event, *, last: int = 25, where: str = "", process: str | None = None
    ) -> Past:
        """The last events that could have led to this one."""
        self._refuse_odd(last=last)
        predicate = Predicate.parse(where) if where else None
        found = self._stored.explain(event, last=last, where=predicate, process=process)
        return Past(found.event, found.events, found.past)

    def relate(self, first: str | EventId | Event, second: str | EventId | Event) -> Chain:
        """What the first is to the second, and how the one could have caused the other."""
        a, b = self._stored.find_id(first), self._stored.find_id(second)
        found = self._stored.relate(a, b)
        return Chain(a, b, found.relation, tuple(found.chain), tuple(found.reasons))

    def cut(
        self,
        *after: str | EventId | Event,
        at: int | str | None = None,
        execution: str | None = None,
    ) -> CutThrough:
        """The smallest consistent cut with these events; or with `at`, the largest with nothing later.

        `at` is nanoseconds since 1970 or RFC 3339; each process goes by its own clock.
        """
        if (at is None) == (not after):
            raise InputError("a cut is after some events, or `at` a time: give one of them")
        stored = self._stored
        found = stored.cut_after(*after) if at is None else stored.cut_at(_ns(at), execution=execution)
        return CutThrough(dict(found.cut), found.front, found.in_flight, found.unreceived, found.consistent)

    def check(self, *, delta_ms: float | None = None, limit: int = 100) -> Check:
        """Violations of FIFO, causal and total order and of clocks; with `delta_ms`, of temporal order too."""
        from beforehand.history import Violation
        from beforehand.history.judging import judged_notes, known_counts
        from beforehand.pipeline.stored.checking import (
            found_violations,
            judged_of,
            temporal_judged,
            temporal_violations,
        )
        from beforehand.pipeline.stored.naming import id_within

        self._refuse_odd(limit=limit)
        if delta_ms is not None and not 0 <= delta_ms < inf:
            raise InputError(f"delta_ms is {delta_ms}: give a number of milliseconds from 0 up")
        counts: dict[str, int | None] = dict(self._stored.report.get("violations") or {})
        judged = judged_of(self._stored.report)
        notes = list(self._stored.report.get("notes") or [])
        violations = [
            Violation(
                str(row["kind"]),
                tuple(id_within(row["execution"], text) for text in row["events"]),
                tuple(row["messages"]),
                str(row["why"]),
                tuple(row["reasons"]),
            )
            for row in cast(Iterator[Any], islice(found_violations(self._stored.directory), limit))
        ]
        if delta_ms is not None:
            count, late, more = temporal_violations(self._stored.scanner, round(delta_ms * 1_000_000), limit)
            judged["temporal"] = temporal_judged(self._stored.scanner)
            counts |= known_counts({"temporal": count}, judged)
            violations += late
            notes += more + judged_notes({"temporal": judged["temporal"]})
        return Check(counts, tuple(violations), tuple(notes), judged)

    def order(self, *, execution: str | None = None) -> Iterator[Event]:
        """All events in the deterministic order, one by one."""
        self._refuse_odd(execution=execution)
        return self._stored.order(execution=execution)

    def _refuse_odd(self, *, execution: str | None = None, **counts: int) -> None:
        """InputError if there is no such execution, or a count is no number from 0 up."""
        for name, count in counts.items():
            if type(count) is not int or count < 0:
                raise InputError(f"{name} is {count!r}: it must be at least 0")
        if execution is not None:
            self._stored.one_execution(execution)

    def draw(
        self,
        around: str | EventId | Event | None = None,
        *,
        count: int = 40,
        axis: str = "steps",
        execution: str | None = None,
        to: str | Path | None = None,
    ) -> Picture:
        """A space-time diagram of what is around an event, or of a whole execution that is not too large.

        `to`: also write it, as .html or .svg.
        """
        from beforehand.diagram import Axis, LayoutOptions, diagram_page, draw
        from beforehand.formats import replacing
        from beforehand.pipeline.stored.choosing import to_draw

        suffix = "" if to is None else Path(to).suffix.lower()
        if to is not None and suffix not in (".html", ".svg"):
            raise InputError(f"{to} must end in .html or .svg")
        try:
            options = LayoutOptions(axis=Axis(axis))
        except ValueError:
            raise InputError(f"no axis {axis!r}: there are {', '.join(one.value for one in Axis)}") from None
        choice = to_draw(self._stored, around, count=count, execution=execution)
        events, marks, title = choice.events, choice.marks, choice.title
        picture = Picture(
            draw(events, marks=marks, options=options, title=title),
            diagram_page(events, marks=marks, options=options, title=title),
        )
        if to is not None:
            with replacing(Path(to)) as stream:
                stream.write((picture.page if suffix == ".html" else picture.svg).encode())
        return picture

    def table(self, name: str = "events") -> pyarrow.dataset.Dataset:
        """A table of the directory for Arrow, which reads it as it is asked for: one of `TABLES`."""
        import pyarrow.dataset

        folder, schema = self._folder(name)
        return pyarrow.dataset.dataset(folder, schema=schema, format="parquet")

    def frame(self, spark: SparkSession, name: str = "events") -> DataFrame:
        """The same for Spark."""
        from beforehand.pipeline.paths import to_read
        from beforehand.pipeline.schemas import spark_type

        folder, schema = self._folder(name)
        # Tables may have folders in them, of which Spark would say nothing.
        read = spark.read.option("recursiveFileLookup", "true")
        return read.schema(spark_type(schema)).parquet(to_read(folder))

    def _folder(self, name: str) -> tuple[Path, pyarrow.Schema]:
        """Where a table lies, and its columns: there may be no file in it."""
        from beforehand.pipeline.schemas import MESSAGE_TABLE, REJECTED, STORED, VIOLATION

        schemas = dict(zip(TABLES, (STORED, MESSAGE_TABLE, VIOLATION, REJECTED), strict=True))
        if name not in schemas:
            raise InputError(f"no table {name!r}: there are {', '.join(TABLES)}")
        return self.path.absolute() / name, schemas[name]

    def __repr__(self) -> str:
        report = self._stored.report
        return f"<Analysis {str(self.path)!r}: {report['events']:,} events of {report['processes']:,} processes>"

    def _repr_html_(self) -> str:
        report = self._stored.report
        counts = report["violations"]
        found = ", ".join(f"{shown(kind)} {count:,}" for kind, count in counts.items() if count)
        judged = any(count is not None for kind, count in counts.items() if kind != "clock")
        none = "none" if judged else "not judged" if counts.get("clock") is None else "none in reported clocks"
        rows = [
            ("history directory", shown(self.path)),
            ("events", f"{report['events']:,}"),
            ("processes", f"{report['processes']:,}"),
            ("executions", f"{report['executions']:,}"),
            ("messages", f"{report['messages']:,}"),
            ("rejected", f"{report['rejected']:,}"),
            ("violations", found or none),
            ("failures", f"{report['failures_total']:,}"),
        ]
        notes = "".join(paragraph(f"Note: {shown(note, 500)}") for note in report["notes"])
        return table(("", ""), rows) + notes


def _ns(at: int | str) -> int:
    if isinstance(at, int):
        return at
    try:
        return parse_time(at)
    except ValueError as error:
        raise InputError(f"{error}; nanoseconds since 1970 will do too") from None


def _needs_pipeline() -> None:
    for module in ("pyarrow", "duckdb", "numba"):
        if find_spec(module) is None:
            raise InputError(f"{module} is not installed: pip install 'beforehand[pipeline]'")
