"""What a merge has committed: a folder with one small file per micro-batch that gave anything.

A micro-batch counts when its entry is there, and its entry appears whole or not at all: it is written beside its
name, brought to the disk and renamed. Whoever runs a micro-batch again after a crash finds its entry and leaves what
was written as it is. So each micro-batch counts once.

Beside the entries, `figures.json` has the sums of the merge so far, for people; nothing depends on it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from beforehand.errors import InputError

__all__ = ["Entry", "Ledger", "write_whole"]

Entry = dict[str, Any]
_DIGITS: Final = 12


class Ledger:
    """The entries in a folder, which is made when the first is written."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def has(self, batch: int) -> bool:
        return self._path(batch).exists()

    def write(self, batch: int, entry: Entry) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._path(batch), json.dumps({"batch": batch, **entry}).encode())

    def entries(self) -> Iterator[Entry]:
        """In the order of the micro-batches."""
        for path in sorted(self.folder.glob(f"{'[0-9]' * _DIGITS}.json")):
            try:
                yield json.loads(path.read_bytes())
            except (OSError, ValueError) as error:
                raise InputError(f"{path}: an entry of the merge cannot be read: {error}") from error

    def add_figures(self, batch: int, figures: Entry) -> None:
        """Add counts to the sums, once per micro-batch; all else is replaced."""
        path = self.folder / "figures.json"
        before = self.figures()
        if before.get("batch", -1) >= batch:
            return
        reasons = dict(before.get("set_aside", {}))
        for reason, count in figures["set_aside"].items():
            reasons[reason] = reasons.get(reason, 0) + count
        sums = {"delivered": before.get("delivered", 0) + figures["delivered"], "set_aside": reasons}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({**figures, **sums, "batch": batch}).encode())

    def figures(self) -> Entry:
        with suppress(OSError, ValueError):
            found: Entry = json.loads((self.folder / "figures.json").read_bytes())
            return found
        return {}

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch:0{_DIGITS}}.json"


def write_whole(path: Path, data: bytes) -> None:
    """The file appears with all of its content, and stays after a crash of the machine."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
