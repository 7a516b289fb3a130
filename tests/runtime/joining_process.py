"""One member of a replicated map as a process that does what a file tells it, and sets entries until SIGTERM."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from beforehand.errors import BeforehandError
from beforehand.runtime import NatsTransport, ReplicatedMap


async def obey(shared: ReplicatedMap, orders: Path) -> None:
    """Each line is ["admit" or "evict", what it takes...]. After a restart all are done again: refusals are fine."""
    done = 0
    while True:
        lines = orders.read_text().splitlines() if orders.exists() else []
        for line in lines[done:]:
            what, *given = json.loads(line)
            with suppress(BeforehandError):
                await getattr(shared.group, what)(*given)
            done += 1
        await asyncio.sleep(0.02)


async def main(given: dict[str, Any]) -> None:
    me, folder, stop = given["me"], Path(given["folder"]), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    choose = random.Random(f"{me} {given['life']}")
    options: dict[str, Any] = {"transport": NatsTransport(given["stream"])} if given.get("stream") else {}
    state = folder / f"{me}.db"
    options |= {"state": state, "journal": True, "checkpoint_every": 7, "join": given["join"]}
    async with ReplicatedMap(me, given["peers"], **options) as shared:
        obeying = asyncio.create_task(obey(shared, folder / f"{me}.orders"))
        while not stop.is_set():
            await shared.set(f"key {choose.randrange(20)}", b"%d" % choose.randrange(1000))
            (folder / f"{me}.view").write_text(" ".join(shared.group.view.processes))
            with (folder / f"{me}.{given['life']}.done").open("ab") as log:
                log.write(b".")
            await asyncio.sleep(0.005)
        (folder / f"{me}.ended").touch()
        while not all((folder / f"{other}.ended").exists() for other in shared.group.view.processes):
            await asyncio.sleep(0.02)
        await shared.read("key 0")  # Behind all that was executed anywhere before.
        copy = {key: value.decode() for key, value in sorted(shared.items())}
        (folder / f"{me}.copy").write_text(json.dumps([shared.group.view.processes, copy]))
        stop.clear()
        await stop.wait()
        obeying.cancel()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
