r"""The two layouts of two-line records, which are easily taken for each other, and telling them apart.

    ShiViz's default    event line, then host and clock      (?<event>.*)\n(?<host>\S*) (?<clock>{.*})
    GoVector            host and clock, then event line      (?<host>\S*) (?<clock>{.*})\n(?<event>.*)

Read as the other, nearly every record is found, with the text of its neighbour. What gives it away are the ends: the
right layout covers more lines, and the processes' own entries start where they should and have fewer holes.
`choose_layout` compares both over the whole text; if neither is better in one of these and no worse in the others,
the choice is not clear, and readers say so:

    layout-unclear    both layouts fit equally well, or another fits better than the one that was asked for

These two patterns are our own, so they run with `re`, in time linear in the text, without the module `regex`.
GoVector's lines may begin with a timestamp, and their messages with a priority, which becomes an attribute. An
execution begins with a line `=== label ===` as GoVector's AppendLog writes it: after a blank line or at the start
of the file, and, in ShiViz's layout, not itself the event line of a record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from beforehand.events import INDEX_MAX
from beforehand.formats.json_text import Json, RefusedError, decode_json
from beforehand.formats.vector_logs.vector_log import Execution, Found, split_executions

__all__ = [
    "GOVECTOR",
    "LAYOUT_UNCLEAR",
    "SHIVIZ",
    "LayoutChoice",
    "TwoLines",
    "choose_layout",
    "guess_format",
    "is_header",
]

LAYOUT_UNCLEAR: Final = "layout-unclear"

_PRIORITY: Final = re.compile(r"(DEBUG|INFO|WARNING|ERROR|FATAL) +(?=\S)")
_ENTRY: Final = re.compile(r"[ \t]*:[ \t]*(\d{1,18})(?!\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class TwoLines:
    """One of the two layouts."""

    name: str
    record: re.Pattern[str]  # From the start of a line.
    next_record: re.Pattern[str] | None  # From where the last record ended, inside its last line. See `_follows`.
    delimiter: re.Pattern[str]
    has_priority: bool

    def find(self, text: str, start: int, end: int) -> Found | None:
        match = self._follows(text, start, end) or self.record.search(text, start, end)
        if match is None:
            return None
        event = match.group("event")
        fields: dict[str, str] = {}
        if stamp := match.groupdict().get("timestamp"):
            fields["timestamp"] = stamp
        if self.has_priority and (priority := _PRIORITY.match(event)):
            fields["priority"] = priority.group(1)
            event = event[priority.end() :]
        host, clock = match.group("host", "clock")
        return Found(match.start(), match.end(), match.start("clock"), host, clock, event, fields)

    def executions(self, text: str, start: int = 0) -> list[Execution]:
        """The executions of a text from `start` on, by the layout's own delimiter."""
        delimiters = self.delimiter.finditer(text, start)
        return split_executions(text, start, ((m.start(), m.end(), m.group("trace")) for m in delimiters))

    def _follows(self, text: str, start: int, end: int) -> re.Match[str] | None:
        """A clock line straight after another, without an event line: what is left of the first stands for it.

        That must not catch an event text such as `Received {"id":5}`, so here the clock has to name its host.
        """
        match = None if self.next_record is None else self.next_record.match(text, start, end)
        if match is not None and f'"{match.group("host")}"' in match.group("clock"):
            return match
        return None


_CLOCK_LINE: Final = r"(?P<host>\S*) (?P<clock>\{.*\})"
# None of these tries a stretch of text more than a few times, whatever it holds: no repeat of blanks meets another.
_DELIMITER: Final = r"(?:\A|^[ \t]*\n)=== (?P<trace>.*)===[ \t]*$"
SHIVIZ: Final = TwoLines(
    name="shiviz",
    record=re.compile(rf"^(?P<event>.*)\n{_CLOCK_LINE}", re.MULTILINE),
    next_record=re.compile(rf"(?P<event>.*)\n{_CLOCK_LINE}"),
    delimiter=re.compile(rf"{_DELIMITER}(?!\n{_CLOCK_LINE})", re.MULTILINE),
    has_priority=False,
)
GOVECTOR: Final = TwoLines(
    name="govector",
    record=re.compile(rf"^(?:(?P<timestamp>\d+) )?{_CLOCK_LINE}[ \t]*\n(?P<event>.*)", re.MULTILINE | re.ASCII),
    next_record=None,
    delimiter=re.compile(_DELIMITER, re.MULTILINE),
    has_priority=True,
)


