"""What to read: INPUT on the command line as files, each with its format, and the files as tasks.

1. INPUT is a file, a directory (all files below it but hidden ones and history directories), a glob or `-` (standard
   input). Files are taken in the order of their paths, each once; that order is part of the order of the input.
2. An INPUT that is not there, or has no files, is an `InputError`. A file that is there but cannot be opened, or
   whose format cannot be told, is left out with a rejection; if that is so of all of them, it is an `InputError`.
3. Plain files of lines are split by bytes. Compressed files, documents and CSV are one file, one task. The files of a
   vector-clock log are one task together, for causes are inferred from all of them.
4. Paths must be reachable under the same name by the driver and all workers.
"""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from beforehand.errors import InputError
from beforehand.formats import FieldMap, detect
from beforehand.formats.detection import FORMATS
from beforehand.formats.opening import check_file, shown_path
from beforehand.pipeline.directory import MANIFEST

__all__ = [
    "UNUSABLE_FILE",
    "Format",
    "InputFile",
    "InputOptions",
    "ParseTask",
    "input_files",
    "parse_tasks",
]

Format = Literal[
    "native", "parquet", "shiviz", "govector", "tracing", "otlp", "jaeger", "zipkin", "mapped", "unusable"
]

UNUSABLE_FILE: Final = "unusable-file"
"""The reason of rejections of whole files."""

SPLIT_BYTES: Final = 16 << 20
"""Bytes of a file of lines that one task reads."""

FILES_MAX: Final = 1_000_000

