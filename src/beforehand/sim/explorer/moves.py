"""The moves of the search: from one state of all processes, their packets and their faults to the next.

A *state* is a tuple of six numbers: the cell of each process, what is under way, what the oracle remembers of the
history, and the faults that may still happen. Moves:

  receive   a packet arrives (with repeats left, it may also stay under way)
  operate   a process does its next operation
  tick      when nothing is under way and nobody is down, the timers of all processes go off; a single one at any
            time as often as `Faults.early` says
  lose      a packet is lost
  crash     a process dies between two calls, or in one after some of its packets left
  restart   it comes back from its disk; what arrived in between is lost (miss)
  stop      one that is to be evicted dies for good, between two calls or in one; what comes to it vanishes

A crash before `Persist` needs no move of its own: it leaves the same as a crash before the call, and the packet of
the call, which then comes to a process that is down, is lost. A state is *final* if none of its moves but faults
leads on.

Covered: every order of all this, with at most the faults of the configuration. Not covered: how long anything takes.
A timer is taken to be slower than the network; those that are not are the ones of `Faults.early`. That a protocol
sets its timers is not checked here (the simulator does): `tick` is tried wherever it does anything.

*Reduction* (`reduce`). A frame that is only an acknowledgement is taken at once, or lost. Why nothing is missed: its
arrival removes packets from the list of the unacknowledged, emits nothing, and commutes with every move of every
other process and with every `receive` and `operate` of its own, none of which look at that list; `tick` does, but
comes only when nothing is under way; a repeated acknowledgement does nothing. So any run can be rearranged into one
where it comes at once, with the same deliveries. What is missed: with `Faults.early`, a timer that goes off while an
acknowledgement is under way and sends again what has arrived (much the same as a repeated frame); a crash that
swallows an acknowledgement (the same as a lost one, then a crash). `reduce=False` searches these too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from beforehand.sim.explorer.automaton import STOPPED, Step
from beforehand.sim.explorer.operations import EVICT, describe
from beforehand.sim.explorer.oracle import Oracle
from beforehand.sim.explorer.post import NOTHING

if TYPE_CHECKING:
    from beforehand.sim.explorer.configuration import Configuration
    from beforehand.sim.explorer.search import Explorer

__all__ = ["Label", "Moves", "State"]

State: TypeAlias = "tuple[int, int, int, int, int, int]"

LOSS: Final = 1
REPEAT: Final = 4
CRASH: Final = 16
EARLY: Final = 64
"""One fault of each kind, in the number of faults left: two bits each."""


class Label(NamedTuple):
    """What a move does, for people."""

    what: str
    process: int | None  # None: all.
    note: str
    happenings: tuple[tuple[int, int], ...] = ()  # Process and number of the list.


class Moves:
    """Of one configuration."""

    def __init__(self, explorer: Explorer, configuration: Configuration, oracle: Oracle, *, reduce: bool) -> None:
        self._automata: Final = explorer.automata
        self._received: Final = [automaton.received for automaton in explorer.automata]
        self._post: Final = explorer.post
        self._flights: Final = explorer.flights
        self._oracle: Final = oracle
        self._names: Final = explorer.names
        self._lines: Final = configuration.operations
        self._stopping: Final = configuration.stopping
        self._crashing: Final = configuration.faults.crashing
        self._faults: Final = configuration.faults
        self._reduce: Final = reduce and explorer.stack.link is not None
        self._moves: list[State] = []
        self.failure = ""  # Of the last state whose moves were asked for: why its last move has no end.
        self.labels: list[Label] | None = None  # Filled if it is a list: one label per move.

    def start(self) -> State:
        """All processes have begun; what they sent then is under way."""
        flight, oracle = 0, Oracle.START
        for at, automaton in enumerate(self._automata):
            step = automaton.start
            flight = self._flights.after(flight, NOTHING, step.out)
            oracle = self._oracle.after(oracle, at, self._post.happenings.values[step.happenings])
        faults = self._faults
        left = LOSS * faults.losses + REPEAT * faults.repeats + CRASH * faults.crashes + EARLY * faults.early
        a, b, c = (automaton.start.cell for automaton in self._automata)
        return (a, b, c, flight, oracle, left)

    def of(self, state: State) -> tuple[list[State], bool]:
        """Where all moves lead, and whether the state is final. See `failure`."""
        first, second, third, flight, oracle, left = state
        arriving = self._flights.arriving[flight]
        moves = self._moves = []
        self.failure = ""
        if (self._stopping or self._reduce) and arriving and self._at_once(state, arriving):
            return moves, False
        receivers, received = self._post.receivers, self._received
        following, judged = self._flights.known[flight], self._oracle.known[oracle]
        labels = self.labels
        for packet in arriving:
            to = receivers[packet]
            step = received[to][state[to]].get(packet)
            if step is None or left or step[3] or step[4] or self._stopping:
                self._arrive(state, packet, to)
                continue
            # The same as `_arrive`, for the many packets of a world without faults: this is where the time goes.
            cell, out, happened = step[0], step[1], step[2]
            after = following.get((packet, out))
            if after is None:
                after = self._flights.after(flight, packet, out)
            now = oracle
            if happened:
                told = judged.get((to, happened))
                now = self._judge(oracle, to, happened) if told is None else told
            if to == 0:
                moves.append((cell, second, third, after, now, left))
            elif to == 1:
                moves.append((first, cell, third, after, now, left))
            else:
                moves.append((first, second, cell, after, now, left))
            if labels is not None:
                labels.append(Label("receive", to, "", ((to, happened),)))
        leads_on, quiet = bool(arriving), not arriving
        for at, automaton in enumerate(self._automata):
            cell = state[at]
            if automaton.up[cell]:
                done = automaton.done[cell]
                if done < len(self._lines[at]) and not automaton.departed[cell]:
                    leads_on |= self._operate(state, at, self._lines[at][done])
                if left >= EARLY and (step := automaton.tick(cell)) is not None:
                    self._step(state, at, step, NOTHING, left - EARLY, "tick", crashes=True, note="early")
                if self._stopping >> at & 1:
                    self._go(state, at, STOPPED, flight, 0, left, "stop", "")
                    leads_on = True
                elif left & 3 * CRASH and self._crashing >> at & 1:
                    self._go(state, at, automaton.crash(cell), flight, 0, left - CRASH, "crash", "")
            elif cell != STOPPED:
                self._step(state, at, automaton.restart(cell), NOTHING, left, "restart", crashes=False)
                leads_on = True
                quiet = False
        if quiet:
            leads_on |= self._tick(state)
        return moves, not leads_on

    def _at_once(self, state: State, arriving: tuple[int, ...]) -> bool:
        """Whether a packet is there that need not wait: then its moves are all that there are."""
        left = state[5]
        for packet in arriving:
            to = self._post.receivers[packet]
            if self._stopping and state[to] == STOPPED:
                self._drop(state, packet, "vanish", left)
                return True
            if self._reduce and self._post.acknowledgements[packet] and self._automata[to].up[state[to]]:
                step = self._automata[to].receive(state[to], packet)
                self._step(state, to, step, packet, left, "receive", crashes=False)
                if left & 3 * LOSS:
                    self._drop(state, packet, "lose", left - LOSS)
                return True
        return False

    def _arrive(self, state: State, packet: int, to: int) -> None:
        automaton, left = self._automata[to], state[5]
        if not automaton.up[state[to]]:
            self._drop(state, packet, "miss", left)
            return
        step = automaton.receive(state[to], packet)
        self._step(state, to, step, packet, left, "receive", crashes=True)
        if left & 3 * REPEAT:
            self._step(
                state, to, step, NOTHING, left - REPEAT, "receive", crashes=False, note="and it stays under way"
            )
        if left & 3 * LOSS:
            self._drop(state, packet, "lose", left - LOSS)

    def _operate(self, state: State, at: int, operation: int) -> bool:
        """Whether it can be done now."""
        if operation & EVICT and any(operation >> p & 1 and state[p] != STOPPED for p in range(len(self._names))):
            return False
        step = self._automata[at].operate(state[at], operation)
        if step is None:
            return False
        self._step(state, at, step, NOTHING, state[5], "operate", crashes=True, note=describe(operation, self._names))
        return True

    def _tick(self, state: State) -> bool:
        """All timers go off; whether that leads on."""
        first, second, third, flight, oracle, left = state
        cells, happened = [first, second, third], []
        for at, automaton in enumerate(self._automata):
            step = automaton.tick(state[at]) if automaton.up[state[at]] else None
            if step is None:
                continue
            if step.failure:
                self._fail(step, "tick", at)
            else:
                self._die(state, at, step, NOTHING, left, "tick")
                cells[at] = step.cell
                flight = self._under_way((first, second, third, flight, oracle, left), NOTHING, step.out)
                if step.happenings:
                    oracle = self._judge(oracle, at, step.happenings)
                    happened.append((at, step.happenings))
        after = (cells[0], cells[1], cells[2], flight, oracle, left)
        if after == state:
            return bool(self.failure)
        self._moves.append(after)
        if self.labels is not None:
            self.labels.append(Label("tick", None, "", tuple(happened)))
        return True

    def _step(
        self, state: State, at: int, step: Step, packet: int, left: int, what: str, *, crashes: bool, note: str = ""
    ) -> None:
        """One call, and the ways to die in it. `packet` is what it takes from the network."""
        cell, out, happened, cuts, failure = step
        if failure:
            self._fail(step, what, at)
            return
        self._go(state, at, cell, self._under_way(state, packet, out), happened, left, what, note)
        if crashes and cuts:
            self._die(state, at, step, packet, left, what)

    def _fail(self, step: Step, what: str, at: int) -> None:
        self.failure = step.failure
        if self.labels is not None:
            self.labels.append(Label(what, at, step.failure, ((at, step.happenings),)))

    def _die(self, state: State, at: int, step: Step, packet: int, left: int, what: str) -> None:
        """The ways to die in a call."""
        if self._stopping >> at & 1:
            for _, some, also in step.cuts:
                self._go(state, at, STOPPED, self._under_way(state, packet, some), also, left, "stop", f"in {what}")
        elif left & 3 * CRASH and self._crashing >> at & 1:
            for down, some, also in step.cuts:
                flight = self._flights.after(state[3], packet, some)
                self._go(state, at, down, flight, also, left - CRASH, "crash", f"in {what}")

    def _under_way(self, state: State, packet: int, out: int) -> int:
        """The flight without the packet and with what is sent; what goes to those who have stopped vanishes."""
        if self._stopping and out:
            sent = self._post.outs.values[out]
            out = self._post.outs.number(tuple(p for p in sent if state[self._post.receivers[p]] != STOPPED))
        return self._flights.after(state[3], packet, out)

    def _drop(self, state: State, packet: int, what: str, left: int) -> None:
        first, second, third, flight, oracle, _ = state
        self._moves.append((first, second, third, self._flights.after(flight, packet, 0), oracle, left))
        if self.labels is not None:
            self.labels.append(Label(what, self._post.receivers[packet], ""))

    def _go(
        self, state: State, at: int, cell: int, flight: int, happened: int, left: int, what: str, note: str
    ) -> None:
        first, second, third, _, oracle, _ = state
        if happened:
            oracle = self._judge(oracle, at, happened)
        if at == 0:
            self._moves.append((cell, second, third, flight, oracle, left))
        elif at == 1:
            self._moves.append((first, cell, third, flight, oracle, left))
        else:
            self._moves.append((first, second, cell, flight, oracle, left))
        if self.labels is not None:
            self.labels.append(Label(what, at, note, ((at, happened),)))

    def _judge(self, oracle: int, at: int, happened: int) -> int:
        return self._oracle.after_list(oracle, at, happened, self._post.happenings.values[happened])