@dataclass(frozen=True, slots=True)
class LayoutChoice:
    """Which layout a text has; `why` is a sentence with the numbers that decided."""

    layout: TwoLines
    clear: bool
    found: bool  # Whether the layout finds anything at all.
    why: str


def choose_layout(text: str, executions: list[Execution] | None = None) -> LayoutChoice:
    """Compare both layouts over a text, or over these parts of it.

    Where they tie it is ShiViz's; where neither finds anything, that is clear too.
    """
    shiviz = _fit(text, SHIVIZ.executions(text) if executions is None else executions, SHIVIZ)
    govector = _fit(text, GOVECTOR.executions(text) if executions is None else executions, GOVECTOR)
    shiviz_starts, shiviz_holes = shiviz.against(govector)
    govector_starts, govector_holes = govector.against(shiviz)
    # How far GoVector is ahead in each; earlier ones decide.
    ahead = (govector.covered - shiviz.covered, shiviz_starts - govector_starts, shiviz_holes - govector_holes)
    layout = GOVECTOR if ahead > (0, 0, 0) else SHIVIZ
    clear = any(ahead) and (min(ahead) >= 0 or max(ahead) <= 0)
    why = (
        f"event line first covers {shiviz.covered} line(s), with {shiviz_holes} hole(s) in own entries and "
        f"{shiviz_starts} late start(s); clock line first {govector.covered}, {govector_holes} and {govector_starts}"
    )
    found = shiviz.covered + govector.covered > 0
    return LayoutChoice(layout, clear or not found, found, why)


def guess_format(head: bytes) -> str | None:
    """Which reader takes a file that starts so: "tracing", "shiviz" or "govector"; None if none of them."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    first, *more = text.lstrip().split("\n", 1)
    if is_header(first):
        return "shiviz"
    if first.startswith("{"):
        return "tracing" if is_tracing(first) else None
    # The last line may be cut, and what is cut is no evidence.
    whole = text[: text.rfind("\n")] if more else text
    choice = choose_layout(whole)
    return choice.layout.name if choice.found else None


def is_header(line: str) -> bool:
    """Whether a first line is a ShiViz regex, which says how to read what follows."""
    return all(f"(?<{group}>" in line for group in ("host", "clock", "event"))


def is_tracing(line: str) -> bool:
    """Whether the line is a record of DistributedClocks' `tracing`."""
    try:
        value: Json = decode_json(line.encode(), depth_max=32)
    except RefusedError:
        return False
    return isinstance(value, dict) and "TracerIdentity" in value and "VectorClock" in value


@dataclass(slots=True)
class _Fit:
    covered: int = 0  # Lines, not blank, of records whose clock has an own entry.
    # Per (execution, process), the number of own entries, the smallest and the greatest.
    entries: dict[tuple[str, str], tuple[int, int, int]] = field(default_factory=dict)

    def against(self, other: _Fit) -> tuple[int, int]:
        """How many processes start later than in the other, and how many entries are missing.

        Missing is counted up to the greatest entry that either finds, for who loses the last record of a process
        must not seem to have fewer holes.
        """
        starts = holes = 0
        none = (0, INDEX_MAX, 0)
        for process in {**self.entries, **other.entries}:
            count, smallest, greatest = self.entries.get(process, none)
            _, other_smallest, other_greatest = other.entries.get(process, none)
            starts += smallest > other_smallest
            holes += max(greatest, other_greatest, count) - count
        return starts, holes


def _fit(text: str, executions: list[Execution], layout: TwoLines) -> _Fit:
    fit = _Fit()
    for execution in executions:
        for found in _records(text, execution, layout):
            own = _own_entry(found)
            if not own:
                continue
            fit.covered += 1 + bool(found.event and not found.event.isspace())
            count, smallest, greatest = fit.entries.get((execution.label, found.host), (0, own, own))
            fit.entries[execution.label, found.host] = (count + 1, min(smallest, own), max(greatest, own))
    return fit


def _own_entry(found: Found) -> int:
    """The own entry of a record, 0 if it has none. As evidence a look is enough; decoding takes far longer."""
    name = f'"{found.host}"'
    at = found.clock.find(name)
    entry = _ENTRY.match(found.clock, at + len(name)) if at > 0 else None
    return int(entry.group(1)) if entry is not None else 0


def _records(text: str, execution: Execution, layout: TwoLines) -> Iterator[Found]:
    position = execution.start
    while (found := layout.find(text, position, execution.end)) is not None:
        yield found
        position = found.end
