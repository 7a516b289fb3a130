"""One line of events: a vector clock, and the reporter that tells of them if there is one.

A process has one lane. Where causality is wanted per task, it has more of them, `process#1`, `process#2`, ..., each
of which is a process of its own in stamps and histories. A lane is used by one task after another, so that stamps
do not grow with the number of tasks (Berry 1995, 3.6, names that as the reason against clocks per thread).

With a reporter each operation is reported in the same step in which the clock moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from beforehand.clocks import VectorClock, VectorStamp, View
from beforehand.errors import BeforehandError, InputError, StampTooLargeError
from beforehand.reporting import Reporter
from beforehand.rpc.differences import new_life
from beforehand.rpc.headers import vector_text

__all__ = ["Lane"]

REFUSED: Final = "stamp.refused"
"""The attribute that the reporter gives to an event whose stamp could not be merged."""


class Lane:
    def __init__(self, process: str, *, reporter: Reporter | None, entries_max: int, view: View | None) -> None:
        if reporter is not None and (reporter.clock is None or reporter.process != process):
            raise InputError(f"the reporter of {process!r} needs its name and a clock: Reporter(..., stamps=True)")
        self._reporter: Final = reporter
        self._own: Final = VectorClock(process, entries_max=entries_max)
        self._view: Final = view
        self._life: tuple[VectorClock, bytes] = (self._own, new_life())

    @property
    def clock(self) -> VectorClock:
        """In a forked child the reporter's is another one."""
        if self._reporter is None:
            return self._own
        reported = self._reporter.clock
        return self._own if reported is None else reported

    @property
    def process(self) -> str:
        return self.clock.process

    @property
    def count(self) -> int:
        """Events so far."""
        return self.clock.count

    @property
    def life(self) -> bytes:
        """Of this life of the process (see `differences`)."""
        clock, life = self._life
        if clock is not self.clock:
            clock, life = self._life = (self.clock, new_life())
        return life

    def local(self, name: str, attributes: Mapping[str, str] | None = None) -> str:
        """The id of the event."""
        if self._reporter is not None:
            event = self._reporter.event(name, attributes=attributes)
            return f"{event.process}:{event.index}"
        clock = self.clock
        return f"{clock.process}:{clock.tick()[clock.process]}"

    def send(
        self, name: str, attributes: Mapping[str, str] | None, limit: int
    ) -> tuple[str, str | StampTooLargeError]:
        """The id of the message, and its stamp or why it has none. The send has happened in either case."""
        clock = self.clock
        if self._reporter is not None:
            event = self._reporter.sending(name, attributes=attributes).event
            message, stamp = event.sends[0], VectorStamp(event.clock)
        else:
            stamp = clock.tick()
            message = f"{clock.process}:{stamp[clock.process]}"
        return message, self.text(stamp, limit)

    def send_since(
        self, name: str, attributes: Mapping[str, str] | None, count: int
    ) -> tuple[VectorStamp, dict[str, int]]:
        """The stamp of a send, and the entries of others that changed after our event `count`."""
        clock = self.clock
        if self._reporter is None:
            return clock.tick_since(count)
        with clock.locked():
            event = self._reporter.sending(name, attributes=attributes).event
            return VectorStamp(event.clock), clock.since(count)

    def text(self, stamp: VectorStamp, limit: int) -> str | StampTooLargeError:
        try:
            return vector_text(stamp, limit=limit, view=self._view)
        except StampTooLargeError as error:
            return error

    def receive(
        self, name: str, message: str | None, stamp: VectorStamp, attributes: Mapping[str, str] | None
    ) -> BeforehandError | None:
        """Why its stamp was refused, if it was; there is an event in either case.

        Without `message` it was received before: what it knows is taken over, but nothing is received twice.
        """
        if self._reporter is not None and message is not None:
            event = self._reporter.receiving(name, message, stamp=stamp, attributes=attributes)
            text = event.attributes.get(REFUSED)
            return None if text is None else BeforehandError(text)
        if self._reporter is not None:
            refused = self._merged(stamp)
            self.local(name, attributes)
            return refused
        try:
            self._own.receive(stamp)
        except BeforehandError as error:
            self.local(name)
            return error
        return None

    def receive_unstamped(self, name: str, message: str | None, attributes: Mapping[str, str] | None) -> None:
        """The message may have an id: then a history knows of it, though no stamp does."""
        if self._reporter is None or message is None:
            self.local(name, attributes)
        else:
            self._reporter.receiving(name, message, attributes=attributes)

    def _merged(self, stamp: VectorStamp) -> BeforehandError | None:
        try:
            self.clock.merge(stamp)
        except BeforehandError as error:
            return error
        return None
