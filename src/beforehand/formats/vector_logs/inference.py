"""Messages inferred from reported vector clocks, for logs that do not name their messages.

An entry of an event's clock that grew since the earlier events of its process names an event of another process that
the event has learnt of. Of these, the ones that another of them already knew are implied; from each of the rest the
event must have received a message, by whatever way it came. So, for right clocks:

1. e happened before f by the inferred messages exactly if f's clock says so: f.clock[e.process] ≥ e.index, e ≠ f.
   That holds for any part of a log too: where the event that a clock names is missing, the nearest earlier one of
   its process that is there takes its place beside it.
2. One message per sending event: `~process:index`. The sender sends it once, each process receives it at most once,
   even if an event has it already: what was inferred once may be inferred again, and stays as it is.
   Ids depend on the set of events alone, not on their order.
3. Messages that the source did name are kept and count as known: nothing is inferred that they imply.
4. Of several events with one id only the first, which is the one that later stages keep, takes part.

Clocks that are wrong give an order that is wrong, even a cycle; the check of reported clocks finds that later.

    unsent      clocks name events of a process that are not in the log; their messages are received, never sent.
                One rejection per process, with how many
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from beforehand.events import INFERRED, Event, EventId, Rejection

__all__ = ["UNSENT", "infer_messages"]

UNSENT: Final = "unsent"


def infer_messages(events: Iterable[Event], *, file: str | None = None) -> Iterator[Event | Rejection]:
    """The events in the order given, executions one after the other, with the messages that their clocks imply."""
    executions: dict[str, list[Event]] = {}
    for event in events:
        executions.setdefault(event.execution, []).append(event)
    while executions:
        execution = next(iter(executions))
        yield from _Inference(executions.pop(execution)).results(file)


@dataclass(slots=True)
class _Place:
    """An event that messages can come from or go to."""

    event: Event
    weight: int  # The sum of its clock: whoever knows more events is heavier.
    sends: bool = False
    receives: tuple[str, ...] = ()


@dataclass(slots=True)
class _Missing:
    """The events of one process that are named by clocks and are not in the log."""

    messages: set[str]
    message: str  # The one whose receiver has the smallest id.
    receiver: EventId


class _Inference:
    """One execution."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self._missing: dict[str, _Missing] = {}
        self._places: dict[tuple[str, int], _Place] = {}
        self._sender: dict[str, _Place] = {}  # Of the messages that the source named.
        for event in events:
            place = _Place(event, sum((event.clock or {}).values()))
            if self._places.setdefault((event.process, event.index), place) is place:
                for message in event.sends:
                    self._sender.setdefault(message, place)
        self._indexes: dict[str, list[int]] = {}  # Per process, sorted.
        for process, index in sorted(self._places):
            self._indexes.setdefault(process, []).append(index)

    def results(self, file: str | None) -> Iterator[Event | Rejection]:
        for process, indexes in self._indexes.items():
            known: dict[str, int] = {}  # The greatest entries so far: a clock that goes back learns nothing twice.
            named: set[str] = set()  # Messages that were received so far and look inferred.
            for index in indexes:
                place = self._places[process, index]
                named.update(message for message in place.event.receives if message.startswith(INFERRED))
                self._receive(place, known, named)
        for event in self._events:
            place = self._places[event.process, event.index]
            if place.event is event and (place.sends or place.receives):
                own = _message(event.process, event.index)
                sends = (*event.sends, own) if place.sends and own not in event.sends else event.sends
                yield replace(event, sends=sends, receives=(*event.receives, *place.receives))
            else:
                yield event
        for process in sorted(self._missing):
            yield _unsent(process, self._missing[process], file)

    def _receive(self, place: _Place, known: dict[str, int], named: set[str]) -> None:
        """Find what the event received; then it is known to its process."""
        event = place.event
        grown = [
            (process, count)
            for process, count in (event.clock or {}).items()
            if process != event.process and count > known.get(process, 0)
        ]
        if not grown:
            return
        candidates: list[_Place] = []
        received: list[tuple[str, int]] = []
        for process, count in grown:
            source = self._nearest(process, count)
            if source is None or source.event.index < count:
                received.append((process, count))
                self._note_missing(process, count, event.id)
            if source is not None and source.event.index > known.get(process, 0):
                candidates.append(source)
        senders = [self._sender[message] for message in event.receives if message in self._sender]
        for source in _not_implied(candidates, senders):
            source.sends = True
            received.append((source.event.process, source.event.index))
        messages = (_message(process, index) for process, index in sorted(received))
        place.receives = tuple(message for message in messages if message not in named)
        known.update(grown)

    def _nearest(self, process: str, index: int) -> _Place | None:
        """The last event of the process up to this index."""
        exact = self._places.get((process, index))
        if exact is not None:
            return exact
        indexes = self._indexes.get(process, [])
        at = bisect_right(indexes, index)
        return self._places[process, indexes[at - 1]] if at else None

    def _note_missing(self, process: str, index: int, receiver: EventId) -> None:
        message = _message(process, index)
        missing = self._missing.setdefault(process, _Missing(set(), message, receiver))
        missing.messages.add(message)
        if (receiver, message) < (missing.receiver, missing.message):
            missing.receiver, missing.message = receiver, message


def _not_implied(candidates: list[_Place], named: list[_Place]) -> list[_Place]:
    """The candidates that neither a named sender nor another candidate knew."""
    # Who knows another is heavier, if clocks are right; if they know each other in a circle, one of them stays.
    candidates.sort(key=lambda place: (-place.weight, place.event.process, place.event.index))
    kept = list(named)
    # Comparing all pairs is quick for a few. For many, what is known is gathered, lest one line take minutes.
    if len(candidates) ** 2 <= 64 + sum(len(place.event.clock or {}) for place in candidates):
        for place in candidates:
            if not any(_knows(other, place) for other in kept):
                kept.append(place)
        return kept[len(named) :]
    gathered: dict[str, int] = {}
    for place in named:
        _gather(gathered, place)
    result = []
    for place in candidates:
        if gathered.get(place.event.process, 0) < place.event.index:
            _gather(gathered, place)
            result.append(place)
    return result


def _knows(place: _Place, other: _Place) -> bool:
    process, index = other.event.process, other.event.index
    if place.event.process == process and place.event.index >= index:
        return True
    return (place.event.clock or {}).get(process, 0) >= index


def _gather(gathered: dict[str, int], place: _Place) -> None:
    own = place.event.process
    gathered[own] = max(gathered.get(own, 0), place.event.index)
    for process, count in (place.event.clock or {}).items():
        if count > gathered.get(process, 0):
            gathered[process] = count


def _message(process: str, index: int) -> str:
    return f"{INFERRED}{process}:{index}"


def _unsent(process: str, missing: _Missing, file: str | None) -> Rejection:
    return Rejection(
        reason=UNSENT,
        detail=f"clocks name {len(missing.messages)} event(s) of process {process!a} that are not in the log, "
        f"the first at {str(missing.receiver)!a}: what they knew is taken from the clocks that name them",
        file=file,
        events=(missing.receiver,),
        message=missing.message,
    )
