"""Files that were dropped on the page: read by a process of its own, and kept in memory for a while.

1. Nothing of it is stored: an import is gone when the service stops, after `SECONDS_MAX` without a question, or when
   newer ones need its room (`KEPT_MAX` imports, `EVENTS_KEPT_MAX` events and `BYTES_KEPT_MAX` together): the one not
   used for longest.
2. Whoever may read what the service serves may import, and may read every import whose name they know. Names cannot
   be guessed, but they are no secret: they stand in permalinks.
3. A file that is too large, no log, or a trap costs a process that is limited in time and memory, and gives one line.
   One file is read at a time; `WAITING_MAX` wait, one more is refused.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from beforehand.errors import InputError
from beforehand.formats.detection import FORMATS
from beforehand.service.frozen import FrozenQueries
from beforehand.service.http.errors import HttpError
from beforehand.service.parsing import Parsed, suffix_of
from beforehand.service.remembered import Remembered
from beforehand.service.views.frozen_source import FrozenSource
from beforehand.service.views.viewer import Viewer

__all__ = ["EVENTS_MAX", "Imports"]

EVENTS_MAX: Final = 200_000
"""Events of one file."""
EVENTS_KEPT_MAX: Final = 400_000
BYTES_KEPT_MAX: Final = 512 << 20  # As they came from the process that read them.
KEPT_MAX: Final = 16
SECONDS_MAX: Final = 3_600.0
PARSE_SECONDS_MAX: Final = 30.0
WAITING_MAX: Final = 4
_NAME_MAX: Final = 200


@dataclass(slots=True)
class _Import:
    remembered: Remembered
    viewer: Viewer
    used: float  # When it was asked for last.
    size: int  # Bytes of its events.


class Imports:
    """Any thread may call any method."""

    def __init__(
        self,
        *,
        events_max: int = EVENTS_MAX,
        parse_seconds_max: float = PARSE_SECONDS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._events_max: Final = events_max
        self._parse_seconds_max: Final = parse_seconds_max
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._kept: Final[OrderedDict[str, _Import]] = OrderedDict()
        self._turns: Final = threading.Semaphore(WAITING_MAX + 1)
        self._reading: Final = threading.Lock()
        self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            gone = list(self._kept.values())
            self._kept.clear()
        for one in gone:
            one.viewer.close()

    def forget_old(self) -> None:
        """Give back the memory of those that nobody has asked for in their time. Call it every minute or so."""
        now = self._clock()
        with self._lock:
            old = [source for source, one in self._kept.items() if now - one.used > SECONDS_MAX]
            gone = [self._kept.pop(source) for source in old]
        for one in gone:
            one.viewer.close()

    def take(self, name: str, content: bytes, *, chosen: str | None = None) -> dict[str, Any]:
        """Read a file; the document says under which name it can be asked. `InputError` if it cannot be read."""
        if not content:
            raise InputError(f"{_shown(name)} is empty")
        if not self._turns.acquire(blocking=False):
            raise HttpError(503, f"{WAITING_MAX + 1} files are being imported: try again in a moment")
        try:
            with self._reading:
                parsed, size = self._parsed(name, content, chosen)
                if parsed.error is not None:
                    raise InputError(parsed.error)
                if not parsed.events:
                    why = f": {parsed.findings[0]}" if parsed.findings else ""
                    raise InputError(f"{_shown(name)} holds no event{why}")
                remembered = Remembered(parsed.taken(), parsed.refused())
        finally:
            self._turns.release()
        source = f"imp-{secrets.token_urlsafe(12)}"
        viewer = Viewer(FrozenSource(source, remembered.queries, remembered))
        gone = self._keep(source, _Import(remembered, viewer, self._clock(), size))
        for one in gone:
            one.viewer.close()
        more = len(remembered.rejections) - len(parsed.rejections)
        findings = list(parsed.findings)
        if more:
            last = remembered.rejections[-1]
            findings.append(f"{more} × left out of the history, such as {last.reason}: {last.detail}"[:1_000])
        return {
            "source": source,
            "name": _shown(name),
            "format": parsed.format,
            "executions": remembered.count_of_executions,
            "events": len(remembered),
            "rejected": parsed.rejected + more,
            "findings": findings,
        }

    def questions(self, source: str) -> FrozenQueries:
        """Who answers for an import; `HttpError` 404 if it is not here."""
        return self._find(source).remembered.queries

    def viewer(self, source: str) -> Viewer:
        """Who draws an import; `HttpError` 404 if it is not here."""
        return self._find(source).viewer

    # Inside.

    def _find(self, source: str) -> _Import:
        now = self._clock()
        with self._lock:
            found = self._kept.get(source)
            if found is None or now - found.used > SECONDS_MAX:
                raise HttpError(
                    404,
                    f"there is no import {source[:40]!r}: an import is kept for an hour after its last use, while "
                    "there is room; import the file again",
                )
            found.used = now
            self._kept.move_to_end(source)
            return found

    def _keep(self, source: str, new: _Import) -> list[_Import]:
        """Keep an import; what has to go for it."""
        gone = []
        with self._lock:
            if self._closed:
                return [new]
            self._kept[source] = new
            while len(self._kept) > 1:
                _, oldest = next(iter(self._kept.items()))
                events = sum(len(one.remembered) for one in self._kept.values())
                size = sum(one.size for one in self._kept.values())
                is_old = new.used - oldest.used > SECONDS_MAX
                has_room = len(self._kept) <= KEPT_MAX and events <= EVENTS_KEPT_MAX and size <= BYTES_KEPT_MAX
                if has_room and not is_old:
                    break
                gone.append(self._kept.popitem(last=False)[1])
        return gone

    def _parsed(self, name: str, content: bytes, chosen: str | None) -> tuple[Parsed, int]:
        """What the file holds, and how many bytes that is."""
        if chosen and chosen not in FORMATS:
            raise InputError(f"no format {_shown(chosen)[:40]!r}: formats are {', '.join(FORMATS)}")
        with tempfile.TemporaryDirectory(prefix="beforehand-import-") as folder:
            path = Path(folder) / f"file{suffix_of(content)}"
            path.write_bytes(content)
            command = [sys.executable, "-P", "-m", "beforehand.service.parsing", str(path), _shown(name)]
            command += [chosen or "", str(self._events_max)]
            try:
                done = subprocess.run(  # noqa: S603
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    timeout=self._parse_seconds_max,
                    cwd=folder,
                    env=_environment(),
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise InputError(
                    f"reading {_shown(name)} took more than {self._parse_seconds_max:g} seconds and was stopped: "
                    "analyze it (beforehand analyze), and open the history directory"
                ) from None
        try:
            return msgspec.msgpack.decode(done.stdout, type=Parsed), len(done.stdout)
        except (msgspec.MsgspecError, ValueError):
            why = "its reader failed" if done.returncode == 1 else "it takes too much memory"  # 1: by an exception.
            raise InputError(
                f"{_shown(name)} could not be read: {why}; analyze it, and open the history directory"
            ) from None


def _environment() -> dict[str, str]:
    """Of the process that reads: no threads of numerical libraries, whose memory would count."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


def _shown(name: str) -> str:
    """The name of a file for people: one line of what can be printed."""
    line = "".join(character if character.isprintable() else "?" for character in name)
    return line.rpartition("/")[2][:_NAME_MAX] or "the file"
