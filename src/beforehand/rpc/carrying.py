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
from threading import Lock
from typing import Final

from beforehand.clocks import OrderingStamp, VectorStamp, View
from beforehand.clocks.vector import ENTRIES_MAX
from beforehand.errors import InputError, StampTooLargeError
from beforehand.reporting import Reporter
from beforehand.rpc.admission import Admission, Outcome
from beforehand.rpc.calls import Arrival, Call, arrived
from beforehand.rpc.differences import Base, Difference, Link, life_text
from beforehand.rpc.direct import Direct
from beforehand.rpc.headers import (
    DIFFERENCE_HEADER,
    HTTP_LIMIT,
    LIFE_HEADER,
    STAMP_HEADER,
    Carried,
    written,
)
from beforehand.rpc.lane import Lane
from beforehand.rpc.ordered import OrderedLane, Posted
from beforehand.rpc.policies import CallFigures, Counter, Oversize, Policies
from beforehand.rpc.remembered import Remembered

__all__ = ["Causality"]


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
        ordering_clock = None if self._ordered is None else self._ordered.clock
        remembered = Remembered(self._lane.clock.locked())
        self._admission: Final = Admission(
            policies,
            self._counter,
            counted,
            remembered=remembered,
            known=known,
            view=view,
            ordering=ordering_clock,
        )
        # A base is an event of one lane, and who receives next may be another: there stamps are full.
        self._differs: Final = policies.differences and not lanes
        plain = reporter is None and not ordering and not lanes
        self._direct: Final = Direct(self._lane, self._counter, remembered, known) if plain else None
        # What carriers may call themselves, for requests and replies alike.
        self._short: Final = self._direct if self._differs and only is None else None

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
        direct = self._direct
        if direct is None:
            return self._counter.figures()
        return self._counter.figures(sent=direct.sent, received=direct.received)

    def event(self, name: str, attributes: Mapping[str, str] | None = None) -> str:
        """A local event: its id, `process:count`. It is reported if there is a reporter."""
        if self._ordered is not None:
            return self._ordered.local(name, attributes)
        return self._here().local(name, attributes)

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

    def request_out(
        self, interface: str, *, to: str = "", limit: int = HTTP_LIMIT, link: Link | None = None, again: bool = True
    ) -> Call:
        """A request is about to be sent to `to`, whose name is needed in causal ordering only.

        With `link` it may go as a difference: then the carrier must know refusals with `UnknownBaseError` and send
        what `request_again` gives. Where it could not send the request a second time, `again` is false.
        """
        if self._only is not None and not self._only(interface):
            return Call(interface, {}, to, limit, covered=False)
        if link is not None and self._direct is not None and self._differs and again:
            text = self._direct.ask(link, limit)
            if text is not None:
                return Call(interface, {DIFFERENCE_HEADER: text}, to, limit, link=link)
        name = f"call {interface}"
        if self._ordered is not None:
            heard = None
            if link is not None and self._differs:
                heard = link.bases(self._ordered.life, to) if again else ()
            posted = self._ordered.send(name, to, None, limit, heard)
            return self._posted(Call(interface, {}, to, limit, link=link), posted)
        lane = self._here()
        if link is None or not self._differs:
            return Call(interface, self._headers(*lane.send(name, None, limit)), to, limit)
        bases = link.bases(lane.life) if again else ()
        return Call(interface, self._differing(lane, name, None, limit, bases), to, limit, link=link)

    def request_again(self, call: Call) -> Call:
        """The receiver does not know the base of this request: a new message, with a full stamp."""
        if call.link is not None:
            call.link.refused()
        self._counter.add("bases_unknown")
        self._give_up(call)
        self.event(f"call {call.interface} refused", {"error": "its stamp builds on what the receiver does not know"})
        return self.request_out(call.interface, to=call.peer, limit=call.limit, link=call.link, again=False)

    def request_in(
        self, interface: str, headers: Mapping[str, str], *, peer: str = "", limit: int = HTTP_LIMIT
    ) -> Arrival:
        """A request came. In causal ordering it waits in this thread. Raises if a policy refuses the call."""
        if self._only is not None and not self._only(interface):
            return Arrival(interface, limit=limit, covered=False)
        if self._direct is not None and len(headers) == 1 and DIFFERENCE_HEADER in headers:
            base = self._direct.take(headers[DIFFERENCE_HEADER], limit)
            if base is not None:
                return arrived(interface, base, limit)
        carried, name = self._admission.read(headers, limit, self._now, is_reply=False), f"serve {interface}"
        if self._ordered is None:
            lane = self._here()
            stamped = self._admission.receive(lane, name, carried, peer)
            base = self._base(carried, lane) if stamped else None
            return Arrival(interface, carried.sender, carried.message, limit, stamped=stamped, base=base)
        with self._admission.ordered(name) as outcome:
            outcome.lost = self._ordered.receive(name, carried, None)
        return self._arrived(interface, carried, peer, limit, outcome)

    async def request_in_async(
        self, interface: str, headers: Mapping[str, str], *, peer: str = "", limit: int = HTTP_LIMIT
    ) -> Arrival:
        """The same for a task: only the task waits."""
        if self._ordered is None or not self._covers(interface):
            return self.request_in(interface, headers, peer=peer, limit=limit)
        carried, name = self._admission.read(headers, limit, self._now, is_reply=False), f"serve {interface}"
        with self._admission.ordered(name) as outcome:
            outcome.lost = await self._ordered.receive_async(name, carried, None)
        return self._arrived(interface, carried, peer, limit, outcome)

    def reply_out(self, arrival: Arrival, *, carries_result: bool = True, error: str = "") -> dict[str, str]:
        """The reply is about to be sent: what it must carry. `error` says how the handler failed, if it did."""
        if not arrival.covered:
            return {}
        if self._direct is not None and arrival.base is not None and carries_result and self._differs:
            text = self._direct.out(arrival.base, arrival.limit)
            if text is not None:
                return {DIFFERENCE_HEADER: text}
        name = f"answer {arrival.interface}"
        ignored = not carries_result and self.policies.ignore_replies_without_result
        attributes = {"level": "error", "error": error} if error else None
        if self._ordered is not None and arrival.request is not None:
            base = arrival.base if self._differs else None
            posted = self._ordered.reply(
                name, arrival.request, arrival.lost, attributes, arrival.limit, base, with_stamp=not ignored
            )
            if isinstance(posted, Posted):
                self._count_sent(posted)
                return posted.headers()
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
        # A reply cannot be refused any more: what it answers has been done.
        if arrival.base is not None and self._differs:
            return self._differing(self._here(), name, attributes, arrival.limit, (arrival.base,), is_reply=True)
        return self._headers(*self._here().send(name, attributes, arrival.limit), is_reply=True)

    def reply_in(self, call: Call, headers: Mapping[str, str], *, carries_result: bool = True) -> None:
        """The reply came. In causal ordering it waits in this thread. Raises if a policy refuses it."""
        if not call.covered:
            return
        if self._direct is not None and len(headers) == 1 and DIFFERENCE_HEADER in headers:
            base = self._direct.take(headers[DIFFERENCE_HEADER], call.limit)
            if base is not None:
                if call.link is not None:
                    call.link.answered(self._lane.life, base)
                return
        name = f"answered {call.interface}"
        carried = self._admission.read(headers, call.limit, self._now, is_reply=True)
        if self._ignores(carried, call, carries_result=carries_result):
            return
        if self._ordered is None:
            lane = self._here()
            stamped = self._admission.receive(lane, name, carried, call.peer)
            if stamped and call.link is not None and (base := self._base(carried, lane)) is not None:
                call.link.answered(lane.life, base)
            return
        with self._giving_up(call), self._admission.ordered(name) as outcome:
            outcome.lost = self._ordered.receive(name, carried, None)
        self._returned(name, call, carried, outcome)

    async def reply_in_async(self, call: Call, headers: Mapping[str, str], *, carries_result: bool = True) -> None:
        """The same for a task."""
        if self._ordered is None or not call.covered:
            self.reply_in(call, headers, carries_result=carries_result)
            return
        name = f"answered {call.interface}"
        carried = self._admission.read(headers, call.limit, self._now, is_reply=True)
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

    def _differing(
        self,
        lane: Lane,
        name: str,
        attributes: Mapping[str, str] | None,
        limit: int,
        bases: tuple[Base, ...],
        *,
        is_reply: bool = False,
    ) -> dict[str, str]:
        """The headers of a message to one who takes differences: as one, or in full if there is no base."""
        stamp, changes = lane.send_since(name, attributes, min([base.mine for base in bases], default=0))
        process = lane.process
        if bases:
            if changes and len(bases) == 1:
                told = bases[0].told
                changes = {p: count for p, count in changes.items() if told.get(p) != count}
            heard = {base.life: base.event for base in bases}
            text = Difference(process, stamp[process], lane.life, heard, changes).text()
            if len(text) <= limit:
                self._counter.add_difference()
                return {DIFFERENCE_HEADER: text}
        # Names that share a beginning, and names in a view, take less room in full stamps.
        headers = self._headers(f"{process}:{stamp[process]}", lane.text(stamp, limit), is_reply=is_reply)
        if STAMP_HEADER in headers:
            headers[LIFE_HEADER] = life_text(lane.life)
        return headers

    def _base(self, carried: Carried, lane: Lane | OrderedLane) -> Base | None:
        """The event that sent a message which was received."""
        if carried.life is None or carried.sender is None or carried.stamp is None:
            return None
        time = carried.stamp.time if isinstance(carried.stamp, OrderingStamp) else carried.stamp
        mine = carried.bases[lane.life] if carried.bases is not None else time[lane.process]
        # Of a difference in causal ordering, the stamp has entries that we knew and the sender did not tell.
        ordered = carried.ordered
        told = time._all() if ordered is None else {**ordered.changes, ordered.sender: ordered.count}
        return Base(carried.sender, carried.life, carried.event, mine, told)

    def _now(self) -> tuple[bytes, int]:
        lane = self._here() if self._ordered is None else self._ordered
        return lane.life, lane.count

    def _posted(self, call: Call, posted: Posted | StampTooLargeError) -> Call:
        if isinstance(posted, StampTooLargeError):
            self._refuse_oversize(posted, is_reply=False)
            return call
        self._count_sent(posted)
        return Call(call.interface, posted.headers(), call.peer, call.limit, posted=posted, link=call.link)

    def _count_sent(self, posted: Posted) -> None:
        if posted.difference is not None:
            self._counter.add_difference()
        elif posted.text is not None:
            self._counter.add("sent")

    def _refuse_oversize(self, error: StampTooLargeError, *, is_reply: bool) -> None:
        self._counter.add("sent_oversize")
        if self.policies.oversize is Oversize.REFUSE and not is_reply:
            self._counter.add("calls_refused")
            raise error

    def _arrived(self, interface: str, carried: Carried, peer: str, limit: int, outcome: Outcome) -> Arrival:
        assert self._ordered is not None
        if outcome.delivered and isinstance(carried.stamp, OrderingStamp):
            self._counter.add("received")
            bases = carried.bases
            known = carried.stamp.time[self.process] if bases is None else bases[self._ordered.life]
            self._ordered.begin(carried.stamp, known)
            return Arrival(
                interface,
                carried.sender,
                carried.message,
                limit,
                stamped=True,
                request=carried.stamp,
                lost=tuple(outcome.lost),
                base=self._base(carried, self._ordered),
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
            if call.link is not None and (base := self._base(carried, self._ordered)) is not None:
                call.link.answered(self._ordered.life, base)
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
