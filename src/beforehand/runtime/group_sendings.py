"""The calls of `send` and `execute` that wait: each for its own message.

A call of `execute` waits until its message was handled here. One that is to be stable waits until every member of the
view has delivered it, too: then a change of the view keeps it, whoever stays. That is known from acknowledgements or,
if the view changes meanwhile, by the change, which brings the message to all who stay.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field
from typing import Any, Final

from beforehand.clocks.view import View
from beforehand.errors import BeforehandError, BufferFullError, LocalProtocolError
from beforehand.ordering import DeliveryProtocol, ReliableLink
from beforehand.ordering.effects import Effect
from beforehand.ordering.message import Message
from beforehand.ordering.protocol import Destinations, Missing, Owed
from beforehand.runtime.group_figures import GroupLimits

__all__ = ["Sending", "Sendings"]

BESIDE_BYTES_MAX: Final = 64 * 1024  # Of what a packet has beside its payload: stamps, above all.


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class Sending:
    payload: bytes
    to: frozenset[str] | None
    executes: bool = False  # Whether it is of `execute`.
    stable: bool = False  # And that is to wait for all members.
    done: asyncio.Future[Message] = field(default_factory=_future)  # The message, when it counts as sent.
    executed: asyncio.Future[Any] = field(default_factory=_future)  # The result, if it executes.


class Sendings:
    """Of one member, in the order in which they were made."""

    def __init__(self, protocol: DeliveryProtocol) -> None:
        """`protocol` is the member's, with its layers."""
        self._protocol: Final = protocol
        # If messages go to all members or nobody, one may have got a newcomer to go to.
        self._to_all: Final = protocol.traits.destinations is Destinations.ALL
        self._sending: Final[list[Sending]] = []
        self._executing: Final[dict[tuple[str, int], Sending]] = {}
        self._unstable: Final[list[tuple[int, asyncio.Future[Any], Any]]] = []
        # ^ Handled here and not known to be stable: a heap of numbers, with the calls and their results.

    def check(self, payload: bytes, limits: GroupLimits, packet_bytes_max: int) -> None:
        """LocalProtocolError if this cannot be sent; BufferFullError if too many wait.

        `packet_bytes_max` is the transport's: what is larger would never arrive, and nor would all that is after it.
        """
        if type(payload) is not bytes:
            raise LocalProtocolError("the payload is not bytes")
        most = min(limits.payload_bytes_max, packet_bytes_max - BESIDE_BYTES_MAX)
        if len(payload) > most:
            raise LocalProtocolError(f"a payload of {len(payload)} bytes: the limit is {most}")
        if len(self._sending) >= limits.waiting_max:
            raise BufferFullError(what="messages that wait to be sent", limit=limits.waiting_max)

    def hasten(self, now: int) -> list[Effect]:
        """A call is to wait until its message is stable: others shall tell us at once. Perform the effects."""
        if not self._protocol.traits.views:
            name = self._protocol.traits.name
            raise LocalProtocolError(f"{name} has no views, so it does not know what is stable: pass stable=False")
        assert isinstance(self._protocol, ReliableLink)
        return self._protocol.hasten(now=now)

    def add(self, sending: Sending) -> None:
        self._sending.append(sending)

    def sent(self, message: Message) -> None:
        """It counts as sent."""
        for sending in self._sending:
            fits = sending.to is None or self._to_all or sending.to >= set(message.to)
            if sending.payload == message.payload and fits:
                self._sending.remove(sending)
                if sending.executes:
                    self._executing[message.key] = sending
                if not sending.done.done():
                    sending.done.set_result(message)
                return

    def handled(self, message: Message, result: Any) -> None:
        sending = self._executing.pop(message.key, None)
        if sending is None or sending.executed.done():
            return
        if sending.stable:
            heapq.heappush(self._unstable, (message.number, sending.executed, result))
            self.look()
        else:
            sending.executed.set_result(result)

    def look(self) -> None:
        """More may be stable than when we last looked."""
        if not self._unstable:
            return
        stable = self._protocol.stable().get(self._protocol.process, 0)
        while self._unstable and self._unstable[0][0] <= stable:
            _, executed, result = heapq.heappop(self._unstable)
            if not executed.done():
                executed.set_result(result)

    def missing(self) -> list[Missing]:
        """Who has not acknowledged the oldest message that a call waits for to become stable."""
        if not self._unstable:
            return []
        assert isinstance(self._protocol, ReliableLink)
        number = self._unstable[0][0]
        lacking = self._protocol.lacking(number)
        return [Missing(process=name, what=Owed.ACKNOWLEDGEMENT, number=number) for name in lacking]

    def set_aside(self, message: Message, why: str) -> None:
        """It will never be delivered here: nobody need wait for what it would have done."""
        sending = self._executing.pop(message.key, None)
        if sending is not None and not sending.executed.done():
            why = f"not executed: {message.id} was set aside as {why}"
            sending.executed.set_exception(LocalProtocolError(why))

    def let_go(self, view: View) -> None:
        """A new view: who is not in it cannot be sent to. What was sent before it all who are in it have."""
        for sending in [*self._sending]:
            if sending.to is not None and not sending.to & set(view.processes):
                self._sending.remove(sending)
                if not sending.done.done():  # Otherwise its caller was cancelled.
                    sending.done.set_exception(LocalProtocolError("not sent: all whom it should go to have left"))
        self.look()

    def give_up(self, error: BeforehandError) -> None:
        waiting = [*self._sending, *self._executing.values()]
        for future in [future for each in waiting for future in (each.done, each.executed)]:
            _fail(future, error)
        for _, executed, _ in self._unstable:
            _fail(executed, LocalProtocolError(f"executed here, and others may not have it: {error}"))
        self._sending.clear()
        self._executing.clear()
        self._unstable.clear()


def _fail(future: asyncio.Future[Any], error: BeforehandError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # Nobody may be waiting.
