"""The line of events of a process whose calls are received in causal order (Berry 1995, 3.4.2, 4.3 and 5.2).

Guarantees:
  1. A message is received (its handler runs) after all messages to this process that happened before it, or its
     deadline passes: `DeliveryTimeoutError`, and it was not received.
  2. Events are reported in the order in which the clock counted them, whatever the threads.
  3. A call that failed does not hold up later ones for ever, as the paper's library would: what failed is *voided*.

Voiding. A message that is lost leaves a gap, and everything after it would wait. The caller knows which of its calls
failed. It lists their stamps with its next call to the same process, which receives them as messages without content,
unless they had arrived after all. A reply may be lost too: so the receiver gives, with its next reply, the stamps
of the replies to the calls that were listed. Until that next call, what others send after the lost message waits,
up to its deadline. At most `VOIDS_MAX` failed calls are listed for a process: while more fail, calls to it carry the
list and no stamp, so that the first one that is answered mends it.

Assumes that peers are honest about who they are: whoever can forge a sender can use up its message numbers.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from threading import Lock
from typing import Final

from msgspec import Struct

from beforehand.clocks import OrderingClock, OrderingStamp, VectorStamp
from beforehand.errors import DuplicateMessageError, InputError, StampTooLargeError
from beforehand.reporting import Reporter
from beforehand.rpc.differences import Base, OrderedDifference, life_text, new_life
from beforehand.rpc.headers import DIFFERENCE_HEADER, LIFE_HEADER, Carried, written
from beforehand.rpc.policies import Counter, Policies

__all__ = ["VOIDS_MAX", "OrderedLane", "Posted"]

VOIDS_MAX: Final = 16
_REPLIES_MAX: Final = 4096  # Replies whose stamps are remembered, in case that they were lost.
_RUNNING_MAX: Final = 4096  # Requests in hand. Messages that nobody answers are forgotten when they are the oldest.
_VOIDED: Final = "failed call voided"

_log: Final = logging.getLogger("beforehand.rpc")


class Posted(Struct, frozen=True):
    """A message that was sent in order: what it carries, and what is needed if it fails."""

    message: str
    to: str
    text: str | None
    stamp: OrderingStamp | None = None
    void_texts: tuple[str, ...] = ()
    voids: tuple[OrderingStamp, ...] = ()
    difference: str | None = None  # What it carries instead of `text`.
    life: bytes | None = None  # To be carried with `text`: differences are wanted.

    def headers(self) -> dict[str, str]:
        if self.difference is not None:
            return {DIFFERENCE_HEADER: self.difference}
        headers = written(self.message, self.text, self.void_texts)
        if self.life is not None and self.text is not None:
            headers[LIFE_HEADER] = life_text(self.life)
        return headers


@dataclass(order=True, slots=True)
class _Pending:
    """An event that waits to be reported until those before it are."""

    count: int
    name: str = field(compare=False)
    sends: tuple[str, ...] = field(compare=False)
    receives: tuple[str, ...] = field(compare=False)
    attributes: Mapping[str, str] | None = field(compare=False)
    stamp: VectorStamp = field(compare=False)
    time: int = field(compare=False)


class OrderedLane:
    def __init__(
        self, process: str, *, reporter: Reporter | None, entries_max: int, policies: Policies, counter: Counter
    ) -> None:
        if reporter is not None and (reporter.clock is not None or reporter.process != process):
            raise InputError(f"in causal ordering the reporter of {process!r} has its name and no clock of its own")
        self.process: Final = process
        self.clock: Final = OrderingClock(process, entries_max=entries_max)
        self.life: Final = new_life()
        self._reporter: Final = reporter
        self._policies: Final = policies
        self._counter: Final = counter
        self._lock: Final = Lock()
        self._pending: list[_Pending] = []  # No more than threads that are between their event and its report.
        self._next = 1  # The count of the event that is reported next.
        self._failed: dict[str, list[OrderingStamp]] = {}  # Per process, at most VOIDS_MAX; only where calls failed.
        self._replies: OrderedDict[tuple[str, int], OrderingStamp] = OrderedDict()  # At most _REPLIES_MAX.
        self._replied: dict[str, deque[tuple[str, int]]] = {}  # Their keys, per process, oldest first.
        self._running: OrderedDict[tuple[str, int], bool] = OrderedDict()  # Requests in hand: did the caller give up?

    @property
    def count(self) -> int:
        """Events so far."""
        return self.clock.count

    def local(self, name: str, attributes: Mapping[str, str] | None = None, *, receives: tuple[str, ...] = ()) -> str:
        stamp = self.clock.tick()
        self._report(name, stamp, attributes, receives=receives)
        return f"{self.process}:{stamp[self.process]}"

    def send(
        self,
        name: str,
        to: str,
        attributes: Mapping[str, str] | None,
        limit: int,
        bases: tuple[Base, ...] | None = None,
    ) -> Posted | StampTooLargeError:
        """Without a name to send to, or to one that was away for long, the message goes without a stamp.

        `bases`: it may go as a difference, if there is one; None: it may not.
        """
        with self._lock:
            voids = tuple(self._failed.get(to, ()))
        try:
            void_texts = tuple(void.to_text(limit=limit) for void in voids)
            size = sum(len(text) + 1 for text in void_texts)
            if size > limit:
                raise StampTooLargeError(size=size, limit=limit)
        except StampTooLargeError as error:
            return error
        if not to or to == self.process or len(voids) >= VOIDS_MAX:
            self._counter.add("sent_unordered")
            stamp = self.clock.tick()
            message = f"{self.process}:{stamp[self.process]}"
            self._report(name, stamp, attributes, sends=(message,))
            return Posted(message, to, None, None, void_texts, voids)
        ordered, difference = self._sent(to, bases if not voids else None if bases is None else (), limit)
        message = f"{self.process}:{ordered.time[self.process]}"
        self._report(name, ordered.time, attributes, sends=(message,))
        if difference is not None:
            return Posted(message, to, None, ordered, difference=difference)
        try:
            text = ordered.to_text(limit=max(limit - size, 1))
        except StampTooLargeError as error:
            self.give_up(Posted(message, to, None, ordered))
            return error
        return Posted(message, to, text, ordered, void_texts, voids, life=None if bases is None else self.life)

    def _sent(self, to: str, bases: tuple[Base, ...] | None, limit: int) -> tuple[OrderingStamp, str | None]:
        """The stamp of a send, and what is sent of it where that is a difference."""
        if bases is None:
            return self.clock.send(to), None
        ordered, changes, rows = self.clock.send_since(to, min([base.mine for base in bases], default=0))
        if not bases:
            return ordered, None
        if changes and len(bases) == 1:
            told = bases[0].told
            changes = {p: count for p, count in changes.items() if told.get(p) != count}
        heard = {base.life: base.event for base in bases}
        count = ordered.time[self.process]
        text = OrderedDifference(self.process, count, self.life, heard, changes, ordered.to[to], rows).text()
        return ordered, text if len(text) <= limit else None

    def give_up(self, posted: Posted) -> None:
        """The call failed, or its reply could not be received in order: void it with the next one."""
        if posted.stamp is not None:
            with self._lock:
                # Beyond the bound only what ran at the same time as the call that reached it.
                self._failed.setdefault(posted.to, []).append(posted.stamp)

    def answered(self, posted: Posted) -> None:
        """A reply came back in order: what was listed with the call need not be listed again."""
        if posted.voids:
            with self._lock:
                left = [stamp for stamp in self._failed.get(posted.to, ()) if stamp not in posted.voids]
                self._failed[posted.to] = left
                if not left:
                    del self._failed[posted.to]

    def receive(self, name: str, carried: Carried, attributes: Mapping[str, str] | None) -> list[OrderingStamp]:
        """Waits in this thread. The stamps of replies to void."""
        lost: list[OrderingStamp] = []
        for stamp in carried.voids:
            with self._voiding(stamp, lost):
                self._deliver(_VOIDED, stamp, None)
        if isinstance(carried.stamp, OrderingStamp):
            self._deliver(name, carried.stamp, attributes)
        return lost

    async def receive_async(
        self, name: str, carried: Carried, attributes: Mapping[str, str] | None
    ) -> list[OrderingStamp]:
        """The same for a task."""
        lost: list[OrderingStamp] = []
        for stamp in carried.voids:
            with self._voiding(stamp, lost):
                await self._deliver_async(_VOIDED, stamp, None)
        if isinstance(carried.stamp, OrderingStamp):
            await self._deliver_async(name, carried.stamp, attributes)
        return lost

    def begin(self, request: OrderingStamp, known: int) -> None:
        """The handler of a request begins. Its sender knew `known` of our events.

        Replies to it up to there have been received, for whatever told it of them waited for them: they cannot be
        lost any more.
        """
        with self._lock:
            self._running[self._key(request)] = False
            if len(self._running) > _RUNNING_MAX:
                self._running.popitem(last=False)
            keys = self._replied.get(request.sender)
            while keys and self._replies[keys[0]].time[self.process] <= known:
                del self._replies[keys.popleft()]
            if keys is not None and not keys:
                del self._replied[request.sender]

    def reply(
        self,
        name: str,
        request: OrderingStamp,
        lost: tuple[OrderingStamp, ...],
        attributes: Mapping[str, str] | None,
        limit: int,
        base: Base | None = None,
        *,
        with_stamp: bool = True,
    ) -> Posted | StampTooLargeError | None:
        """None: the caller has given up, or wants no stamp, so there is nothing to send in order."""
        key = self._key(request)
        with self._lock:
            abandoned = self._running.pop(key, False)
        if abandoned or not with_stamp:
            return None
        try:
            void_texts = tuple(stamp.to_text(limit=limit) for stamp in lost)
        except StampTooLargeError as error:
            return error
        bases = None if base is None else () if lost else (base,)
        ordered, difference = self._sent(request.sender, bases, limit)
        message = f"{self.process}:{ordered.time[self.process]}"
        with self._lock:
            if key not in self._replies:  # Otherwise it is answered a second time.
                self._replied.setdefault(request.sender, deque()).append(key)
            self._replies[key] = ordered
            if len(self._replies) > _REPLIES_MAX:
                (sender, _), _ = self._replies.popitem(last=False)
                self._replied[sender].popleft()  # Both in the order in which replies were sent.
                if not self._replied[sender]:
                    del self._replied[sender]
        self._report(name, ordered.time, attributes, sends=(message,))
        if difference is not None:
            return Posted(message, request.sender, None, ordered, difference=difference)
        try:
            text = ordered.to_text(limit=max(limit - sum(len(text) + 1 for text in void_texts), 1))
        except StampTooLargeError as error:
            return error
        return Posted(message, request.sender, text, ordered, void_texts, life=None if base is None else self.life)

    def mended(self, name: str, lost: tuple[OrderingStamp, ...], limit: int) -> dict[str, str]:
        """The headers of a reply to a call that had no stamp but listed failed calls."""
        try:
            voids = tuple(stamp.to_text(limit=limit // len(lost)) for stamp in lost)
        except StampTooLargeError:
            return {}  # The caller lists its calls again.
        stamp = self.clock.tick()
        message = f"{self.process}:{stamp[self.process]}"
        self._report(name, stamp, None, sends=(message,))
        return written(message, None, voids)

    @contextmanager
    def _voiding(self, stamp: OrderingStamp, lost: list[OrderingStamp]) -> Iterator[None]:
        try:
            yield
            self._counter.add("voided")
        except DuplicateMessageError:
            key = self._key(stamp)
            with self._lock:  # It had arrived after all: then its reply was lost, or will come too late.
                if key in self._replies:
                    lost.append(self._replies[key])
                elif key in self._running:
                    self._running[key] = True

    def _deliver(self, name: str, stamp: OrderingStamp, attributes: Mapping[str, str] | None) -> None:
        delivered = self.clock.try_deliver(stamp)
        if delivered is None:
            with self._waiting():
                delivered = self.clock.deliver(stamp, timeout=self._policies.deadline)
        self._report(name, delivered, attributes, receives=(_message(stamp),))

    async def _deliver_async(self, name: str, stamp: OrderingStamp, attributes: Mapping[str, str] | None) -> None:
        delivered = self.clock.try_deliver(stamp)
        if delivered is None:
            with self._waiting():
                delivered = await self.clock.deliver_async(stamp, timeout=self._policies.deadline)
        self._report(name, delivered, attributes, receives=(_message(stamp),))

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        size = self._policies.pool_size
        if self._counter.add("waiting") == size:
            _log.warning(
                "%s: %d calls wait for their causes, as many as the pool holds: raise the pool's size, or those they "
                "wait for cannot come in before the deadline (%g s)",
                self.process,
                size,
                self._policies.deadline,
            )
        try:
            yield
        finally:
            self._counter.add("waiting", -1)

    def _key(self, request: OrderingStamp) -> tuple[str, int]:
        return (request.sender, request.to[self.process])

    def _report(
        self,
        name: str,
        stamp: VectorStamp,
        attributes: Mapping[str, str] | None,
        *,
        sends: tuple[str, ...] = (),
        receives: tuple[str, ...] = (),
    ) -> None:
        if self._reporter is None:
            return
        now = time.time_ns()
        with self._lock:
            heappush(self._pending, _Pending(stamp[self.process], name, sends, receives, attributes, stamp, now))
            while self._pending and self._pending[0].count == self._next:
                event = heappop(self._pending)
                self._next += 1
                self._reporter.event(
                    event.name,
                    sends=event.sends,
                    receives=event.receives,
                    attributes=event.attributes,
                    clock=event.stamp,
                    time=event.time,
                )


def _message(stamp: OrderingStamp) -> str:
    return f"{stamp.sender}:{stamp.time[stamp.sender]}"
