"""`beforehand subscribe`: the merged messages of a channel, in order."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beforehand.cli.broker_options import broker_options, stopping, stream_address
from beforehand.cli.printing import shown
from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.formats.merged import MergedRecord
    from beforehand.runtime import StreamAddress

__all__ = ["subscribe"]

_WAIT_S = 1.0


@click.command()
@click.option(
    "--from", "source", required=True, metavar="STREAM", help="nats://HOST:PORT/STREAM that a merger writes."
)
@click.option("--channel", help="Which channel; all of them if not given.")
@click.option(
    "--from-position",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Leave out what comes before.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="End after so many messages.")
@click.option("--once", is_flag=True, help="End when all that there is has been printed.")
@click.option("--json", "as_json", is_flag=True, help="Each message as a line of JSON.")
@broker_options
def subscribe(
    source: str,
    channel: str | None,
    from_position: int,
    limit: int | None,
    once: bool,
    as_json: bool,
    credentials: Path | None,
    tls_ca: Path | None,
) -> None:
    """Print what a merger released, in its order, and go on as more comes.

    A line has the position, the publisher with its number, and the message.

    \b
    Example:
      beforehand subscribe --from nats://127.0.0.1:4222/MERGED --channel ORDERS.new --limit 10
    """
    address = stream_address(source, "--from")
    if address.subject is not None:
        raise InputError("--from: say --channel instead of subject")
    asyncio.run(_subscribe(address, channel, from_position, limit, once, as_json, credentials, tls_ca))


async def _subscribe(
    address: StreamAddress,
    channel: str | None,
    from_position: int,
    limit: int | None,
    once: bool,
    as_json: bool,
    credentials: Path | None,
    tls_ca: Path | None,
) -> None:
    from beforehand.formats.merged import MergedRecord
    from beforehand.runtime import StreamReader, connect

    prefix = f"{address.prefix or address.stream}."
    connection = await connect(address.server, credentials=credentials, tls_ca=tls_ca)
    reader = StreamReader(connection, replace(address, subject=f"{prefix}{channel or '>'}"))
    positions: dict[str, int] = {}
    printed = 0
    try:
        await reader.open()
        with stopping() as stop:
            while not stop.is_set():
                fetched = await reader.fetch()
                if not fetched.messages and fetched.drained:
                    if once:
                        return
                    fetched = await reader.wait(_WAIT_S)
                for stored in fetched.messages:
                    name = stored.subject.removeprefix(prefix)
                    record = MergedRecord.from_headers(name, stored.headers, stored.payload)
                    before = positions.get(name)
                    if before is not None and record.position != before + 1:
                        raise InputError(f"channel {name!r}: after position {before} comes {record.position}")
                    positions[name] = record.position
                    if record.position >= from_position:
                        _print(record, as_json, with_channel=channel is None)
                        printed += 1
                        if printed == limit:
                            return
                sys.stdout.flush()
    finally:
        await reader.close()
        await connection.close()


def _print(record: MergedRecord, as_json: bool, *, with_channel: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(record.line())
        return
    where = f"{shown(record.channel)} " if with_channel else ""
    text = shown(record.payload.decode(errors="replace"), 1_000)
    sys.stdout.buffer.write(
        f"{where}{record.position}  {shown(record.publisher)}:{record.sequence}  {text}\n".encode(errors="replace")
    )
