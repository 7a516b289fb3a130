"""Causality over calls: the core that every carrier drives. It does no I/O.

A call is two messages, request and reply (Berry 1995, 3.3), and so four events: the caller sends the request
(`request_out`), the server receives it (`request_in`), sends the reply (`reply_out`), and the caller receives that
(`reply_in`). Each `_out` gives the headers that the message must carry, each `_in` takes the headers that came.

Guarantees, if every message between processes goes through here:
  1. Request and reply each make the receiver's event happen after the sender's, in stamps and in reports alike.
  2. A call that fails or times out keeps its send; each attempt is a message of its own (the paper leaves 3.8 open).
  3. Whatever a peer sends, nothing of a bad stamp is taken over; it is counted, and the call is treated as one
     without a stamp.
  4. A stamp is never cut. Above the limit of its carrier the message goes without one, or not at all.
  5. Those who carry no stamp get none: names of processes are not told to outsiders.

Assumes that peers that carry valid stamps are honest: a stamp may claim events of others that never happened, and
only `known` (who may be named) and the carrier's own authentication keep that out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Final

from beforehand.clocks import OrderingStamp, VectorStamp, View
from beforehand.clocks.vector import ENTRIES_MAX
from beforehand.errors import InputError, StampTooLargeError
from beforehand.reporting import Reporter
from beforehand.rpc.admission import Admission, Outcome
from beforehand.rpc.headers import HTTP_LIMIT, Carried, written
from beforehand.rpc.lane import Lane
from beforehand.rpc.ordered import OrderedLane, Posted
from beforehand.rpc.policies import CallFigures, Counter, Oversize, Policies

__all__ = ["Arrival", "Call", "Causality"]


@dataclass(frozen=True, slots=True)
class Call:
    """A request that is being sent. Give it to `reply_in` or `failed`."""

    interface: str
    headers: Mapping[str, str]  # What the request must carry.
    peer: str = ""
    limit: int = HTTP_LIMIT
    covered: bool = True  # Whether causality is kept for this interface.
    posted: Posted | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that was received. Give it to `reply_out`."""

    interface: str
    sender: str | None = None  # The process that sent it, if it said so.
    message: str | None = None
    limit: int = HTTP_LIMIT
    covered: bool = True
    stamped: bool = False  # It carried a stamp that was taken over.
    request: OrderingStamp | None = None
    lost: tuple[OrderingStamp, ...] = ()  # Replies that did not arrive, to be voided with this one.
    mended: bool = False  # It had no stamp, but listed failed calls, which were voided.


