"""Ports for what a test starts later, or elsewhere: nobody else takes them meanwhile.

They lie below those that the system gives to outgoing connections and to whoever asks for any port, so no connection
takes one by chance, not even one to itself. A lock, held for as long as this process lives, keeps other runs of the
tests on this machine away.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

__all__ = ["free_addresses", "free_port"]

FIRST, COUNT = 20_000, 12_000  # Linux gives away those from 32,768 on.
_held: dict[int, IO[bytes]] = {}


def free_port() -> int:
    folder = Path(tempfile.gettempdir()) / f"beforehand-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for step in range(COUNT):
        port = FIRST + (os.getpid() * 97 + len(_held) + step) % COUNT
        if port not in _held and _hold(port, folder / str(port)):
            return port
    raise AssertionError("no port is free")


def free_addresses(names: Sequence[str]) -> dict[str, str]:
    return {name: f"127.0.0.1:{free_port()}" for name in names}


def _hold(port: int, path: Path) -> bool:
    lock = path.open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))
    except OSError:
        lock.close()
        return False
    _held[port] = lock
    return True
