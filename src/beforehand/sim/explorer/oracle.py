"""The explorer's judge: a history as a few bit masks, just enough to tell whether its next event breaks an order.

It shares no code with the protocols, nor with `history`, which confirms what it finds. A *state* is what any
continuation of a history can depend on, and no more, so that histories with the same future become one:

  past         per process: the messages whose send happened before what it does next
  live         per message that some destination lacks: who lacks it, and the past of its send
  overtaken    per process: what it lacks although it has delivered a message sent after that (causal; of the same
               sender: FIFO). To deliver such a message breaks the order.
  after        per live message: what has been delivered after it by somebody, and what after that, and so on. To
               deliver it after one of these closes a cycle: no total order.
  delivered    per process, a set

Sets are restricted to live messages: what nobody lacks can neither be overtaken nor close a cycle. Only what is
judged is kept: without `CAUSAL` no past but a sender's own, without `TOTAL` nothing about the order of deliveries.

Messages are bits: number n of the process at position p is bit p * NUMBERS_MAX + n - 1.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

__all__ = ["CAUSAL", "FIFO", "INTEGRITY", "NAMES", "NUMBERS_MAX", "TOTAL", "Happening", "Oracle", "What", "bit_of"]

NUMBERS_MAX: Final = 8
"""Messages per sender."""

FIFO: Final = 1
CAUSAL: Final = 2
TOTAL: Final = 4
DUPLICATE: Final = 8
STRAY: Final = 16  # Delivered where it was not sent to, or never sent.
INTEGRITY: Final = DUPLICATE | STRAY

NAMES: Final = {FIFO: "fifo", CAUSAL: "causal", TOTAL: "total", DUPLICATE: "duplicate", STRAY: "stray"}

Mask: TypeAlias = int


class What:
    """The kinds of happenings."""

    SENT: Final = 0
    DELIVERED: Final = 1
    DISCARDED: Final = 2
    INSTALLED: Final = 3  # The mask holds the members; nothing to judge.
    REFUSED: Final = 4  # Something was dropped: what follows may be incomplete by right.


class Happening(NamedTuple):
    """One event of a history, at a process that is known from elsewhere."""

    what: int
    message: int  # The bit's number.
    mask: Mask = 0  # Whom a message goes to.


class Live(NamedTuple):
    """A message that somebody lacks."""

    message: int
    lacks: Mask
    past: Mask
    after: Mask


class State(NamedTuple):
    """See the module."""

    flags: Mask
    refused: bool
    sent: Mask
    live: tuple[Live, ...]  # Sorted by message.
    past: tuple[Mask, ...]
    delivered: tuple[Mask, ...]
    overtaken: tuple[Mask, ...]
    overtaken_fifo: tuple[Mask, ...]


def bit_of(sender: int, number: int) -> int:
    """The bit's number of a message; `number` counts from 1."""
    if not 1 <= number <= NUMBERS_MAX:
        raise ValueError(f"message {number}: the explorer takes {NUMBERS_MAX} per sender")
    return sender * NUMBERS_MAX + number - 1


