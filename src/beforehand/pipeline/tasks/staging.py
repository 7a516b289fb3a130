"""Files by which the driver and the tasks of one analysis hand each other what is too large for a closure.

They lie in one folder that the driver and all workers must reach under the same path, and are gone when it ends.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beforehand.pipeline.block import Entry, Summary

__all__ = ["LargeInfo", "Staging"]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class LargeInfo:
    """What a task must know of the execution that its block is part of."""

    number: int
    execution: str
    processes: list[str]
    base: int  # The number of its first block over all large executions.
    blocks: int
    small: bool


@dataclass(frozen=True, slots=True)
class Staging:
    path: Path

    def make(self) -> None:
        for name in ("parsed", "spans", "rejected", "blocks", "summaries", "entries", "cycles"):
            (self.path / name).mkdir(parents=True, exist_ok=True)

    def folder(self, name: str) -> Path:
        return self.path / name

    # The plan of cuts: written by the driver, read by every task.

    def write_plan(self, larges: list[LargeInfo]) -> None:
        _write(self.path / "plan.json", json.dumps([asdict(large) for large in larges]).encode())

    def large_of(self, block: int) -> LargeInfo:
        for document in json.loads((self.path / "plan.json").read_bytes()):
            if document["base"] <= block < document["base"] + document["blocks"]:
                return LargeInfo(**document)
        raise AssertionError(f"no execution has block {block}")

    def write_cuts(self, number: int, begins: Integers) -> None:
        """Blocks × processes: where each block begins."""
        np.save(self.path / f"cuts-{number}.npy", begins, allow_pickle=False)

    def cut(self, number: int, block: int) -> Integers:
        begins = np.load(self.path / f"cuts-{number}.npy", mmap_mode="r", allow_pickle=False)
        return np.array(begins[block])

    def write_leaving(self, start: Integers, sender: Numbers, send: Integers, until: Integers) -> None:
        """Per block (over all large executions) the sends whose messages later blocks receive too."""
        np.savez(self.path / "leaving.npz", start=start, sender=sender, send=send, until=until)

    def leaving(self, block: int) -> tuple[Numbers, Integers, Integers]:
        with np.load(self.path / "leaving.npz", allow_pickle=False) as arrays:
            first, last = arrays["start"][block : block + 2]
            return arrays["sender"][first:last], arrays["send"][first:last], arrays["until"][first:last]

    # Blocks: their rows, their summaries, what is known where they begin.

    def rows(self, block: int) -> Path:
        return self.path / "blocks" / f"{block:06d}.arrow"

    def write_rows(self, block: int, table: pa.Table) -> None:
        path = self.rows(block)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        with (
            pa.OSFile(str(part), "wb") as sink,
            pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer,
        ):
            writer.write_table(table)
        part.replace(path)

    def read_rows(self, block: int) -> pa.Table:
        with pa.memory_map(str(self.rows(block))) as source:
            return pa.ipc.open_file(source).read_all()

    def write_summary(self, block: int, summary: Summary) -> None:
        _write_arrays(self.path / "summaries" / f"{block:06d}.npz", _fields(summary))

    def read_summary(self, block: int) -> Summary | None:
        """None for a block without events."""
        path = self.path / "summaries" / f"{block:06d}.npz"
        return Summary(**_read_arrays(path)) if path.exists() else None

    def write_entry(self, block: int, entry: Entry) -> None:
        _write_arrays(self.path / "entries" / f"{block:06d}.npz", _fields(entry))

    def read_entry(self, block: int) -> Entry:
        return Entry(**_read_arrays(self.path / "entries" / f"{block:06d}.npz"))


def _fields(record: Summary | Entry) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    part.write_bytes(data)
    part.replace(path)


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with part.open("wb") as stream:
        np.savez(stream, **arrays)
    part.replace(path)


def _read_arrays(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