class Causality:
    """Of one process. Usable from any thread and task."""

    def __init__(
        self,
        process: str,
        *,
        reporter: Reporter | None = None,
        ordering: bool = False,
        policies: Policies = Policies(),  # noqa: B008 - It is frozen.
        only: Callable[[str], bool] | None = None,
        known: Callable[[str], bool] | None = None,
        view: View | None = None,
        entries_max: int = ENTRIES_MAX,
        lanes: int = 0,
        lane_reporter: Callable[[str], Reporter] | None = None,
    ) -> None:
        """`only` chooses interfaces, `known` tells which processes a stamp may name; the rest is on the page."""
        if lanes < 0 or (ordering and (lanes or view is not None)):
            raise InputError("lanes are a number from 0; causal ordering has neither lanes nor a view")
        self.policies: Final = policies
        self._counter: Final = Counter()
        self._only: Final = only
        self._lane: Final = Lane(process, reporter=None if ordering else reporter, entries_max=entries_max, view=view)
        self._ordered: Final = (
            OrderedLane(process, reporter=reporter, entries_max=entries_max, policies=policies, counter=self._counter)
            if ordering
            else None
        )
        names = [f"{process}#{number}" for number in range(1, lanes + 1)]
        reporters = {name: lane_reporter(name) if lane_reporter is not None else None for name in names}
        self._lanes: Final = {
            name: Lane(name, reporter=reporters[name], entries_max=entries_max, view=view) for name in names
        }
        self._free: Final = [self._lanes[name] for name in reversed(names)]
        self._current: Final[ContextVar[Lane | None]] = ContextVar(f"beforehand lane of {process}", default=None)
        self._lock: Final = Lock()  # Of `_free`.
        counted = {} if ordering else {self._lane.process: self._lane, **self._lanes}
        self._admission: Final = Admission(policies, self._counter, counted, known=known, view=view)

    @property
    def process(self) -> str:
        """Whose events these are; inside `task`, the name of its lane."""
        return self._here().process

    @property
    def ordering(self) -> bool:
        """Whether calls are received in causal order."""
        return self._ordered is not None

    def stamp(self) -> VectorStamp:
        """The stamp of the last event here."""
        return self._ordered.clock.stamp() if self._ordered is not None else self._here().clock.stamp()

    def figures(self) -> CallFigures:
        return self._counter.figures()

    def event(self, name: str, attributes: Mapping[str, str] | None = None) -> str:
        """A local event: its id, `process:count`. It is reported if there is a reporter."""
        if self._ordered is not None:
            return self._ordered.local(name, attributes)
        return self._here().local(name, attributes).message

    @contextmanager
    def task(self) -> Iterator[str]:
        """What runs inside is a process of its own, that begins here: its name. For the body of a task.

        Without a free lane it shares the clock of the process, which only makes more events ordered.
        """
        with self._lock:
            lane = self._free.pop() if self._free else None
        if lane is None:
            self._counter.add("tasks_sharing")
            yield self._here().process
            return
        try:
            message, _ = self._here().send("task begins", None, 1)
            lane.receive("task", message, self._here().clock.stamp(), None)
            before = self._current.get()
            self._current.set(lane)
            try:
                yield lane.process
            finally:
                self._current.set(before)  # Not `reset`: a generator that is dropped ends in another context.
        finally:
            with self._lock:
                self._free.append(lane)

    def request_out(self, interface: str, *, to: str = "", limit: int = HTTP_LIMIT) -> Call:
        """A request is about to be sent to `to`, whose name is needed in causal ordering only."""
        if not self._covers(interface):
            return Call(interface, {}, to, limit, covered=False)
        name = f"call {interface}"
        if self._ordered is not None:
            return self._posted(Call(interface, {}, to, limit), self._ordered.send(name, to, None, limit))
        message, stamp = self._here().send(name, None, limit)
        return Call(interface, self._headers(message, stamp), to, limit)

    def request_in(
        self, interface: str, headers: Mapping[str, str], *, peer: str = "", limit: int = HTTP_LIMIT
    ) -> Arrival:
        """A request came. In causal ordering it waits in this thread. Raises if a policy refuses the call."""
        if not self._covers(interface):
            return Arrival(interface, limit=limit, covered=False)
        carried, name = self._admission.read(headers, limit), f"serve {interface}"
        if self._ordered is None:
            stamped = self._admission.receive(self._here(), name, carried, peer)
            return Arrival(interface, carried.sender, carried.message, limit, stamped=stamped)
        with self._admission.ordered(name) as outcome:
            outcome.lost = self._ordered.receive(name, carried, None)
        return self._arrived(interface, carried, peer, limit, outcome)

    async def request_in_async(
        self, interface: str, headers: Mapping[str, str], *, peer: str = "", limit: int = HTTP_LIMIT
    ) -> Arrival:
        """The same for a task: only the task waits."""
        if self._ordered is None or not self._covers(interface):
            return self.request_in(interface, headers, peer=peer, limit=limit)
        carried, name = self._admission.read(headers, limit), f"serve {interface}"
        with self._admission.ordered(name) as outcome:
            outcome.lost = await self._ordered.receive_async(name, carried, None)
        return self._arrived(interface, carried, peer, limit, outcome)

    def reply_out(self, arrival: Arrival, *, carries_result: bool = True, error: str = "") -> dict[str, str]:
        """The reply is about to be sent: what it must carry. `error` says how the handler failed, if it did."""
        if not arrival.covered:
            return {}
        name = f"answer {arrival.interface}"
        ignored = not carries_result and self.policies.ignore_replies_without_result
        attributes = {"level": "error", "error": error} if error else None
        if self._ordered is not None and arrival.request is not None:
            posted = self._ordered.reply(
                name, arrival.request, arrival.lost, attributes, arrival.limit, with_stamp=not ignored
            )
            if isinstance(posted, Posted):
                self._counter.add("sent")
                assert posted.text is not None
                return written(posted.message, posted.text, posted.void_texts)
            if isinstance(posted, StampTooLargeError):
                self._counter.add("sent_oversize")
                return {}
        if ignored:
            return {}
        if self._ordered is not None and arrival.mended:
            return self._ordered.mended(name, arrival.lost, arrival.limit)
        if self._ordered is not None or not arrival.stamped:
            self.event(name, attributes)
            return {}
        message, stamp = self._here().send(name, attributes, arrival.limit)
        # A reply cannot be refused any more: what it answers has been done.
        return self._headers(message, stamp, is_reply=True)

    def reply_in(self, call: Call, headers: Mapping[str, str], *, carries_result: bool = True) -> None:
        """The reply came. In causal ordering it waits in this thread. Raises if a policy refuses it."""
        if not call.covered:
            return
        carried, name = self._admission.read(headers, call.limit), f"answered {call.interface}"
        if self._ignores(carried, call, carries_result=carries_result):
            return
        if self._ordered is None:
            self._admission.receive(self._here(), name, carried, call.peer)
            return
        with self._giving_up(call), self._admission.ordered(name) as outcome:
            outcome.lost = self._ordered.receive(name, carried, None)
        self._returned(name, call, carried, outcome)

    async def reply_in_async(self, call: Call, headers: Mapping[str, str], *, carries_result: bool = True) -> None:
        """The same for a task."""
        if self._ordered is None or not call.covered:
            self.reply_in(call, headers, carries_result=carries_result)
            return
        carried, name = self._admission.read(headers, call.limit), f"answered {call.interface}"
        if self._ignores(carried, call, carries_result=carries_result):
            return
        with self._giving_up(call), self._admission.ordered(name) as outcome:
            outcome.lost = await self._ordered.receive_async(name, carried, None)
        self._returned(name, call, carried, outcome)

    def failed(self, call: Call, reason: str) -> None:
        """No reply came. The send stays: whether the request was received is not known here."""
        if not call.covered:
            return
        self._counter.add("calls_failed")
        self._give_up(call)
        self.event(f"call {call.interface} failed", {"level": "error", "error": reason})

    def _here(self) -> Lane:
        return self._current.get() or self._lane

    def _covers(self, interface: str) -> bool:
        return self._only is None or self._only(interface)

    def _headers(self, message: str, stamp: str | StampTooLargeError, *, is_reply: bool = False) -> dict[str, str]:
        if isinstance(stamp, str):
            self._counter.add("sent")
            return written(message, stamp)
        self._refuse_oversize(stamp, is_reply=is_reply)
        return written(message, None)  # A history still knows which message it was.

    def _posted(self, call: Call, posted: Posted | StampTooLargeError) -> Call:
        if isinstance(posted, StampTooLargeError):
            self._refuse_oversize(posted, is_reply=False)
            return call
        if posted.text is not None:
            self._counter.add("sent")
        headers = written(posted.message, posted.text, posted.void_texts)
        return Call(call.interface, headers, call.peer, call.limit, posted=posted)

    def _refuse_oversize(self, error: StampTooLargeError, *, is_reply: bool) -> None:
        self._counter.add("sent_oversize")
        if self.policies.oversize is Oversize.REFUSE and not is_reply:
            self._counter.add("calls_refused")
            raise error

    def _arrived(self, interface: str, carried: Carried, peer: str, limit: int, outcome: Outcome) -> Arrival:
        assert self._ordered is not None
        if outcome.delivered and isinstance(carried.stamp, OrderingStamp):
            self._counter.add("received")
            self._ordered.begin(carried.stamp)
            return Arrival(
                interface, carried.sender, carried.message, limit, True, True, carried.stamp, tuple(outcome.lost)
            )
        self._unordered(f"serve {interface}", carried, peer, outcome)
        mended = bool(outcome.delivered and carried.voids)
        return Arrival(interface, carried.sender, carried.message, limit, lost=tuple(outcome.lost), mended=mended)

    def _returned(self, name: str, call: Call, carried: Carried, outcome: Outcome) -> None:
        assert self._ordered is not None
        if outcome.delivered and isinstance(carried.stamp, OrderingStamp):
            self._counter.add("received")
            if call.posted is not None:
                self._ordered.answered(call.posted)
            return
        if (
            outcome.delivered
            and carried.message is not None
            and call.posted is not None
            and call.posted.stamp is None
        ):
            self._ordered.answered(call.posted)  # A peer that was away is back: what was listed has been voided.
        self._give_up(call)
        self._unordered(name, carried, call.peer, outcome)

    def _unordered(self, name: str, carried: Carried, peer: str, outcome: Outcome) -> None:
        """A message that was not received in order: it is a local event, and a receive where that is sure."""
        assert self._ordered is not None
        if outcome.late:
            self._ordered.local(name, {"late": "true"})
            return
        self._admission.admit_unstamped(carried.sender or peer)
        is_plain = outcome.delivered and carried.message is not None and carried.stamp is None
        receives = (carried.message,) if is_plain and carried.message is not None else ()
        self._ordered.local(name, receives=receives)

    @contextmanager
    def _giving_up(self, call: Call) -> Iterator[None]:
        """If the reply is not received in order, the call counts as failed: those after it must not wait for it."""
        try:
            yield
        except BaseException:
            self._give_up(call)
            raise

    def _give_up(self, call: Call) -> None:
        if self._ordered is not None and call.posted is not None:
            self._ordered.give_up(call.posted)

    def _ignores(self, carried: Carried, call: Call, *, carries_result: bool) -> bool:
        if carries_result or carried.stamp is not None or not self.policies.ignore_replies_without_result:
            return False
        self._give_up(call)  # No stamp came back, so whether the request was received in order is not known.
        return True
