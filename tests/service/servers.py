"""A real service on a free port of this machine, in a thread or as a process, and a small client."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from beforehand.events import Event
from beforehand.formats import to_json
from beforehand.service.http.limits import Limits
from beforehand.service.serving import Options, Service
from beforehand.service.settings import Settings

__all__ = ["Answer", "Client", "Running", "lines", "running", "serving_process", "tokens_for"]

NDJSON = {"Content-Type": "application/x-ndjson"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The one line of an error; fails if the answer has another shape."""
        document = self.json
        assert list(document) == ["error"], document
        assert "\n" not in document["error"]
        assert "Traceback" not in document["error"]
        return str(document["error"])


class Client:
    """Asks one service, one connection per request."""

    def __init__(self, port: int, *, token: str | None = None, host: str = "127.0.0.1") -> None:
        self.port, self.token, self.host = port, token, host
        self.url = f"http://{host}:{port}"

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        sent = dict(headers or {})
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **query: object) -> Answer:
        """`query`: values, or lists of them."""
        given = {name: value for name, value in query.items() if value is not None}
        return self.ask("GET", f"{quote(path)}?{urlencode(given, doseq=True)}" if given else quote(path))

    def found(self, path: str, **query: object) -> Any:
        """The document of a question that is answered."""
        answer = self.get(path, **query)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def report(self, events: Sequence[Event]) -> Any:
        """Report these; the answer."""
        answer = self.ask("POST", "/api/events", lines(events), NDJSON)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def post(self, path: str, document: object) -> Answer:
        return self.ask("POST", path, json.dumps(document).encode(), {"Content-Type": "application/json"})


class Running(Client):
    """A service in a thread of the test."""

    def __init__(self, service: Service, thread: threading.Thread, token: str | None) -> None:
        super().__init__(service.port, token=token)
        self.service = service
        self._thread = thread

    def stop(self) -> None:
        """End it; when this returns, nobody answers any more."""
        self.service.stop()
        self._thread.join(20)
        assert not self._thread.is_alive(), "the service did not stop"

    def as_(self, token: str | None) -> Client:
        """The same service, called with another token, or with none."""
        return Client(self.port, token=token)


@contextmanager
def running(
    folder: Path,
    *,
    limits: Limits | None = None,
    settings: Mapping[str, int] | None = None,
    token: str | None = None,
    **options: Any,
) -> Iterator[Running]:
    """A service of the store `folder/store.db`, unless `directory` is given; `token` is sent with every request."""
    if "directory" not in options:
        options.setdefault("store", folder / "store.db")
    made = Options(port=0, limits=limits or Limits(), settings=Settings(**(settings or {})), **options)
    with Service(made) as service:
        started = threading.Event()
        thread = threading.Thread(target=service.run, kwargs={"started": started.set})
        thread.start()
        server = Running(service, thread, token)
        try:
            assert started.wait(20), "the service did not start"
            yield server
        finally:
            server.stop()


def tokens_for(folder: Path) -> dict[str, str]:
    """A token of each scope, for the store `folder/store.db`."""
    from contextlib import closing

    from beforehand.service.tokens import SCOPES, Tokens, access_path

    with closing(Tokens(access_path(folder / "store.db"))) as tokens:
        return {scope: tokens.add(scope, scope)[1] for scope in SCOPES}


@contextmanager
def serving_process(store: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    """`beforehand serve` as a process of its own. Killed at the end if it still runs."""
    command = [
        sys.executable,
        "-m",
        "beforehand",
        "serve",
        "--store",
        str(store),
        "--port",
        "0",
        "--json",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr else ""
            yield process, Client(urlsplit(json.loads(line)["url"]).port or 0)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


def lines(events: Sequence[Event]) -> bytes:
    return b"".join(to_json(event) + b"\n" for event in events)
