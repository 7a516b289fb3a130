"""One member of a group as a process of its own: sends so many messages in all, across restarts, until SIGTERM."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from beforehand.errors import BrokerError
from beforehand.runtime.group import Group
from beforehand.runtime.group_store import SEND, read_journal
from beforehand.runtime.transports.nats import NatsTransport
from beforehand.runtime.transports.tcp import TcpTransport


async def main(given: dict[str, object]) -> None:
    me, state = str(given["me"]), Path(str(given["state"]))
    before = sum(event.name.startswith(SEND) for event in read_journal(state)) if state.exists() else 0
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    key = str(given["key"]).encode() if given.get("key") else None
    stream = given.get("stream")

    async def handle(_: object) -> None:
        return None

    peers, order = given["peers"], str(given["order"])
    assert isinstance(peers, dict)

    async def opened() -> Group:
        """A broker that is out of reach at first is an error; whoever starts a member starts it again."""
        while True:
            transport = TcpTransport(key=key) if stream is None else NatsTransport(str(stream), key=key)
            one = Group(me, peers, order=order, transport=transport, handler=handle, state=state, journal=True)
            try:
                await one.open()
            except BrokerError as error:
                sys.stderr.write(f"{error}\n")
            else:
                return one

    group = await opened()
    try:
        for number in range(before, int(str(given["count"]))):
            if stop.is_set():
                return
            await group.send(f"{me} {number}".encode())
            await asyncio.sleep(float(str(given.get("pause", 0))))
        if "evict" in given:
            # Only when it is gone: one that has not even started yet would be evicted, too.
            while not Path(str(given["evict when"])).exists():
                await asyncio.sleep(0.02)
            await group.evict(str(given["evict"]))
        await stop.wait()
    finally:
        await group.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
