"""A real HTTP server that receives webhooks and answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Received", "Receiver", "receiving"]


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """`answer` says what to answer to the nth request (from 0): a status, or what writes the answer itself."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Callable[[int, BaseHTTPRequestHandler], int | None] = lambda _n, _handler: 204
        self.more = threading.Condition()
        self.port = 0

    def wait(self, count: int, timeout: float = 20) -> list[Received]:
        with self.more:
            assert self.more.wait_for(lambda: len(self.received) >= count, timeout), self.received
            return list(self.received)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with receiver.more:
                number = len(receiver.received)
                receiver.received.append(Received(self.path, dict(self.headers), body))
                receiver.more.notify_all()
            status = receiver.answer(number, self)
            if status is not None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
