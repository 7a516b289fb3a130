"""A counterexample: a shortest run that breaks something, as steps, as a history, as a picture."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from beforehand.diagram import LayoutOptions, Marks, draw
from beforehand.events import Event
from beforehand.history import History
from beforehand.sim.explorer.configuration import Configuration
from beforehand.sim.explorer.oracle import NUMBERS_MAX, Happening, What

__all__ = ["ORDERS", "Counterexample"]

ORDERS: Final = ("fifo", "causal", "total")

Taken = tuple[str, int | None, str, Sequence[tuple[int, tuple[Happening, ...]]]]
"""A step of the search: what, at which process (None: all), a note, and what happened where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterexample:
    """Of `kind`: the order that is broken, or in words what else is wrong."""

    kind: str
    protocol: str
    configuration: Configuration
    steps: tuple[str, ...]  # In words, one per move of the search.
    events: tuple[Event, ...]  # What a reader of the history sees.
    why: str  # Confirmed by `history` where it is about an order; see `confirmed`.
    confirmed: bool
    processes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        kind: str,
        protocol: str,
        configuration: Configuration,
        processes: tuple[str, ...],
        path: Sequence[Taken],
    ) -> Counterexample:
        """From the moves that lead to it."""
        events = _events(processes, path)
        confirmed, why = _confirm(kind, configuration, processes, events)
        return cls(
            kind=kind,
            protocol=protocol,
            configuration=configuration,
            steps=tuple(_in_words(processes, taken) for taken in path),
            events=events,
            why=why,
            confirmed=confirmed,
            processes=processes,
        )

    def text(self) -> str:
        """A space-time diagram in characters: a lane per process, time to the right, one column per event."""
        lanes: dict[str, list[str]] = {name: [] for name in self.processes}
        for event in self.events:
            for name, lane in lanes.items():
                label = f"● {event.name} " if name == event.process else ""
                lane.append(label.ljust(len(event.name) + 3, "─"))
        width = max(len(name) for name in self.processes)
        lines = [f"{name.ljust(width)} ──{''.join(lane)}─▶" for name, lane in lanes.items()]
        return "\n".join([f"{self.protocol}, {self.kind}: {self.why}", *lines])

    def svg(self) -> str:
        """The same as a drawing, with what is wrong marked."""
        marks = Marks()
        if self.kind in ORDERS:
            found = next(v for v in History(self.events).check().violations if v.kind == self.kind)
            marks = Marks(violations=found.events, violating_messages=found.messages)
        options = LayoutOptions(processes=self.processes)
        return draw(self.events, marks=marks, options=options, title=f"{self.protocol}: {self.kind}")

    def __str__(self) -> str:
        steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))
        return f"{self.text()}\n{self.configuration}\n{steps}"


def _events(processes: tuple[str, ...], path: Sequence[Taken]) -> tuple[Event, ...]:
    events: list[Event] = []
    indexes: Counter[str] = Counter()

    def add(process: str, name: str, *, sends: tuple[str, ...] = (), receives: tuple[str, ...] = ()) -> None:
        indexes[process] += 1
        events.append(Event(process=process, index=indexes[process], name=name, sends=sends, receives=receives))

    for what, actor, note, lists in path:
        if what == "operate" and actor is not None and not note.startswith("send"):
            add(processes[actor], note)
        for process, happening in [(processes[at], h) for at, happenings in lists for h in happenings]:
            sender, number = divmod(happening.message, NUMBERS_MAX)
            if happening.what == What.INSTALLED:
                members = " ".join(p for position, p in enumerate(processes) if happening.mask >> position & 1)
                add(process, f"view {happening.message}: {members}")
                continue
            message = f"{processes[sender]}.{number + 1}"
            if happening.what == What.SENT:
                add(process, f"send {message}", sends=(message,))
            elif happening.what == What.DELIVERED:
                add(process, f"deliver {message}", receives=(message,))
            elif happening.what == What.DISCARDED:
                add(process, f"discard {message}")
        if actor is not None and what in ("crash", "restart", "stop"):
            add(processes[actor], what)
    return tuple(events)


def _in_words(processes: tuple[str, ...], taken: Taken) -> str:
    what, actor, note, lists = taken
    verbs = {What.SENT: "sends", What.DELIVERED: "delivers", What.DISCARDED: "discards"}
    done = []
    for at, happenings in lists:
        for happening in happenings:
            sender, number = divmod(happening.message, NUMBERS_MAX)
            if verb := verbs.get(happening.what):
                done.append(f"{processes[at]} {verb} {processes[sender]}.{number + 1}")
    words = f"{'all' if actor is None else processes[actor]}: {what}" + (f" ({note})" if note else "")
    return words + (f": {', '.join(done)}" if done else "")


def _confirm(
    kind: str, configuration: Configuration, processes: tuple[str, ...], events: Sequence[Event]
) -> tuple[bool, str]:
    """Whether the history itself shows what the explorer found, and what it shows."""
    history = History(events)
    if kind in ORDERS:
        leaving = {name for at, name in enumerate(processes) if configuration.leaving >> at & 1}
        if kind == "total" and leaving:
            heard = [
                Event(process=e.process, index=e.index, name=e.name, sends=e.sends) if e.process in leaving else e
                for e in events
            ]
            history = History(heard)
        found = next((v for v in history.check().violations if v.kind == kind), None)
        return found is not None, found.why if found else "the history does not show it"
    if kind == "duplicate":
        receives = Counter((e.process, m) for e in events for m in e.receives)
        twice = [f"{p} delivers {m} twice" for (p, m), times in receives.items() if times > 1]
        sends = Counter(m for e in events for m in e.sends)
        twice += [f"{m} is sent twice" for m, times in sends.items() if times > 1]
        return bool(twice), "; ".join(twice)
    lost = re.fullmatch(r"(\S+) never delivers (\S+)", kind)
    if lost:
        sent = any(lost[2] in event.sends for event in events)
        return sent and not any(e.process == lost[1] and lost[2] in e.receives for e in events), kind
    return True, kind  # The protocol says so itself.
