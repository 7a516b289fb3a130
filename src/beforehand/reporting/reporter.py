"""The reporter: how a program tells what happens in it, without being held up by the telling.

Guarantees:
  1. `event` returns at once with the event, numbered: it does no I/O and takes one lock for some microseconds. Only
     the policy `wait` lets it wait, up to its deadline, and never in the thread of an event loop.
  2. It raises for wrong arguments (`ValueError`, and then nothing has changed) and for nothing else.
  3. Indexes follow the order of calls, whatever the threads: each call gets the next; a dropped event leaves a gap.
  4. With a vector clock each event carries its stamp, whose own entry is the event's index.
  5. Memory is bounded by `ReportLimits`. Whatever is dropped is counted by reason, and told to the target as an event
     of its own ("reporter dropped 17 events") once it can be.
  6. An event that was queued is sent until the target has dealt with it, the policy drops it, or `close` gives up.

Assumes that no other reporter counts under the same execution and process: see `naming`.

Forks. A child of `os.fork` sends nothing of what its parent has queued. In it the reporter is a new process, named
`PARENT+PID.START`, that counts from 1 and inherits the vector stamp of the last event before the fork. Children that
end by `os._exit` (as `multiprocessing` does) must call `close`.

Locks: the vector clock's before the outbox's, never the other way round, so `reporter.event` may be called inside
`clock.locked()`.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time as clocks_of_machine
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import count
from types import TracebackType
from typing import Final, Self

from beforehand.clocks import VectorClock, VectorStamp
from beforehand.errors import BeforehandError, InputError, StampTooLargeError
from beforehand.events import INDEX_MAX, Event
from beforehand.formats.native import to_json
from beforehand.reporting.addressing import target_of
from beforehand.reporting.fitting import Draft, Scalar, checked_clock, drafted, fitted
from beforehand.reporting.lifetime import keep, release
from beforehand.reporting.naming import checked_name, child_name
from beforehand.reporting.outbox import END, Outbox, is_sending
from beforehand.reporting.settings import LIMITS, RETRIES, DropPolicy, ReportLimits, Retries
from beforehand.reporting.status import QUEUE_FULL, TOO_LARGE, WAIT_OVER, Note, Status
from beforehand.reporting.targets import Target

__all__ = ["Reporter", "Sent"]

STAMP_TEXT_MAX: Final = 8192  # Characters of a stamp that a message carries: what servers take as a header.


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that is about to be sent: what must travel with it."""

    event: Event
    message: str
    stamp: str | None  # As text for a header; None without a vector clock, or if it is too large.


