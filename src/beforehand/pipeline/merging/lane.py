"""A lane: the channels that one task merges, with all that waits in them, as tables.

`Lane` does to tables what `MergeBuffer` does to messages, for many channels at once, and keeps its guarantees P1 to
P5 in each. `to_bytes` gives what is kept between two micro-batches, `restore` takes it.

  1. What is released from a channel is in the order of KEY, with positions 1, 2, 3, … without a gap.
  2. A repetition (equal CHANNEL and KEY) is set aside; what stays is the first by (ARRIVAL, SOURCE, OFFSET), also if
     it is read later than the other. So the order of reading does not decide.
  3. The same input and times in the same micro-batches give the same output, byte for byte.
  4. What is released does not depend on how the input is cut into micro-batches, while no time is told that is beyond
     the arrival of what is still to come, and no bound is reached.
  5. Bounds: at most `waiting_max` messages wait in a channel after a micro-batch and `bytes_max` in the lane, and the
     lane has at most `channels_max` channels. What is above is set aside as FULL, the latest arrivals first. What is
     FULL then depends on the micro-batches.

Why 4: all that a micro-batch brings is taken in before time moves. Whatever comes later arrived at the told time or
after it, and is due later than that (`MergeRules.wait`), so nothing released could have stood behind it.

Where time goes back, as after a fault of the broker's clock, what waits for a time that is too far ahead now is set
aside as CORRUPTED, and places that were passed there are forgotten (P5).

Cost: O(n log n) for n messages that wait or arrive, in compiled code; a few dozen calls, whatever n is.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from beforehand.errors import InvariantError
from beforehand.formats.published import RecordLimits
from beforehand.ordering.merging import WAITING_MAX, MergeSettings, SetAside
from beforehand.pipeline.merging.schemas import (
    ARRIVAL,
    ASIDE,
    CHANNEL,
    CHANNELS,
    DETAIL,
    DUE,
    KEY,
    LAST_DUE,
    LAST_KEY,
    MERGED,
    OFFSET,
    PAYLOAD,
    PAYLOAD_BYTES,
    POSITION,
    REASON,
    SORTABLE,
    SOURCE,
)

__all__ = ["BYTES_MAX", "CHANNELS_MAX", "Lane", "table_from_bytes", "table_to_bytes"]

BYTES_MAX: Final = 512 * 1024 * 1024
"""Of what waits in a lane. The state is written as one value, which must stay well below 2 GB."""

CHANNELS_MAX: Final = 100_000

_NO_TIME: Final = -(2**63)

_DETAILS: Final = {
    SetAside.REPEATED: "the same message arrived before",
    SetAside.PASSED: "later messages were released before it was read",
    SetAside.FULL: "as many messages wait as may",
    SetAside.CORRUPTED: "it waited for a time that no message waits for",
}

Rows = NDArray[np.bool_]


class Lane:
    """What waits, and how far each channel has come."""

    def __init__(
        self,
        settings: MergeSettings,
        *,
        waiting_max: int = WAITING_MAX,
        bytes_max: int = BYTES_MAX,
        channels_max: int = CHANNELS_MAX,
        limits: RecordLimits | None = None,
    ) -> None:
        self._settings: Final = settings
        self._rules: Final = settings.rules
        self._waiting_max: Final = waiting_max
        self._bytes_max: Final = bytes_max
        self._channels_max: Final = channels_max
        self._aside_bytes_max: Final = (limits or RecordLimits()).aside_bytes_max
        self.waiting: pa.Table = SORTABLE.empty_table()  # Sorted by channel and key; bounded as said above.
        self.channels: pa.Table = CHANNELS.empty_table()  # At most `channels_max`.
        self.time: int = _NO_TIME  # The tick that was told last.
        self.aside_count = 0  # Messages set aside so far.

    def advance(self, arrived: pa.Table, *, time_ns: int | None) -> tuple[pa.Table, pa.Table]:
        """Take in decided messages (SORTABLE), then let time come to `time_ns`: what is released, what is set aside.

        The first table is MERGED, by channel and position; the second ASIDE, in no order that means anything.
        """
        time = self.time if time_ns is None else self._settings.reading(time_ns)
        back, self.time = time < self.time, time
        if back:
            self._forget_passed(time)
        unread = pc.is_valid(arrived.column(REASON))
        aside = [arrived.filter(unread).select(ASIDE.names)]
        new = arrived.filter(pc.invert(unread))
        new, refused = self._known(new)
        aside.append(refused)
        rows = pa.concat_tables([self.waiting, new]).combine_chunks()
        fresh = np.arange(rows.num_rows) >= self.waiting.num_rows
        codes = self._codes(rows)
        order = _sorted(rows, codes)
        rows, fresh, codes = rows.take(order), fresh[order], codes[order]

        due = rows.column(DUE).to_numpy()
        reasons = self._set_aside(rows, fresh, codes)
        # P5: nothing that was offered is due later than `span` after its arrival.
        latest = rows.column(ARRIVAL).to_numpy() // self._settings.tick_ns + self._rules.span
        if back:
            latest = np.where(fresh, latest, time + self._rules.span)
        reasons[(due > latest) & (reasons == 0)] = _CODES[SetAside.CORRUPTED]
        released = (reasons == 0) & (due <= time)
        stays = (reasons == 0) & ~released
        self._bound(rows, fresh, codes, stays, reasons)
        merged = self._release(rows.filter(pa.array(released)), codes[released])
        aside.append(self._with_reasons(rows, reasons))
        self.waiting = rows.filter(pa.array(stays))
        side = _cut(pa.concat_tables(aside), self._aside_bytes_max)
        self.aside_count += side.num_rows
        return merged, side

    @property
    def waiting_bytes(self) -> int:
        return int(self.waiting.nbytes)

    def to_bytes(self) -> bytes:
        channels = table_to_bytes(self.channels)
        numbers = (self.time, self.aside_count, len(channels))
        head = b"".join(number.to_bytes(8, signed=True) for number in numbers)
        return b"".join((head, channels, table_to_bytes(self.waiting)))

    def restore(self, state: bytes) -> None:
        self.time, self.aside_count, size = (int.from_bytes(state[at : at + 8], signed=True) for at in (0, 8, 16))
        self.channels = table_from_bytes(state[24 : 24 + size])
        self.waiting = table_from_bytes(state[24 + size :])
        if not (self.channels.schema.equals(CHANNELS) and self.waiting.schema.equals(SORTABLE)):
            raise InvariantError("the state of a lane has other columns than this version writes")

    def _known(self, new: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Give each new channel a row; messages of channels that there is no room for are refused."""
        names = pc.unique(new.column(CHANNEL)).sort()  # Rows come in any order.
        unknown = names.filter(pc.invert(pc.is_in(names, value_set=self.channels.column(CHANNEL))))
        room = self._channels_max - self.channels.num_rows
        refused = new.schema.empty_table()
        if len(unknown) > room:
            without = pc.is_in(new.column(CHANNEL), value_set=unknown[room:])
            new, refused = new.filter(pc.invert(without)), new.filter(without)
            unknown = unknown[:room]
        if len(unknown):
            count = len(unknown)
            added = [unknown, np.zeros(count, np.int64), [b""] * count, np.full(count, _NO_TIME)]
            arrays = [pa.array(values, field.type) for values, field in zip(added, CHANNELS, strict=True)]
            more = pa.Table.from_arrays(arrays, schema=CHANNELS)
            self.channels = pa.concat_tables([self.channels, more]).combine_chunks()
        codes = np.full(refused.num_rows, _CODES[SetAside.FULL], np.uint8)
        return new, self._with_reasons(refused, codes)

    def _codes(self, rows: pa.Table) -> NDArray[np.int64]:
        """The row of each message's channel in `channels`."""
        found = pc.index_in(rows.column(CHANNEL), value_set=self.channels.column(CHANNEL))
        if found.null_count:
            raise InvariantError("a message waits whose channel is unknown")
        codes: NDArray[np.int64] = found.to_numpy().astype(np.int64)
        return codes

    def _forget_passed(self, time: int) -> None:
        ahead = self.channels.column(LAST_DUE).to_numpy() > time + self._rules.span
        keys = pc.if_else(pa.array(ahead), b"", self.channels.column(LAST_KEY).combine_chunks())
        self.channels = self.channels.set_column(2, CHANNELS.field(LAST_KEY), keys)

    def _set_aside(self, rows: pa.Table, fresh: Rows, codes: NDArray[np.int64]) -> NDArray[np.uint8]:
        reasons = np.zeros(rows.num_rows, np.uint8)
        if rows.num_rows == 0:
            return reasons
        keys = rows.column(KEY).combine_chunks()
        same = codes[1:] == codes[:-1]
        same &= pc.equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False)
        reasons[1:][same] = _CODES[SetAside.REPEATED]
        last = self.channels.column(LAST_KEY).combine_chunks().take(pa.array(codes))
        passed = fresh & pc.less_equal(keys, last).to_numpy(zero_copy_only=False) & (reasons == 0)
        reasons[passed] = _CODES[SetAside.PASSED]
        return reasons

    def _bound(
        self, rows: pa.Table, fresh: Rows, codes: NDArray[np.int64], stays: Rows, reasons: NDArray[np.uint8]
    ) -> None:
        """Set new messages aside as FULL where more would wait than may. Those that wait already stay."""
        counts = np.bincount(codes[stays], minlength=self.channels.num_rows)
        over = counts > self._waiting_max
        sizes = _sizes(rows)
        excess = int(sizes[stays].sum()) - self._bytes_max
        if not over.any() and excess <= 0:
            return
        places = [(name, "descending") for name in (ARRIVAL, SOURCE, OFFSET)]
        latest = pc.sort_indices(rows.select([ARRIVAL, SOURCE, OFFSET]), sort_keys=places).to_numpy()
        for at in latest[fresh[latest] & stays[latest]]:
            if counts[codes[at]] > self._waiting_max or excess > 0:
                stays[at] = False
                reasons[at] = _CODES[SetAside.FULL]
                counts[codes[at]] -= 1
                excess -= int(sizes[at])

    def _release(self, rows: pa.Table, codes: NDArray[np.int64]) -> pa.Table:
        """Positions for rows in order, and the new last ones of their channels."""
        if rows.num_rows == 0:
            return MERGED.empty_table()
        positions = np.array(self.channels.column(POSITION).to_numpy())
        begins = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
        counts = np.diff(np.r_[begins, len(codes)])
        rank = np.arange(len(codes)) - np.repeat(begins, counts) + 1
        merged = rows.append_column(POSITION, pa.array(positions[codes] + rank)).select(MERGED.names)
        changed, ends = codes[begins], begins + counts - 1
        positions[changed] += counts
        mask = np.zeros(self.channels.num_rows, bool)
        mask[changed] = True
        in_order = ends[np.argsort(changed)]  # As the rows of `channels` stand.
        last = rows.take(pa.array(in_order))
        table = self.channels
        last_key = pc.replace_with_mask(
            table.column(LAST_KEY).combine_chunks(), pa.array(mask), last.column(KEY).combine_chunks()
        )
        last_due = np.array(table.column(LAST_DUE).to_numpy())
        last_due[mask] = last.column(DUE).to_numpy()
        self.channels = pa.Table.from_arrays(
            [table.column(CHANNEL), pa.array(positions), last_key, pa.array(last_due)], schema=CHANNELS
        ).combine_chunks()
        return merged.cast(MERGED)

    def _with_reasons(self, rows: pa.Table, reasons: NDArray[np.uint8]) -> pa.Table:
        taken = np.flatnonzero(reasons)
        table = rows.take(pa.array(taken)).select(ASIDE.names)
        whys = [_REASONS[int(code)] for code in reasons[taken]]
        for name, values in ((REASON, [why.value for why in whys]), (DETAIL, [_DETAILS[why] for why in whys])):
            table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
        return table.cast(ASIDE)


