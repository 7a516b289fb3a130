"""`beforehand merge --live`: the live merger, with a broker of its own if asked, its progress and its end.

Ctrl-C and SIGTERM end it in good order: what was begun is written, and the figures are said. To a stream it goes on
where it stopped; to a file it begins anew, with the same lines.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import click

from beforehand.cli.broker_options import stopping
from beforehand.cli.live_line import LiveLine
from beforehand.cli.printing import echo_json
from beforehand.errors import InputError
from beforehand.formats.published import RecordLimits, stamp_bytes_max
from beforehand.ordering.merging import MergeSettings
from beforehand.runtime import (
    Connection,
    EmbeddedBroker,
    LineOutput,
    LiveLimits,
    LiveMerger,
    MergeFigures,
    StreamAddress,
    StreamOutput,
    connect,
    ensure_stream,
)
from beforehand.runtime.merge_output import MergeOutput
from beforehand.runtime.nats import covers, shown_server

__all__ = ["LiveMergeOptions", "run_live"]

_HEADERS_MAX = 4096
_LOOPBACK = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMergeOptions:
    """What a live merge is asked for. A path is a file of lines, `-` standard output."""

    source: StreamAddress
    sink: StreamAddress | Path
    settings: MergeSettings
    grace_ns: int | None = None
    once: bool = False
    waiting_max: int = 1_000_000
    embedded_broker: bool = False
    broker_data: Path | None = None
    create: bool = False
    set_aside: Path | None = None
    replace: bool = False
    credentials: Path | None = None
    tls_ca: Path | None = None
    as_json: bool = False


def run_live(options: LiveMergeOptions) -> None:
    """Merge until stopped, or with `once` until nothing is left."""
    _check(options)
    # Messages wait in large numbers and have no cycles: looking for garbage among them took a twentieth of the time.
    gc.set_threshold(100_000, 50, 100)
    with ExitStack() as stack:
        if options.embedded_broker:
            port = urlsplit(options.source.server).port or 0
            stack.enter_context(EmbeddedBroker(options.broker_data, port=port))
            click.echo(f"broker: {shown_server(options.source.server)}", err=True)
        figures = asyncio.run(_run(options, stack))
    if options.as_json:
        echo_json(_document(figures))
    else:
        click.echo(told(figures), err=True)


def told(figures: MergeFigures) -> str:
    """The figures on a line."""
    aside = sum(figures.set_aside.values())
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(figures.set_aside.items()))
    parts = [
        f"{figures.delivered:,} delivered",
        f"{aside:,} set aside{f' ({reasons})' if reasons else ''}",
        f"{figures.waiting:,} waiting in {figures.channels:,} channel(s)",
    ]
    if figures.lag_ns:
        parts.append(f"{figures.lag_ns / 1e9:.1f} s behind")
    if figures.restarts:
        parts.append(f"{figures.restarts} restart(s)")
    if figures.missed:
        parts.append(f"{figures.missed:,} sequence(s) of the input were removed before they could be read again")
    return "; ".join(parts)


async def _run(options: LiveMergeOptions, stack: ExitStack) -> MergeFigures:
    connection = await connect(options.source.server, credentials=options.credentials, tls_ca=options.tls_ca)
    opened = [connection]
    line = LiveLine(quiet=options.as_json)
    try:
        if options.create:
            subject = options.source.subject or f"{options.source.stream}.>"
            await ensure_stream(connection.jetstream(), options.source, [subject])
        merger = LiveMerger(
            connection,
            options.source,
            await _output(options, opened, stack),
            options.settings,
            grace_ns=options.grace_ns,
            limits=LiveLimits(waiting_max=options.waiting_max, records=_records(options, connection)),
            progress=lambda figures: line.show(lambda: told(figures)),
        )
        with stopping() as stop:
            return await merger.run(stop, drain=options.once)
    finally:
        line.clear()
        for each in opened:
            await each.close()


async def _output(options: LiveMergeOptions, opened: list[Connection], stack: ExitStack) -> MergeOutput:
    """`opened` are the connections that are closed at the end, that of the input first."""
    sink = options.sink
    if isinstance(sink, StreamAddress):
        if sink.server != options.source.server:
            opened.append(await connect(sink.server, credentials=options.credentials, tls_ca=options.tls_ca))
        return StreamOutput(opened[-1], sink)
    if str(sink) == "-":
        aside = None if options.set_aside is None else _opened(options.set_aside, options, stack)
        return LineOutput(sys.stdout.buffer, aside)
    lines = _opened(sink, options, stack)
    return LineOutput(lines, _opened(_beside(sink, options), options, stack))


def _beside(sink: Path, options: LiveMergeOptions) -> Path:
    return options.set_aside or sink.with_name(f"{sink.name}.set-aside")


def _opened(path: Path, options: LiveMergeOptions, stack: ExitStack) -> IO[bytes]:
    try:
        return stack.enter_context(path.open("wb" if options.replace else "xb"))
    except FileExistsError:
        raise _there_already(path) from None


def _there_already(path: Path) -> InputError:
    return InputError(f"{path} is there already: take another name, or --replace (the merge begins anew)")


def _records(options: LiveMergeOptions, connection: Connection) -> RecordLimits:
    """What is read must fit into the broker again, with its new headers."""
    room = connection.max_payload - _HEADERS_MAX - stamp_bytes_max(options.settings)
    if room < 1:
        raise InputError("the broker takes no message large enough for stamps of this epsilon: take a longer --tick")
    return RecordLimits(payload_bytes_max=min(RecordLimits().payload_bytes_max, room))


def _check(options: LiveMergeOptions) -> None:
    source, sink = options.source, options.sink
    if source.prefix is not None:
        raise InputError("--from: an input has a subject, not a prefix")
    if options.as_json and str(sink) == "-":
        raise InputError("--json and --to - cannot both have standard output")
    if options.embedded_broker and source.server.startswith("tls://"):
        raise InputError("--embedded-broker has no TLS: give --from nats://127.0.0.1:PORT/STREAM")
    if options.embedded_broker and urlsplit(source.server).hostname not in _LOOPBACK:
        raise InputError("--embedded-broker listens on 127.0.0.1 only: give --from nats://127.0.0.1:PORT/STREAM")
    if options.broker_data is not None and not options.embedded_broker:
        raise InputError("--broker-data is for --embedded-broker")
    if not isinstance(sink, StreamAddress):
        if options.set_aside is not None and options.set_aside.resolve() == sink.resolve():
            raise InputError("--to and --set-aside are the same file")
        given = [] if str(sink) == "-" else [sink, _beside(sink, options)]
        for path in given if not options.replace else ():
            if path.exists():  # Before one of the two is made.
                raise _there_already(path)
        return
    if sink.subject is not None:
        raise InputError("--to: an output has a prefix, not a subject")
    if sink.server == source.server and sink.stream == source.stream:
        raise InputError("--from and --to are the same stream: a merger writes to a stream of its own")
    prefix = sink.prefix or sink.stream
    if options.create and covers(f"{prefix}.>", source.subject or f"{source.stream}.>"):
        raise InputError(f"--from takes subjects under {prefix!r}, where --to writes: choose another prefix")
    if options.set_aside is not None or options.replace:
        raise InputError("--set-aside and --replace are for an output to a file")


def _document(figures: MergeFigures) -> dict[str, object]:
    return {**asdict(figures), "set_aside": dict(figures.set_aside)}
