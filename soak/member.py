"""One member of a replicated map as a process: sets entries until SIGTERM, writes its copy, ends at another."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beforehand.reporting import HttpTarget, Reporter
from beforehand.reporting.targets import Answer, Later, Taken
from beforehand.runtime import ReplicatedMap

PAUSE_S = 0.02


class Noting:
    """A service that is reported to. What it acknowledged is noted in a file."""

    def __init__(self, url: str, path: Path) -> None:
        self._within = HttpTarget(url)
        self._file = path.open("ab", buffering=0)

    def send(self, lines: Sequence[bytes], /) -> Answer:
        answer = self._within.send(lines)
        count = len(lines) if isinstance(answer, Taken) else answer.taken if isinstance(answer, Later) else 0
        self._file.write(b"".join(line + b"\n" for line in lines[:count]))
        return answer

    def close(self) -> None:
        self._within.close()
        self._file.close()


async def main(given: dict[str, Any]) -> None:
    me, life, folder, stop = given["me"], given["life"], Path(given["folder"]), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    choose = random.Random(f"{me} {life}")
    reporter = Reporter(
        Noting(given["service"], folder / f"{me}.{life}.acknowledged"), process=f"{me}.{life}", exit_timeout=30
    )
    state = folder / f"{me}.db"
    async with ReplicatedMap(
        me, given["peers"], state=state, journal=True, checkpoint_every=50, reporter=reporter
    ) as shared:
        while not stop.is_set():
            await shared.set(f"key {choose.randrange(50)}", b"%d" % choose.randrange(1000))
            await asyncio.sleep(PAUSE_S)
        (folder / f"{me}.ended").touch()
        while not all((folder / f"{other}.ended").exists() for other in given["peers"]):
            await asyncio.sleep(0.05)
        await shared.read("key 0")  # Behind all that was executed anywhere before.
        copy = {key: value.decode() for key, value in sorted(shared.items())}
        (folder / f"{me}.copy").write_text(json.dumps(copy))
        stop.clear()
        await stop.wait()
    reporter.close(30)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
