"""JSON Lines of any fields, each line by itself.

Reasons of rejections: `not-json`, `key-twice`, `too-deep`, `line-too-long` and `unreadable` as in the native format,
`not-an-event` for a line that is no object, and those of rows.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beforehand.events import Rejection
from beforehand.formats.json_text import RefusedError, decode_json
from beforehand.formats.lines import Line
from beforehand.formats.mapped.rows import Mapped, RowParser
from beforehand.formats.opening import Limits
from beforehand.formats.unnumbered import NOT_AN_EVENT, line_data, quoted

__all__ = ["parse_line", "read_json_lines"]


def parse_line(line: Line, parser: RowParser, limits: Limits) -> Mapped | None:
    """The record of one line, None for a blank one. Raises `RefusedError`."""
    data = line_data(line, limits=limits)
    if not data:
        return None
    row = decode_json(data, depth_max=limits.depth_max)
    if not isinstance(row, dict):
        raise RefusedError(NOT_AN_EVENT, "the line is JSON but not an object of fields")
    return parser.record(row, data)


def read_json_lines(
    lines: Iterable[Line | tuple[int, bytes]], parser: RowParser, file: str | None, limits: Limits
) -> Iterator[tuple[int, Mapped | Rejection]]:
    """The records of lines, with their offsets."""
    for given in lines:
        line = given if isinstance(given, Line) else Line(*given)
        try:
            record = parse_line(line, parser, limits)
        except RefusedError as refused:
            yield (
                line.offset,
                Rejection(
                    reason=refused.reason,
                    detail=str(refused),
                    file=file,
                    line=line.number,
                    offset=line.offset,
                    text=quoted(line.data, limits=limits),
                ),
            )
        else:
            if record is not None:
                yield line.offset, record
