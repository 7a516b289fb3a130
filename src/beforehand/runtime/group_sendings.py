"""The calls of `send` and `execute` that wait: each for its own message."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from beforehand.clocks.view import View
from beforehand.errors import BeforehandError, BufferFullError, LocalProtocolError
from beforehand.ordering.message import Message
from beforehand.runtime.group_figures import GroupLimits

__all__ = ["Sending", "Sendings"]


@dataclass(slots=True, eq=False)
class Sending:
    payload: bytes
    to: frozenset[str] | None
    done: asyncio.Future[Message]
    executed: asyncio.Future[Any] | None = None  # Of `execute`: its result.


class Sendings:
    """Of one member, in the order in which they were made."""

    def __init__(self, *, to_all: bool) -> None:
        """`to_all`: whether messages go to all members or nobody; then one may have got a newcomer to go to."""
        self._to_all: Final = to_all
        self._sending: Final[list[Sending]] = []
        self._executing: Final[dict[tuple[str, int], asyncio.Future[Any]]] = {}

    def check(self, payload: bytes, limits: GroupLimits) -> None:
        """LocalProtocolError if this cannot be sent; BufferFullError if too many wait."""
        if type(payload) is not bytes:
            raise LocalProtocolError("the payload is not bytes")
        if len(payload) > limits.payload_bytes_max:
            raise LocalProtocolError(f"a payload of {len(payload)} bytes: the limit is {limits.payload_bytes_max}")
        if len(self._sending) >= limits.waiting_max:
            raise BufferFullError(what="messages that wait to be sent", limit=limits.waiting_max)

    def add(self, sending: Sending) -> None:
        self._sending.append(sending)

    def sent(self, message: Message) -> None:
        """It counts as sent."""
        for sending in self._sending:
            fits = sending.to is None or self._to_all or sending.to >= set(message.to)
            if sending.payload == message.payload and fits:
                self._sending.remove(sending)
                if sending.executed is not None:
                    self._executing[message.key] = sending.executed
                if not sending.done.done():
                    sending.done.set_result(message)
                return

    def handled(self, message: Message, result: Any) -> None:
        done = self._executing.pop(message.key, None)
        if done is not None and not done.done():
            done.set_result(result)

    def let_go(self, view: View) -> None:
        """Who is not in the view cannot be sent to."""
        for sending in [*self._sending]:
            if sending.to is not None and not sending.to & set(view.processes):
                self._sending.remove(sending)
                sending.done.set_exception(LocalProtocolError("not sent: all whom it should go to have left"))

    def give_up(self, error: BeforehandError) -> None:
        waiting = [future for each in self._sending for future in (each.done, each.executed) if future is not None]
        for future in [*waiting, *self._executing.values()]:
            if not future.done():
                future.set_exception(error)
                future.exception()  # Nobody may be waiting.
        self._sending.clear()
        self._executing.clear()
