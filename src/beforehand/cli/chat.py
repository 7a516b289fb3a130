"""`beforehand chat`: people in a group; what is said is delivered in the order that was chosen (Garg, 12.4.1)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from beforehand.cli.broker_options import stopping
from beforehand.cli.printing import shown
from beforehand.cli.standard_input import lines_of
from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.runtime import Group, Transport

__all__ = ["chat"]

ORDERS: Final = {
    "unordered": "unordered",
    "fifo": "fifo",
    "causal": "causal-broadcast",
    "total": "single-phase",
    "rendezvous": "rendezvous",
}
_SEEN_MAX: Final = 2_000


@click.command()
@click.argument("me")
@click.option(
    "--peer",
    "peers",
    multiple=True,
    required=True,
    metavar="NAME=HOST:PORT",
    help="A member and its address, yours too; once for each.",
)
@click.option(
    "--order", type=click.Choice(list(ORDERS)), default="causal", show_default=True, help="What to promise."
)
@click.option(
    "--delay",
    "delays",
    multiple=True,
    metavar="NAME=MS",
    help="Hold back what you send to NAME, to see what the order is good for; may be repeated.",
)
@click.option(
    "--key-file", type=click.Path(path_type=Path), help="A key that all members know: needed beyond loopback."
)
@click.option("--state", type=click.Path(path_type=Path), help="Keep what is needed to come back after a crash.")
def chat(
    me: str, peers: tuple[str, ...], order: str, delays: tuple[str, ...], key_file: Path | None, state: Path | None
) -> None:
    """Talk in a group: what you type goes to all, what is delivered is printed. Ctrl-D leaves.

    ME is your name, which a --peer has too. With unordered or fifo an answer can come before its question. With
    causal it cannot; with total all see everything in the same order; with rendezvous a line is sent when it is
    received.

    \b
    Example, each in a terminal of its own:
      beforehand chat ada --peer ada=127.0.0.1:7001 --peer bob=127.0.0.1:7002 --peer cy=127.0.0.1:7003 --delay cy=3000
      beforehand chat bob --peer ada=127.0.0.1:7001 --peer bob=127.0.0.1:7002 --peer cy=127.0.0.1:7003
      beforehand chat cy  --peer ada=127.0.0.1:7001 --peer bob=127.0.0.1:7002 --peer cy=127.0.0.1:7003
    """
    addresses = dict(_pair(text, "--peer", "NAME=HOST:PORT") for text in peers)
    held = {name: _milliseconds(value) for name, value in (_pair(text, "--delay", "NAME=MS") for text in delays)}
    for name in held:
        if name not in addresses or name == me:
            raise InputError(f"--delay {name}: there is no other member of this name")
    key = None
    if key_file is not None:
        try:
            key = key_file.read_bytes().strip()
        except OSError as error:
            raise InputError(f"{key_file}: cannot be read: {error.strerror}") from None
    asyncio.run(_chat(me, addresses, order, held, key, state))


async def _chat(
    me: str, peers: dict[str, str], order: str, held: dict[str, float], key: bytes | None, state: Path | None
) -> None:
    from beforehand.runtime import Group, TcpTransport
    from beforehand.runtime.transports.delayed import DelayedTransport

    transport: Transport = TcpTransport(key=key)
    if held:
        transport = DelayedTransport(transport, held)
    with stopping() as stop:
        async with Group(me, peers, order=ORDERS[order], transport=transport, name="chat", state=state) as group:
            click.echo(f"{me} listens at {peers[me]}, order: {order}; Ctrl-D leaves", err=True)
            tasks = [
                asyncio.create_task(doing)
                for doing in (_listen(group), _talk(group, single=order == "rendezvous"), _until(stop))
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            for task in done:
                task.result()


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


async def _listen(group: Group) -> None:
    async for message in group:
        text = message.payload.decode(errors="replace")
        click.echo(f"{shown(message.sender)}: {shown(text, _SEEN_MAX)}")


async def _talk(group: Group, *, single: bool) -> None:
    async for line in lines_of(sys.stdin.buffer):
        if not line.strip():
            continue
        if not single:
            await group.send(line)
            continue
        for name in group.view.processes:
            if name != group.me:
                await group.send(line, name)
        click.echo(f"{shown(group.me)}: {shown(line.decode(errors='replace'), _SEEN_MAX)}")


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise InputError(f"{option} {text[:80]!r} is not {form}")
    return name, value


def _milliseconds(text: str) -> float:
    if not text.isdecimal() or int(text) > 3_600_000:
        raise InputError(f"--delay {text[:40]!r}: a number of milliseconds, an hour at most")
    return int(text) / 1000
