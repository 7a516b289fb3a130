"""`beforehand publish`: lines of text, stamped, to a channel."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from beforehand.cli.broker_options import broker_options, merge_options, merge_settings, stream_address
from beforehand.cli.printing import echo_json, json_option
from beforehand.cli.standard_input import lines_of, standard_input

if TYPE_CHECKING:
    from beforehand.ordering.merging import MergeSettings
    from beforehand.runtime import StreamAddress

__all__ = ["publish"]

_WAIT_TOLD_NS = 2_000_000_000


@click.command()
@click.option("--to", "target", required=True, metavar="STREAM", help="nats://HOST:PORT/STREAM")
@click.option("--channel", required=True, help="A subject of the stream.")
@click.option("--publisher", "name", required=True, metavar="NAME", help="Who publishes. One at a time has a name.")
@merge_options
@click.option("--file", "path", type=click.Path(path_type=Path), help="Read this file instead of standard input.")
@click.option(
    "--first-sequence",
    type=click.IntRange(1, 2**62),
    metavar="N",
    help="The number of the first message; unless told otherwise, numbers go on after those of the stream.",
)
@broker_options
@json_option
def publish(
    target: str,
    channel: str,
    name: str,
    epsilon: float,
    delta: float,
    tick: float,
    publishers: int,
    events_per_tick: int,
    path: Path | None,
    first_sequence: int | None,
    credentials: Path | None,
    tls_ca: Path | None,
    as_json: bool,
) -> None:
    """Publish each line of standard input, or of a file, as a message with a stamp.

    --epsilon, --delta, --tick, --publishers and --events-per-tick must be those of the merger.

    \b
    Example:
      seq 100 | beforehand publish --to nats://127.0.0.1:4222/ORDERS --channel ORDERS.new --publisher shop
                                   --epsilon 10 --delta 200
    """
    settings = merge_settings(
        epsilon=epsilon, delta=delta, tick=tick, publishers=publishers, events_per_tick=events_per_tick
    )
    address = stream_address(target, "--to")
    source: IO[bytes] = standard_input() if path is None else path.open("rb")
    try:
        first, last = asyncio.run(
            _publish(address, channel, name, settings, source, first_sequence, credentials, tls_ca)
        )
    finally:
        if path is not None:
            source.close()
    if as_json:
        document = {"publisher": name, "channel": channel, "messages": last - first + 1}
        echo_json({**document, "first_sequence": first, "last_sequence": last})
    else:
        numbers = f": numbers {first} to {last}" if last >= first else ""
        click.echo(f"published {last - first + 1:,} message(s) of {name} on {channel}{numbers}", err=True)


async def _publish(
    address: StreamAddress,
    channel: str,
    name: str,
    settings: MergeSettings,
    source: IO[bytes],
    first_sequence: int | None,
    credentials: Path | None,
    tls_ca: Path | None,
) -> tuple[int, int]:
    """The numbers of the first and the last message."""
    from beforehand.runtime import Publisher, connect

    connection = await connect(address.server, credentials=credentials, tls_ca=tls_ca)
    try:
        if settings.epsilon_ns >= _WAIT_TOLD_NS:
            click.echo(f"waiting epsilon ({settings.epsilon_ns / 1e9:g} s) before the first message", err=True)
        publisher = await Publisher.open(connection, address, name, settings, first_sequence=first_sequence)
        first = publisher.sequence + 1
        try:
            async for line in lines_of(source):
                await publisher.publish(channel, line)
            await publisher.close()
        except BaseException:
            _tell_how_far(first, publisher.stored, publisher.sequence)
            raise
        return first, publisher.sequence
    finally:
        await connection.close()


def _tell_how_far(first: int, stored: int, last: int) -> None:
    """What whoever sends the rest must know, when publishing ends before its end."""
    if last < first:
        click.echo("nothing was published", err=True)
        return
    surely = f"numbers {first} to {stored} are stored" if stored >= first else "none is stored for sure"
    open_ends = f"; {stored + 1} to {last} may be stored or not" if last > stored else ""
    click.echo(f"published {last - first + 1:,} message(s): {surely}{open_ends}", err=True)
