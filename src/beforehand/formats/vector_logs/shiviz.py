"""ShiViz logs: records found by a JavaScript regular expression, several executions in one file.

A file may begin with two lines that say how to read it: the regex, with groups `host`, `clock` and `event`, and the
delimiter of executions, whose group `trace` is the label of what follows. Either may be blank. What the caller gives
overrides both. Without any, the layout is chosen between the two usual ones (layouts.py).

A second line that belongs to a record is one of the log, whatever it would match. One that does not, and that could
be either, is taken for the delimiter and told as `layout-unclear`.

Differences to ShiViz, all towards losing nothing: text that does not match is told; own entries may have gaps;
clocks may name absent processes; executions with equal labels are told apart; a regex in a file is not wrapped in ^
and $, so that blanks at the end of lines do no harm; a second line that delimits nothing is read as text of the log.

Reasons of rejections: see whole_text.py, vector_log.py, inference.py and layouts.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from beforehand.errors import InputError
from beforehand.events import Event, Rejection
from beforehand.formats.json_text import RefusedError
from beforehand.formats.sources import Source
from beforehand.formats.vector_logs.javascript_regex import Budget, JavaScriptRegex
from beforehand.formats.vector_logs.layouts import LAYOUT_UNCLEAR, choose_layout, is_header
from beforehand.formats.vector_logs.vector_log import Execution, Found, VectorLog, read_clock, split_executions
from beforehand.formats.vector_logs.whole_text import TEXT_LIMITS_DEFAULT, TextLimits, WholeReading

__all__ = ["TimeUnit", "read_shiviz"]

TimeUnit: TypeAlias = Literal["ns", "us", "ms", "s"]
"""What the integers of a `timestamp` count."""

_GROUPS = ("host", "clock", "event")
_UNITS_NS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def read_shiviz(
    source: Source,
    *,
    file: str | None = None,
    regex: str | None = None,
    delimiter: str | None = None,
    time_unit: TimeUnit = "ns",
    limits: TextLimits = TEXT_LIMITS_DEFAULT,
) -> Iterator[Event | Rejection]:
    """The events of a ShiViz log: a stream, a file, or several files that are one log.

    `time_unit` is what integers in a group `timestamp` count. `InputError` at once if a file is missing or an
    argument cannot be used; later, if the same is so of a regex in a file, if matching takes too long, or if there
    is too much text.
    """
    if time_unit not in _UNITS_NS:
        raise InputError(f"time_unit {time_unit!a} is none of {', '.join(_UNITS_NS)}")
    reading = WholeReading(source, file=file, limits=limits)
    record = None if regex is None else _record_regex(regex, "the regex", limits)
    split = None if delimiter is None else _delimiter_regex(delimiter, "the delimiter", limits)
    return _read(reading, VectorLog(limits=limits, unit_ns=_UNITS_NS[time_unit]), record, split, limits)


def _read(
    reading: WholeReading,
    log: VectorLog,
    regex: JavaScriptRegex | None,
    delimiter: JavaScriptRegex | None,
    limits: TextLimits,
) -> Iterator[Event | Rejection]:
    for whole in reading.texts():
        yield from whole.rejections
        seconds = limits.match_seconds_max + limits.match_seconds_per_mib * (len(whole.text) >> 20)
        budget = Budget(seconds)
        named = whole.file or "the stream"
        record, split = regex, delimiter
        first = whole.text.partition("\n")[0].strip()
        if record is None and is_header(first):
            record = _record_regex(first, f"{named}: the regex in line 1", limits)
        layout = None if record is None else _Records(record, budget)
        header = _Header(whole.text, layout, budget, limits)
        if split is None and header.delimiter is not None:
            split = _delimiter_regex(header.delimiter, f"{named}: the delimiter in line 2", limits)
            if not header.is_clear:
                yield Rejection(
                    reason=LAYOUT_UNCLEAR,
                    detail="line 2 is taken for the delimiter of executions, for it matches later text: put a blank "
                    "line before it if it is text of the log, or name the label in it (?<trace>...)",
                    file=whole.file,
                    line=2,
                    text=header.delimiter[: limits.text_max],
                )
        if layout is not None:
            yield from log.take(whole, _split(whole.text, header.end, split, budget), layout)
            continue
        parts = None if split is None and not header.end else _split(whole.text, header.end, split, budget)
        choice = choose_layout(whole.text, parts)
        if not choice.clear:
            yield Rejection(
                reason=LAYOUT_UNCLEAR,
                detail=f"{choice.why}: read as {choice.layout.name}; force it with a regex or the format",
                file=whole.file,
                line=1,
            )
        parts = choice.layout.executions(whole.text) if parts is None else parts
        yield from log.take(whole, parts, choice.layout)
    yield from log.results()


class _Header:
    """The two lines that a file may begin with."""

    def __init__(self, text: str, layout: _Records | None, budget: Budget, limits: TextLimits) -> None:
        self.delimiter: str | None = None
        self.is_clear = True  # False: what is taken for the delimiter might be text of the log.
        self.end = 0  # Where the log begins.
        first_end = text.find("\n") if "\n" in text else len(text)
        second_end = text.find("\n", first_end + 1)
        second_end = len(text) if second_end < 0 else second_end
        first, second = text[:first_end].strip(), text[first_end:second_end].strip()
        names_traces = "(?<trace>" in second
        if is_header(first):
            self.end = first_end
        elif first or not names_traces:
            return
        if not names_traces:
            if not second or _begins_with_record(text, first_end, second_end, layout, limits):
                return
            if not _delimits(second, text, second_end, budget, limits):
                return
            self.is_clear = second.startswith("^") or second.endswith("$")
        self.delimiter = second
        self.end = second_end


def _begins_with_record(text: str, start: int, end: int, layout: _Records | None, limits: TextLimits) -> bool:
    """Whether the line from `start` to `end` belongs to a record that has a clock."""
    found = None if layout is None else layout.find(text, start, len(text))
    if found is None or found.start >= end:
        return False
    try:
        read_clock(found.clock, depth_max=limits.depth_max)
    except RefusedError:
        return False
    return True


def _delimits(line: str, text: str, start: int, budget: Budget, limits: TextLimits) -> bool:
    """Whether a line, as a regex, matches anything in the rest of the text."""
    try:
        delimiter = _delimiter_regex(line, "the delimiter in line 2", limits)
        return delimiter.search(text, start, len(text), budget) is not None
    except InputError:
        return False  # A line of the log, which need not be a regex.


def _record_regex(source: str, what: str, limits: TextLimits) -> JavaScriptRegex:
    compiled = JavaScriptRegex(source, what=what, length_max=limits.regex_length_max)
    compiled.require(*_GROUPS)
    return compiled


def _delimiter_regex(source: str, what: str, limits: TextLimits) -> JavaScriptRegex:
    return JavaScriptRegex(source, what=what, length_max=limits.regex_length_max)


def _split(text: str, start: int, delimiter: JavaScriptRegex | None, budget: Budget) -> list[Execution]:
    return split_executions(text, start, _delimiters(text, start, delimiter, budget))


def _delimiters(
    text: str, start: int, delimiter: JavaScriptRegex | None, budget: Budget
) -> Iterator[tuple[int, int, str | None]]:
    position = start
    while delimiter is not None and position <= len(text):
        match = delimiter.search(text, position, len(text), budget)
        if match is None:
            return
        if match.end() > match.start():  # An empty match delimits nothing.
            label = match.groupdict().get("trace")
            yield match.start(), match.end(), (label or "") if "trace" in delimiter.groups else None
        position = max(match.end(), match.start() + 1)


class _Records:
    """The layout that a regex describes."""

    def __init__(self, regex: JavaScriptRegex, budget: Budget) -> None:
        self._regex = regex
        self._budget = budget

    def find(self, text: str, start: int, end: int) -> Found | None:
        position = start
        while position <= end:
            match = self._regex.search(text, position, end, self._budget)
            if match is None:
                return None
            if match.end() > match.start():
                groups = match.groupdict()
                host, clock, event = (groups.pop(group) or "" for group in _GROUPS)
                fields = {name: value for name, value in groups.items() if value is not None}
                clock_start = max(match.start("clock"), match.start())  # Before it if the group took no part.
                return Found(match.start(), match.end(), clock_start, host, clock, event, fields)
            position = match.end() + 1  # An empty match is no record.
        return None