_COMPRESSED: Final = (".gz", ".zst")
_VECTOR: Final = ("shiviz", "govector", "tracing")
_SCHEMES: Final = ("hdfs:", "s3:", "s3a:", "gs:", "abfs:", "abfss:", "http:", "https:", "dbfs:", "wasbs:")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """How to read; all of it may be left out."""

    format: str = "auto"
    fields: FieldMap | None = None  # From --map; then the format is the map's.
    regex: str | None = None
    delimiter: str | None = None
    time_unit: str = "ns"

    def __post_init__(self) -> None:
        if self.format not in ("auto", *FORMATS):
            raise InputError(f"no format {self.format!r}: formats are auto, {', '.join(FORMATS)}")
        if self.fields is not None and self.format != "auto":
            raise InputError("--map says how to read the input, and so does --format: use one of the two")
        if (self.regex or self.delimiter) and (self.format not in ("auto", "shiviz") or self.fields is not None):
            raise InputError("--regex and --delimiter are for ShiViz logs: leave them or the other format out")


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of the input; its number is its place in the order of the input."""

    number: int
    path: str
    bytes: int
    format: Format
    problem: str | None = None  # Why it cannot be used, as a sentence that names it.

    @property
    def shown(self) -> str:
        """Its name for people: standard input was copied to a path that says nothing."""
        return _STANDARD_INPUT if _is_standard_input(self.path) else shown_path(self.path)


@dataclass(frozen=True, slots=True)
class ParseTask:
    """What one Spark task reads."""

    kind: Literal["lines", "table", "vector", "spans"]
    format: Format
    files: tuple[tuple[int, str], ...]
    split: int = 0
    start: int = 0
    end: int | None = None  # None: to the end of the file.
    options: InputOptions = field(default_factory=InputOptions)


def input_files(inputs: Sequence[str], options: InputOptions, *, scratch: Path) -> list[InputFile]:
    """The files of the input. `InputError` if there is none, or none that can be used."""
    paths = sorted({path for given in inputs for path in _expanded(given, scratch)})
    if not paths:
        raise InputError("no input: name a file, a directory, a glob or -")
    if len(paths) > FILES_MAX:
        raise InputError(f"{len(paths)} files are more than {FILES_MAX}: join them")
    files = [_file(number, path, options) for number, path in enumerate(paths)]
    if all(file.problem is not None for file in files):
        more = "" if len(files) == 1 else f" (and no other of the {len(files)} files can be used)"
        raise InputError(f"{files[0].problem}{more}")
    return files


def _file(number: int, path: str, options: InputOptions) -> InputFile:
    size = 0
    try:
        size = _size(path)
        return InputFile(number, path, size, _format(path, options))
    except InputError as error:
        problem = str(error)
        if _is_standard_input(path):
            problem = problem.replace(shown_path(path), _STANDARD_INPUT)
        return InputFile(number, path, size, "unusable", problem)


def _expanded(given: str, scratch: Path) -> Iterator[str]:
    if given == "-":
        yield _standard_input(scratch)
        return
    if given.startswith(_SCHEMES):
        raise InputError(f"{given}: only files that all machines reach under one path can be read: mount it")
    given = given.removeprefix("file://")
    if os.path.isdir(given):
        found = list(_below(given))
        if not found:
            raise InputError(f"{shown_path(given)} has no files: name another")
        yield from found
    elif os.path.exists(given):
        yield os.path.abspath(given)
    elif glob.has_magic(given):
        matching = [path for match in glob.iglob(given, recursive=True) for path in _matched(match)]
        if not matching:
            raise InputError(f"no file matches {shown_path(given)}")
        yield from matching
    else:
        check_file(given)  # Says what is wrong.


def _matched(path: str) -> Iterator[str]:
    if os.path.isdir(path):
        yield from _below(path)
    else:
        yield os.path.abspath(path)


def _below(folder: str) -> Iterator[str]:
    closed: list[str] = []
    for parent, folders, names in os.walk(folder, onerror=lambda error: closed.append(str(error.filename))):
        if MANIFEST in names and "events" in folders:
            folders.clear()
            yield os.path.abspath(
                parent
            )  # An earlier result, which must not become input by accident: it will be told.
            continue
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        for name in names:
            if not name.startswith((".", "_")):  # Spark leaves _SUCCESS beside what it writes.
                yield os.path.abspath(os.path.join(parent, name))
    yield from map(os.path.abspath, closed)  # Folders that cannot be listed: they will be told.


_STANDARD_INPUT: Final = "standard input"
_COPY: Final = "beforehand-standard-input"


def _standard_input(scratch: Path) -> str:
    for copied in scratch.glob(f"{_COPY}*"):  # Named twice.
        return str(copied)
    if sys.stdin is None:
        raise InputError("standard input is closed: name a file instead of -")
    target = scratch / _COPY
    with target.open("wb") as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream)
    # Whoever pipes compressed data cannot give it the suffix that says so.
    with target.open("rb") as stream:
        head = stream.read(4)
    for mark, suffix in ((b"\x1f\x8b", ".gz"), (b"\x28\xb5\x2f\xfd", ".zst")):
        if head.startswith(mark):
            return str(target.rename(target.with_suffix(suffix)))
    return str(target)


def _is_standard_input(path: str) -> bool:
    return os.path.basename(path).startswith(_COPY)


def _size(path: str) -> int:
    if os.path.isfile(os.path.join(path, MANIFEST)):
        raise InputError(
            f"{shown_path(path)} is a history directory: to read its events again, name its folder events"
        )
    if os.path.isdir(path):
        raise InputError(f"cannot list {shown_path(path)}: allow it, or name the files in it")
    check_file(path)
    if not os.path.isfile(path):
        raise InputError(f"{shown_path(path)} is no plain file: copy it to one, or use - for standard input")
    if not os.access(path, os.R_OK):
        raise InputError(f"cannot open {shown_path(path)}: Permission denied")
    return os.path.getsize(path)


def _format(path: str, options: InputOptions) -> Format:
    if options.fields is not None:
        return "mapped"
    if options.format != "auto":
        return options.format  # type: ignore[return-value] # Checked by InputOptions.
    if options.regex or options.delimiter:
        return "shiviz"
    return detect(path)  # type: ignore[return-value]


def parse_tasks(files: Iterable[InputFile], options: InputOptions) -> list[ParseTask]:
    """All but Parquet, which Spark reads itself."""
    tasks: list[ParseTask] = []
    together: dict[Format, list[tuple[int, str]]] = {}
    for file in files:
        named = ((file.number, file.path),)
        if file.format in _VECTOR:
            together.setdefault(file.format, []).extend(named)
        elif file.format in ("otlp", "jaeger", "zipkin"):
            tasks.append(ParseTask("spans", file.format, named))
        elif file.format == "mapped" and options.fields is not None and options.fields.format == "csv":
            tasks.append(ParseTask("table", "mapped", named, options=options))
        elif file.format in ("native", "mapped"):
            whole = file.path.lower().endswith(_COMPRESSED) or file.bytes <= SPLIT_BYTES
            starts = [0] if whole else list(range(0, file.bytes, SPLIT_BYTES))
            for split, start in enumerate(starts):
                end = None if start == starts[-1] else starts[split + 1]
                tasks.append(ParseTask("lines", file.format, named, split, start, end, options))
    tasks += [ParseTask("vector", name, tuple(named), options=options) for name, named in together.items()]
    return tasks
