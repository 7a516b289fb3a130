r"""CSV as in RFC 4180: rows of fields, quoted where they hold delimiters, quotes or line ends.

1. A row may go over several lines, and only its beginning says whether it does. So a file is read from its start to
   its end, one row at a time; a row may have `Limits.line_bytes_max` bytes, and a field `csv.field_size_limit()`.
2. The first row names the columns, unless the map does. A column that the map reads and the header lacks is an
   `InputError`: a misspelt name must not make a history without messages.
3. A row of another number of fields than there are columns is refused, never cut or filled up. Empty rows are passed
   over; an empty field is absent.

Reasons of rejections: `unreadable` and `line-too-long` as in the native format, those of rows.py, and

    not-csv    the row is not CSV in UTF-8, or has too many or too few fields; reading goes on with the next line
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from beforehand.errors import InputError
from beforehand.events import Rejection
from beforehand.formats.json_text import Json, RefusedError, shown
from beforehand.formats.lines import Line, split_lines
from beforehand.formats.mapped.rows import Mapped, RowParser
from beforehand.formats.opening import Limits, Readable
from beforehand.formats.unnumbered import LINE_TOO_LONG, UNREADABLE, quoted

if TYPE_CHECKING:
    from beforehand.formats.mapped.field_map import FieldMap

__all__ = ["NOT_CSV", "read_table"]

NOT_CSV: Final = "not-csv"
_BOM: Final = b"\xef\xbb\xbf"


def read_table(
    stream: Readable, fields: FieldMap, parser: RowParser, file: str | None, limits: Limits
) -> Iterator[tuple[int, Mapped | Rejection]]:
    """The records of a CSV stream with their offsets. `InputError` if its header does not fit the map."""
    lines = _RowLines(stream, limits)
    reader = csv.reader(lines, delimiter=fields.delimiter, strict=True)
    columns = fields.columns
    while True:
        lines.begin()
        try:
            cells = next(reader)
            if not cells:
                continue
            _check_utf8(cells)
            if not columns:
                columns = _header(cells, fields, file)
                continue
            if len(cells) != len(columns):
                raise RefusedError(NOT_CSV, f"the row has {len(cells)} field(s), there are {len(columns)} columns")
            row: dict[str, Json] = {name: cell or None for name, cell in zip(columns, cells, strict=True)}
            record = parser.record(row)
        except StopIteration:
            return
        except csv.Error as error:
            yield lines.start.offset, lines.rejection(RefusedError(NOT_CSV, f"the row is not CSV: {error}"), file)
        except RefusedError as refused:
            yield lines.start.offset, lines.rejection(refused, file)
            if refused.reason == UNREADABLE:
                return
        else:
            yield lines.start.offset, record


class _RowLines:
    """The lines of a stream as text, as many as one row takes, and where that row began."""

    def __init__(self, stream: Readable, limits: Limits) -> None:
        self._lines = split_lines(stream, line_bytes_max=limits.line_bytes_max)
        self._limits = limits
        self._bytes = 0  # Of the row so far.
        self._is_new = True
        self.start = Line(0, b"")

    def begin(self) -> None:
        """The next line begins a row."""
        self._is_new = True
        self._bytes = 0

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        if self._is_new:
            self.start, self._is_new = line, False
        self._bytes += (len(line.data) if line.length is None else line.length) + 1
        if line.problem is not None:
            raise RefusedError(UNREADABLE, f"reading stopped: {line.problem}; the rows before this are kept")
        if self._bytes > self._limits.line_bytes_max + 1:
            raise RefusedError(
                LINE_TOO_LONG,
                f"the row has more than {self._limits.line_bytes_max} bytes: "
                "close its quotes or raise line_bytes_max",
            )
        data = line.data.removeprefix(_BOM) if line.offset == 0 else line.data
        # Bytes that are no UTF-8 must not end the row: only its end tells where the next one begins.
        return data.decode("utf-8", "surrogateescape") + "\n"

    def rejection(self, refused: RefusedError, file: str | None) -> Rejection:
        return Rejection(
            reason=refused.reason,
            detail=str(refused),
            file=file,
            line=self.start.number,
            offset=self.start.offset,
            text=quoted(self.start.data, limits=self._limits),
        )


def _check_utf8(cells: list[str]) -> None:
    for cell in cells:
        if not cell.isascii():
            try:
                cell.encode()
            except UnicodeEncodeError:
                raise RefusedError(NOT_CSV, "the row is not CSV in UTF-8") from None


def _header(cells: list[str], fields: FieldMap, file: str | None) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    where = file or "the stream"
    listed = ", ".join(map(shown, names[:20]))
    twice, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise InputError(f"{where}: column {shown(twice)} stands twice in the header: name the columns in the map")
    for key, paths in fields.field_names():
        if not set(paths) & set(names):
            wanted = " or ".join(map(shown, paths))
            raise InputError(
                f"{where}: the map reads {key} from {wanted}, but the header has {listed}: correct the map"
            )
    return names
