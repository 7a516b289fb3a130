"""One process as an automaton: its states and what each call makes of them, found out once and then looked up.

This is what makes the exploration fast: a protocol is asked once per (state, call), by `restore`, call, `snapshot`;
the search over all processes then only moves numbers about. It also means that every call is made on a protocol that
was just restored: what `snapshot` forgets is forgotten in every step. Protocols that look at their timers count from
a clock that stands at 0, and a restored protocol has no timers set: its `tick` does all that could be due.

A *cell* is the state of a process: the snapshot, the snapshot that is on its disk, how many of its operations are
done, whether it is up. `check_invariants()` is asked of every new cell, and that `restore` gives back what
`snapshot` took.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from beforehand.clocks import View
from beforehand.errors import BeforehandError, BufferFullError, RemoteProtocolError
from beforehand.ordering import (
    Deliver,
    DeliveryProtocol,
    Discard,
    Effect,
    Installed,
    Message,
    Persist,
    Refused,
    Sent,
    Transmit,
)
from beforehand.sim.explorer.operations import ADMIT, EVICT, FORCE, LEAVE
from beforehand.sim.explorer.oracle import Happening, What, bit_of
from beforehand.sim.explorer.post import NOTHING, Post

__all__ = ["OUTSIDE", "STOPPED", "Automaton", "Cut", "Step"]

OUTSIDE: Final = "nobody has welcomed it"
STOPPED: Final = 0
"""The cell of a process that has stopped for good."""

NOW: Final = 0
FAILURES: Final = (BeforehandError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError)


class Cut(NamedTuple):
    """The process dies in a call: what is on its disk, and what has left it."""

    cell: int
    out: int
    happenings: int


class Step(NamedTuple):
    """What one call does. Lists are given by their numbers in the `Post`; 0: empty."""

    cell: int
    out: int
    happenings: int
    cuts: tuple[Cut, ...] = ()
    failure: str = ""


class _Cell(NamedTuple):
    snapshot: Any  # None while it is down.
    disk: Any
    done: int
    up: bool


class Automaton:
    """Of the process at `position`. `make` builds its protocol as at the first start."""

    def __init__(
        self, position: int, view: View, make: Callable[[], DeliveryProtocol], post: Post, *, durable: bool
    ) -> None:
        """`durable`: whether it comes back from crashes; otherwise nothing is kept on a disk."""
        self.position: Final = position
        self.name: Final = view.processes[position]
        self._positions: Final = {name: at for at, name in enumerate(view.processes)}
        self._names: Final[Sequence[str]] = view.processes
        self._make: Final = make
        self._post: Final = post
        self._durable: Final = durable
        self._cells: Final[list[_Cell]] = []
        self._numbers: Final[dict[_Cell, int]] = {}
        self._seen: Final[
            dict[Any, tuple[bool, str]]
        ] = {}  # Per snapshot: whether it has left, what keeps it waiting.
        self.done: Final[list[int]] = []  # By cell: operations done.
        self.up: Final[list[bool]] = []
        self.departed: Final[list[bool]] = []  # By cell: whether it has left the group.
        self.waiting: Final[list[str]] = []  # By cell: what it waits for; empty if for nothing.
        self.received: Final[list[dict[int, Step]]] = []  # By cell: packet to step, as far as it is known.
        self.taken: Final[
            list[tuple[int, int, int]]
        ] = []  # Steps: cell, packet or NOTHING, and the cell it leads to.
        self._operated: Final[dict[tuple[int, int], Step | None]] = {}
        self._ticked: Final[dict[int, Step | None]] = {}
        self._restarted: Final[dict[int, Step]] = {}
        self._crashed: Final[dict[int, int]] = {}
        self._restored: Final[set[int]] = set()
        self._enter(_Cell(None, None, 0, False), None)
        self.start: Final = self._begin()

    def receive(self, cell: int, packet: int) -> Step:
        """A packet arrives."""
        step = self.received[cell].get(packet)
        if step is None:
            sender, content = self._names[self._post.senders[packet]], self._post.packets[packet]
            found = self._call(cell, lambda protocol: protocol.receive(sender, content, now=NOW))
            assert found is not None
            step = self.received[cell][packet] = found
        return step

    def is_idle(self, cell: int, packet: int) -> bool:
        """Whether nothing comes of the packet's arrival."""
        return _idle(self.receive(cell, packet), cell)

    def known(self, cell: int, operations: tuple[int, ...]) -> list[tuple[int, Step]]:
        """All steps from the cell that were asked for, with the packet that arrives, or NOTHING."""
        done = self.done[cell]
        others = [
            self._ticked.get(cell),
            self._operated.get((cell, operations[done])) if done < len(operations) else None,
        ]
        return [*self.received[cell].items(), *((NOTHING, step) for step in others if step is not None)]

    def operate(self, cell: int, operation: int) -> Step | None:
        """The next operation is done; None: not now."""
        key = (cell, operation)
        if key not in self._operated:
            self._operated[key] = self._call(cell, lambda protocol: self._do(protocol, operation), done=1)
        return self._operated[key]

    def tick(self, cell: int) -> Step | None:
        """The timer goes off; None: nothing comes of it."""
        if cell not in self._ticked:
            step = self._call(cell, self._tick)
            assert step is not None
            self._ticked[cell] = None if _idle(step, cell) else step
        return self._ticked[cell]

    def crash(self, cell: int) -> int:
        """The cell of the process when it dies between two calls."""
        found = self._crashed.get(cell)
        if found is None:
            old = self._cells[cell]
            found = self._crashed[cell] = self._enter(_Cell(None, old.disk, old.done, False), None)
        return found

    def restart(self, cell: int) -> Step:
        """It comes back from its disk."""
        step = self._restarted.get(cell)
        if step is None:
            old = self._cells[cell]
            back = old._replace(snapshot=old.disk, up=True)
            protocol = self._make()
            try:
                protocol.restore(old.disk)
                step = self._perform(back, protocol, self._tick(protocol), done=0)
            except FAILURES as error:
                step = Step(cell, 0, 0, failure=_said(error))
            self._restarted[cell] = step
        return step

    def _begin(self) -> Step:
        protocol = self._make()
        snapshot = protocol.snapshot()
        first = _Cell(snapshot, snapshot if self._durable else None, 0, True)
        return self._perform(first, protocol, protocol.tick(now=NOW), done=0)

    def _call(
        self, cell: int, act: Callable[[DeliveryProtocol], list[Effect] | None], *, done: int = 0
    ) -> Step | None:
        old = self._cells[cell]
        try:
            protocol = self._make()
            protocol.restore(old.snapshot)
            if cell not in self._restored:
                self._restored.add(cell)
                if protocol.snapshot() != old.snapshot:
                    raise AssertionError("restore does not give back what snapshot took")
            effects = act(protocol)
            if effects is None:
                return None
            return self._perform(old, protocol, effects, done=done)
        except BufferFullError:
            return None if done else Step(cell, 0, 0, failure="a buffer is full")
        except RemoteProtocolError as error:
            # The driver drops the packet. In a group whose members stay, nobody sends such a packet.
            refused = self._post.happenings.number((Happening(What.REFUSED, 0),))
            return Step(cell, 0, refused, failure="" if _changes(protocol) else _said(error))
        except FAILURES as error:
            return Step(cell, 0, 0, failure=_said(error))

    def _tick(self, protocol: DeliveryProtocol) -> list[Effect]:
        """All timers go off."""
        return protocol.tick(now=NOW)

    def _do(self, protocol: Any, operation: int) -> list[Effect] | None:
        """Perform an operation, as far as the members that it names are still there."""
        if operation == LEAVE:
            left: list[Effect] = protocol.leave(now=NOW)
            return left
        names = [name for at, name in enumerate(self._names) if operation >> at & 1]
        if not _welcomed(protocol):
            return None
        if operation & ADMIT:
            admitted: list[Effect] = protocol.admit(names, now=NOW)
            return admitted
        if operation & EVICT:
            evicted: list[Effect] = protocol.evict(names, now=NOW, force=bool(operation & FORCE))
            return evicted
        to = tuple(name for name in names if name in protocol.view)
        if not to or (to == (self.name,) != tuple(names)):
            return [Refused(process=names[0], why="all whom it should go to have left")]
        sent: list[Effect] = protocol.send(b"", to, now=NOW)
        return sent

    def _perform(self, old: _Cell, protocol: DeliveryProtocol, effects: list[Effect], *, done: int) -> Step:
        happenings: list[Happening] = []
        out: list[int] = []
        before_persist = 0  # Packets that leave before `Persist`: none, if the contract is kept.
        persists = False
        refusal = ""
        for effect in effects:
            match effect:
                case Sent():
                    happenings.append(self._happening(What.SENT, effect.message))
                case Deliver():
                    happenings.append(self._happening(What.DELIVERED, effect.message))
                case Discard():
                    happenings.append(self._happening(What.DISCARDED, effect.message))
                case Installed():
                    mask = sum(1 << self._positions[name] for name in effect.view.processes)
                    happenings.append(Happening(What.INSTALLED, effect.view.number, mask))
                case Refused():
                    happenings.append(Happening(What.REFUSED, 0))
                    refusal = "" if _changes(protocol) else f"refused: {effect.why}"
                case Persist():
                    persists, before_persist = True, len(out)
                case Transmit():
                    at = [self._positions[name] for name in effect.to]
                    out += [self._post.number(self.position, to, effect.packet) for to in at]
        outs, happened = self._post.outs, self._post.happenings.number(tuple(happenings))
        snapshot = protocol.snapshot()
        disk = (snapshot if persists else old.disk) if self._durable else None
        cell = self._enter(_Cell(snapshot, disk, old.done + done, True), protocol)
        cuts: list[Cut] = []
        if self._durable:
            undone = self._enter(_Cell(None, old.disk, old.done, False), None)
            kept = self._enter(_Cell(None, disk, old.done + done, False), None)
            cuts += [Cut(undone, outs.number(tuple(out[:n])), 0) for n in range(1, before_persist + 1)]
            cuts += [Cut(kept, outs.number(tuple(out[:n])), happened) for n in range(before_persist, len(out))]
        return Step(cell, outs.number(tuple(out)), happened, tuple(cuts), refusal)

    def _happening(self, what: int, message: Message) -> Happening:
        mask = sum(1 << self._positions[name] for name in message.to) if what == What.SENT else 0
        return Happening(what, bit_of(self._positions[message.sender], message.number), mask)

    def _enter(self, cell: _Cell, protocol: DeliveryProtocol | None) -> int:
        """The number of a cell. A new one is checked: `protocol` is in its state."""
        number = self._numbers.get(cell)
        if number is not None:
            return number
        departed, waits = False, ""
        if protocol is not None:
            seen = self._seen.get(cell.snapshot)
            if seen is None:
                protocol.check_invariants()
                departed = self.name not in protocol.view
                seen = self._seen[cell.snapshot] = (departed, "" if departed else _waiting(protocol))
            departed, waits = seen
        number = self._numbers[cell] = len(self._cells)
        self._cells.append(cell)
        self.done.append(cell.done)
        self.up.append(cell.up)
        self.departed.append(departed)
        self.waiting.append(waits)
        self.received.append({})
        return number


def _idle(step: Step, cell: int) -> bool:
    return step.cell == cell and not step.out and not step.happenings and not step.failure


def _changes(protocol: Any) -> bool:
    """Whether members may leave: only then are packets refused by right."""
    return hasattr(protocol, "flushing") or hasattr(getattr(protocol, "within", None), "flushing")


def _welcomed(protocol: Any) -> bool:
    """Whether it is a member: not if it is to join and was not told of a view yet."""
    return bool(getattr(getattr(protocol, "within", None), "welcomed", True))


def _waiting(protocol: DeliveryProtocol) -> str:
    if not _welcomed(protocol):
        return OUTSIDE
    for pending in protocol.pending():
        waits = pending.waits_for
        return f"{pending.message.id} waits for {waits.what} {waits.number} of {waits.process}"
    for missing in protocol.missing():
        return f"{missing.what} {missing.number} of {missing.process} is missing"
    return ""


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
