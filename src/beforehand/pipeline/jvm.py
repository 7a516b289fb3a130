"""The JVM of a driver: started for one session, and surely gone with it.

1. What the JVM says goes to a file, from its first line on: its output never mixes with ours. With
   BEFOREHAND_DEBUG it goes to standard error.
2. It ends when the block ends, whatever the state of the connection to it: an interrupt in the middle of a call
   leaves an answer unread, and whoever asked next would get that one. So nothing is asked: its standard input is
   closed, upon which Spark ends itself in good order, or it is killed after a while, or when a second signal comes.
3. It ends as well when this process is killed, for that closes its standard input too.
4. It is in a process group of its own, so that Ctrl-C on the terminal reaches us only.

PySpark's own launcher keeps the process to itself until it has started, and never ends it.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from beforehand.errors import InputError
from beforehand.pipeline.failing import told_by_jvm

__all__ = ["changed_environment", "running_jvm"]

START_SECONDS_MAX: Final = 120
END_SECONDS_MAX: Final = 20
SAID_BYTES_MAX: Final = 100_000


@contextmanager
def running_jvm(
    conf: Mapping[str, str], environment: Mapping[str, str], scratch: Path, *, end_seconds_max: int = END_SECONDS_MAX
) -> Iterator[Path]:
    """A JVM that PySpark will use; gives the file with what it says. `InputError` if it does not start.

    `end_seconds_max`: how long it may take to end after a block that did not fail.
    """
    from pyspark import SparkContext
    from pyspark.find_spark_home import _find_spark_home

    info = scratch / "connection"
    said = scratch / "said"
    command = [os.path.join(_find_spark_home(), "bin", "spark-submit")]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    with said.open("wb") as sink:
        output = None if os.environ.get("BEFOREHAND_DEBUG") else sink
        process = subprocess.Popen(  # noqa: S603 - Spark's own launcher.
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=sys.stderr.fileno() if output is None else output,
            stderr=output,
            env={**environment, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info)},
            process_group=0,
        )
    patience = END_SECONDS_MAX
    try:
        _await(process, info, said)
        SparkContext._ensure_initialized(gateway=_connect(info))
        yield said
        patience = end_seconds_max
    finally:
        try:
            _forget()
        finally:
            _end(process, patience)  # Also if a second signal comes meanwhile.


def _await(process: subprocess.Popen[bytes], info: Path, said: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not info.exists():
        if process.poll() is not None:
            raise InputError(f"Spark did not start: {told_by_jvm(last_said(said))}")
        if time.monotonic() > deadline:
            raise InputError(
                f"Spark did not start within {START_SECONDS_MAX} seconds: set BEFOREHAND_DEBUG=1 to see more"
            )
        time.sleep(0.05)


def _connect(info: Path) -> object:
    from pyspark.java_gateway import launch_gateway

    data = info.read_bytes()  # Two 32-bit numbers, the port and the length of the secret, each before what it tells.
    (port,) = struct.unpack("!i", data[:4])
    with changed_environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": data[8:].decode()}):
        gateway: object = launch_gateway()  # type: ignore[no-untyped-call]
        return gateway


def last_said(said: Path) -> str:
    """The end of what the JVM said."""
    with said.open("rb") as stream:
        stream.seek(max(0, said.stat().st_size - SAID_BYTES_MAX))
        return stream.read().decode("utf-8", "replace")


def _forget() -> None:
    """Nothing that PySpark keeps may lead to this JVM any more. Asks it nothing."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is not None:
        context._jsc = None  # Else `stop` would ask.
        context.stop()
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        with suppress(Exception):  # It may have gone before us.
            gateway.shutdown()


def _end(process: subprocess.Popen[bytes], seconds_max: int = END_SECONDS_MAX) -> None:
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(timeout=seconds_max)
    except BaseException as error:  # Whoever stops us twice wants it at once.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired | KeyboardInterrupt):
            raise


@contextmanager
def changed_environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables, or remove those that are None, until the block ends."""
    before = {name: os.environ.get(name) for name in changes}
    _set(changes)
    try:
        yield
    finally:
        _set(before)


def _set(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for as long as the block runs. Spark may still be removing files of its own from it at the end."""
    path = Path(tempfile.mkdtemp(prefix="beforehand-spark-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
