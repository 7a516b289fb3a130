"""Small answers: values that programs read, and that notebooks show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final, overload

from beforehand.diagram.text import visible
from beforehand.events import Event, EventId
from beforehand.notebook.tables import event_table, paragraph, shown, table

if TYPE_CHECKING:
    from beforehand.history import Judged, Violation

__all__ = ["Chain", "Check", "CutThrough", "Events", "Past", "Picture"]

_SHOWN_MAX: Final = 100
_NAMED_MAX: Final = 3  # Events that a `repr` names.


@dataclass(frozen=True, slots=True, repr=False)
class Events(Sequence[Event]):
    """Some events, in an order."""

    events: tuple[Event, ...]

    @overload
    def __getitem__(self, at: int) -> Event: ...

    @overload
    def __getitem__(self, at: slice) -> Events: ...

    def __getitem__(self, at: int | slice) -> Event | Events:
        return self.events[at] if isinstance(at, int) else Events(self.events[at])

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"<Events: {len(self.events):,}{_some(self.events[:_NAMED_MAX], len(self.events))}>"

    def _repr_html_(self) -> str:
        left = len(self.events) - _SHOWN_MAX
        more = paragraph(f"and {left:,} more") if left > 0 else ""
        return event_table(self.events[:_SHOWN_MAX]) + more


@dataclass(frozen=True, slots=True, repr=False)
class Past:
    """What could have led to an event: the last of its causal past, oldest first."""

    event: Event
    events: tuple[Event, ...]
    past: int  # How many events happened before it.

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        last = _some(self.events[-_NAMED_MAX:], len(self.events), newest=True)
        return f"<Past of {_line(self.event)}: the last {len(self.events):,} of {self.past:,} events{last}>"

    def _repr_html_(self) -> str:
        told = f"The last {len(self.events):,} of {self.past:,} events that happened before {shown(self.event.id)}."
        return event_table([*self.events, self.event], self.event.id) + paragraph(told)


@dataclass(frozen=True, slots=True)
class Chain:
    """What one event is to another, and the chain of causes between them if there is one."""

    first: EventId
    second: EventId
    relation: str  # `before`, `after`, `concurrent` or `equal`: what the first is to the second.
    events: tuple[EventId, ...]
    reasons: tuple[str, ...]

    def _repr_html_(self) -> str:
        how = {
            "before": "happened before",
            "after": "happened after",
            "concurrent": "is concurrent with",
            "equal": "is",
        }[self.relation]
        steps = "".join(f"<li>{shown(reason, 500)}</li>" for reason in self.reasons)
        told = paragraph(f"{shown(self.first)} {how} {shown(self.second)}.")
        return told + (f"<ol>{steps}</ol>" if steps else "")


@dataclass(frozen=True, slots=True)
class CutThrough:
    """A cut: per process its last event inside, and the messages that cross it."""

    cut: Mapping[str, int]
    front: tuple[EventId, ...]
    in_flight: tuple[str, ...]
    unreceived: tuple[str, ...]
    consistent: bool

    def _repr_html_(self) -> str:
        rows = [(shown(process), f"{index:,}") for process, index in self.cut.items()]
        named = ", ".join(shown(message, 40) for message in self.in_flight[:20])
        more = f" and {len(self.in_flight) - 20:,} more" if len(self.in_flight) > 20 else ""
        told = f"The cut is {'consistent' if self.consistent else 'not consistent'}; "
        told += f"{len(self.in_flight):,} messages are in flight{': ' if named else ''}{named}{more}; "
        told += f"{len(self.unreceived):,} are never received."
        return table(("process", "last event inside"), rows) + paragraph(told)


@dataclass(frozen=True, slots=True, repr=False)
class Check:
    """What is wrong with an order: how many of each kind, and witnesses with their reasons."""

    counts: Mapping[str, int | None]  # None: not judged.
    violations: tuple[Violation, ...]
    notes: tuple[str, ...]
    judged: Mapping[str, Judged] = field(default_factory=dict)  # Of each kind how much, and why not the rest.

    @property
    def ok(self) -> bool:
        """Whether nothing was found; what was not judged is None in `counts`."""
        return not any(self.counts.values())

    def __repr__(self) -> str:
        found = ", ".join(f"{kind} {'not judged' if n is None else f'{n:,}'}" for kind, n in self.counts.items())
        first = f"; the first: {visible(self.violations[0].why, 200)}" if self.violations else ""
        return f"<Check: {found}{first}>"

    def _found(self, kind: str) -> str:
        count, judged = self.counts[kind], self.judged.get(kind)
        if count is None:
            return "not judged" + (f": {judged.why}" if judged is not None and judged.why else "")
        partly = judged is not None and judged.judged < judged.of
        return f"{count:,}" + (
            f", {judged.judged:,} of {judged.of:,} judged: {judged.why}" if judged and partly else ""
        )

    def _repr_html_(self) -> str:
        rows = [(shown(kind), shown(self._found(kind))) for kind in self.counts]
        parts = [table(("kind", "violations"), rows)]
        for one in self.violations[:20]:
            steps = "".join(f"<li>{shown(reason, 500)}</li>" for reason in one.reasons)
            parts.append(paragraph(f"<b>{shown(one.kind)}</b>: {shown(one.why, 1_000)}") + f"<ol>{steps}</ol>")
        parts += [paragraph(f"Note: {shown(note, 500)}") for note in self.notes]
        return "".join(parts)


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """A space-time diagram. Notebooks show it; `page` is one that can be explored in a browser."""

    svg: str
    page: str

    def __repr__(self) -> str:
        return (
            f"<Picture: .svg ({len(self.svg):,} characters), .page ({len(self.page):,}); draw(..., to=) writes one>"
        )

    def _repr_html_(self) -> str:
        # A document of its own, so that nothing of it reaches the notebook.
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self.page, quote=True)}" '
            'style="width:100%;height:520px;border:1px solid #8884"></iframe>'
        )


def _line(event: Event) -> str:
    name = visible(event.name, 60)
    return visible(str(event.id), 100) + (f" {name!r}" if name else "")


def _some(events: Sequence[Event], count: int, *, newest: bool = False) -> str:
    """For a `repr`: a few events of `count`, the first or the newest of them."""
    if not events:
        return ""
    named = ", ".join(map(_line, events))
    left = count > len(events)
    return f": {'…, ' if left and newest else ''}{named}{', …' if left and not newest else ''}"
