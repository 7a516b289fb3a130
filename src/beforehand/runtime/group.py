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
  3. What `execute(stable=True)` has returned from is never lost: all members of the view have delivered it, so it is
     in the order of whoever stays. What was only sent, or executed here, can be lost if this member is evicted.
  4. Members can join (`admit` at a member, `join` at the newcomer); with `snapshot` and `restored` a newcomer begins
     with the application's state as it was when its view began.
  5. Bounded: at most `inbox_max` deliveries wait for the application; beyond that, what others send is not taken (and
     comes again). `send` waits while peers owe too many acknowledgements.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from beforehand.clocks.view import View
from beforehand.errors import BeforehandError, BufferFullError, LocalProtocolError, RemoteProtocolError
from beforehand.ordering import Frame
from beforehand.ordering.effects import Deliver, Discard, Effect, Installed, Refused, Sent
from beforehand.ordering.message import Level, Message
from beforehand.ordering.protocol import Missing, Owed, Pending
from beforehand.reporting import Reporter
from beforehand.runtime.codec import decode_packet
from beforehand.runtime.group_figures import GroupFigures, GroupLimits
from beforehand.runtime.group_inbox import Inbox, within
from beforehand.runtime.group_joining import Newcomers
from beforehand.runtime.group_log import GroupLog
from beforehand.runtime.group_sendings import Sending, Sendings
from beforehand.runtime.group_stack import changing, stack_of
from beforehand.runtime.group_store import GroupStore
from beforehand.runtime.member import Delivered, Member
from beforehand.runtime.state_packets import Turn
from beforehand.runtime.state_transfer import StatePacket
from beforehand.runtime.transports.base import Transport, cancel_all
from beforehand.runtime.transports.tcp import TcpTransport

__all__ = ["Group", "Handler"]

Handler = Callable[[Message], Awaitable[Any]]
"""What is done with a message that is delivered; its result is that of `execute`."""

