"""Files of any JSON Lines or CSV to events, spans and log records.

Files are read in the order of their paths, each once. Events that have no index get the next one of their (execution,
process) in the order of (path, row), and within one process either all have one or none has: else `index-mixed`.
Spans and log records come as they are: `spans_to_events` makes events of those of one execution.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from beforehand.events import Event, Rejection
from beforehand.formats.json_text import RefusedError
from beforehand.formats.mapped.field_map import FieldMap
from beforehand.formats.opening import LIMITS_DEFAULT, Limits, Path, check_file, open_bytes, shown_path
from beforehand.formats.spans import LogRecord, Span
from beforehand.formats.unnumbered import Numbering, Unnumbered

__all__ = ["read_mapped"]


def read_mapped(
    paths: Path | Iterable[Path], fields: FieldMap, *, limits: Limits = LIMITS_DEFAULT
) -> Iterator[Event | Span | LogRecord | Rejection]:
    """The records of one or more files, by a map.

    A file that is missing or a directory is an `InputError`, raised here, before anything is read; a CSV whose
    header does not fit the map is one when its turn comes.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else paths
    ordered = sorted({os.fspath(path) for path in named})
    for path in ordered:
        check_file(path)
    return _read(ordered, fields, limits)


def _read(paths: list[str], fields: FieldMap, limits: Limits) -> Iterator[Event | Span | LogRecord | Rejection]:
    numbering = Numbering()
    for path in paths:
        file = shown_path(path)
        with open_bytes(path, limits=limits) as stream:
            for offset, found in fields.read_rows(stream, file=file, limits=limits):
                if not isinstance(found, Unnumbered):
                    yield found
                    continue
                try:
                    yield numbering.numbered(found)
                except RefusedError as refused:
                    yield Rejection(reason=refused.reason, detail=str(refused), file=file, offset=offset)
