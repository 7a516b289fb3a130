"""`beforehand analyze`: from logs and traces to an explained history."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import click

from beforehand.cli.extras import need

__all__ = ["analyze"]

_FORMATS = ("auto", "native", "parquet", "shiviz", "govector", "tracing", "otlp", "jaeger", "zipkin")


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--to", "target", required=True, type=click.Path(path_type=Path), help="The history directory to make.")
@click.option("--replace", is_flag=True, help="Replace DIR if it is a history directory already.")
@click.option(
    "--format", "name", type=click.Choice(_FORMATS), default="auto", show_default=True, help="How to read the input."
)
@click.option(
    "--map",
    "map_file",
    type=click.Path(path_type=Path),
    help="Read any JSON Lines or CSV: a TOML file that says which fields are what.",
)
@click.option("--regex", help="ShiViz: the regular expression of a log record.")
@click.option("--delimiter", help="ShiViz: the regular expression between executions.")
@click.option(
    "--time-unit",
    type=click.Choice(["ns", "us", "ms", "s"]),
    default="ns",
    show_default=True,
    help="ShiViz: what integers in a group `timestamp` count.",
)
@click.option("--master", help="The Spark master: local[*] (the default), spark://HOST:PORT, yarn, k8s://…")
@click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@click.option("--blocks", type=click.IntRange(1, 100_000), help="Cut every execution into so many blocks.")
@click.option(
    "--witnesses",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Violations of a kind, and failures, that are kept with an explanation.",
)
@click.option("--lamport", is_flag=True, help="Give every event its Lamport time too: its longest causal chain.")
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON document on standard output.")
def analyze(
    inputs: tuple[str, ...],
    target: Path,
    replace: bool,
    name: str,
    map_file: Path | None,
    regex: str | None,
    delimiter: str | None,
    time_unit: str,
    master: str | None,
    conf: tuple[str, ...],
    blocks: int | None,
    witnesses: int,
    lamport: bool,
    as_json: bool,
) -> None:
    """Put logs and traces in causal order, on Spark, and write a history directory.

    INPUT is a file, a directory, a glob or - (standard input): native JSON Lines or Parquet, ShiViz, GoVector and
    tracing logs, OTLP (JSON or protobuf), Jaeger and Zipkin JSON, plain or compressed (.gz, .zst). With
    --map any JSON Lines or CSV.

    \b
    Examples:
      beforehand analyze traces/*.json --to history
      beforehand analyze app.log --map fields.toml --to history
      beforehand analyze events/ --to history --master spark://host:7077
    """
    need("pipeline", "pyspark", "pyarrow", "pandas", "numba", "duckdb")
    # Late: `--help` should not wait for Spark.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from beforehand.errors import InputError, InvariantError
    from beforehand.formats import read_map
    from beforehand.pipeline.inputs import InputOptions
    from beforehand.pipeline.jobs.analyze import Settings
    from beforehand.pipeline.jobs.analyze import analyze as run
    from beforehand.pipeline.progress import Progress

    settings: dict[str, str] = {}
    for pair in conf:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--conf {pair!r} is not KEY=VALUE")
        if not key.strip().startswith("spark."):  # Spark would leave it out and say nothing.
            raise InputError(f"--conf {pair!r} is no setting of Spark: they start with spark.")
        settings[key.strip()] = value
    options = InputOptions(
        format=name,
        fields=None if map_file is None else read_map(map_file),
        regex=regex,
        delimiter=delimiter,
        time_unit=time_unit,
    )
    chosen = Settings(
        options=options,
        replace=replace,
        master=master,
        conf=settings,
        blocks=blocks,
        witnesses=witnesses,
        lamport=lamport,
    )
    if not os.environ.get("BEFOREHAND_DEBUG"):
        _silence_stacks()
    try:
        report = run(inputs, target, chosen, progress=Progress(quiet=as_json))
    except (PySparkException, Py4JError) as error:
        if os.environ.get("BEFOREHAND_DEBUG"):
            raise
        raise InvariantError(f"Spark failed: {_cause(error)} (set BEFOREHAND_DEBUG=1 for the details)") from error
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        click.echo(_summary(report, target))


def _silence_stacks() -> None:
    """PySpark logs exceptions that it raises, with all of their stack, before anybody could catch them."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _cause(error: Exception) -> str:
    """The line that says most of what comes with two stacks: the exception of the task, else the innermost cause."""
    lines = [line.strip() for line in str(error).splitlines()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line) and "SparkException" not in line]
    caused = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return next(iter([*raised, *reversed(caused), *lines, type(error).__name__]))[:400]


def _summary(report: dict[str, Any], target: Path) -> str:
    lines = [
        (
            f"{report['events']:,} events of {report['processes']:,} processes in {report['executions']:,} "
            f"execution(s); {report['messages']:,} messages, {report['receives']:,} receives"
        )
    ]
    if report["depth"] is not None:
        lines.append(f"depth: {report['depth']:,} events in the longest causal chain")
    if report["rejected"]:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in report["rejected_reasons"].items())
        lines.append(f"rejected: {report['rejected']:,} ({reasons})")
    found = ", ".join(f"{kind} {count:,}" for kind, count in report["violations"].items() if count)
    lines.append(f"violations: {found or 'none'}")
    lines += [f"note: {note}" for note in report["notes"]]
    if report["failures"]:
        first = report["failures"][0]
        lines.append(f"failures: {report['failures_total']:,}; the first: {first['event']} {first['name']}")
        lines.append(f"  what led to it: beforehand explain {target} '{first['event']}'")
    lines.append(f"the page: {target / 'report.html'}")
    return "\n".join(lines)
