"""A protocol on asyncio: one member's calls, timer, commits and packets.

Guarantees:
  1. Calls of the protocol happen one at a time, in the thread of the loop.
  2. Persist before transmit: calls of one turn of the loop share one commit. Only after it packets leave, and
     deliveries and sends are told (`happened`). If a commit fails, none of that ever happens, and the member stops.
     Of the acknowledgements of one commit to the same peer only the last leaves, and none if a packet carries it.
  3. Time never goes back, whatever the machine's clock does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from beforehand.errors import BeforehandError
from beforehand.ordering.effects import Deliver, Discard, Effect, Installed, Persist, Sent, SetTimer, Transmit
from beforehand.ordering.message import Message
from beforehand.ordering.protocol import DeliveryProtocol
from beforehand.ordering.reliable_link import Frame
from beforehand.runtime.codec import SnapshotEncoder, decode_snapshot, encode
from beforehand.runtime.group_store import DELIVER, SEND, SET_ASIDE, VIEW, GroupStore
from beforehand.runtime.state_packets import Turn

__all__ = ["Delivered", "Member", "unit_ns"]

_WALL_CLOCK: Final = frozenset({"timed-delivery", "causal-merge"})
"""Protocols whose time is that of the wall, the same for all members; the others measure only how long."""

_IN_MILLISECONDS: Final = frozenset({"causal-merge"})
"""Protocols that count time in ticks of their own: the bytes of their stamps grow with ε in ticks."""

WORKED_OFF_EVERY_S: Final = 0.01

Delivered = tuple[int, Message | Turn]
"""The position of a message among all that were delivered here, from 1, and the message; or where somebody joined."""


class Member:
    """Drives a protocol. `start` it within a running loop."""

    def __init__(
        self,
        protocol: DeliveryProtocol,
        *,
        transmit: Callable[[str, bytes], None],
        happened: Callable[[Sequence[Effect], Sequence[Delivered]], None],
        failed: Callable[[BeforehandError], None],
        position: Callable[[], bytes] = bytes,
        journal: bool = False,
    ) -> None:
        """`happened` is told what happened and what was delivered, in order; `failed`, why the member stopped.

        `position` is the transport's. With `journal`, what happened stays in the store.
        """
        self.protocol: Final = protocol
        self._transmit: Final = transmit
        self._happened: Final = happened
        self._failed: Final = failed
        self.store: GroupStore | None = None  # To be set before `restore` and `start`.
        self._transport_position: Final = position
        self._journal: Final = journal
        self._read: Final = time.time_ns if protocol.traits.name in _WALL_CLOCK else time.monotonic_ns
        self._unit: Final = unit_ns(protocol.traits.name)
        self._snapshots: Final = SnapshotEncoder()
        self._now = 0
        self._position = 0  # Of the last message delivered.
        self._timer: asyncio.TimerHandle | None = None
        self._commit_soon: asyncio.Handle | None = None
        self._changed = False  # The protocol, since the last commit.
        self._told: list[Effect] = []  # What happened since.
        self._delivered: list[Delivered] = []
        self._out: list[tuple[str, Any]] = []  # To whom, and a packet that is not encoded yet.
        self._worked_off: int | None = None  # To be written with the next commit.
        self._application: bytes | None = None
        self.stopped = False

    def restore(self) -> tuple[bytes | None, list[Delivered]]:
        """Take up what the store holds: the application's state, and what was delivered after it."""
        assert self.store is not None
        snapshot, application, rows, self._position = self.store.load()
        if snapshot is not None:
            self.protocol.restore(decode_snapshot(snapshot))
        return application, [(position, decode_snapshot(data)[0]) for position, data in rows]

    def start(self) -> None:
        self.call(lambda now: self.protocol.tick(now=now))

    def call(self, act: Callable[[int], list[Effect]]) -> None:
        """One call of the protocol. What it raises has changed nothing."""
        if self.stopped:
            return
        self._now = max(self._now, self._read() // self._unit)
        view, outside = self.protocol.view, not self.welcomed
        for effect in act(self._now):
            match effect:
                case Installed():
                    me = self.protocol.process
                    new = (me,) if outside else tuple(p for p in effect.view.processes if p not in view)
                    view, outside = effect.view, False
                    if new and me in view:
                        self._position += 1
                        self._delivered.append((self._position, Turn(view=view, new=new)))
                    self._told.append(effect)
                case Deliver():
                    self._position += 1
                    self._delivered.append((self._position, effect.message))
                    self._told.append(effect)
                case Persist():
                    self._changed = True
                case Transmit():
                    self._out += [(to, effect.packet) for to in effect.to]
                case SetTimer():
                    self._set_timer(effect.at)
                case _:
                    self._told.append(effect)
        if isinstance(self._commit_soon, asyncio.TimerHandle):  # That of `worked_off`, which has time; others wait.
            self._commit_soon.cancel()
            self._commit_soon = None
        if self._commit_soon is None:
            self._commit_soon = asyncio.get_running_loop().call_soon(self._commit)

    @property
    def welcomed(self) -> bool:
        """Not if it is to join a group that has not admitted it yet."""
        return bool(getattr(getattr(self.protocol, "within", None), "welcomed", True))

    def worked_off(self, position: int, application: bytes | None = None) -> None:
        """The application is done with all messages up to this position, and this is its state."""
        if self.store is None:
            return
        self._worked_off = position
        self._application = self._application if application is None else application
        if self._commit_soon is None and not self.stopped:
            self._commit_soon = asyncio.get_running_loop().call_later(WORKED_OFF_EVERY_S, self._commit)

    def commit(self) -> None:
        """Now, not soon: afterwards all that happened so far is in the store."""
        if self._commit_soon is not None:
            self._commit()

    def has_begun(self, view: int) -> bool:
        """Whether this view, or a later one, has begun here. If so, that is told by now."""
        self.commit()
        return view <= self.protocol.view.number

    def stop(self) -> None:
        """No more calls. What happened so far is committed."""
        self.commit()
        self.stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _commit(self) -> None:
        if self._commit_soon is not None:
            self._commit_soon.cancel()
            self._commit_soon = None
        told, delivered, out = self._told, self._delivered, self._out
        self._told, self._delivered, self._out = [], [], []
        if self.store is not None:
            try:
                self.store.commit(
                    self._snapshots.encode(self.protocol.snapshot()) if self._changed else None,
                    [(position, encode((one,))) for position, one in delivered],
                    worked_off=self._worked_off,
                    application=self._application,
                    position=self._transport_position(),
                    journal=_noted(told) if self._journal else (),
                )
            except BeforehandError as error:
                self.stopped = True
                self._failed(error)
                return
        self._changed, self._worked_off, self._application = False, None, None
        for to, packet in _without_idle_talk(out):
            self._transmit(to, encode(packet))
        if told:
            self._happened(told, delivered)

    def _set_timer(self, at: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at is not None:
            delay = max(0, at - self._now) * self._unit / 1e9
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self.call(lambda now: self.protocol.tick(now=now))
        except BeforehandError as error:
            self.stopped = True
            self._failed(error)


def unit_ns(order: str) -> int:
    """In what unit a member tells its protocol the time, in nanoseconds."""
    return 1_000_000 if order in _IN_MILLISECONDS else 1


def _without_idle_talk(out: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """All but the acknowledgements that a later frame to the same peer brings, too."""
    last = {to: at for at, (to, _) in enumerate(out)}
    for at, (to, packet) in enumerate(out):
        if at == last[to] or type(packet) is not Frame or not packet.bare:
            yield to, packet


def _noted(effects: Sequence[Effect]) -> list[tuple[int, str, str]]:
    now = time.time_ns()
    noted = []
    for effect in effects:
        match effect:
            case Sent():
                noted.append((now, SEND, effect.message.id))
            case Deliver():
                noted.append((now, DELIVER, effect.message.id))
            case Discard():
                noted.append((now, SET_ASIDE, f"{effect.message.id}: {effect.reason.value}"))
            case Installed():
                noted.append((now, VIEW, f"{effect.view.number}: {' '.join(effect.view.processes)}"))
    return noted