class Reporter:
    """Reports the events of one process. Usable from any thread, from coroutines and from signal handlers."""

    def __init__(
        self,
        target: str | os.PathLike[str] | Target | Callable[[Sequence[bytes]], object],
        *,
        process: str,
        execution: str = "",
        start: int = 1,
        clock: VectorClock | None = None,
        stamps: bool = False,
        drop: DropPolicy | str = DropPolicy.NEWEST,
        wait: float = 1.0,
        linger: float = 0.1,
        token: str | None = None,
        limits: ReportLimits = LIMITS,
        retries: Retries = RETRIES,
        exit_timeout: float = 2.0,
        time_ns: Callable[[], int] = clocks_of_machine.time_ns,
    ) -> None:
        """`start` continues the count of an earlier run; with `clock`, its own entry does."""
        if type(start) is not int or not 1 <= start <= INDEX_MAX:
            raise InputError(f"start {start!r:.40} is not an integer between 1 and {INDEX_MAX}")
        if clock is not None and (clock.process != process or start != 1):
            raise InputError("a clock counts for its own process: give its name as process, and no start")
        try:
            self._policy: Final = DropPolicy(drop)
        except ValueError:
            raise InputError(f"drop {drop!r:.40}: one of newest, oldest and wait") from None
        if not (wait >= 0 and linger >= 0 and exit_timeout >= 0):
            raise InputError("wait, linger and exit_timeout are seconds, from 0")
        self._process = checked_name(process, "process")
        self._execution: Final = checked_name(execution, "execution", empty=True)
        self._target: Final = target_of(target, token=token, retries=retries)
        if stamps and clock is None:
            clock = VectorClock(process, start=VectorStamp({process: start - 1}) if start > 1 else None)
        self._clock = clock
        self._indexes = count(start)
        self._wait: Final = wait
        self._linger: Final = linger
        self._limits: Final = limits
        self._retries: Final = retries
        self._time_ns: Final = time_ns
        self.exit_timeout = exit_timeout
        self._cut = 0
        self._stamps_refused = 0
        self._last_stamp: VectorStamp | None = None  # Of the last event; for a forked child.
        self._outbox = self._new_outbox()
        keep(self)

    @property
    def process(self) -> str:
        """Whose events these are. In a forked child, another one."""
        return self._process

    @property
    def execution(self) -> str:
        return self._execution

    @property
    def clock(self) -> VectorClock | None:
        """The vector clock that stamps the events. In a forked child, another one."""
        return self._clock

    @property
    def dropped(self) -> dict[str, int]:
        """How many events were dropped, by reason."""
        with self._outbox.lock:
            return dict(self._outbox.drops.counts)

    def status(self) -> Status:
        outbox = self._outbox
        with outbox.lock:
            queued, queued_bytes = outbox.queued()
            return Status(
                queued=queued,
                queued_bytes=queued_bytes,
                sent=outbox.sent,
                repeated=outbox.repeated,
                conflicts=outbox.conflicts,
                dropped=dict(outbox.drops.counts),
                cut=self._cut,
                stamps_refused=self._stamps_refused,
                last_error=outbox.last_error,
                retrying_since=outbox.retrying_since,
                closed=outbox.closing,
            )

    def event(
        self,
        name: str,
        *,
        sends: Iterable[str] = (),
        receives: Iterable[str] = (),
        attributes: Mapping[str, Scalar] | None = None,
        clock: Mapping[str, int] | VectorStamp | None = None,
        time: int | None = None,
    ) -> Event:
        """Report that something happens now. The event, as it was numbered and queued, or dropped."""
        own: dict[str, int] | None = None
        if clock is not None:
            if self._clock is not None:
                raise ValueError("clock: the reporter has a clock of its own, which stamps the event")
            own = checked_clock(clock.to_dict() if isinstance(clock, VectorStamp) else clock)
        draft = drafted(name, sends, receives, attributes, time, limits=self._limits)
        return self._report(draft, clock=own)

    def sending(
        self,
        name: str,
        message: str | None = None,
        *,
        attributes: Mapping[str, Scalar] | None = None,
        time: int | None = None,
    ) -> Sent:
        """Report that a message is sent. Its id, if none is given, is that of the event: `process:index`."""
        sends = () if message is None else (message,)
        draft = drafted(name, sends, (), attributes, time, limits=self._limits)
        event = self._report(draft, names_message=message is None)
        text: str | None = None
        if self._clock is not None and event.clock is not None:
            try:
                text = VectorStamp(event.clock).to_text(limit=STAMP_TEXT_MAX)
            except StampTooLargeError:
                self._refuse_stamp()
        return Sent(event, event.sends[0], text)

    def receiving(
        self,
        name: str,
        message: str,
        *,
        stamp: str | VectorStamp | None = None,
        attributes: Mapping[str, Scalar] | None = None,
        time: int | None = None,
    ) -> Event:
        """Report that a message is received. `stamp` is what came with it.

        A stamp that cannot be used does not raise, for it is a peer's doing: it is not merged, the event carries no
        stamp but the attribute `stamp.refused`, and `Status.stamps_refused` counts it.
        """
        draft = drafted(name, (), (message,), attributes, time, limits=self._limits)
        if stamp is not None and not isinstance(stamp, str | VectorStamp):
            raise ValueError(f"stamp is neither a text nor a VectorStamp but {type(stamp).__name__}")
        if self._clock is None or stamp is None:
            return self._report(draft)
        try:
            known = VectorStamp.from_text(stamp, limit=STAMP_TEXT_MAX) if isinstance(stamp, str) else stamp
            return self._report(draft, merge=known)
        except BeforehandError as error:  # Raised before anything changed.
            self._refuse_stamp()
            refused = {**draft.attributes, "stamp.refused": fitted(str(error), self._limits.value_max)}
            return self._report(draft._replace(attributes=refused), stamped=False)

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until all events so far have left the queue: sent, or dropped and counted. False at the timeout."""
        return self._left(None, timeout)

    def close(self, timeout: float = 5.0) -> bool:
        """Send what is queued and end. At the timeout the rest is dropped as `unsent`, and the answer is False."""
        outbox = self._outbox
        outbox.begin_close()
        self._left(END, timeout)
        release(self)
        return outbox.finish_close()

    async def aflush(self, timeout: float = 5.0) -> bool:
        """`flush` for coroutines: the event loop goes on."""
        return await self._left_async(None, timeout)

    async def aclose(self, timeout: float = 5.0) -> bool:
        """`close` for coroutines."""
        outbox = self._outbox
        outbox.begin_close()
        await self._left_async(END, timeout)
        release(self)
        return outbox.finish_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _report(
        self,
        draft: Draft,
        *,
        clock: dict[str, int] | None = None,
        merge: VectorStamp | None = None,
        stamped: bool = True,
        names_message: bool = False,
    ) -> Event:
        deadline = 0.0
        if self._policy is DropPolicy.WAIT and not is_sending() and not _in_event_loop():
            deadline = clocks_of_machine.monotonic() + self._wait
        while True:
            with self._locked_clock(), self._outbox.lock:
                if not deadline or not self._outbox.full() or self._outbox.closing:
                    vector = self._clock
                    if vector is None:
                        index = next(self._indexes)
                    else:
                        stamp = self._last_stamp = vector.tick() if merge is None else vector.receive(merge)
                        index = stamp[self._process]
                        clock = stamp.to_dict() if stamped else None
                    if names_message:
                        draft = draft._replace(sends=(f"{self._process}:{index}",))
                    return self._put(draft, index, clock)
            if not self._outbox.wait_for_room(deadline):
                deadline = 0.0

    def _put(self, draft: Draft, index: int, clock: dict[str, int] | None, note: Note | None = None) -> Event:
        event = Event(
            process=self._process,
            index=index,
            execution=self._execution,
            sends=draft.sends,
            receives=draft.receives,
            time=self._time_ns() if draft.time is None else draft.time,
            name=draft.name,
            attributes=draft.attributes,
            clock=clock,
        )
        outbox = self._outbox
        self._cut += draft.is_cut
        if self._policy is not DropPolicy.OLDEST and not outbox.closing and outbox.full():
            outbox.drop(WAIT_OVER if self._policy is DropPolicy.WAIT else QUEUE_FULL, index)
            return event  # Not worth writing as a line.
        line = to_json(event)
        if len(line) > self._limits.event_bytes_max:
            # What it sends and receives is worth more than what else is known of it.
            self._cut += 1
            event = replace(
                event, attributes={"reporter.cut": f"attributes left out: the event has {len(line)} bytes"}
            )
            line = to_json(event)
            if len(line) > self._limits.event_bytes_max:
                outbox.drop(TOO_LARGE, index)
                return event
        outbox.put(index, line, note)
        return event

    def _tell_drops(self) -> None:
        """Called by the thread of the outbox."""
        with self._locked_clock(), self._outbox.lock:
            note = self._outbox.take_untold()
            if note is None:
                return
            clock: dict[str, int] | None = None
            if self._clock is None:
                index = next(self._indexes)
            else:
                stamp = self._last_stamp = self._clock.tick()
                index, clock = stamp[self._process], stamp.to_dict()
            name = f"reporter dropped {note.total()} event{'' if note.total() == 1 else 's'}"
            self._put(Draft(name, (), (), note.attributes(), None), index, clock, note)

    def _locked_clock(self) -> AbstractContextManager[object]:
        return _UNLOCKED if self._clock is None else self._clock.locked()

    def _refuse_stamp(self) -> None:
        with self._outbox.lock:
            self._stamps_refused += 1

    def _left(self, place: float | None, timeout: float) -> bool:
        if is_sending():
            return False  # The thread of the outbox would wait for itself.
        left = threading.Event()
        then = left.set
        self._outbox.when_left(place, then)
        found = left.wait(timeout)
        self._outbox.forget(then)
        return found

    async def _left_async(self, place: float | None, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        left = asyncio.Event()

        def then() -> None:
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                loop.call_soon_threadsafe(left.set)

        self._outbox.when_left(place, then)
        try:
            await asyncio.wait_for(left.wait(), timeout)
        except TimeoutError:
            return False
        finally:
            self._outbox.forget(then)
        return True

    def _new_outbox(self) -> Outbox:
        plain = type(self._target).__str__ is object.__str__
        return Outbox(
            self._target,
            f"{self._process!r} to {type(self._target).__name__ if plain else self._target}",
            limits=self._limits,
            retries=self._retries,
            policy=self._policy,
            linger=self._linger,
            tell=self._tell_drops,
        )

    def _begin_close(self) -> None:
        """Take no more events, and do not wait. For the end of the program, which closes several together."""
        self._outbox.begin_close()

    def _after_fork(self) -> None:
        """In the child. The locks may be held by threads that are not here: everything is made anew."""
        closed = self._outbox.closing
        self._process = child_name(self._process)
        self._indexes = count(1)
        self._cut = self._stamps_refused = 0
        if self._clock is not None:
            self._clock = VectorClock(self._process, start=self._last_stamp)
        self._outbox = self._new_outbox()
        if closed:
            self._outbox.begin_close()


_UNLOCKED: Final = nullcontext()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
