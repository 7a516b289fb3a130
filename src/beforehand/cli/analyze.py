"""`beforehand analyze`: from logs and traces to an explained history."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import click

from beforehand.cli.extras import need
from beforehand.cli.printing import shown
from beforehand.cli.spark_options import spark_conf

__all__ = ["analyze"]

_REJECTED_SHOWN = 3
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
    from beforehand.formats import read_map
    from beforehand.pipeline.inputs import InputOptions
    from beforehand.pipeline.jobs.analyze import Settings
    from beforehand.pipeline.jobs.analyze import analyze as run
    from beforehand.pipeline.progress import Progress

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
        conf=spark_conf(conf),
        blocks=blocks,
        witnesses=witnesses,
        lamport=lamport,
    )
    if not os.environ.get("BEFOREHAND_DEBUG"):
        _silence_stacks()
    report = run(inputs, target, chosen, progress=Progress(quiet=as_json))
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
    else:
        click.echo(_summary(report, target))


def _silence_stacks() -> None:
    """PySpark logs exceptions that it raises, with all of their stack, before anybody could catch them."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _summary(report: dict[str, Any], target: Path) -> str:
    from beforehand.history.judging import NO_CLOCKS  # That no event reports a clock is no news here.

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
        lines += _rejected(report, target)
    lines.append(f"violations: {_violations(report)}")
    lines += [f"note: {shown(note, 500)}" for note in report["notes"] if note != NO_CLOCKS]
    if report["failures"]:
        first = report["failures"][0]
        named = f"{shown(first['event'])} {shown(first['name'])}"
        lines.append(f"failures: {report['failures_total']:,}; the first: {named}")
        # To be copied: it means what it says to a shell, whatever the name of the process.
        if shown(first["event"], len(first["event"])) == first["event"]:
            event = "'" + first["event"].replace("'", "'\\''") + "'"
            lines.append(f"  what led to it: beforehand explain {shlex.quote(str(target))} {event}")
    lines.append(f"the page: {target / 'report.html'}")
    return "\n".join(lines)


def _rejected(report: dict[str, Any], target: Path) -> list[str]:
    """Some of what was rejected, one of each reason first: whole files before parts of them."""
    chosen: list[dict[str, Any]] = []
    for one in sorted(report["rejected_examples"], key=lambda one: one["line"] is not None):
        if one["reason"] not in {other["reason"] for other in chosen}:
            chosen.append(one)
    chosen += [one for one in report["rejected_examples"] if one not in chosen]
    lines = []
    for one in chosen[:_REJECTED_SHOWN]:
        file = str(one["file"] or "")
        detail = str(one["detail"]).removeprefix(file).lstrip(": ")
        place = file.removeprefix(f"{Path.cwd()}{os.sep}") + ("" if one["line"] is None else f":{one['line']}")
        lines.append(f"  {shown(place, 120)}{': ' if place else ''}{one['reason']}: {shown(detail, 200)}")
    left = report["rejected"] - len(lines)
    lines.append(f"  {f'and {left:,} more; ' if left > 0 else ''}all are in {target / 'rejected'}")
    return lines


def _violations(report: dict[str, Any]) -> str:
    """Those found; `none` only where some order was judged."""
    found = ", ".join(f"{kind} {count:,}" for kind, count in report["violations"].items() if count)
    judged = any(count is not None for kind, count in report["violations"].items() if kind != "clock")
    if found or judged:
        return found or "none"
    return "not judged" if report["violations"].get("clock") is None else "none in reported clocks"
