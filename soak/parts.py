"""The processes of a soak: started, killed and started again, and measured as long as they live."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

__all__ = ["Life", "Part", "grown"]

PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLES_MIN = 40
SECONDS_MIN = 60.0  # Of a shorter life nothing is said: a process that has just started grows.
BYTES_MORE = 16 * 1024 * 1024
TIMES_MORE = 1.25
DESCRIPTORS_MORE = 8


@dataclass(slots=True)
class Life:
    """What one process used, sample by sample."""

    name: str
    seconds: float = 0.0
    bytes: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)


class Part:
    """A process that is there once at a time."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, *, fed: bool = False) -> None:
        self.name = name
        self.command = list(command)
        self.lives: list[Life] = []
        self._log = folder / f"{name}.log"
        self._fed = fed
        self._started = 0.0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def input(self) -> IO[bytes]:
        assert self.process is not None
        assert self.process.stdin is not None
        return self.process.stdin

    def start(self, *more: str) -> None:
        self.lives.append(Life(f"{self.name}.{len(self.lives) + 1}"))
        self._started = time.monotonic()
        with self._log.open("ab") as log:
            stdin = subprocess.PIPE if self._fed else subprocess.DEVNULL
            self.process = subprocess.Popen([*self.command, *more], stdin=stdin, stdout=log, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def tell_to_end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def ended(self, timeout_s: float) -> bool:
        """Whether it ended by itself in time."""
        assert self.process is not None
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines() if self._log.exists() else []
        return lines[-1][:200] if lines else "nothing was said"

    def sample(self) -> None:
        if self.process is None:
            return
        place = Path(f"/proc/{self.process.pid}")
        try:
            pages = int((place / "statm").read_text().split()[1])
            descriptors = len(os.listdir(place / "fd"))
        except (OSError, IndexError):
            return  # It has just ended.
        self.lives[-1].seconds = time.monotonic() - self._started
        self.lives[-1].bytes.append(pages * PAGE)
        self.lives[-1].descriptors.append(descriptors)


def grown(life: Life) -> list[str]:
    """Findings: what a process used more of in the last quarter of its life than in the second."""
    count = len(life.bytes)
    if count < SAMPLES_MIN or life.seconds < SECONDS_MIN:
        return []

    def quarters(samples: list[int]) -> tuple[float, float]:
        return statistics.median(samples[count // 4 : count // 2]), statistics.median(samples[3 * count // 4 :])

    found = []
    before, after = quarters(life.bytes)
    if after > TIMES_MORE * before + BYTES_MORE:
        found.append(f"memory: {life.name} grew from {before / 2**20:.0f} to {after / 2**20:.0f} MiB")
    before, after = quarters(life.descriptors)
    if after > before + DESCRIPTORS_MORE:
        found.append(f"descriptors: {life.name} grew from {before:.0f} to {after:.0f}")
    return found
