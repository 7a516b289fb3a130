"""The simulated world: processes with their protocols, the network between them, and one queue of what comes next.

One seed decides everything: the queue is ordered by (time, order of entry), and all randomness comes from the
scenario. Each process performs the effects of its protocol exactly as their contract says, and dies where the
scenario says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

from beforehand.clocks import View
from beforehand.errors import BufferFullError, ClockExhaustedError, RemoteProtocolError
from beforehand.ordering import (
    Deliver,
    DeliveryProtocol,
    Discard,
    Effect,
    Frame,
    Installed,
    Message,
    Persist,
    Refused,
    Sent,
    SetTimer,
    Transmit,
)
from beforehand.sim.coverage import COUNTER_AT_END, FULL_BUFFER, Sights
from beforehand.sim.local_clock import LocalClock
from beforehand.sim.network import Network
from beforehand.sim.record import Record
from beforehand.sim.scenario import Crash, Join, Operation, Point, Scenario

__all__ = ["Application", "Member", "World"]

RETRY_AFTER: Final = 1_000_000
"""When a full buffer refused a message, the process tries again after this time."""

Application: TypeAlias = "Callable[[str, Operation, int], Iterable[Operation]]"
"""What runs on top of the protocols: `application(process, operation, now)` hears that the message of `operation` was
delivered to `process`, and gives what that process sends because of it. An operation that it gave comes back as the
same object, so a subclass of `Operation` can carry what the application wants to know of a message. For the run to be
repeatable it decides by its arguments, and by its own state and random numbers, alone."""


class Member:
    """One simulated process: its protocol, its clock, its disk."""

    def __init__(
        self, name: str, make: Callable[[], DeliveryProtocol], clock: LocalClock, crashes: list[Crash]
    ) -> None:
        self.name: Final = name
        self.clock: Final = clock
        self.make: Final = make
        self.protocol = make()
        self.crashes: Final = sorted(crashes, key=lambda crash: (crash.at, crash.call))
        self.persists: Final = bool(crashes)  # Snapshots cost time: only who will die needs them.
        self.disk: Any = self.protocol.snapshot() if self.persists else None
        self.calls = 0  # Made so far, over all its lives.
        self.up = True
        self.restarts = 0
        self.gone = False  # It has left the group.
        self.stopped = False  # It never comes back.
        self.timer: tuple[int, int] | None = None  # (reading of the local clock, number of the setting)
        self.settings = 0
        self.operations: list[Operation] = []  # Not done yet, in order.
        self.delivered = 0


class World:
    """Runs one scenario. `make(name, view)` builds its protocols, `application` reacts to what they deliver."""

    def __init__(
        self,
        scenario: Scenario,
        make: Callable[[str, View], DeliveryProtocol],
        application: Application | None = None,
    ) -> None:
        self.scenario: Final = scenario
        self.view: Final = View(scenario.processes)
        self.network: Final = Network(scenario)
        self.record: Final = Record()
        self.now = 0
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._entries = 0
        clocks = {fault.process: fault for fault in scenario.clocks}
        self.members: Final = {
            name: Member(
                name,
                lambda name=name: make(name, self.view),  # type: ignore[misc]
                LocalClock(clocks.get(name)),
                [crash for crash in scenario.crashes if crash.process == name],
            )
            for name in (*scenario.processes, *scenario.newcomers)
        }
        self._sights: Final = Sights(self.record.seen)
        self._frames_seen: dict[tuple[str, str], int] = {}
        self._messages: dict[int, Message] = {}  # By position of the operation that sent it.
        self._application: Final = application
        self._operations: Final = list(scenario.operations)  # And what the application added.
        self._positions: Final = {id(o): at for at, o in enumerate(scenario.operations)}
        self._sending: Operation | None = None
        for operation in scenario.operations:
            self.members[operation.process].operations.append(operation)
        for member in self.members.values():
            for at in sorted({operation.at for operation in member.operations} | {scenario.heal_at}):
                self._enter(at, self._do_operations, member)
            if member.name in scenario.processes:
                self._enter(0, self._tick, member, None)
        for departure in scenario.departures:
            self._enter(departure.at, self._depart, departure.process, departure.by)
        for join in scenario.joins:
            self.members[join.process].up = False
            self._enter(join.starts, self._start, self.members[join.process])
            self._enter(join.at, self._admit, join)

    def run(self) -> Record:
        """Until nothing more happens, or the time to settle is over."""
        end = self.scenario.heal_at + self.scenario.settle
        while self._queue and self._queue[0][0] <= end:
            self.now, _, act, arguments = heappop(self._queue)
            act(*arguments)
        self.record.end = self.now
        return self.record

    @property
    def quiet(self) -> bool:
        """Nothing more is going to happen."""
        return not self._queue

    def _enter(self, at: int, act: Callable[..., None], *arguments: Any) -> None:
        heappush(self._queue, (max(at, self.now), self._entries, act, arguments))
        self._entries += 1

    def _busy_until(self, member: Member) -> int:
        """When a pause of the process ends; now if it has none."""
        ends = [p.until for p in self.scenario.pauses if p.process == member.name and p.at <= self.now < p.until]
        return max(ends, default=self.now)

    def _arrive(self, member: Member, sender: str, packet: Any) -> None:
        if (resume := self._busy_until(member)) > self.now:
            self._enter(resume, self._arrive, member, sender, packet)
            return
        if not member.up:
            self.network.lost["crash"] += 1
            return
        try:
            self._call(member, lambda now: member.protocol.receive(sender, packet, now=now))
        except (BufferFullError, RemoteProtocolError) as error:
            self.record.refused.append((member.name, Refused(process=sender, why=str(error))))
        except ClockExhaustedError:
            self._exhausted()

    def _tick(self, member: Member, setting: int | None) -> None:
        stale = setting is not None and (member.timer is None or member.timer[1] != setting)
        if stale or not member.up:
            return
        if (resume := self._busy_until(member)) > self.now:
            self._enter(resume, self._tick, member, setting)
            return
        if setting is not None:
            member.timer = None  # It has gone off; a tick of our own making leaves it set.
        self._call(member, lambda now: member.protocol.tick(now=now))

    def _do_operations(self, member: Member) -> None:
        """Send what is due: operations of one process are done in their order."""
        while member.operations and member.up and not member.gone and self._is_member(member):
            operation = member.operations[0]
            early = operation.after > member.delivered and self.now < self.scenario.heal_at
            if early or operation.at > self.now:
                return
            if (resume := self._busy_until(member)) > self.now:
                self._enter(resume, self._do_operations, member)
                return
            member.operations.pop(0)
            if not self._send(member, operation):
                member.operations.insert(0, operation)
                self.record.retries += 1
                self._enter(self.now + RETRY_AFTER, self._do_operations, member)
                return

    def _send(self, member: Member, operation: Operation) -> bool:
        """Whether the message was taken. A crash that undoes the call means that the application tries again."""
        options: dict[str, Any] = {} if operation.level is None else {"level": operation.level}
        if self.record.lanes:
            options["after"] = tuple(self._messages[d].key for d in operation.depends if self._knows(member, d))
        to = tuple(p for p in operation.to if p in member.protocol.view)
        if not to or (to == (member.name,) != operation.to):
            return True  # All whom it should go to have left.
        position = self._positions[id(operation)]
        payload = str(position).encode()
        self._sending = operation
        try:
            taken = self._call(member, lambda now: member.protocol.send(payload, to, now=now, **options))
        except BufferFullError:
            self.record.seen.add(FULL_BUFFER)
            return False
        except ClockExhaustedError:
            self._exhausted()
            return True  # It will never be sent.
        finally:
            self._sending = None
        if taken:
            self.record.accepted[position] = member.name
        return taken

    def _knows(self, member: Member, position: int) -> bool:
        message = self._messages.get(position)
        return message is not None and (
            message.sender == member.name or message.id in self.record.delivered.get(member.name, [])
        )

    def _depart(self, process: str, by: str) -> None:
        leaver, actor = self.members[process], self.members[by]
        if leaver.gone and process == by:
            return
        if process != by and not leaver.gone:
            leaver.up, leaver.gone, leaver.stopped = False, True, True  # That is why it is evicted.
            self.record.departed[process] = self.now
            self._note_stable(leaver)
            self.record.note(process, "stop", leaver.clock.read(self.now))
        if actor.gone:
            return
        if not actor.up or self._is_awaited(process, by):
            self._enter(self.now + RETRY_AFTER, self._depart, process, by)
            return
        act: Any = actor.protocol
        if not self._call(actor, lambda now: act.leave(now=now) if process == by else act.evict((process,), now=now)):
            self._enter(self.now + RETRY_AFTER, self._depart, process, by)

    def _note_stable(self, member: Member) -> None:
        """What it may have acknowledged to somebody, as it stops."""
        upto = member.protocol.stable().get(member.name, 0)
        own = [message for message, _ in self.record.sent.values() if message.sender == member.name]
        self.record.acknowledged[member.name] = {message.id for message in own if message.number <= upto}

    def _start(self, member: Member) -> None:
        """A newcomer begins, and waits for its welcome."""
        if not member.stopped:
            member.up = True
            self.record.note(member.name, "start", member.clock.read(self.now))
            self._tick(member, None)

    def _admit(self, join: Join) -> None:
        actor = self.members[join.by]
        if actor.gone:
            return
        act: Any = actor.protocol
        ready = actor.up and self._is_member(actor)
        if not ready or not self._call(actor, lambda now: act.admit((join.process,), now=now)):
            self._enter(self.now + RETRY_AFTER, self._admit, join)

    def _is_member(self, member: Member) -> bool:
        """Whether the process was a member from the start, or was welcomed: by what it told, not by its state."""
        return member.name in self.scenario.processes or member.name in self.record.views

    def _is_awaited(self, process: str, by: str) -> bool:
        """Whether one that is to be evicted is a newcomer that `by` does not have in its view yet, but will."""
        join = next((join for join in self.scenario.joins if join.process == process), None)
        known = any(process in members for _, members, _ in self.record.views.get(by, ()))
        return join is not None and not known and join.by not in self.record.departed

    def _call(self, member: Member, act: Callable[[int], list[Effect]]) -> bool:
        """One call of a protocol and the performing of its effects; False if the process died and it was undone."""
        effects = act(member.clock.read(self.now))
        member.calls += 1
        crash = member.crashes[0] if member.crashes else None
        if crash and crash.call <= member.calls and crash.at <= self.now < self.scenario.heal_at:
            return self._die(member, member.crashes.pop(0), effects)
        self._perform(member, effects)
        member.protocol.check_invariants()
        pending = len(member.protocol.pending())
        self.record.pending_max = max(self.record.pending_max, pending)
        self._sights.after_call(member.name, member.protocol, pending)
        return True

    def _exhausted(self) -> None:
        self.record.exhausted += 1
        self.record.seen.add(COUNTER_AT_END)

    def _perform(self, member: Member, effects: Iterable[Effect]) -> None:
        """The effects in their order."""
        time = member.clock.read(self.now)
        delivered: list[Message] = []
        for effect in effects:
            match effect:
                case Sent():
                    self._sent(member, effect.message, time)
                case Deliver():
                    member.delivered += 1
                    delivered.append(effect.message)
                    self.record.deliver(member.name, effect.message, effect.place, time, self.now)
                case Discard():
                    self.record.discarded.append((member.name, effect))
                case Refused():
                    self.record.refused.append((member.name, effect))
                    self._sights.refused(effect)
                case Installed():
                    self._installed(member, effect.view, time)
                case Persist():
                    if member.persists:
                        member.disk = member.protocol.snapshot()
                case Transmit():
                    self._transmit(member, effect)
                case SetTimer():
                    self._set_timer(member, effect.at)
        if self._application is not None:
            for message in delivered:  # After all effects, as their contract wants it.
                self._react(member, self._application(member.name, self._operations[int(message.payload)], self.now))
        if delivered and member.operations:
            self._enter(self.now, self._do_operations, member)

    def _react(self, member: Member, operations: Iterable[Operation]) -> None:
        """Add what the application sends, each behind what is due before it."""
        for operation in operations:
            if operation.process != member.name:
                raise ValueError(f"{member.name} heard of a message and cannot send for {operation.process}")
            self._positions[id(operation)] = len(self._operations)
            self._operations.append(operation)
            at = bisect_right(member.operations, operation.at, key=lambda one: one.at)
            member.operations.insert(at, operation)
            self._enter(operation.at, self._do_operations, member)

    def _sent(self, member: Member, message: Message, time: int) -> None:
        position = int(message.payload)
        self._messages[position] = message
        depends: tuple[str, ...] = ()
        if self.record.lanes:
            operation = self._operations[position]
            depends = tuple(self._messages[d].id for d in operation.depends if self._knows(member, d))
        self.record.send(member.name, message, time, self.now, depends)

    def _installed(self, member: Member, view: View, time: int) -> None:
        self.record.note(member.name, f"view {view.number}: {' '.join(view.processes)}", time)
        before = len(self.record.delivered.get(member.name, ()))
        self.record.views.setdefault(member.name, []).append((view.number, view.processes, before))
        if member.name not in view and not member.gone:
            member.gone = True
            self.record.departed[member.name] = self.now
        if member.operations and self.scenario.joins:
            self._enter(self.now, self._do_operations, member)  # It may be one that could not send before.

    def _transmit(self, member: Member, effect: Transmit) -> None:
        packet = effect.packet
        again = False
        if isinstance(packet, Frame) and packet.number:
            link = (member.name, effect.to[0])
            again = packet.number <= self._frames_seen.get(link, 0)
            self._frames_seen[link] = max(packet.number, self._frames_seen.get(link, 0))
        self.record.transmit(packet, len(effect.to), again=again)
        for to in effect.to:
            arrivals = self.network.arrivals(member.name, to, self.now)
            self._sights.transmitted(member.protocol, packet, lost=not arrivals, again=again and member.restarts > 0)
            for at in arrivals:
                self._enter(at, self._arrive, self.members[to], member.name, packet)

    def _set_timer(self, member: Member, at: int | None) -> None:
        member.settings += 1
        member.timer = None
        if at is not None:
            member.timer = (at, member.settings)
            self._enter(member.clock.time_of(at, self.now), self._tick, member, member.settings)

    def _die(self, member: Member, crash: Crash, effects: list[Effect]) -> bool:
        self.record.crashes += 1
        self._sights.at_crash(member.protocol)
        self._perform(member, _until_death(effects, crash.point))
        self.record.note(member.name, "crash", member.clock.read(self.now))
        member.up = False
        member.timer = None
        self._enter(min(self.now + crash.down, self.scenario.heal_at), self._come_back, member)
        return crash.point is not Point.BEFORE_PERSIST

    def _come_back(self, member: Member) -> None:
        if member.stopped:
            return
        member.protocol = member.make()
        member.protocol.restore(member.disk)
        member.up = True
        member.restarts += 1
        self.record.note(member.name, "restart", member.clock.read(self.now))
        self._tick(member, None)
        self._do_operations(member)


def _until_death(effects: list[Effect], point: Point) -> list[Effect]:
    """What a process still performs of a call's effects that dies at `point`."""
    stored = next((at for at, effect in enumerate(effects) if isinstance(effect, Persist)), len(effects))
    packets = [at for at, effect in enumerate(effects) if isinstance(effect, Transmit)]
    match point:
        case Point.BEFORE_PERSIST:  # A packet that goes out too early cannot be called back.
            return [effects[at] for at in packets if at < stored]
        case Point.AFTER_PERSIST:
            return effects[: stored + 1]
        case Point.WHILE_TRANSMITTING:
            return effects[: packets[len(packets) // 2]] if packets else effects