class Oracle:
    """States are numbers; `after` leads from one to the next and remembers the way."""

    START: Final = 0

    def __init__(self, processes: int, *, judge: Mask = FIFO | CAUSAL | TOTAL, deaf: Mask = 0) -> None:
        """`deaf`: processes that leave the group. The total order of those who stay counts."""
        self._judge: Final = judge
        self._deaf: Final = deaf
        none = (0,) * processes
        start = State(0, False, 0, (), none, none, none, none)
        self._numbers: Final[dict[State, int]] = {start: 0}
        self.states: Final[list[State]] = [start]
        self.flags: Final[list[Mask]] = [0]
        self.known: Final[list[dict[tuple[int, int], int]]] = [{}]  # By state, for the search: see `after_list`.

    def after_list(self, state: int, process: int, number: int, happenings: tuple[Happening, ...]) -> int:
        """`after`, remembered under the number of the list, which is for good: `known[state][process, number]`."""
        found = self.known[state].get((process, number))
        if found is None:
            found = self.known[state][process, number] = self.after(state, process, happenings)
        return found

    def after(self, state: int, process: int, happenings: tuple[Happening, ...]) -> int:
        """The state when these have happened, in their order, at the process."""
        value = self.states[state]
        for happening in happenings:
            value = self._one(value, process, happening)
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.states)
            self.states.append(value)
            self.flags.append(value.flags)
            self.known.append({})
        return found

    def _one(self, state: State, process: int, happening: Happening) -> State:
        match happening.what:
            case What.SENT:
                return self._sent(state, process, happening)
            case What.DELIVERED:
                return self._delivered(state, process, happening.message)
            case What.DISCARDED:
                return self._settled(state, process, happening.message)
            case What.REFUSED:
                return state._replace(refused=True)
            case _:
                return state

    def _sent(self, state: State, process: int, happening: Happening) -> State:
        message, bit = happening.message, 1 << happening.message
        flags = state.flags | (DUPLICATE if state.sent & bit else 0)
        live = tuple(sorted((*state.live, Live(message, happening.mask, state.past[process], 0))))
        past = _put(state.past, process, state.past[process] | bit)
        return state._replace(flags=flags, sent=state.sent | bit, live=live, past=past)

    def _delivered(self, state: State, process: int, message: int) -> State:
        bit, me = 1 << message, 1 << process
        if state.delivered[process] & bit:
            return state._replace(flags=state.flags | DUPLICATE)
        entry = next((entry for entry in state.live if entry.message == message), None)
        if entry is None or not entry.lacks & me:
            return state._replace(flags=state.flags | STRAY)
        flags = state.flags
        if state.overtaken[process] & bit:
            flags |= CAUSAL
        if state.overtaken_fifo[process] & bit:
            flags |= FIFO
        live = state.live
        before = state.delivered[process]
        if self._judge & TOTAL and not self._deaf & me:
            if entry.after & before:
                flags |= TOTAL
            # Whatever is delivered after this message follows all that was delivered before it.
            gained = bit | entry.after
            live = tuple(
                e._replace(after=e.after | gained) if e.after & before or before >> e.message & 1 else e for e in live
            )
        own = entry.past & _of_sender(message)
        past = state.past
        overtaken = state.overtaken
        if self._judge & CAUSAL:
            past = _put(past, process, past[process] | entry.past | bit)
            overtaken = _put(overtaken, process, overtaken[process] | entry.past)
        state = state._replace(
            flags=flags & (self._judge | INTEGRITY),
            live=live,
            past=past,
            delivered=_put(state.delivered, process, before | bit),
            overtaken=overtaken,
            overtaken_fifo=_put(state.overtaken_fifo, process, state.overtaken_fifo[process] | own),
        )
        return self._settled(state, process, message)

    def _settled(self, state: State, process: int, message: int) -> State:
        """The process lacks the message no more: forget what no longer matters."""
        me = 1 << process
        live = [e._replace(lacks=e.lacks & ~me) if e.message == message else e for e in state.live]
        kept = [e for e in live if e.lacks]
        matters = sum(1 << e.message for e in kept)
        lacking = [sum(1 << e.message for e in kept if e.lacks >> p & 1) for p in range(len(state.past))]
        return state._replace(
            live=tuple(e._replace(past=e.past & matters) for e in kept),
            past=tuple(mask & matters for mask in state.past),
            overtaken=tuple(map(int.__and__, state.overtaken, lacking)),
            overtaken_fifo=tuple(map(int.__and__, state.overtaken_fifo, lacking)),
        )


def _of_sender(message: int) -> Mask:
    return (1 << NUMBERS_MAX) - 1 << message // NUMBERS_MAX * NUMBERS_MAX


def _put(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])
