"""Logs of vector clocks: what matches of a pattern in a text become, whatever the layout.

A match gives a host, a clock and an event text. It becomes an event with process = host, index = the host's own
entry, clock = what was reported without zeros, name = the event text, and every further group as an attribute; an
integer `timestamp` (TSViz) or a `date` in RFC 3339 becomes its time. Messages are inferred (see inference.py).

1. Every character of the text that is not blank belongs to an event or is told in a rejection.
2. Gaps and repetitions of own entries are no errors here: later stages tell them.

Reasons of rejections, besides those of whole_text.py and inference.py:

    unmatched         lines that the pattern does not match, a run of them in one; or, once per file, what is left
                      over on lines that it matches in part
    not-a-clock       the clock is not a JSON object of integers from 0 to 2⁶³ − 1 (zeros count as absent)
    no-own-entry      the clock has no entry, or zero, for the event's own process
    not-an-event      the process has no name
    execution-twice   a second execution in a file with the label of an earlier one; it was given another
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from beforehand.events import INDEX_MAX, Event, Rejection, parse_time
from beforehand.formats.json_text import Json, RefusedError, decode_json, shown
from beforehand.formats.native import NOT_AN_EVENT
from beforehand.formats.vector_logs.inference import infer_messages
from beforehand.formats.vector_logs.whole_text import TextLimits, WholeText

__all__ = [
    "EXECUTION_TWICE",
    "NOT_A_CLOCK",
    "NO_OWN_ENTRY",
    "UNMATCHED",
    "Execution",
    "Found",
    "Layout",
    "VectorLog",
    "own_entry",
    "read_clock",
    "split_executions",
    "to_clock",
    "to_event",
]

UNMATCHED: Final = "unmatched"
NOT_A_CLOCK: Final = "not-a-clock"
NO_OWN_ENTRY: Final = "no-own-entry"
EXECUTION_TWICE: Final = "execution-twice"


class Found(NamedTuple):
    """One record where it stands in a text."""

    start: int
    end: int
    clock_start: int
    host: str
    clock: str
    event: str
    fields: dict[str, str]  # What else the record says.


class Layout(Protocol):
    """A way to find records. `start` is where the last record ended, or where the execution begins."""

    def find(self, text: str, start: int, end: int) -> Found | None: ...


class Execution(NamedTuple):
    """The part of a text that is one execution."""

    label: str
    start: int
    end: int
    twice: str | None = None  # The label it asked for, if an earlier one in the file has it.


def split_executions(text: str, start: int, delimiters: Iterable[tuple[int, int, str | None]]) -> list[Execution]:
    """A text from `start` on, split at delimiters (start, end, label); text before the first has the label "".

    A delimiter without a label gives its number. Blank executions are left out.
    """
    found = list(delimiters)
    parts: list[tuple[str, int, int]] = []
    label = ""
    for number, (delimiter_start, delimiter_end, given) in enumerate([*found, (len(text), len(text), None)], start=1):
        if not text[start:delimiter_start].isspace() and start < delimiter_start:
            parts.append((label, start, delimiter_start))
        label, start = str(number) if given is None else given.strip(), delimiter_end
    asked = {part_label for part_label, _, _ in parts}
    counts: dict[str, int] = {}  # Per label, the last number that was given with it; 1 is the label alone.
    result = []
    for part_label, part_start, part_end in parts:
        name = part_label
        counts[part_label] = counts.get(part_label, 0) + 1
        while counts[part_label] > 1 and (name := f"{part_label} ({counts[part_label]})".strip()) in asked:
            counts[part_label] += 1
        result.append(Execution(name, part_start, part_end, part_label if name != part_label else None))
    return result


class VectorLog:
    """Gathers the events of one log, which may be several files, and then infers their messages."""

    def __init__(self, *, limits: TextLimits, unit_ns: int = 1) -> None:
        """`unit_ns` is what an integer `timestamp` counts, in nanoseconds."""
        self._limits = limits
        self._unit_ns = unit_ns
        self._events: list[Event] = []
        self._files: set[str | None] = set()

    def take(self, whole: WholeText, executions: Iterable[Execution], layout: Layout) -> Iterator[Rejection]:
        """Take the events of one file; gives what was refused."""
        self._files.add(whole.file)
        lines = _LineCount(whole.text)
        rest = _Leftover(whole, self._limits)
        for execution in executions:
            if execution.twice is not None:
                yield self._execution_twice(execution, whole, lines.at(execution.start))
            position = execution.start
            while True:
                found = layout.find(whole.text, position, execution.end)
                until = execution.end if found is None else found.start
                yield from rest.between(position, until, lines)
                if found is None:
                    break
                try:
                    self._events.append(
                        to_event(found, execution.label, depth_max=self._limits.depth_max, unit_ns=self._unit_ns)
                    )
                except RefusedError as refused:
                    yield self._refusal(refused, found, whole, lines)
                position = found.end
        yield from rest.parts()

    def add(self, event: Event, *, file: str | None) -> None:
        """Take an event that was read otherwise."""
        self._files.add(file)
        self._events.append(event)

    def results(self) -> Iterator[Event | Rejection]:
        """The events of all files with their messages. The log is empty afterwards."""
        events, self._events = self._events, []
        file = next(iter(self._files)) if len(self._files) == 1 else None
        return infer_messages(events, file=file)

    def _refusal(self, refused: RefusedError, found: Found, whole: WholeText, lines: _LineCount) -> Rejection:
        line = lines.at(found.start)
        clock_line = lines.at(found.clock_start)
        where = f"; its clock stands on line {clock_line}" if clock_line != line else ""
        return Rejection(
            reason=refused.reason,
            detail=f"{refused}{where}",
            file=whole.file,
            line=line,
            text=whole.quoted(found.start, found.end, limits=self._limits),
        )

    def _execution_twice(self, execution: Execution, whole: WholeText, line: int) -> Rejection:
        return Rejection(
            reason=EXECUTION_TWICE,
            detail=f"an earlier execution has the label {shown(execution.twice)} too: "
            f"this one is {shown(execution.label)}",
            file=whole.file,
            line=line,
            text=(execution.twice or "")[: self._limits.text_max],
        )


def to_event(found: Found, execution: str, *, depth_max: int, unit_ns: int = 1) -> Event:
    """The event of a record, without messages. Raises `RefusedError`."""
    clock = read_clock(found.clock, depth_max=depth_max)
    attributes = dict(found.fields)
    try:
        return Event(
            execution=execution,
            process=found.host,
            index=own_entry(clock, found.host),
            time=_take_time(attributes, unit_ns),
            name="" if found.event.isspace() else found.event,
            attributes=attributes,
            clock=clock,
        )
    except ValueError as error:
        raise RefusedError(NOT_AN_EVENT, str(error)) from None


def read_clock(text: str, *, depth_max: int) -> dict[str, int]:
    """The clock of its JSON text; tried once more with `\\"` for `"`, as TLA+ writes it. Raises `RefusedError`."""
    try:
        value = decode_json(text.encode(), depth_max=depth_max)
    except RefusedError as refused:
        if '\\"' not in text:
            raise RefusedError(NOT_A_CLOCK, f"the clock {shown(text)} is not usable JSON: {refused}") from None
        try:
            value = decode_json(text.replace('\\"', '"').encode(), depth_max=depth_max)
        except RefusedError:
            raise RefusedError(NOT_A_CLOCK, f"the clock {shown(text)} is not usable JSON: {refused}") from None
    return to_clock(value)


def to_clock(value: Json) -> dict[str, int]:
    """A clock of its JSON value, zeros dropped. Raises `RefusedError`."""
    if not isinstance(value, dict):
        raise RefusedError(NOT_A_CLOCK, f'the clock is {shown(value)}, not an object like {{"process": 1}}')
    clock = {}
    for process, count in value.items():
        if type(count) is not int or not 0 <= count <= INDEX_MAX:  # Not isinstance: true is an int to Python.
            raise RefusedError(
                NOT_A_CLOCK, f"clock entry {shown(process)} is {shown(count)}, not an integer from 0 to 2^63-1"
            )
        if count:
            clock[process] = count
    return clock


def own_entry(clock: dict[str, int], process: str) -> int:
    """The index of the event that reports this clock. Raises `RefusedError`."""
    if not process:
        raise RefusedError(NOT_AN_EVENT, "process is empty")
    if process not in clock:
        raise RefusedError(
            NO_OWN_ENTRY, f"the clock has no entry above 0 for the event's own process {shown(process)}"
        )
    return clock[process]


def _take_time(attributes: dict[str, str], unit_ns: int) -> int | None:
    """The time among the attributes, taken out of them; what is no time stays there as it came."""
    stamp = attributes.get("timestamp", "")
    if stamp.isascii() and stamp.isdigit() and len(stamp) < 20 and int(stamp) * unit_ns <= INDEX_MAX:
        return int(attributes.pop("timestamp")) * unit_ns
    try:
        time = parse_time(attributes.get("date", ""))
    except ValueError:
        return None
    del attributes["date"]
    return time


class _LineCount:
    """Line numbers of positions that mostly grow, without counting from the start each time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._line = 1

    def at(self, position: int) -> int:
        if position >= self._position:
            self._line += self._text.count("\n", self._position, position)
        else:
            self._line -= self._text.count("\n", position, self._position)
        self._position = position
        return self._line


