"""Files by which the driver and the tasks of one analysis hand each other what is too large for a closure.

They lie in one folder that the driver and all workers must reach under the same path, and are gone when it ends.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beforehand.pipeline.block import Entry, Summary
from beforehand.pipeline.chains import Links

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
        for name in ("parsed", "spans", "rejected", "blocks", "summaries", "entries", "cycles", "chains"):
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
        for name, array in (("start", start), ("sender", sender), ("send", send), ("until", until)):
            np.save(self.path / f"leaving-{name}.npy", array, allow_pickle=False)

    def leaving(self, block: int) -> tuple[Numbers, Integers, Integers]:
        start, sender, send, until = (
            np.load(self.path / f"leaving-{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in ("start", "sender", "send", "until")
        )
        first, last = start[block : block + 2].tolist()
        return np.array(sender[first:last]), np.array(send[first:last]), np.array(until[first:last])

    # Blocks: their rows, their summaries, what is known where they begin.

    def rows(self, block: int) -> Path:
        return self.path / "blocks" / f"{block:06d}.arrow"

    def write_rows(self, block: int, tables: Iterable[pa.Table]) -> bool:
        """Written as they come; one at a time is held. Whether there was any."""
        path = self.rows(block)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            with ExitStack() as stack:
                writer = None
                for table in tables:
                    if writer is None:
                        sink = stack.enter_context(pa.OSFile(str(part), "wb"))
                        options = pa.ipc.IpcWriteOptions(compression="lz4")
                        writer = stack.enter_context(pa.ipc.new_file(sink, table.schema, options=options))
                    writer.write_table(table)
            if writer is not None:
                part.replace(path)
            return writer is not None
        finally:
            part.unlink(missing_ok=True)

    def read_rows(self, block: int) -> pa.Table:
        with pa.memory_map(str(self.rows(block))) as source:
            return pa.ipc.open_file(source).read_all()

    def pieces(self, block: int) -> Iterator[pa.Table]:
        """The rows as they were written, one piece at a time. Read, not mapped: pages of a mapped file would stay."""
        with pa.OSFile(str(self.rows(block))) as source:
            file = pa.ipc.open_file(source)
            for number in range(file.num_record_batches):
                yield pa.Table.from_batches([file.get_batch(number)])

    def forget_blocks(self) -> None:
        """All that was staged of blocks: the next ones may be others."""
        for name in ("blocks", "summaries", "entries", "cycles", "chains"):
            for path in self.folder(name).iterdir():
                path.unlink()
        for path in self.folder("rejected").glob("cycle-*.parquet"):
            path.unlink()

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

    # Longest chains: how the events of a block hang together, and their Lamport times.

    def write_links(self, block: int, links: Links) -> None:
        for name, array in _fields(links).items():
            _write_array(self._chains(block, name), array)

    def read_links(self, block: int) -> Links | None:
        """On disk, not in memory. None for a block without events."""
        if not self._chains(block, "order").exists():
            return None
        return Links(**{field.name: _mapped(self._chains(block, field.name)) for field in fields(Links)})

    @contextmanager
    def making_lamport_times(self, block: int, rows: int) -> Iterator[Integers]:
        """An array on disk to write them to."""
        path = self._chains(block, "times")
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        times = np.lib.format.open_memmap(part, "w+", np.int64, (rows,))
        yield np.asarray(times)
        times.flush()
        part.replace(path)

    def lamport_times(self, block: int) -> Integers:
        """On disk, not in memory."""
        return _mapped(self._chains(block, "times"))

    def _chains(self, block: int, name: str) -> Path:
        return self.path / "chains" / f"{block:06d}-{name}.npy"


def _fields(record: Summary | Entry | Links) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    part.write_bytes(data)
    part.replace(path)


def _write_array(path: Path, array: npt.NDArray[Any]) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with part.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)
    part.replace(path)


def _mapped(path: Path) -> npt.NDArray[Any]:
    # Mapped so that kernels take it as any other array; nobody writes to it.
    return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with part.open("wb") as stream:
        np.savez(stream, **arrays)
    part.replace(path)


def _read_arrays(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
