"""A small client of server-sent events, by `http.client`."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

__all__ = ["Listener", "listening"]


class Listener:
    """One open stream. `next` gives the next event; `last_id` is what to come back with."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.last_id: str | None = None

    def next(self) -> tuple[str, Any]:
        """The kind of the next event, and its data."""
        kind, data = "message", []
        while True:
            line = self._response.readline()
            if not line:
                raise EOFError("the stream has ended")
            text = line.decode().rstrip("\n")
            name, _, value = text.partition(": ")
            if not text:
                if data:
                    return kind, json.loads("\n".join(data))
                kind, data = "message", []
            elif name == "id":
                self.last_id = value
            elif name == "event":
                kind = value
            elif name == "data":
                data.append(value)

    def notice(self) -> Any:
        kind, data = self.next()
        assert kind == "notice", (kind, data)
        return data


@contextmanager
def listening(
    port: int, path: str, *, last_id: str | None = None, token: str | None = None, timeout: float = 30, **query: Any
) -> Iterator[Listener]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request("GET", f"{path}?{urlencode(query)}" if query else path, headers=headers)
        response = connection.getresponse()
        assert response.status == 200, (response.status, response.read())
        assert response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
        yield Listener(response)
    finally:
        connection.close()
