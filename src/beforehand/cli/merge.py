"""`beforehand merge`: what publishers send, in one causal order; on Spark or live.

Here are the options and what of them goes together. The live half is in merge_live.py, the one on Spark in
merge_spark.py; neither loads what the other needs.
"""

from __future__ import annotations

from pathlib import Path

import click

from beforehand.cli.broker_options import broker_options, is_stream, merge_options, merge_settings, stream_address
from beforehand.cli.numbers import FiniteRange
from beforehand.cli.printing import json_option
from beforehand.cli.spark_options import spark_conf
from beforehand.ordering.merging import WAITING_MAX, MergeSettings

__all__ = ["merge"]

_LIVE_ONLY = ("embedded_broker", "broker_data", "create", "set_aside", "replace")
_SPARK_ONLY = (
    "checkpoint",
    "also",
    "subjects",
    "form",
    "flush",
    "interval",
    "messages_max",
    "bytes_max",
    "lanes",
    "master",
    "conf",
)


@click.command()
@click.option(
    "--from", "source", required=True, metavar="SOURCE", help="nats://HOST:PORT/STREAM[?subject=…]; or files."
)
@click.option(
    "--to", "sink", required=True, metavar="SINK", help="nats://HOST:PORT/STREAM; or a file, - or a folder."
)
@merge_options
@click.option("--live", is_flag=True, help="Merge here, with a delay of milliseconds, instead of on Spark.")
@click.option(
    "--grace",
    type=FiniteRange(0, 86_400_000),
    metavar="MS",
    help="How far the clocks of broker and merger may lie apart; epsilon unless told otherwise.",
)
@click.option("--once", is_flag=True, help="End when all that there is has been merged.")
@click.option(
    "--waiting-max",
    type=click.IntRange(1, 10**8),
    default=WAITING_MAX,
    show_default=True,
    metavar="N",
    help="At most so many messages wait; more are set aside.",
)
@click.option("--embedded-broker", is_flag=True, help="Live: start a broker at the address of --from.")
@click.option(
    "--broker-data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Live: where the embedded broker keeps its streams; forgotten at the end if not given.",
)
@click.option("--create", is_flag=True, help="Live: make the stream of --from if it is not there.")
@click.option(
    "--set-aside",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Live, to a file: where set-aside records go; FILE.set-aside unless told otherwise.",
)
@click.option("--replace", is_flag=True, help="Live, to a file: replace it if it is there.")
@click.option(
    "--checkpoint", type=click.Path(path_type=Path), metavar="DIR", help="Spark: where the query keeps how far it is."
)
@click.option(
    "--also",
    multiple=True,
    metavar="STREAM",
    help="Spark: another stream of the same server, merged with it; may be repeated.",
)
@click.option(
    "--subject",
    "subjects",
    multiple=True,
    metavar="SUBJECT",
    help="Spark: a filter of the stream, read by a task of its own; may be repeated.",
)
@click.option("--form", type=click.Choice(["parquet", "jsonl"]), help="Spark, to a folder: the form of its files.")
@click.option("--flush", is_flag=True, help="Spark, with --once: release what waits at the end: no more will come.")
@click.option("--interval", type=FiniteRange(0, 3_600), metavar="SECONDS", help="Spark: between micro-batches.")
@click.option(
    "--messages-max", type=click.IntRange(1, 10**9), metavar="N", help="Spark: of a stream in a micro-batch."
)
@click.option("--bytes-max", type=click.IntRange(1, 10**12), metavar="N", help="Spark: of files in a micro-batch.")
@click.option("--lanes", type=click.IntRange(1, 10_000), metavar="N", help="Spark: units of parallelism, for good.")
@click.option("--master", help="Spark: the master, as for `analyze`.")
@click.option("--conf", "conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated.")
@broker_options
@json_option
@click.pass_context
def merge(
    context: click.Context,
    /,
    source: str,
    sink: str,
    epsilon: float,
    delta: float,
    tick: float,
    publishers: int,
    events_per_tick: int,
    live: bool,
    **_: object,
) -> None:
    """Merge what publishers send into one order that respects causality, the same for every merger.

    A message leaves when its clock reading, delta and epsilon have passed; one that arrives later than delta is set
    aside, with the reason.

    \b
    Examples:
      beforehand merge --live --from nats://127.0.0.1:4222/ORDERS --to nats://127.0.0.1:4222/MERGED
                       --epsilon 10 --delta 200 --embedded-broker
      beforehand merge --from arrived/ --to merged/ --epsilon 10 --delta 200 --checkpoint state --once
    """
    settings = merge_settings(
        epsilon=epsilon, delta=delta, tick=tick, publishers=publishers, events_per_tick=events_per_tick
    )
    given = {name for name in context.params if context.get_parameter_source(name) is _GIVEN}
    for name in _SPARK_ONLY if live else _LIVE_ONLY:
        if name in given:
            option = next(p.opts[0] for p in context.command.params if p.name == name)
            raise click.UsageError(
                f"{option} is for merging {'on Spark: leave out --live' if live else 'with --live'}"
            )
    if live:
        _live(context, source, sink, settings)
    else:
        _on_spark(context, source, sink, settings)


_GIVEN = click.core.ParameterSource.COMMANDLINE


def _live(context: click.Context, source: str, sink: str, settings: MergeSettings) -> None:
    from beforehand.cli.merge_live import LiveMergeOptions, run_live

    params = context.params
    run_live(
        LiveMergeOptions(
            source=stream_address(source, "--from"),
            sink=stream_address(sink, "--to") if is_stream(sink) else Path(sink),
            settings=settings,
            grace_ns=_ns(params["grace"]),
            once=params["once"],
            waiting_max=params["waiting_max"],
            embedded_broker=params["embedded_broker"],
            broker_data=params["broker_data"],
            create=params["create"] or params["embedded_broker"],
            set_aside=params["set_aside"],
            replace=params["replace"],
            credentials=params["credentials"],
            tls_ca=params["tls_ca"],
            as_json=params["as_json"],
        )
    )


def _on_spark(context: click.Context, source: str, sink: str, settings: MergeSettings) -> None:
    from beforehand.cli.merge_spark import SparkMergeOptions, run_on_spark

    params = context.params
    if params["checkpoint"] is None:
        raise click.UsageError("Missing option '--checkpoint': a folder for the state; or merge with --live.")
    chosen = {"interval_s": params["interval"], "form": params["form"], "messages_max": params["messages_max"]}
    chosen |= {"bytes_max": params["bytes_max"], "lanes": params["lanes"]}
    run_on_spark(
        SparkMergeOptions(
            source=stream_address(source, "--from") if is_stream(source) else Path(source),
            sink=stream_address(sink, "--to") if is_stream(sink) else Path(sink),
            settings=settings,
            checkpoint=params["checkpoint"],
            also=params["also"],
            subjects=params["subjects"],
            grace_ns=_ns(params["grace"]),
            once=params["once"],
            flush=params["flush"],
            waiting_max=params["waiting_max"],
            credentials=params["credentials"],
            tls_ca=params["tls_ca"],
            master=params["master"],
            conf=tuple(spark_conf(params["conf"]).items()),
            as_json=params["as_json"],
            **{name: value for name, value in chosen.items() if value is not None},
        )
    )


def _ns(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds * 1e6)
