"""One member as a process of its own, in several groups at once; sends so many messages to each, until SIGTERM.

The groups know nothing of each other. That one process is a member of all of them saves the start of many processes,
and whoever kills it kills a member of each.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

from beforehand.errors import BrokerError
from beforehand.ordering import PROTOCOLS, Message
from beforehand.runtime.group import Group
from beforehand.runtime.group_store import SEND, read_journal
from beforehand.runtime.transports.nats import NatsTransport
from beforehand.runtime.transports.tcp import TcpTransport


async def appears(path: str) -> None:
    while not Path(path).exists():
        await asyncio.sleep(0.02)


async def opened(me: str, given: dict[str, Any]) -> Group:
    """A broker that is out of reach at first is an error; whoever starts a member starts it again."""

    async def handle(message: Message) -> str:
        return message.id

    key = given["key"].encode() if given.get("key") else None
    stream = given.get("stream")
    while True:
        group = Group(
            me,
            given["peers"],
            order=given["order"],
            transport=TcpTransport(key=key) if stream is None else NatsTransport(stream, key=key),
            handler=handle,
            state=given["state"],
            journal=True,
            options=given.get("options"),
        )
        try:
            await group.open()
        except BrokerError as error:
            sys.stderr.write(f"{error}\n")
        else:
            return group


async def member(me: str, given: dict[str, Any], stop: asyncio.Event) -> None:
    state = Path(given["state"])
    before = sum(event.name.startswith(f"{SEND} ") for event in read_journal(state)) if state.exists() else 0
    group = await opened(me, given)

    async def send() -> None:
        state.with_suffix(".open").touch()
        await appears(given["begin when"])
        with (
            state.with_suffix(".acknowledged").open("a", buffering=1) as acknowledged,
            state.with_suffix(".stable").open("a", buffering=1) as stable,
        ):

            async def execute(payload: bytes) -> None:
                stable.write(f"{await group.execute(payload, stable=True)}\n")

            async with asyncio.TaskGroup() as calls:
                for number in range(before, given["count"]):
                    payload = f"{me} {number}".encode()
                    if PROTOCOLS[group.order].traits.views:
                        sent = group.figures().sent
                        calls.create_task(execute(payload))
                        while group.figures().sent == sent:  # One at a time; but who is away holds up no other.
                            await asyncio.sleep(0.005)
                        acknowledged.write(f"{me}.{number + 1}\n")
                    else:
                        acknowledged.write(f"{(await group.send(payload)).id}\n")
                    await asyncio.sleep(given["pause"])

    async def evict() -> None:
        # Only when it is gone: one that has not even started yet would be evicted, too.
        await appears(given["evict when"])
        await group.evict(given["evict"], timeout=120)

    doing = asyncio.gather(send(), *([evict()] if "evict" in given else []))
    try:
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([doing, stopped], return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            await doing  # Raises what went wrong.
        await stopped
    finally:
        doing.cancel()
        await group.close(timeout=1)


async def main(given: dict[str, Any]) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with asyncio.TaskGroup() as tasks:
        for one in given["groups"]:
            tasks.create_task(member(given["me"], one, stop))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
