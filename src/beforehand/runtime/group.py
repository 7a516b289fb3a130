"""A group: members that deliver each other's messages in a chosen order.

    async with Group("a", {"a": "127.0.0.1:7001", "b": "127.0.0.1:7002"}, order="single-phase") as group:
        await group.send(b"hello")
        async for message in group:
            ...

Guarantees, beside those of the order that was chosen (docs/reference/ordering/):
  1. Messages are handed to the application one at a time, in the order of delivery; a handler is awaited before the
     next one is called.
  2. With `state`, a member that is killed and started again goes on: nothing delivered is lost. A message whose
     handler had not ended is handed over once more. Without `state`, a member that stops cannot come back: the others
     refuse it and must evict it.
  3. Bounded: at most `inbox_max` deliveries wait for the application; beyond that, what others send is not taken (and
     comes again). `send` waits while peers owe too many acknowledgements.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from beforehand.clocks.view import View
from beforehand.errors import BeforehandError, BufferFullError, InputError, LocalProtocolError, RemoteProtocolError
from beforehand.ordering import PROTOCOLS, Frame, ReliableLink
from beforehand.ordering.effects import Deliver, Discard, Effect, Installed, Refused, Sent
from beforehand.ordering.message import Level, Message
from beforehand.ordering.protocol import Missing, Owed, Pending
from beforehand.reporting import Reporter
from beforehand.runtime.codec import decode_packet
from beforehand.runtime.group_figures import GroupFigures, GroupLimits
from beforehand.runtime.group_stack import stack_of
from beforehand.runtime.group_store import GroupStore
from beforehand.runtime.member import Delivered, Member
from beforehand.runtime.transports.base import Identity, Transport, cancel_all
from beforehand.runtime.transports.tcp import TcpTransport

__all__ = ["Group", "Handler"]

log: Final = logging.getLogger("beforehand.runtime")

Handler = Callable[[Message], Awaitable[Any]]
"""What is done with a message that is delivered; its result is that of `execute`."""

ROOM_S: Final = 0.2  # So long a packet waits for room in the inbox; then only what it acknowledges is taken.
RETRY_S: Final = 0.05


@dataclass(slots=True, eq=False)
class _Sending:
    payload: bytes
    to: frozenset[str] | None
    done: asyncio.Future[Message]
    executed: asyncio.Future[Any] | None = None  # Of `execute`: its result.


class Group:
    """One member. Use it with `async with`, from one event loop."""

    def __init__(
        self,
        me: str,
        peers: Mapping[str, str],
        *,
        order: str = "causal-broadcast",
        transport: Transport | None = None,
        name: str = "group",
        handler: Handler | None = None,
        state: str | Path | None = None,
        power_safe: bool = False,
        restored: Callable[[bytes], None] | None = None,
        journal: bool = False,
        options: Mapping[str, Any] | None = None,
        reporter: Reporter | None = None,
        limits: GroupLimits | None = None,
    ) -> None:
        """`peers`: the addresses of all members by name, this one's too: it listens there.

        With `journal`, all that happens stays in the state, for `read_journal`. `options` are those of the protocol.
        With `restored`, messages count as worked off when `checkpoint` is called, not when the handler ends; it is
        given the application's state that was kept then, before any message is handled.
        """
        if me not in peers:
            raise InputError(f"{me!r} is not among the members {', '.join(sorted(peers)) or '(none)'}")
        if order not in PROTOCOLS:
            raise InputError(f"there is no order {order!r}; there are: {', '.join(PROTOCOLS)}")
        self.me: Final = me
        self.order: Final = order
        self.name: Final = name
        self.limits: Final = limits or GroupLimits()
        self._peers: Final = dict(peers)
        self._transport: Final[Transport] = TcpTransport() if transport is None else transport
        self._handler: Final = handler
        self._restored: Final = restored
        self._reporter: Final = reporter
        self._state: Final = None if state is None else Path(state)
        self._power_safe: Final = power_safe
        self._store: GroupStore | None = None
        self._member: Final = Member(
            stack_of(order, me, tuple(sorted(peers)), dict(options or {})),
            transmit=self._transport.send,
            happened=self._tell,
            failed=self._fail,
            position=self._transport.position,
            journal=journal,
        )
        self._inbox: Final[deque[Delivered]] = deque()
        self._arrived: Final = asyncio.Event()  # Something is in the inbox, or the end has come.
        self._room: Final = asyncio.Event()
        self._progress: Final = asyncio.Event()
        self._sending: Final[list[_Sending]] = []
        self._executing: Final[dict[tuple[str, int], asyncio.Future[Any]]] = {}
        self._taken: Delivered | None = None  # Given to `async for`, and not worked off yet.
        self._handling: asyncio.Task[None] | None = None
        self._failure: BeforehandError | None = None
        self._closed = False
        self._figures: Final = GroupFigures()
        self._incarnations: Final[dict[str, str]] = {}  # Of the other members, without a state.
        self._last = 0  # The position of the last message that was worked off.

    # Life.

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen, and take up where this member was stopped."""
        incarnation, position = secrets.token_hex(8), None
        if self._state is not None:
            self._store = self._member.store = GroupStore(
                self._state, group=self.name, process=self.me, order=self.order, power_safe=self._power_safe
            )
            incarnation, position = self._store.incarnation, self._store.position
            application, waiting = self._member.restore()
            if self._restored is not None and application is not None:
                self._restored(application)
            self._inbox.extend(waiting)
            self._arrived.set()
        others = {name: address for name, address in self._peers.items() if name != self.me}
        identity = Identity(
            group=f"{self.name}/{self.order}",
            process=self.me,
            incarnation=incarnation,
            peers=others,
            remember=self._remember if self._store is None else self._store.remember,
        )
        try:
            await self._transport.start(identity, self._peers[self.me], self._take, position)
        except BaseException:
            if self._store is not None:
                self._store.close()
            raise
        self._member.start()
        if self._handler is not None:
            self._handling = asyncio.create_task(self._handle(self._handler))

    async def close(self, timeout: float = 5.0) -> bool:
        """End. Waits until all others have acknowledged what we sent; False if some have not by the timeout."""
        if self._closed:
            return True
        deadline = asyncio.get_running_loop().time() + timeout
        while not (done := self._acknowledged()) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        self._closed = True
        if self._handling is not None:
            await cancel_all([self._handling])
        self._member.stop()
        await self._transport.close()
        if self._store is not None:
            self._store.close()
        self._give_up(LocalProtocolError("the group is closed"))
        self._arrived.set()
        return done

    # Sending.

    async def send(
        self, payload: bytes, to: str | Iterable[str] | None = None, *, level: Level | None = None, **options: Any
    ) -> Message:
        """Send to each of `to` (None: to all, this member included). Waits for room, and until it counts as sent."""
        chosen = None if to is None else frozenset([to] if isinstance(to, str) else to)
        sending = _Sending(payload, chosen, asyncio.get_running_loop().create_future())
        await self._send(sending, level=level, **options)
        return await sending.done

    async def execute(self, payload: bytes) -> Any:
        """Send to all, and wait until the message was handled here, in its place; the handler's result."""
        loop = asyncio.get_running_loop()
        sending = _Sending(payload, None, loop.create_future(), loop.create_future())
        await self._send(sending, level=None)
        await sending.done
        assert sending.executed is not None
        return await sending.executed

    async def _send(self, sending: _Sending, **options: Any) -> None:
        payload = sending.payload
        if type(payload) is not bytes:
            raise LocalProtocolError("the payload is not bytes")
        if len(payload) > self.limits.payload_bytes_max:
            raise LocalProtocolError(
                f"a payload of {len(payload)} bytes: the limit is {self.limits.payload_bytes_max}"
            )
        if len(self._sending) >= self.limits.waiting_max:
            raise BufferFullError(what="messages that wait to be sent", limit=self.limits.waiting_max)
        while True:
            self._check_open()
            self._progress.clear()
            try:
                self._member.call(lambda now: self._member.protocol.send(payload, sending.to, now=now, **options))
            except BufferFullError:
                await _within(self._progress, RETRY_S)
            else:
                self._sending.append(sending)  # It is told of as sent after this turn of the loop at the earliest.
                return

    # Receiving.

    def __aiter__(self) -> Self:
        if self._handler is not None:
            raise LocalProtocolError("this group has a handler: messages go there")
        return self

    async def __anext__(self) -> Message:
        """The next message. The one before counts as worked off."""
        if self._taken is not None:
            taken, self._taken = self._taken, None
            self._worked_off(taken, None)
        while not self._inbox:
            if self._failure is not None:
                raise self._failure
            if self._closed or self.departed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        self._taken = self._inbox.popleft()
        self._room.set()
        return self._taken[1]

    def checkpoint(self, application: bytes) -> None:
        """With `restored`: this is the application's state after the last message that was handled."""
        self._member.worked_off(self._last, application)

    async def _handle(self, handler: Handler) -> None:
        while True:
            while not self._inbox:
                self._arrived.clear()
                await self._arrived.wait()
            delivered = self._inbox.popleft()
            self._room.set()
            try:
                result = await handler(delivered[1])
            except Exception as error:
                log.exception("%s: the handler failed at %s", self.me, delivered[1].id)
                self._fail(LocalProtocolError(f"the handler failed at message {delivered[1].id}: {error!r}"))
                return
            self._worked_off(delivered, result)

    def _worked_off(self, delivered: Delivered, result: Any) -> None:
        position, message = delivered
        self._last = position
        self._figures.handled += 1
        if self._restored is None:
            self._member.worked_off(position)
        done = self._executing.pop(message.key, None)
        if done is not None and not done.done():
            done.set_result(result)

    # The group.

    @property
    def view(self) -> View:
        """The members that there are now."""
        return self._member.protocol.view

    @property
    def departed(self) -> bool:
        """Whether this member has left or was evicted."""
        return self.me not in self.view

    def pending(self) -> list[Pending]:
        """Messages that are here and cannot be delivered yet, and what they wait for."""
        return self._member.protocol.pending()

    def missing(self) -> list[Missing]:
        """Who owes what."""
        return self._member.protocol.missing()

    def stable(self) -> Mapping[str, int]:
        """Per sender, up to which number all members have its messages."""
        return self._member.protocol.stable()

    async def leave(self, timeout: float = 30.0) -> None:
        """Leave the group: done when the others have agreed on a view without us."""
        self._check_open()
        self._member.call(lambda now: self._link().leave(now=now))
        await self._until(lambda: self.departed, timeout, "the others have not agreed that we leave")

    async def evict(self, *processes: str, force: bool = False, timeout: float = 30.0) -> None:
        """Remove members that have stopped. `force` allows a view without a majority of this one."""
        self._check_open()
        for process in processes:
            self.view.position(process)  # Raises NotInViewError.
        self._member.call(lambda now: self._link().evict(processes, now=now, force=force))
        gone = set(processes)
        await self._until(
            lambda: not gone & set(self.view.processes), timeout, f"no view without {', '.join(processes)} yet"
        )

    def figures(self) -> GroupFigures:
        """Where this member stands."""
        figures, pending = self._figures, self.pending()
        figures.inbox, figures.pending = len(self._inbox), len(pending)
        figures.oldest = pending[0] if pending else None
        figures.missing = self.missing()
        figures.transport = self._transport.figures
        return figures

    # Inside.

    def _remember(self, process: str, incarnation: str) -> bool:
        return self._incarnations.setdefault(process, incarnation) == incarnation

    async def _take(self, sender: str, data: bytes) -> None:
        """A packet of `sender`; RemoteProtocolError if it breaks the rules."""
        packet = decode_packet(data)
        if type(packet) is not Frame:
            raise RemoteProtocolError(f"a {type(packet).__name__} is not what members send each other")
        if len(self._inbox) >= self.limits.inbox_max and packet.packet is not None:
            self._room.clear()
            await _within(self._room, ROOM_S)
            if len(self._inbox) >= self.limits.inbox_max:
                # What it acknowledges is taken: who waits for that may be the handler that is to make room.
                packet = Frame(number=0, packet=None, mark=packet.mark, above=packet.above)
                self._figures.put_off += 1
        if self._closed or self._failure is not None:
            return
        try:
            self._member.call(lambda now: self._member.protocol.receive(sender, packet, now=now))
        except RemoteProtocolError:
            raise
        except BeforehandError as error:  # A clock at its end, say: this member cannot go on.
            self._fail(error)
        self._progress.set()

    def _tell(self, effects: Sequence[Effect], delivered: Sequence[Delivered]) -> None:
        """After a commit: what happened, in order."""
        for effect in effects:
            match effect:
                case Sent():
                    self._figures.sent += 1
                    self._report(f"send {effect.message.id}", effect.message, sent=True)
                    self._resolve(effect.message)
                case Deliver():
                    self._figures.delivered += 1
                    self._report(f"deliver {effect.message.id}", effect.message, sent=False)
                case Discard():
                    self._figures.discarded[effect.reason.value] += 1
                    log.warning("%s: %s was not delivered: %s", self.me, effect.message.id, effect.reason.value)
                case Refused():
                    self._figures.refused += 1
                    log.info("%s: something of %s was refused: %s", self.me, effect.process, effect.why)
                case Installed():
                    self._installed(effect.view)
        if delivered:
            self._inbox.extend(delivered)
            self._arrived.set()

    def _installed(self, view: View) -> None:
        log.info("%s: view %d: %s", self.me, view.number, " ".join(view.processes))
        self._progress.set()
        if self._reporter is not None:
            self._reporter.event(f"view {view.number}: {' '.join(view.processes)}")
        if self.me not in view:
            self._give_up(LocalProtocolError(f"{self.me!r} is no longer a member of the group"))
            self._arrived.set()
            return
        for sending in [*self._sending]:
            if sending.to is not None and not sending.to & set(view.processes):
                self._sending.remove(sending)
                sending.done.set_exception(LocalProtocolError("not sent: all whom it should go to have left"))

    def _resolve(self, message: Message) -> None:
        for sending in self._sending:
            if sending.payload == message.payload and (sending.to is None or sending.to >= set(message.to)):
                self._sending.remove(sending)
                if sending.executed is not None:
                    self._executing[message.key] = sending.executed
                if not sending.done.done():
                    sending.done.set_result(message)
                return

    def _report(self, name: str, message: Message, *, sent: bool) -> None:
        if self._reporter is not None:
            ids = (message.id,)
            self._reporter.event(name, sends=ids if sent else (), receives=() if sent else ids)

    def _fail(self, error: BeforehandError) -> None:
        self._failure = self._failure or error
        self._give_up(self._failure)
        self._arrived.set()
        self._progress.set()

    def _give_up(self, error: BeforehandError) -> None:
        waiting = [future for each in self._sending for future in (each.done, each.executed) if future is not None]
        for future in [*waiting, *self._executing.values()]:
            if not future.done():
                future.set_exception(error)
                future.exception()  # Nobody may be waiting.
        self._sending.clear()
        self._executing.clear()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise LocalProtocolError("the group is closed")

    def _acknowledged(self) -> bool:
        return not any(owed.what is Owed.ACKNOWLEDGEMENT for owed in self.missing()) or self._failure is not None

    def _link(self) -> ReliableLink:
        protocol = self._member.protocol
        assert isinstance(protocol, ReliableLink)
        return protocol

    async def _until(self, holds: Callable[[], bool], timeout: float, otherwise: str) -> None:
        deadline = asyncio.get_running_loop().time() + timeout
        while not holds():
            self._check_open()
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"{otherwise}; missing: {self.missing()[:5]}")
            self._progress.clear()
            await _within(self._progress, RETRY_S)


async def _within(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, but not for longer."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
