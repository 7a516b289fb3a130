"""The history directory: what analysis writes and everything else reads.

    events/         Parquet: NUMBER-BLOCK.parquet of executions cut into blocks, pack-N.parquet of all others
    cuts/           cuts.parquet, members.parquet, and NUMBER-BLOCK.parquet with the true stamps where a block begins
    messages/       Parquet: a row per receive, and per message that nobody received
    violations/     Parquet: a row per witness
    rejected/       Parquet: a row per thing refused, with where it stood and why
    report.json, report.html
    manifest.json   written last: without it the directory is incomplete and is refused

1. A directory appears under its name whole or not at all: it is written beside it and renamed.
2. An existing directory is replaced only when asked for, and only if it is a history directory or empty, and holds
   nothing else.
3. Small executions lie in packs, by the CRC-32 of their names: who knows the name knows the file.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Final
from zlib import crc32

from beforehand.errors import InputError
from beforehand.formats.opening import shown_path

__all__ = [
    "OWN_NAMES",
    "SCHEMA_VERSION",
    "Directory",
    "Manifest",
    "check_target",
    "making",
    "open_directory",
    "pack_of",
]

SCHEMA_VERSION: Final = 1
REMOVE_SECONDS_MAX: Final = 5
MANIFEST: Final = "manifest.json"
OWN_NAMES: Final = frozenset(
    ["events", "cuts", "messages", "violations", "rejected", "report.json", "report.html", MANIFEST]
)
"""All that lies in a history directory."""
_PRODUCT: Final = "beforehand history"
_SCHEME: Final = re.compile("(hdfs|s3|s3a|gs|abfss?|https?|dbfs|wasbs?):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a history directory says about itself."""

    schema_version: int = SCHEMA_VERSION
    product: str = _PRODUCT
    version: str = ""
    inputs: list[dict[str, object]] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)
    packs: int = 0  # Files of small executions.
    cut_executions: list[dict[str, object]] = field(default_factory=list)  # execution, number, blocks.
    executions: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class Directory:
    """The names of everything in a history directory."""

    path: Path

    @property
    def events(self) -> Path:
        return self.path / "events"

    @property
    def cuts(self) -> Path:
        return self.path / "cuts"

    @property
    def messages(self) -> Path:
        return self.path / "messages"

    @property
    def violations(self) -> Path:
        return self.path / "violations"

    @property
    def rejected(self) -> Path:
        return self.path / "rejected"

    @property
    def report(self) -> Path:
        return self.path / "report.json"

    @property
    def page(self) -> Path:
        return self.path / "report.html"

    @property
    def manifest(self) -> Path:
        return self.path / MANIFEST

    def block(self, number: int, block: int) -> Path:
        return self.events / f"{number:05d}-{block:06d}.parquet"

    def pack(self, pack: int) -> Path:
        return self.events / f"pack-{pack:05d}.parquet"

    def front(self, number: int, block: int) -> Path:
        return self.cuts / f"{number:05d}-{block:06d}.parquet"

    def make(self) -> None:
        for folder in (self.events, self.cuts, self.messages, self.violations, self.rejected):
            folder.mkdir(parents=True, exist_ok=True)

    def write_manifest(self, manifest: Manifest) -> None:
        part = self.path / f"{MANIFEST}.part"
        part.write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")
        part.replace(self.manifest)


def pack_of(execution: str, packs: int) -> int:
    """In which pack a small execution lies; Spark's `crc32` gives the same number."""
    return crc32(execution.encode()) % packs


