"""One member of a replicated map as a process: sets entries until SIGTERM, writes its copy, ends at another."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from pathlib import Path
from typing import Any

from beforehand.runtime import ReplicatedMap


async def main(given: dict[str, Any]) -> None:
    me, stop = given["me"], asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    choose = random.Random(f"{me} {given['start']}")
    done = Path(given["done"])
    async with ReplicatedMap(me, given["peers"], state=given["state"], checkpoint_every=7) as shared:
        acknowledged = 0
        while not stop.is_set():
            acknowledged += 1
            own = f"{me} {given['start']} {acknowledged}"
            await shared.set(own, b"%d" % acknowledged)
            with Path(given["acknowledged"]).open("a") as log:  # Flushed before it goes on: a kill loses no line.
                log.write(f"{own}\n")
            key = f"key {choose.randrange(20)}"
            await shared.set(key, b"%d" % choose.randrange(1000))
            if choose.random() < 0.2:
                await shared.delete(key)
            with done.open("ab") as log:  # Told before it is counted: at least so many were executed.
                log.write(b".")
        Path(given["ended"]).touch()
        while not all(Path(other).exists() for other in given["others"]):
            await asyncio.sleep(0.02)
        await shared.read("key 0")  # Behind all that was executed anywhere before.
        copy = {key: value.decode() for key, value in sorted(shared.items())}
        Path(given["copy"]).write_text(json.dumps([shared.group.view.processes, copy]))
        stop.clear()
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
