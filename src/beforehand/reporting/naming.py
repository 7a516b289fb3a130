"""Names of processes that are never used again.

An event is known by its process and index, and a program that starts anew counts from 1 again. So what runs after a
restart must be another process, or continue the count (`start`). `process_name` makes a new one for every start:

    cart@web-1:4711:1763267422123        service @ host : process id : start in milliseconds since 1970

Assumes that no two programs with the same service name, host name and process id start in one millisecond.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Final

from beforehand.errors import InputError

__all__ = ["checked_name", "child_name", "process_name"]

_STARTED_MS: Final = time.time_ns() // 1_000_000
_NAME_MAX: Final = 1_000


def process_name(service: str) -> str:
    """The same at every call in one program; another after a restart and in a forked child."""
    return f"{checked_name(service, 'service')}@{socket.gethostname()}:{os.getpid()}:{_STARTED_MS}"


def child_name(process: str) -> str:
    """What a reporter's process is called in a forked child: two must not count under one name."""
    return f"{process}+{os.getpid()}.{time.time_ns() // 1_000_000}"


def checked_name(name: str, what: str, *, empty: bool = False) -> str:
    if type(name) is not str or (not name and not empty):
        raise InputError(f"{what} is empty or not a text: give it a name")
    if len(name) > _NAME_MAX:
        raise InputError(f"{what} has {len(name)} characters: at most {_NAME_MAX}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} {name!a} holds text that UTF-8 cannot: {error.reason}") from None
    return name
