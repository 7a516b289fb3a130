"""A real HTTP server that keeps the contract of docs/reference/reporting.md, or breaks it on demand."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

CUT = "cut"  # Stores the events, then the connection ends in the middle of the answer.
HANG = "hang"  # Reads the request and does not answer until `release` is set; then closes.
DROP_CONNECTION = "drop"  # Ends the connection without reading on; nothing is stored.


@dataclass
class Request:
    path: str
    headers: Mapping[str, str]
    events: list[dict[str, object]]
    at: float
    connection: int


@dataclass
class Scripted:
    """An answer that is not the usual one."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"no"
    store: bool = False


class EventServer:
    def __init__(self, *, port: int = 0, events_max: int = 10**9, token: str | None = None) -> None:
        self.script: deque[Scripted | str] = deque()  # What to do with the next requests, before the usual.
        self.always: Scripted | None = None
        self.requests: list[Request] = []
        self.stored: dict[tuple[object, object, object], dict[str, object]] = {}
        self.repeated = 0
        self.events_max = events_max
        self.token = token
        self.hanging = threading.Event()
        self.release = threading.Event()
        self.lock = threading.Lock()
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def indexes(self, process: str = "p") -> list[object]:
        return sorted(key[2] for key in self.stored if key[1] == process)  # type: ignore[type-var]

    def store(self, events: list[dict[str, object]]) -> dict[str, object]:
        new = repeated = conflicts = 0
        for event in events:
            key = (event.get("execution", ""), event["process"], event["index"])
            if key not in self.stored:
                self.stored[key] = event
                new += 1
            elif self.stored[key] == event:
                repeated += 1
            else:
                conflicts += 1
        self.repeated += repeated
        return {"stored": new, "repeated": repeated, "conflicts": conflicts, "waiting": 0, "rejected": []}


class _Handler(BaseHTTPRequestHandler):
    server_of: EventServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_POST(self) -> None:
        server = self.server_of
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        events = [json.loads(line) for line in body.decode().split("\n") if line]
        with server.lock:
            request = Request(self.path, self.headers, events, time.monotonic(), self.client_address[1])
            server.requests.append(request)
            step = server.script.popleft() if server.script else server.always
            if step is None and server.token and self.headers["Authorization"] != f"Bearer {server.token}":
                step = Scripted(401)
            if step is None and len(events) > server.events_max:
                step = Scripted(413)
            answer = b""
            if step is None or step == CUT or (isinstance(step, Scripted) and step.store):
                answer = json.dumps(server.store(events)).encode()
        if step == DROP_CONNECTION:
            self.close_connection = True
        elif step == HANG:
            server.hanging.set()
            server.release.wait(30)
            self.close_connection = True
        elif step == CUT:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer[:10])
            self.close_connection = True
        elif isinstance(step, Scripted):
            self._reply(step.status, step.body, step.headers)
        else:
            self._reply(200, answer, {"Content-Type": "application/json"})

    def _reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