_REASONS: Final = dict(enumerate(_DETAILS, start=1))
_CODES: Final = {reason: code for code, reason in _REASONS.items()}


def _sorted(rows: pa.Table, codes: NDArray[np.int64]) -> Any:
    keyed = rows.select([KEY, ARRIVAL, SOURCE, OFFSET]).append_column("code", pa.array(codes))
    names = ("code", KEY, ARRIVAL, SOURCE, OFFSET)
    return pc.sort_indices(keyed, sort_keys=[(name, "ascending") for name in names])


def _sizes(rows: pa.Table) -> NDArray[np.int64]:
    """About how many bytes each takes."""
    texts = (pc.fill_null(pc.binary_length(rows.column(name)), 0) for name in (PAYLOAD, KEY, "stamp", "publisher"))
    total = np.full(rows.num_rows, 100, np.int64)
    for lengths in texts:
        total += lengths.to_numpy()
    return total


def _cut(aside: pa.Table, bytes_max: int) -> pa.Table:
    """What is set aside, in order; payloads are cut to their limit and keep their true length."""
    aside = aside.sort_by([(SOURCE, "ascending"), (OFFSET, "ascending")])
    payload = aside.column(PAYLOAD).combine_chunks()
    length = pc.fill_null(pc.binary_length(payload), 0).cast(pa.int64())
    known = pc.coalesce(aside.column(PAYLOAD_BYTES).combine_chunks(), length)
    aside = aside.set_column(aside.column_names.index(PAYLOAD_BYTES), PAYLOAD_BYTES, known)
    cut = pc.binary_slice(payload, 0, bytes_max)
    return aside.set_column(aside.column_names.index(PAYLOAD), PAYLOAD, cut).cast(ASIDE).combine_chunks()


def table_to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def table_from_bytes(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
