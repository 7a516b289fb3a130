"""Lines of standard input, or of a file, for commands that run on asyncio."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import IO

from beforehand.errors import InputError

__all__ = ["lines_of", "standard_input"]

_CHUNK = 65_536
_LINE_MAX = 960 * 1024


def standard_input() -> IO[bytes]:
    """Its bytes. `InputError` where it is closed, as by `<&-`."""
    if sys.stdin is None:
        raise InputError("standard input is closed: there is nothing to read from")
    return sys.stdin.buffer


async def lines_of(source: IO[bytes]) -> AsyncIterator[bytes]:
    """Lines without their ends, as they come; none is longer than `_LINE_MAX`, whatever pieces it came in.

    A thread reads, for standard input may be a file, a pipe or a terminal. It is not waited for at the end.
    """
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(4)
    number = source.fileno()

    def read() -> None:
        while True:
            room.acquire()
            data: bytes | OSError
            try:
                # Past the buffer: its lock, held by a thread that waits, would abort the interpreter at its end.
                data = os.read(number, _CHUNK)
            except OSError as error:
                data = error
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, data)
            except RuntimeError:  # The loop has ended.
                return
            if not data or isinstance(data, OSError):
                return

    threading.Thread(target=read, daemon=True).start()
    rest, line_number = b"", 0
    while True:
        chunk = await chunks.get()
        room.release()
        if isinstance(chunk, OSError):
            raise chunk
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            line_number += 1
            yield _checked(line.removesuffix(b"\r"), line_number)
        _checked(rest, line_number + 1)
        if not chunk:
            if rest:
                yield rest
            return


def _checked(line: bytes, number: int) -> bytes:
    if len(line) > _LINE_MAX:
        raise InputError(f"line {number} is longer than {_LINE_MAX:,} bytes: cut it")
    return line
