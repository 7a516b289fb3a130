"""What one client, one request and one question may cost. Every limit has a default that suits one machine.

At a limit the answer is an error of one line: 413 (body, batch), 429 (rate), 503 (at the same time, time of a
question); connections beyond theirs are closed at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from beforehand.errors import InputError

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one service."""

    body_bytes_max: int = 16 << 20  # Of a request, as it travels.
    import_bytes_max: int = 64 << 20  # The same, of a file that is dropped on the page.
    bodies_bytes_max: int = 256 << 20  # Of all requests that are being read or worked on, together.
    content_bytes_max: int = 64 << 20  # Of a request, decompressed.
    body_seconds_max: int = 60  # For a whole body to arrive.
    head_bytes_max: int = 256 << 10  # Of a request's line and headers; ids in addresses may be long.
    head_seconds_max: int = 10  # For a whole head to arrive, on a new connection.
    stalled_seconds_max: int = 60  # For a client to take something of an answer.
    rate_per_second: int = 1_000  # Requests of one client (its token, or its address), over time,
    rate_burst: int = 5_000  # and at once.
    clients_max: int = 10_000  # Whose rates are remembered; then the one not seen for longest is forgotten.
    connections_max: int = 1_000
    connections_per_address_max: int = 500  # Of them, so that one machine cannot take them all.
    reads_max: int = 8  # Questions at work at the same time,
    reads_waiting_max: int = 64  # and waiting for their turn.
    writes_waiting_max: int = 64  # Batches that wait for the writer.
    read_seconds_max: int = 10  # For one question, its turn included.

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InputError(f"the limit {name} is {value!r}: give a whole number, 1 at least")
