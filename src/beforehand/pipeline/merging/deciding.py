"""What becomes of each message by itself, for a table of them at once.

`Decider.table` takes rows as sources give them (`ARRIVED`) and gives the same rows with the place of each in the
order (KEY, DUE), or with the reason why it is set aside. It agrees exactly with `RecordReader.fields` and
`MergeRules`: what passes, its key, and the reason and detail of what does not. No Spark here: tasks call it on
batches of Arrow.

How: the compiled kernel decides about the usual rows. The rows that it leaves go through the plain code one by one,
so a flood of bad records slows a merger down but does not stop it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from beforehand.clocks.offset import OffsetStamp
from beforehand.formats.published import (
    ARRIVAL_MAX,
    Arrived,
    RecordLimits,
    RecordReader,
    SetAsideRecord,
    stamp_bytes_max,
)
from beforehand.ordering.merging import NAME_BYTES_MAX, MergeRules, MergeSettings
from beforehand.pipeline.merging.kernel import ALPHABET, LIMIT_TICKS, place_stamps
from beforehand.pipeline.merging.schemas import (
    ARRIVAL,
    CHANNEL,
    DETAIL,
    DUE,
    KEY,
    PAYLOAD,
    PAYLOAD_BYTES,
    PUBLISHER,
    REASON,
    SEQUENCE,
    SORTABLE,
    STAMP,
)

__all__ = ["Decider"]

_ANY_STAMP: Final = OffsetStamp(0, 0).to_text()

KEY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one call of the kernel; longer tables are decided in parts."""


