"""A member that is sent much goes on with the rest of its work."""

from __future__ import annotations

import asyncio

from beforehand.runtime.transports.base import Identity
from beforehand.runtime.transports.tcp import PACKETS_A_TURN, TcpTransport


def test_packets_that_are_here_already_do_not_keep_the_loop_to_themselves() -> None:
    taken, turns = 0, 0

    async def take(_: str, __: bytes) -> None:
        nonlocal taken
        taken += 1

    async def main() -> None:
        nonlocal turns
        transport = TcpTransport()
        me = Identity(group="g", process="a", incarnation="1", peers={}, remember=lambda *_: True)
        await transport.start(me, "127.0.0.1:0", take, None)
        reader = asyncio.StreamReader()
        reader.feed_data(10 * PACKETS_A_TURN * ((3).to_bytes(4) + b"abc"))
        receiving = asyncio.create_task(transport._receive("b", reader, None))
        while taken < 10 * PACKETS_A_TURN:
            await asyncio.sleep(0)
            turns += 1
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        await transport.close()

    asyncio.run(main())
    assert turns >= 10