@dataclass(slots=True)
class _Leftover:
    """Tells what stands between the records of a file."""

    whole: WholeText
    limits: TextLimits
    part_count: int = 0
    part_line: int = 0  # Of the first line that was matched in part.
    part_text: str = ""

    def between(self, start: int, end: int, lines: _LineCount) -> Iterator[Rejection]:
        """The lines from one record to the next, as one rejection; pieces of matched lines are only counted."""
        text = self.whole.text
        if start == end or text[start:end].isspace():
            return
        whole_start, whole_end = start, end
        if start and text[start - 1] != "\n":
            newline = text.find("\n", start, end)
            whole_start = end if newline < 0 else newline + 1
            self._part(start, whole_start, lines)
        if whole_start < end < len(text) and text[end] != "\n" and text[end - 1] != "\n":
            whole_end = max(text.rfind("\n", whole_start, end) + 1, whole_start)
        if whole_start < whole_end:
            missed = text[whole_start:whole_end]
            count = sum(1 for line in missed.split("\n") if line and not line.isspace())
            if count:
                first = whole_start + len(missed) - len(missed.lstrip())
                yield Rejection(
                    reason=UNMATCHED,
                    detail=f"{count} line(s) match no record: correct the regex, or leave it if they are no events",
                    file=self.whole.file,
                    line=lines.at(first),
                    text=self.whole.quoted(first, whole_end, limits=self.limits).rstrip(),
                )
        self._part(whole_end, end, lines)

    def parts(self) -> Iterator[Rejection]:
        if self.part_count:
            yield Rejection(
                reason=UNMATCHED,
                detail=f"{self.part_count} line(s) from this one on match a record only in part; this is left over",
                file=self.whole.file,
                line=self.part_line,
                text=self.part_text,
            )

    def _part(self, start: int, end: int, lines: _LineCount) -> None:
        piece = self.whole.text[start:end].strip()
        if not piece:
            return
        if not self.part_count:
            self.part_line = lines.at(start)
            self.part_text = piece[: self.limits.text_max]
        self.part_count += 1
