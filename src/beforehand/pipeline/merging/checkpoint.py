"""The folder of a merge: what it was started with, and that only one process runs it.

    CHECKPOINT/settings.json   what may not change: ε, δ, the tick, the lanes, where it reads (which
                               subjects) and writes
    CHECKPOINT/lock            held while a process runs the merge
    CHECKPOINT/spark/          offsets and state, by Spark
    CHECKPOINT/figures/        sums, for people

Positions and state make sense only with the settings and the output that they were made with: others are refused,
with one line that says which.

A start that fails before the first micro-batch leaves nothing behind that was not there: neither a new checkpoint nor
a new output folder.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from beforehand.errors import InputError
from beforehand.ordering.merging import MergeSettings
from beforehand.pipeline.merging.folder_sink import ASIDE_FOLDER, COMMITS_FOLDER, MERGED_FOLDER
from beforehand.pipeline.merging.ledger import Ledger, write_whole

__all__ = ["MergeCheckpoint", "check_settings", "claim_folder", "held"]

VERSION: Final = 2

_OPTIONS: Final = {"source": "--from", "sink": "--to", "subjects": "--subject"}


class MergeCheckpoint:
    """A checkpoint that this process holds."""

    def __init__(self, folder: Path, stored: dict[str, Any], *, fresh: bool, made: bool = False) -> None:
        self.folder: Final = folder
        self.spark: Final = folder / "spark"
        self.figures: Final = folder / "figures"
        self.lanes: Final = int(stored["lanes"])
        self.id: Final = str(stored["id"])
        self.fresh: Final = fresh  # Nothing was merged with it yet.
        self.made: Final = made  # By this process.
        self.claimed: list[Path] = []  # What this process has made of the output, the innermost first.


@contextmanager
def held(
    folder: Path,
    *,
    settings: MergeSettings,
    lanes: int | None,
    lanes_default: int,
    source: str,
    sink: str,
    subjects: Sequence[str] = (),
) -> Iterator[MergeCheckpoint]:
    """Hold the checkpoint for as long as the block runs; InputError if another process does, or settings differ."""
    asked = _asked(settings, source, sink, subjects)
    there = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("wb")
    except OSError as error:
        raise InputError(f"cannot use the checkpoint {folder}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed it with all that it had made.
            if not os.path.samestat(os.fstat(lock.fileno()), (folder / "lock").stat()):
                raise OSError
        except OSError:
            raise InputError(f"{folder}: another merge runs with this checkpoint: stop it, or name another") from None
        checkpoint = _opened(folder, asked, lanes, lanes_default)
        try:
            yield checkpoint
        except BaseException:  # A signal too: nothing may be left of a start that came to nothing.
            if checkpoint.made and not any((checkpoint.spark / "offsets").glob("[0-9]*")):
                _undo(checkpoint, there=there)
            raise


def _undo(checkpoint: MergeCheckpoint, *, there: bool) -> None:
    """Remove what this process has made. No micro-batch was begun, so there is nothing in it."""
    for path in checkpoint.claimed:
        with suppress(OSError):  # Somebody may have put something in.
            path.rmdir() if path.is_dir() else path.unlink()
    for folder in (checkpoint.spark, checkpoint.figures):
        shutil.rmtree(folder, ignore_errors=True)
    for name in ("settings.json", "lock"):
        (checkpoint.folder / name).unlink(missing_ok=True)
    if not there:
        with suppress(OSError):
            checkpoint.folder.rmdir()


def _asked(settings: MergeSettings, source: str, sink: str, subjects: Sequence[str]) -> dict[str, Any]:
    return {**dataclasses.asdict(settings), "source": source, "sink": sink, "subjects": sorted(subjects)}


def _opened(folder: Path, asked: dict[str, Any], lanes: int | None, lanes_default: int) -> MergeCheckpoint:
    path = folder / "settings.json"
    fresh = not (folder / "spark").exists()
    if not path.exists():
        if not fresh:
            raise InputError(f"{folder}: it has no settings.json: not a checkpoint of `beforehand merge`")
        stored = {"version": VERSION, "id": secrets.token_hex(8), "lanes": lanes or lanes_default, **asked}
        write_whole(path, json.dumps(stored, indent=2).encode())
        return MergeCheckpoint(folder, stored, fresh=True, made=True)
    return MergeCheckpoint(folder, _checked(path, asked, lanes), fresh=fresh)


def check_settings(
    folder: Path, *, settings: MergeSettings, lanes: int | None, source: str, sink: str, subjects: Sequence[str] = ()
) -> None:
    """InputError if the checkpoint is there and belongs to other settings. Needs no Spark: it can be asked first."""
    if (folder / "settings.json").exists():
        _checked(folder / "settings.json", _asked(settings, source, sink, subjects), lanes)


def _checked(path: Path, asked: dict[str, Any], lanes: int | None) -> dict[str, Any]:
    folder = path.parent
    try:
        stored: dict[str, Any] = json.loads(path.read_bytes())
        version = stored["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if version != VERSION:
        raise InputError(f"{path}: written by another version of beforehand ({version}): use another checkpoint")
    if lanes is not None:
        asked["lanes"] = lanes
    for name, value in asked.items():
        if stored.get(name) != value:
            raise InputError(
                f"{folder}: this merge was started {_as_option(name, stored.get(name))}, not "
                f"{_as_option(name, value)}: keep it, or use another checkpoint and output"
            )
    return stored


def _as_option(name: str, value: Any) -> str:
    """A setting as the command takes it, times in milliseconds."""
    option = _OPTIONS.get(name) or f"--{name.removesuffix('_ns').replace('_', '-')}"
    if value is None or value == []:
        return f"without {option}"
    if name.endswith("_ns"):
        return f"with {option} {value / 1e6:.15g}"
    return "with " + " ".join(f"{option} {item}" for item in (value if isinstance(value, list) else [value]))


def claim_folder(folder: Path, checkpoint: MergeCheckpoint, *, form: str) -> None:
    """Make the output folder this merge's own, or see that it is; files of killed micro-batches are removed."""
    mark = folder / "merge.json"
    wanted = {"version": VERSION, "id": checkpoint.id, "form": form}
    if not mark.exists():
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder}: the folder is not empty and not a merge's: name another")
        if not checkpoint.fresh:
            raise InputError(
                f"{folder}: what the merge wrote before is gone, but its checkpoint goes on from there: "
                "put it back, or use another checkpoint"
            )
        checkpoint.claimed = [mark] if folder.exists() else [mark, folder]
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(mark, json.dumps(wanted).encode())
        return
    try:
        found = json.loads(mark.read_bytes())
        same = found["id"] == checkpoint.id
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{mark}: cannot be read: {error}") from None
    if not same:
        raise InputError(f"{folder}: written by a merge with another checkpoint: name another folder, or that one")
    if found.get("form") != form:
        raise InputError(f"{folder}: this merge writes {found.get('form')}, not {form}")
    _sweep(folder)


def _sweep(folder: Path) -> None:
    """Remove files that no entry names. Nobody writes now: we hold the checkpoint."""
    for name in (MERGED_FOLDER, ASIDE_FOLDER):
        if (folder / name).is_dir():
            named = {file for entry in Ledger(folder / COMMITS_FOLDER).entries() for file in entry[name]}
            for path in (folder / name).iterdir():
                if path.name not in named:
                    path.unlink(missing_ok=True)
