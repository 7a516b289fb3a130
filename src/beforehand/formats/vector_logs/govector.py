"""GoVector logs: per event a line with the process and its clock, then a line with the message.

    [nanoseconds ]process {"process":2, "other":1}
    [DEBUG|INFO|WARNING|ERROR|FATAL ]message

GoVector writes one file per process, so read all files of an execution together: messages are inferred only among
what one call reads. A first line that is a regex, as GoVector's merge tool writes it, is passed over. A priority
becomes the attribute `priority`; the name is what follows it. The timestamp becomes the time. AppendLog's lines
`=== Execution #... ===` divide executions. GoVector does not escape process names and writes messages raw: a quote in
a name makes clocks that are refused, and further lines of a message are told as unmatched.

Reasons of rejections: see whole_text.py, vector_log.py, inference.py and layouts.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from beforehand.events import Event, Rejection
from beforehand.formats.sources import Source
from beforehand.formats.vector_logs.layouts import GOVECTOR, LAYOUT_UNCLEAR, choose_layout, is_header
from beforehand.formats.vector_logs.vector_log import VectorLog
from beforehand.formats.vector_logs.whole_text import TEXT_LIMITS_DEFAULT, TextLimits, WholeReading

__all__ = ["read_govector"]


def read_govector(
    source: Source, *, file: str | None = None, limits: TextLimits = TEXT_LIMITS_DEFAULT
) -> Iterator[Event | Rejection]:
    """The events of a GoVector log: a stream, a file, or the files of all processes.

    `InputError` at once if a file is missing; later, if there is too much text.
    """
    return _read(WholeReading(source, file=file, limits=limits), limits)


def _read(reading: WholeReading, limits: TextLimits) -> Iterator[Event | Rejection]:
    log = VectorLog(limits=limits)
    for whole in reading.texts():
        yield from whole.rejections
        first, _, _ = whole.text.partition("\n")
        executions = GOVECTOR.executions(whole.text, len(first) if is_header(first) else 0)
        choice = choose_layout(whole.text, executions)
        if choice.layout is not GOVECTOR and choice.clear and choice.found:
            yield Rejection(
                reason=LAYOUT_UNCLEAR,
                detail=f"{choice.why}: read as GoVector because that was asked for; shiviz fits better",
                file=whole.file,
                line=1,
            )
        yield from log.take(whole, executions, GOVECTOR)
    yield from log.results()
