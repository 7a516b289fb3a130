"""A replicated file that only the holder of a token may change (Garg, Concurrent and Distributed Computing in Java,
problem 12.1).

Every member has a copy of the file. One of them holds a token: it may append lines, each of which it broadcasts, and
it may pass the token on, which is a broadcast, too. Who reads, reads its own copy. Nobody puts the updates in an
order: no coordinator, no numbers, no acknowledgements.

Claim: if messages are delivered in causal order, all copies get all lines in the same order. Why: take two updates u
and v. If one member sent both, one happened before the other. If not, the token went from the one to the other in
between, say from u's sender to v's: u happened before the passing on of the token, that before its receipt by the
next holder, and so on up to v. So any two updates are ordered by "happened before", and causal delivery keeps that
order at every member. With less than causal order it is not so: run this with `--order fifo` and see copies differ.

    python examples/replicated_file.py                 three members here, slow links between some of them
    python examples/replicated_file.py --order fifo    the same without causal order
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import tempfile
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from beforehand.errors import LocalProtocolError
from beforehand.ordering import Message
from beforehand.runtime import Group, TcpTransport
from beforehand.runtime.transports.delayed import DelayedTransport

UPDATE, TOKEN = b"+", b">"


class ReplicatedFile:
    """One member's copy. `first` is who holds the token at the beginning, the same for all."""

    def __init__(
        self,
        me: str,
        peers: dict[str, str],
        path: Path,
        *,
        first: str,
        order: str = "causal-broadcast",
        **options: Any,
    ) -> None:
        self.path = path
        self.holds_token = me == first
        self.group = Group(me, peers, order=order, handler=self._take, **options)
        self._holds = asyncio.Event()
        if self.holds_token:
            self._holds.set()

    async def __aenter__(self) -> ReplicatedFile:
        self.path.write_text("")
        await self.group.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.group.close()

    def read(self) -> list[str]:
        """Our own copy, which may lag behind."""
        return self.path.read_text().splitlines()

    async def append(self, line: str) -> None:
        """Add a line, at all members. LocalProtocolError if we do not hold the token."""
        self._check_token()
        await self.group.execute(UPDATE + line.encode())  # Until our own copy has it.

    async def pass_token(self, to: str) -> None:
        """From now on `to` may change the file, and we may not."""
        self._check_token()
        self.group.view.position(to)  # Raises NotInViewError.
        self.holds_token = False  # Before it is sent: never two at a time.
        self._holds.clear()
        await self.group.send(TOKEN + to.encode())

    async def token(self) -> None:
        """Wait until we hold the token."""
        await self._holds.wait()

    async def _take(self, message: Message) -> None:
        kind, text = message.payload[:1], message.payload[1:].decode()
        if kind == UPDATE:
            with self.path.open("a") as copy:
                copy.write(text + "\n")
        elif kind == TOKEN and text == self.group.me:
            self.holds_token = True
            self._holds.set()

    def _check_token(self) -> None:
        if not self.holds_token:
            raise LocalProtocolError(f"{self.group.me} does not hold the token: wait for it with token()")


async def go_round(
    folder: Path, *, order: str = "causal-broadcast", rounds: int = 3, delay_s: float = 0.05
) -> dict[str, list[str]]:
    """The token goes round three members, each of which adds a line; what ada sends comes late to cy. All copies."""
    names = ("ada", "bob", "cy")
    peers = _addresses(names)
    async with AsyncExitStack() as stack:
        files = {}
        for name in names:
            transport = DelayedTransport(TcpTransport(), {"cy": delay_s} if name == "ada" else {})
            files[name] = await stack.enter_async_context(
                ReplicatedFile(name, peers, folder / f"{name}.txt", first="ada", order=order, transport=transport)
            )
        for number in range(rounds * len(names)):
            me, following = names[number % len(names)], names[(number + 1) % len(names)]
            await files[me].token()
            await files[me].append(f"line {number} by {me}")
            await files[me].pass_token(following)
        async with asyncio.timeout(30):
            while any(len(file.read()) < rounds * len(names) for file in files.values()):
                await asyncio.sleep(0.01)
        return {name: file.read() for name, file in files.items()}


def _addresses(names: tuple[str, ...]) -> dict[str, str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in names]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return {name: f"127.0.0.1:{one.getsockname()[1]}" for name, one in zip(names, sockets, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description="A replicated file that only the holder of a token may change.")
    parser.add_argument("--order", choices=["causal-broadcast", "fifo", "single-phase"], default="causal-broadcast")
    order = parser.parse_args().order
    with tempfile.TemporaryDirectory() as folder:
        copies = asyncio.run(go_round(Path(folder), order=order))
    for name, lines in copies.items():
        print(f"{name}: {', '.join(line.split()[1] for line in lines)}")
    print("all copies are equal" if len(set(map(tuple, copies.values()))) == 1 else "THE COPIES DIFFER")


if __name__ == "__main__":
    main()
