"""`beforehand chat`: people in a group; what is said is delivered in the order that was chosen (Garg, 12.4.1).

As in figure 12.5 a line may name whom it is for: `@bob,cy lunch?`. Each order but `total` takes that. Under
`rendezvous` a message goes to one, so a line is a message to each, one after the other (the figure sends it to the
first only); whom it was for then stands before it, for the message itself names its receiver alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from beforehand.cli.broker_options import stopping
from beforehand.cli.printing import shown
from beforehand.cli.standard_input import lines_of, standard_input
from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.ordering import Message
    from beforehand.runtime import Group, Transport

__all__ = ["chat"]

ORDERS: Final = {
    "unordered": "unordered",
    "fifo": "fifo",
    "causal": "causal-unicast",  # Figure 12.4, which the chat of the paper uses: any set of destinations.
    "total": "single-phase",
    "rendezvous": "rendezvous",
}
_SEEN_MAX: Final = 2_000

Say = Callable[[str, Sequence[str], bytes], None]
"""Prints who said something to whom (nobody named: to all), and what."""


@click.command()
@click.option("--name", "me", required=True, metavar="NAME", help="Your name, which --peers has too.")
@click.option(
    "--peers",
    multiple=True,
    required=True,
    metavar="NAME=HOST:PORT,...",
    help="The members and their addresses, yours too; may be repeated.",
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
@click.option("--json", "as_json", is_flag=True, help="Each message that is delivered as a line of JSON.")
def chat(
    me: str,
    peers: tuple[str, ...],
    order: str,
    delays: tuple[str, ...],
    key_file: Path | None,
    state: Path | None,
    as_json: bool,
) -> None:
    """Talk in a group: what you type goes to all, what is delivered is printed. Ctrl-D leaves.

    A line that begins with @ goes to those whom it names: @bob,cy lunch? It is printed with their names. With total
    every line goes to all.

    With unordered or fifo an answer can come before its question. With causal it cannot; with total all see
    everything in the same order. With rendezvous a line goes to one after the other, as a message of its own to
    each: these are in one order, but whoever has the line can answer before the next one gets it.

    \b
    Example, each in a terminal of its own:
      peers=ada=127.0.0.1:7001,bob=127.0.0.1:7002,cy=127.0.0.1:7003
      beforehand chat --name ada --peers $peers --delay cy=3000
      beforehand chat --name bob --peers $peers
      beforehand chat --name cy --peers $peers
    """
    addresses: dict[str, str] = {}
    given = [text for several in peers for text in several.split(",")]
    for name, address in (_pair(text, "--peers", "NAME=HOST:PORT") for text in given):
        if addresses.setdefault(name, address) != address:
            raise InputError(f"--peers {name!r} has two addresses: give one")
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
    say = _say_json if as_json else _say
    asyncio.run(_chat(me, addresses, order, held, key, state, say))


async def _chat(
    me: str,
    peers: dict[str, str],
    order: str,
    held: dict[str, float],
    key: bytes | None,
    state: Path | None,
    say: Say,
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
                asyncio.create_task(doing) for doing in (_listen(group, say), _talk(group, say, order), _until(stop))
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            for task in done:
                task.result()


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


async def _listen(group: Group, say: Say) -> None:
    async for message in group:
        to, text = _meant(message, group)
        say(message.sender, to, text)


async def _talk(group: Group, say: Say, order: str) -> None:
    async for line in lines_of(standard_input()):
        if not line.strip():
            continue
        try:
            named, text = _addressed(line, group, order)
        except InputError as error:
            click.echo(f"not sent: {error}", err=True)
            continue
        if order != "rendezvous":
            await group.send(text, [group.me, *named] if named else None)
            continue
        header = ",".join(named).encode() + b"\n" if named else b""
        for name in named or group.view.processes:
            if name != group.me:
                await group.send(header + text, name)
        say(group.me, named, text)


def _addressed(line: bytes, group: Group, order: str) -> tuple[Sequence[str], bytes]:
    """Whom a line is for (nobody named: all) and what it says. InputError if it cannot be sent so."""
    if not line.startswith(b"@"):
        return (), line
    first, _, text = line[1:].partition(b" ")
    named = first.decode(errors="replace").split(",")
    there = group.view.processes
    for name in named:
        if name not in there:
            raise InputError(f"there is no {shown(name)!r} here; there are: {shown(', '.join(there))}")
    if ORDERS[order] == "single-phase":
        raise InputError("with --order total every line goes to all: leave out the names")
    if not text.strip():
        raise InputError(f"write what you have to say after @{shown(','.join(named))}")
    others = [name for name in there if name in named and name != group.me]
    if not others:
        raise InputError("you named yourself only")
    return others if len(others) < len(there) - 1 else (), text


def _meant(message: Message, group: Group) -> tuple[Sequence[str], bytes]:
    """Whom a message was for (nobody named: all) and what it says."""
    if group.order == "rendezvous":
        named, newline, text = message.payload.partition(b"\n")  # A line has none.
        return (named.decode(errors="replace").split(","), text) if newline else ((), message.payload)
    for_all = set(group.view.processes) <= {message.sender, *message.to}
    return () if for_all else message.others, message.payload


def _say(sender: str, to: Sequence[str], text: bytes) -> None:
    who = f"{shown(sender)} to {shown(', '.join(to))}" if to else shown(sender)
    click.echo(f"{who}: {shown(text.decode(errors='replace'), _SEEN_MAX)}")


def _say_json(sender: str, to: Sequence[str], text: bytes) -> None:
    click.echo(json.dumps({"sender": sender, "to": list(to), "text": text.decode(errors="replace")}))


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise InputError(f"{option} {text[:80]!r} is not {form}")
    return name, value


def _milliseconds(text: str) -> float:
    if not text.isdecimal() or len(text) > 9 or int(text) > 3_600_000:
        raise InputError(f"--delay {text[:40]!r}: a number of milliseconds, an hour at most")
    return int(text) / 1000