def open_directory(path: str | os.PathLike[str]) -> tuple[Directory, Manifest]:
    """A whole history directory. `InputError` says what is wrong with one that is not."""
    directory = Directory(Path(path))
    shown = shown_path(path)
    try:
        document = json.loads(directory.manifest.read_bytes())
    except FileNotFoundError:
        if not directory.path.exists():
            raise InputError(f"there is no {shown}: make it with beforehand analyze INPUT --to {shown}") from None
        raise InputError(
            f"{shown} is no history directory, or its analysis did not finish ({MANIFEST} is missing): "
            f"make it with beforehand analyze INPUT --to {shown}"
        ) from None
    except NotADirectoryError:
        if _is_database(directory.path):
            raise InputError(
                f"{shown} is a file of SQLite, not a history directory; if it is the store of a service: beforehand "
                f"export {shown} --as native --to events.jsonl, then beforehand analyze events.jsonl --to DIR; or "
                f"beforehand serve --store {shown}"
            ) from None
        raise InputError(
            f"{shown} is a file, not a history directory: make one with beforehand analyze {shown} --to DIR"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{shown}/{MANIFEST} cannot be read ({why}): analyze again") from error
    return directory, _manifest(document, shown)


def _is_database(path: Path) -> bool:
    """Whether it begins as every file of SQLite does. Which of them are stores, the room of the service knows."""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def _manifest(document: object, shown: str) -> Manifest:
    if not isinstance(document, Mapping) or document.get("product") != _PRODUCT:
        raise InputError(f"{shown}/{MANIFEST} is not that of a history directory: analyze again")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{shown} was written with schema version {version!r}, this is version {SCHEMA_VERSION}: analyze again"
        )
    kinds = {field.name: type(getattr(Manifest(), field.name)) for field in fields(Manifest)}
    for name, kind in kinds.items():
        if name in document and type(document[name]) is not kind:
            raise InputError(f"{shown}/{MANIFEST}: {name} is of another type: analyze again")
    return Manifest(**{name: document[name] for name in kinds if name in document})


@contextmanager
def making(path: str | os.PathLike[str], *, replace: bool) -> Iterator[Directory]:
    """A directory beside `path` to write to; it takes the name once the block ends well, else it is removed."""
    target = Path(os.path.realpath(path))  # A link to a directory stays a link.
    check_target(target, replace=replace)
    made = [parent for parent in target.parents if not parent.exists()]
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        part.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"cannot make {shown_path(part)}: {error.strerror}; choose another --to") from error
    try:
        directory = Directory(part)
        directory.make()
        yield directory
        assert directory.manifest.exists()
        check_target(target, replace=replace)  # Somebody may have made it meanwhile.
        _take_name(part, target)
    except BaseException:
        _remove(part)
        for parent in made:
            with suppress(OSError):  # Somebody may have put something there meanwhile.
                parent.rmdir()
        raise


def _take_name(part: Path, target: Path) -> None:
    if not target.exists():
        part.rename(target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    target.rename(old)
    try:
        part.rename(target)
    except BaseException:
        if not target.exists():
            old.rename(target)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    """Remove a directory into which workers of an analysis that was broken off may write for a moment yet."""
    deadline = time.monotonic() + REMOVE_SECONDS_MAX
    try:
        shutil.rmtree(path, ignore_errors=True)
        while path.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
            shutil.rmtree(path, ignore_errors=True)
    except BaseException:  # Whoever stops us twice does not want to wait, but does not want the rest of it, either.
        shutil.rmtree(path, ignore_errors=True)
        raise


def check_target(target: Path, *, replace: bool) -> None:
    """Raise `InputError` unless the directory may be written there."""
    shown = shown_path(target)
    if any(_SCHEME.fullmatch(part) for part in target.parts):
        raise InputError(f"{shown}: a history directory is a path that all machines reach: mount it, and name that")
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir():
        raise InputError(f"{shown} exists and is not a directory: choose another --to")
    if not any(target.iterdir()):
        return
    if not replace:
        raise InputError(f"{shown} exists: choose another --to, or add --replace")
    try:
        product = json.loads((target / MANIFEST).read_bytes()).get("product")
    except (OSError, ValueError, AttributeError, RecursionError):
        product = None
    if product != _PRODUCT:
        raise InputError(f"{shown} is not a history directory, so --replace will not remove it: choose another --to")
    if foreign := sorted(entry.name for entry in target.iterdir() if entry.name not in OWN_NAMES):
        raise InputError(
            f"{shown} holds {shown_path(Path(foreign[0]))}, which is not of the history that --replace removes: "
            "move it, or choose another --to"
        )
