"""The queue between the program and the target, and the thread that empties it.

Guarantees:
  1. `put` never blocks, beyond the lock, and never raises. What has no room goes by the drop policy, and is counted.
  2. Events leave in the order of `put`. One leaves when the target has dealt with it, or when it is dropped.
  3. The queue with what is being sent holds at most `events_max` events, and at most `bytes_max` bytes and one event.
  4. A batch is sent again until the target deals with it: each wait twice the one before, with jitter, and never
     before a time that the target named.
  5. Drops that the target cannot know of are told to it (`tell`) when a batch has gone through, or nothing waits.
  6. One line in the log at most in `COMPLAINT_S` seconds says what goes wrong.

The lock is reentrant, so that a signal handler may report. `put`, `full`, `drop` and `take_untold` are for whoever
holds it: numbering and queueing are one step. The target is called without it.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from beforehand.reporting.settings import DropPolicy, ReportLimits, Retries
from beforehand.reporting.status import CLOSED, QUEUE_FULL, TOO_LARGE, UNSENT, Drops, Note
from beforehand.reporting.targets import Answer, Later, Refused, Split, Taken, Target

__all__ = ["COMPLAINT_S", "END", "Outbox", "is_sending"]

COMPLAINT_S: Final = 60.0
END: Final = math.inf
"""The place in the queue that has left it when the thread has ended."""

_START_AGAIN_S: Final = 1.0  # If no thread can be started.
_log: Final = logging.getLogger("beforehand.reporting")


class _Local(threading.local):
    is_sending = False


_local: Final = _Local()


def is_sending() -> bool:
    """Whether this thread sends reports. What is logged here must not become a report again."""
    return _local.is_sending


class _Queued(NamedTuple):
    place: int  # Grows by one with each event that is queued.
    number: int  # The event's index.
    line: bytes
    note: Note | None


class Outbox:
    """A bounded queue in front of one target."""

    def __init__(
        self,
        target: Target,
        label: str,
        *,
        limits: ReportLimits,
        retries: Retries,
        policy: DropPolicy,
        linger: float,
        tell: Callable[[], None],
    ) -> None:
        self.lock: Final = threading.Condition()
        self.drops: Final = Drops()
        self.sent = self.repeated = self.conflicts = 0
        self.last_error: str | None = None
        self.retrying_since: float | None = None  # Seconds since 1970.
        self.closing = False  # Nothing more is taken.
        self._target: Final = target
        self._label: Final = label  # For the log.
        self._limits: Final = limits
        self._retries: Final = retries
        self._policy: Final = policy
        self._linger: Final = linger
        self._tell: Final = tell
        self._queue: deque[_Queued] = deque()
        self._in_flight: list[_Queued] = []  # Taken from the queue, and with the target now.
        self._bytes = 0  # Of both.
        self._place = 0  # Of the last event that was queued.
        self._since = 0.0  # When the queue was empty last; monotonic, as all times below.
        self._hurry = 0  # Events up to this place are not kept back for company.
        self._batch_max = limits.batch_events_max  # Smaller after a `Split`.
        self._failures = 0  # In a row.
        self._not_before = 0.0  # The target said so.
        self._backoff_until = 0.0  # We say so.
        self._running = False
        self._ended = False  # The target is closed, the thread is gone or will not be started.
        self._abandoned = False  # `close` does not wait any longer.
        self._start_after = 0.0
        self._waiters: list[tuple[float, Callable[[], None]]] = []  # Place, and what to call when it has left.
        self._complained = -math.inf
        self._only_once: str | None = None  # The error that is said once, until a batch goes through.
        self._said: str | None = None  # The error that was said last.
        self._losses_said = 0  # Drops and conflicts.
        self._recovered = False  # To be said in the log.

    # For whoever holds the lock.

    def full(self) -> bool:
        return (
            len(self._queue) + len(self._in_flight) >= self._limits.events_max
            or self._bytes >= self._limits.bytes_max
        )

    def put(self, index: int, line: bytes, note: Note | None = None) -> None:
        """Queue a line, or drop by policy: never more than the bounds."""
        if (self.closing and note is None) or self._ended:
            self.drops.count(CLOSED)
            return
        while self.full():
            if self._policy is not DropPolicy.OLDEST or not self._queue:
                self.drop(QUEUE_FULL, index)
                return
            oldest = self._queue.popleft()
            self._bytes -= len(oldest.line)
            self.drops.add(QUEUE_FULL, oldest.number)
            if oldest.note is not None:
                self.drops.restore(oldest.note)
        self._place += 1
        self._queue.append(_Queued(self._place, index, line, note))
        self._bytes += len(line)
        size = len(self._queue)
        if size == 1:
            self._since = time.monotonic()
        if size == 1 or size == self._batch_max:
            self._wake()

    def drop(self, reason: str, index: int) -> None:
        self.drops.add(reason, index)
        if not self._running:
            self._wake()  # So that it is told.

    def queued(self) -> tuple[int, int]:
        return len(self._queue) + len(self._in_flight), self._bytes

    def take_untold(self) -> Note | None:
        """The drops to be told now; the caller puts the note."""
        return None if self._abandoned or self.full() or not self.drops.untold else self.drops.take_untold()

    # For every thread.

    def wait_for_room(self, deadline: float) -> bool:
        """Wait until there is room, or the (monotonic) deadline. Others may take the room first."""
        with self.lock:
            while self.full() and not self.closing:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self.lock.wait(left)
            return True

    def when_left(self, place: float | None, then: Callable[[], None]) -> None:
        """Call `then` once all up to `place` (None: up to now) have left the queue; at once if they have."""
        with self.lock:
            place = self._place if place is None else place
            if not self._has_left(place):
                self._waiters.append((place, then))
                if place is not END:
                    self._hurry = self._place
                self._wake()
                return
        then()

    def forget(self, then: Callable[[], None]) -> None:
        with self.lock:
            self._waiters = [waiter for waiter in self._waiters if waiter[1] is not then]

    def begin_close(self) -> None:
        """Take nothing more, send what there is. One batch goes out at once, unless the target asked to wait."""
        with self.lock:
            if self.closing:
                return
            self.closing = True
            self._backoff_until = 0.0
            if self._queue or self._in_flight or self.drops.untold or self._running:
                self._wake()
                return
            self._ended = True
        with suppress(Exception):
            self._target.close()

    def finish_close(self) -> bool:
        """Drop what is still there; whether nothing was. The thread ends by itself after what it is doing."""
        with self.lock:
            if self._ended or self._abandoned:
                return not self._abandoned
            left = len(self._queue) + len(self._in_flight)
            self.drops.count(UNSENT, left)
            self._abandoned = True
            self._queue.clear()
            self._in_flight = []
            self._bytes = 0
            self.lock.notify_all()
            error, running = self.last_error, self._running
        if not running:
            with suppress(Exception):
                self._target.close()
        self._call_waiters()
        if left:
            why = error or "the target was too slow"
            _log.warning("%s: %d events were not reported before the deadline of close: %s", self._label, left, why)
        return not left

    # The thread.

    def _wake(self) -> None:
        if self._running:
            self.lock.notify_all()
        elif not self._ended and time.monotonic() >= self._start_after:
            self._running = True
            try:
                threading.Thread(target=self._run, name="beforehand-reporting", daemon=True).start()
            except RuntimeError as error:  # Too many threads, or the interpreter is ending.
                self._running = False
                self.last_error = f"no thread to send with: {error}"
                self._start_after = time.monotonic() + _START_AGAIN_S

    def _run(self) -> None:
        _local.is_sending = True
        ended = False
        try:
            while (batch := self._next_batch()) is not None:
                if batch:
                    self._send(batch)
                if self.drops.untold and self.retrying_since is None:
                    with suppress(Exception):  # A clock at the end of its range; the drops stay counted.
                        self._tell()
                self._complain()
            ended = True
            with suppress(Exception):
                self._target.close()
        finally:
            with self.lock:
                self._running = False
                self._ended = ended
                self._queue.extendleft(reversed(self._in_flight))  # Only if a bug ended the thread.
                self._in_flight = []
            self._call_waiters()

    def _next_batch(self) -> list[_Queued] | None:
        """Wait for what is to be sent. Empty: there are drops to tell. None: it is over."""
        with self.lock:
            while not self._abandoned:
                now = time.monotonic()
                if self._queue:
                    due = max(self._not_before, self._backoff_until)
                    if not self.closing and len(self._queue) < self._batch_max and self._queue[0].place > self._hurry:
                        due = max(due, self._since + self._linger)
                    if now >= due:
                        return self._take()
                    self.lock.wait(due - now)
                elif self.drops.untold and self.retrying_since is None:
                    return []
                elif self.closing:
                    return None
                else:
                    self.lock.wait()
            return None

    def _take(self) -> list[_Queued]:
        taken = [self._queue.popleft()]
        size = len(taken[0].line)
        while self._queue and len(taken) < self._batch_max:
            size += len(self._queue[0].line) + 1
            if size > self._limits.batch_bytes_max:
                break
            taken.append(self._queue.popleft())
        self._in_flight = taken
        return taken

    def _send(self, batch: list[_Queued]) -> None:
        try:
            answer = self._target.send([queued.line for queued in batch])
        except Exception as error:  # noqa: BLE001 - A target may be anybody's code; nothing may end this thread.
            answer = Later(error=f"{type(error).__name__}: {error}")
        with self.lock:
            if self._abandoned:
                return
            self._settle(batch, answer)
            self.lock.notify_all()
        self._call_waiters()

    def _settle(self, batch: list[_Queued], answer: Answer) -> None:
        back: list[_Queued] = []
        self._in_flight = []
        match answer:
            case Taken():
                self.sent += len(batch) - len(answer.rejected)
                self.repeated += answer.repeated
                self.conflicts += answer.conflicts
                for refused in answer.rejected:
                    self.drops.count(f"rejected-{refused.reason}")
                    self.last_error = f"event {refused.at} of a batch: {refused.reason}: {refused.detail}"
                self._succeeded()
            case Later():
                self.sent += answer.taken
                back = batch[answer.taken :]
                self._failed(answer)
            case Split():
                self.last_error = answer.error
                if len(batch) > 1:
                    back = batch
                    self._batch_max = len(batch) // 2
                else:
                    (dropped,) = batch
                    # A note is not told of, or there would be no end to it.
                    self.drops.add(TOO_LARGE, dropped.number) if dropped.note is None else self.drops.count(TOO_LARGE)
            case Refused():
                self.last_error = answer.error
                self.drops.count(answer.reason, len(batch))
                self._succeeded()
        self._bytes -= sum(len(queued.line) for queued in batch) - sum(len(queued.line) for queued in back)
        self._queue.extendleft(reversed(back))

    def _succeeded(self) -> None:
        self._recovered = self.retrying_since is not None
        self.retrying_since = None
        self._failures = 0
        self._only_once = self._said = None
        # Slowly, for what was too large once will be too large again.
        self._batch_max = min(self._batch_max + self._batch_max // 8 + 1, self._limits.batch_events_max)

    def _failed(self, answer: Later) -> None:
        now = time.monotonic()
        self.last_error = answer.error
        self._only_once = answer.error if answer.say_once else None
        self.retrying_since = self.retrying_since or time.time()
        wait = min(self._retries.first * 2 ** min(self._failures, 60), self._retries.most)
        self._failures += 1
        # Half of the wait is left to chance, so that many reporters do not come back together.
        self._backoff_until = now + wait * random.uniform(0.5, 1.0)  # noqa: S311
        if answer.after is not None:
            self._not_before = now + answer.after

    def _has_left(self, place: float) -> bool:
        if self._ended or self._abandoned:
            return True
        head = self._in_flight or self._queue
        return place is not END and (not head or head[0].place > place)

    def _call_waiters(self) -> None:
        with self.lock:
            due = [waiter for waiter in self._waiters if self._has_left(waiter[0])]
            self._waiters = [waiter for waiter in self._waiters if waiter not in due]
        for _, then in due:
            then()

    def _complain(self) -> None:
        """Without the lock, for a handler of the log may wait for somebody who reports."""
        with self.lock:
            recovered, self._recovered = self._recovered, False
            dropped, conflicts = self.drops.counts.total(), self.conflicts
            error = self.last_error if self.retrying_since is not None else None
            repeats = error is not None and error == self._only_once == self._said
            news = dropped + conflicts > self._losses_said or (error is not None and not repeats)
            now = time.monotonic()
            due = news and now - self._complained >= COMPLAINT_S
            if due:
                self._complained, self._losses_said, self._said = now, dropped + conflicts, error
            reasons = ", ".join(f"{why} {count}" for why, count in sorted(self.drops.counts.items()))
            waiting, last = len(self._queue), self.last_error
        if recovered:
            _log.info("%s: reports go through again", self._label)
        if due:
            parts = [
                last or "",
                f"{waiting} events wait" if error else "",
                f"dropped so far: {reasons}" if dropped else "",
                f"{conflicts} events differ from known ones: is the process name used twice?" if conflicts else "",
            ]
            _log.warning("%s: %s", self._label, "; ".join(part for part in parts if part))