class Decider:
    """Decides with these settings. It keeps nothing from one table to the next, and travels to tasks."""

    def __init__(self, settings: MergeSettings, *, limits: RecordLimits | None = None) -> None:
        self.settings: Final = settings
        self.limits: Final = RecordLimits() if limits is None else limits

    def table(self, arrived: pa.Table) -> pa.Table:
        """SORTABLE from ARRIVED, in the same order. Rows with a REASON already keep it."""
        parts = [self._part(arrived.slice(at, self._rows_max)) for at in range(0, arrived.num_rows, self._rows_max)]
        return pa.concat_tables(parts) if parts else SORTABLE.empty_table()

    @cached_property
    def _rules(self) -> MergeRules:
        return self.settings.rules

    @cached_property
    def _reader(self) -> RecordReader:
        return RecordReader(self.settings, limits=self.limits)

    @cached_property
    def _middle_bytes(self) -> int:
        return self._rules.bounds.width * self._rules.count_bytes if self._rules.c_max is None else 8

    @cached_property
    def _rows_max(self) -> int:
        return max(1, KEY_BYTES_MAX // (self._middle_bytes + 17 + NAME_BYTES_MAX))

    @cached_property
    def _compilable(self) -> bool:
        bounds = self._rules.bounds
        return max(bounds.epsilon, bounds.delta, bounds.count_max, self._rules.c_max or 0) <= LIMIT_TICKS

    def _part(self, part: pa.Table) -> pa.Table:
        part = part.combine_chunks()
        columns = {name: _whole(part.column(name)) for name in part.column_names}
        passing = self._passable(columns)
        due = np.zeros(part.num_rows, dtype=np.int64)
        keys = self._placed(columns, passing, due)
        left = np.flatnonzero(passing == 0)
        unread = pc.is_valid(columns[REASON]).to_numpy(zero_copy_only=False)
        mended = {int(row): self._alone(columns, int(row)) for row in left if not unread[row]}
        return self._assembled(columns, passing, due, keys, mended)

    def _passable(self, columns: dict[str, Any]) -> NDArray[np.uint8]:
        """Rows whose parts are there and within their limits; the kernel looks at the stamp."""
        if not self._compilable:
            return np.zeros(len(columns[STAMP]), dtype=np.uint8)
        conditions = [
            pc.is_null(columns[REASON]),
            self._readable(columns[CHANNEL], lambda name: {"channel": name, "publisher": "p"}),
            self._readable(columns[PUBLISHER], lambda name: {"channel": "", "publisher": name}),
            pc.greater_equal(columns[SEQUENCE], 1),
            pc.greater_equal(columns[ARRIVAL], 0),
            pc.less_equal(columns[ARRIVAL], ARRIVAL_MAX),
            pc.is_valid(columns[STAMP]),
            pc.less_equal(pc.fill_null(pc.binary_length(columns[PAYLOAD]), 0), self.limits.payload_bytes_max),
        ]
        passing = conditions[0]
        for condition in conditions[1:]:
            passing = pc.and_(passing, pc.fill_null(condition, False))
        return np.array(passing.to_numpy(zero_copy_only=False), dtype=np.uint8)

    def _readable(self, names: Any, given: Callable[[str], dict[str, str]]) -> Any:
        """Which names the plain code takes. Names are few, so each is asked for once."""
        coded = names.dictionary_encode()
        rest = {"sequence": 1, "stamp": _ANY_STAMP, "arrival": 0, "payload": b""}
        reads = [self._reader.fields(**given(name), **rest) for name in coded.dictionary.to_pylist()]
        good = pa.array([isinstance(read, Arrived) for read in reads], pa.bool_())
        return good.take(coded.indices)

    def _placed(self, columns: dict[str, Any], passing: NDArray[np.uint8], due: NDArray[np.int64]) -> Any:
        """The keys as an array of Arrow; empty where the kernel left the row."""
        rules, rows = self._rules, len(passing)
        names, name_offsets = _buffers(columns[PUBLISHER])
        texts, text_offsets = _buffers(columns[STAMP])
        room = rows * (17 + self._middle_bytes) + int(name_offsets[-1] - name_offsets[0])
        keys = np.empty(room, dtype=np.uint8)
        key_offsets = np.zeros(rows + 1, dtype=np.int32)
        if passing.any():
            bounds = rules.bounds
            place_stamps(
                texts,
                text_offsets,
                names,
                name_offsets,
                _longs(columns[SEQUENCE]),
                _longs(columns[ARRIVAL]) // self.settings.tick_ns,
                passing,
                ALPHABET,
                rules.c_max is None,
                bounds.modulus,
                bounds.width,
                bounds.count_max,
                rules.count_bytes,
                bounds.epsilon,
                bounds.delta,
                rules.wait,
                rules.c_max or 0,
                stamp_bytes_max(self.settings),
                due,
                keys,
                key_offsets,
            )
        buffers = [None, pa.py_buffer(key_offsets), pa.py_buffer(keys[: key_offsets[-1]])]
        return pa.BinaryArray.from_buffers(pa.binary(), rows, buffers)

    def _alone(self, columns: dict[str, Any], row: int) -> tuple[bytes, int] | SetAsideRecord:
        """What the plain code says of a row: its key and due time, or the record that is set aside."""
        values = {
            name: columns[name][row].as_py() for name in (CHANNEL, PUBLISHER, SEQUENCE, STAMP, ARRIVAL, PAYLOAD)
        }
        read = self._reader.fields(**values)
        if isinstance(read, SetAsideRecord):
            return read
        reason = self._rules.judge(read.message.stamp, arrival=self.settings.reading(read.arrival))
        if reason is None:
            return self._rules.key(read.message), self._rules.due(read.message.stamp)
        return read.set_aside(reason, self.settings, limits=self.limits)

    def _assembled(
        self,
        columns: dict[str, Any],
        passing: NDArray[np.uint8],
        due: NDArray[np.int64],
        keys: Any,
        mended: dict[int, tuple[bytes, int] | SetAsideRecord],
    ) -> pa.Table:
        usual = pa.array(passing.astype(bool))
        columns[KEY] = pc.if_else(usual, keys, pa.scalar(None, pa.binary()))
        columns[DUE] = pc.if_else(usual, pa.array(due), pa.scalar(None, pa.int64()))
        if mended:
            rows = pa.array(np.isin(np.arange(len(passing)), list(mended)))
            given: dict[str, list[Any]] = {name: [] for name in _MENDED}
            for row in sorted(mended):
                _mend(given, mended[row], columns, row)
            for name, values in given.items():
                columns[name] = pc.replace_with_mask(columns[name], rows, pa.array(values, columns[name].type))
        return pa.Table.from_arrays([columns[field.name] for field in SORTABLE], schema=SORTABLE)


_MENDED: Final = (CHANNEL, PUBLISHER, SEQUENCE, STAMP, ARRIVAL, PAYLOAD, REASON, DETAIL, PAYLOAD_BYTES, KEY, DUE)


def _mend(
    given: dict[str, list[Any]], found: tuple[bytes, int] | SetAsideRecord, columns: dict[str, Any], row: int
) -> None:
    if isinstance(found, SetAsideRecord):
        values = {name: getattr(found, name) for name in _MENDED if name not in (KEY, DUE)}
        values |= {REASON: found.reason.value, KEY: None, DUE: None}
    else:
        values = {name: columns[name][row].as_py() for name in _MENDED} | {KEY: found[0], DUE: found[1]}
    for name, value in values.items():
        given[name].append(value)


def _whole(column: Any) -> Any:
    """One array, of the plain type that the kernel knows."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_large_string(array.type):
        return array.cast(pa.string())
    if pa.types.is_large_binary(array.type):
        return array.cast(pa.binary())
    return array


def _buffers(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The bytes of an array of texts, and where each begins; the last is where the last ends."""
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8), starts


def _longs(array: Any) -> NDArray[np.int64]:
    filled: NDArray[np.int64] = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    return filled