ROOM_S: Final = 0.2  # So long a packet waits for room in the inbox; then only what it acknowledges is taken.
RETRY_S: Final = 0.05


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
        snapshot: Callable[[], bytes] | None = None,
        join: bool = False,
        journal: bool = False,
        options: Mapping[str, Any] | None = None,
        reporter: Reporter | None = None,
        limits: GroupLimits | None = None,
    ) -> None:
        """`peers`: the addresses of all members by name, this one's too: it listens there.

        With `journal`, all that happens stays in the state, for `read_journal`. `options` are those of the protocol.
        With `restored`, messages count as worked off when `checkpoint` is called, not when the handler ends; it is
        given the application's state that was kept then, before any message is handled.
        With `snapshot`, which gives the application's state, newcomers begin with it: theirs goes to `restored`.
        With `join`, this member is not one yet: `open` waits until another has admitted it.
        """
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
            stack_of(order, me, peers, dict(options or {}), join=join),
            transmit=lambda to, data: self._newcomers.send(to, data),
            happened=self._tell,
            failed=self._fail,
            position=self._transport.position,
            journal=journal,
        )
        self._newcomers: Final = Newcomers(
            me,
            peers,
            protocol=self._member.protocol,
            transport=self._transport,
            passed=lambda view: self._member.has_begun(view) and not self._inbox.holds_start(view),
            failed=self._fail,
            snapshot=snapshot,
            restored=restored,
            bytes_max=self.limits.state_bytes_max,
        )
        self._inbox: Final = Inbox(self.limits.inbox_max)
        self._progress: Final = asyncio.Event()
        self._sendings: Final = Sendings(self._member.protocol)
        self._taken: tuple[int, Message] | None = None  # Given to `async for`, and not worked off yet.
        self._handling: asyncio.Task[None] | None = None
        self._failure: BeforehandError | None = None
        self._inside = self._closed = False  # Whether it has become a member; whether it was closed.
        self._figures: Final = GroupFigures()
        self._log: Final = GroupLog(f"{name}/{order}", me)
        self._turning: Turn | None = None  # What is handled now, if it is no message.
        self._last = 0  # The position of the last message that was worked off.

    # Life.

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self, timeout: float = 60.0) -> None:
        """Listen, and take up where this member was stopped. One that joins: wait until it is a member.

        With a handler and `snapshot`, also until it has the state. TimeoutError if that takes longer.
        """
        try:
            await self._begin()
        except BaseException:
            await self._end()
            raise
        otherwise = f"{self.me!r} is no member yet: call `admit({self.me!r}, {self._peers[self.me]!r})` at a member"
        try:
            await self._until(lambda: self._inside, timeout, otherwise)
            await self._until(lambda: not self._awaits_state(), timeout, "no member has given us the state yet")
        except BaseException:
            await self.close(timeout=0)
            raise

    async def _begin(self) -> None:
        if self._state is not None:
            self._store = self._member.store = GroupStore(
                self._state, group=self.name, process=self.me, order=self.order, power_safe=self._power_safe
            )
            application, delivered = self._member.restore()
            if self._restored is not None and application is not None:
                self._restored(application)
            self._inbox.extend(delivered)
        self._inside = self._member.welcomed
        identity = self._newcomers.identity(f"{self.name}/{self.order}", self._store, waiting=not self._inside)
        position = None if self._store is None else self._store.position
        await self._transport.start(identity, self._peers[self.me], self._take, position)
        self._newcomers.open(self._store, has_state=not self._awaits_state())
        self._member.start()
        if self._handler is not None:
            self._handling = asyncio.create_task(self._handle(self._handler))

    async def _end(self) -> None:
        await self._newcomers.close()
        await self._transport.close()
        if self._store is not None:
            self._store.close()

    def _awaits_state(self) -> bool:
        """Whether this is a newcomer whose state is still to come."""
        turns = self._inbox.turns() if self._turning is None else [self._turning]
        return self._handler is not None and any(self.me in turn.new for turn in turns)

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
        await self._end()
        self._sendings.give_up(LocalProtocolError("the group is closed"))
        self._inbox.wake()
        return done

    # Sending.

    async def send(
        self, payload: bytes, to: str | Iterable[str] | None = None, *, level: Level | None = None, **options: Any
    ) -> Message:
        """Send to each of `to` (None: to all, this member included). Waits for room, and until it counts as sent."""
        chosen = None if to is None else frozenset([to] if isinstance(to, str) else to)
        sending = Sending(payload, chosen)
        await self._send(sending, level=level, **options)
        return await sending.done

    async def execute(self, payload: bytes, *, stable: bool = False) -> Any:
        """Send to all, and wait until the message was handled here, in its place; the handler's result.

        If `stable`, wait until all members have delivered it, too: then no eviction undoes it. Needs views.
        """
        if stable:
            self._member.call(self._sendings.hasten)
        sending = Sending(payload, None, executes=True, stable=stable)
        await self._send(sending, level=None)
        return await sending.executed

    async def _send(self, sending: Sending, **options: Any) -> None:
        self._sendings.check(sending.payload, self.limits, self._transport.packet_bytes_max)
        protocol = self._member.protocol
        while True:
            self._check_open()
            self._progress.clear()
            try:
                self._member.call(lambda now: protocol.send(sending.payload, sending.to, now=now, **options))
            except BufferFullError:
                await within(self._progress, RETRY_S)
            else:
                self._sendings.add(sending)  # It is told of as sent after this turn of the loop at the earliest.
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
            await self._inbox.wait()
        position, one = self._inbox.pop()
        if isinstance(one, Turn):
            await self._turn(position, one)
            return await self.__anext__()
        self._taken = (position, one)
        return one

    def checkpoint(self, application: bytes) -> None:
        """With `restored`: this is the application's state after the last message that was handled."""
        self._member.worked_off(self._last, application)

    async def _handle(self, handler: Handler) -> None:
        while True:
            while not self._inbox:
                await self._inbox.wait()
            position, one = self._inbox.pop()
            try:
                if isinstance(one, Turn):
                    await self._turn(position, one)
                else:
                    self._worked_off((position, one), await handler(one))
            except Exception as error:  # noqa: BLE001 (whatever the application raises; it is logged)
                where = self._log.handler_failed(one, error)
                self._fail(LocalProtocolError(f"the handler failed at {where}: {error!r}"))
                return

    async def _turn(self, position: int, turn: Turn) -> None:
        """Somebody is new from here on; perhaps we."""
        self._turning = turn
        state = await self._newcomers.turn(turn)
        self._last, self._turning = position, None
        if state is not None or self._restored is None:
            self._member.worked_off(position, state)
            self._member.commit()  # Now: what a newcomer has taken others may forget, and keep no second time.
        if state is not None and self.me in turn.new:
            self._newcomers.confirm(turn.view.number)
        self._progress.set()

    def _worked_off(self, delivered: tuple[int, Message], result: Any) -> None:
        position, message = delivered
        self._last = position
        self._figures.handled += 1
        if self._restored is None:
            self._member.worked_off(position)
        self._sendings.handled(message, result)

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
        """Who owes what, to the order or to a call that waits until its message is stable."""
        return sorted({*self._member.protocol.missing(), *self._sendings.missing()})

    def stable(self) -> Mapping[str, int]:
        """Per sender, up to which number all members have its messages."""
        return self._member.protocol.stable()

    async def leave(self, timeout: float = 30.0) -> None:
        """Leave the group: done when the others have agreed on a view without us."""
        self._check_open()
        link = changing(self._member.protocol)
        self._member.call(lambda now: link.leave(now=now))
        await self._until(lambda: self.departed, timeout, "the others have not agreed that we leave")

    async def evict(self, *processes: str, force: bool = False, timeout: float = 30.0) -> None:
        """Remove members that have stopped. `force` allows a view without a majority of this one."""
        self._check_open()
        link = changing(self._member.protocol)
        for process in processes:
            self.view.position(process)  # Raises NotInViewError.
        self._member.call(lambda now: link.evict(processes, now=now, force=force))
        gone = {*processes}.isdisjoint
        await self._until(lambda: gone(self.view.processes), timeout, f"no view without {', '.join(processes)} yet")

    async def admit(self, process: str, address: str = "", timeout: float = 30.0) -> None:
        """Add a member, which is opened with `join`. Done when it is in our view; it may come later, at `address`."""
        self._check_open()
        link = changing(self._member.protocol)
        self._transport.check(address)
        self._member.call(lambda now: link.admit({process: address}, now=now))
        await self._until(lambda: process in self.view, timeout, f"no view with {process} yet")

    def figures(self) -> GroupFigures:
        """Where this member stands."""
        self._figures.inbox, self._figures.missing = len(self._inbox), self.missing()
        self._figures.transport = self._transport.figures
        return self._figures.with_pending(self.pending())

    # Inside.

    async def _take(self, sender: str, data: bytes) -> None:
        """A packet of `sender`; RemoteProtocolError if it breaks the rules."""
        packet = decode_packet(data)
        if isinstance(packet, StatePacket):
            self._newcomers.take(sender, packet)
            return
        if type(packet) is not Frame:
            raise RemoteProtocolError(f"a {type(packet).__name__} is not what members send each other")
        if self._inbox.full and packet.packet is not None:
            if self._turning is None:  # Otherwise the state that is to make room may be behind this.
                await within(self._inbox.room(), ROOM_S)
            if self._inbox.full:
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
        self._sendings.look()
        self._progress.set()

    def _tell(self, effects: Sequence[Effect], delivered: Sequence[Delivered]) -> None:
        """After a commit: what happened, in order."""
        for effect in effects:
            match effect:
                case Sent():
                    self._figures.sent += 1
                    self._report(f"send {effect.message.id}", sends=(effect.message.id,))
                    self._sendings.sent(effect.message)
                case Deliver():
                    self._figures.delivered += 1
                    self._report(f"deliver {effect.message.id}", receives=(effect.message.id,))
                case Discard():
                    self._figures.discarded[effect.reason.value] += 1
                    self._report(f"set aside {effect.message.id}: {effect.reason.value}")
                    self._sendings.set_aside(effect.message, effect.reason.value)
                    self._log.set_aside(effect)
                case Refused():
                    self._figures.refused += 1
                    self._log.refused(effect)
                case Installed():
                    self._installed(effect.view)
        self._inbox.extend(delivered)

    def _installed(self, view: View) -> None:
        self._log.installed(view)
        self._inside = True
        self._progress.set()
        self._report(f"view {view.number}: {' '.join(view.processes)}")
        if self.me in view:
            self._newcomers.installed(view)
            self._sendings.let_go(view)
        else:
            self._sendings.give_up(LocalProtocolError(f"{self.me!r} is no longer a member of the group"))
            self._inbox.wake()

    def _report(self, name: str, *, sends: Sequence[str] = (), receives: Sequence[str] = ()) -> None:
        if self._reporter is not None:
            self._reporter.event(name, sends=sends, receives=receives)

    def _fail(self, error: BeforehandError) -> None:
        self._failure = self._failure or error
        self._sendings.give_up(self._failure)
        self._inbox.wake()
        self._progress.set()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise LocalProtocolError("the group is closed")

    def _acknowledged(self) -> bool:
        return not any(owed.what is Owed.ACKNOWLEDGEMENT for owed in self.missing()) or self._failure is not None

    async def _until(self, holds: Callable[[], bool], timeout: float, otherwise: str) -> None:
        deadline = asyncio.get_running_loop().time() + timeout
        while not holds():
            self._check_open()
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"{otherwise}; missing: {self.missing()[:5]}")
            self._progress.clear()
            await within(self._progress, RETRY_S)
