"""`beforehand analyze` in a process of its own: started, watched, interrupted, and what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from beforehand.formats import to_json
from history_directories import random_events, untidy

COMMAND = [sys.executable, "-m", "beforehand"]
CHEAP = ["--conf", "spark.driver.memory=1g"]
DEADLINE_S = 500.0

_TAG = "BEFOREHAND_TEST_TAG"
_SPARK = ("SPARK_", "PYSPARK_", "JAVA_", "JDK_", "_JAVA", "BEFOREHAND_")
_KEPT = "BEFOREHAND_JAVA_CLASSES"  # It decides about nothing but time.


def environment(**more: str) -> dict[str, str]:
    """Ours, without what decides about Spark, and with a tag that all descendants of a process inherit."""
    ours = {k: v for k, v in os.environ.items() if k == _KEPT or not k.startswith(_SPARK)}
    return {**ours, _TAG: uuid4().hex, **more}


def alive(env: dict[str, str]) -> list[str]:
    """The processes that were started, directly or not, with this environment."""
    mark = f"{_TAG}={env[_TAG]}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
            except OSError:
                continue  # It has ended, or is not ours.
    return [line for line in found if line]  # Without those that have ended and only wait to be reaped.


def wait_until(holds: Callable[[], object], what: str, *, seconds: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


@contextmanager
def started(*arguments: object, env: dict[str, str], command: list[str] = COMMAND) -> Iterator[subprocess.Popen[str]]:
    """The command with both streams as pipes; killed with the block."""
    process = subprocess.Popen(
        [*command, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    try:
        with process:
            try:
                yield process
            finally:
                process.kill()
    finally:
        wait_until(lambda: not alive(env), "all that it started has ended", seconds=60)


def run(
    *arguments: object, env: dict[str, str] | None = None, command: list[str] = COMMAND
) -> subprocess.CompletedProcess[str]:
    """The command until it ends, and all that it started with it."""
    env = env or environment()
    with started(*arguments, env=env, command=command) as process:
        out, err = process.communicate(timeout=DEADLINE_S)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def write_histories(path: Path) -> Path:
    """Several executions, one of them larger and untidy, as native JSON Lines."""
    events = [e for seed in range(3) for e in random_events(seed, processes=4, steps=40, execution=f"e{seed}")]
    events += untidy(random_events(9, processes=6, steps=300, skew_ns=3_000, execution="large"), 9)
    path.write_bytes(b"".join(to_json(event) + b"\n" for event in events))
    return path


def report_of(directory: Path) -> dict[str, Any]:
    """report.json without what differs from run to run."""
    report: dict[str, Any] = json.loads((directory / "report.json").read_text())
    del report["seconds"]
    return report


def rows_of(folder: Path, *, sort_by: list[str]) -> list[dict[str, Any]]:
    """All rows of the Parquet files below a folder."""
    import pyarrow.parquet as pq

    rows = [row for path in sorted(folder.rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return sorted(rows, key=lambda row: json.dumps([row[name] for name in sort_by], default=str))


def order_of(directory: Path) -> bytes:
    """What `beforehand order` writes."""
    done = subprocess.run([*COMMAND, "order", str(directory)], capture_output=True, check=True, env=environment())
    return done.stdout
