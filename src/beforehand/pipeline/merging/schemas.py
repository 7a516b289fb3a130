"""Every table of the merger on Spark: its columns, their types and the key of a row.

As in `schemas.py`, tables are Arrow schemas, and column names are constants.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = [
    "ARRIVED",
    "ASIDE",
    "BLOCK",
    "CHANNELS",
    "LANE_INPUT",
    "LANE_OUTPUT",
    "LANE_STATE",
    "MERGED",
    "SORTABLE",
]

CHANNEL: Final = "channel"
PUBLISHER: Final = "publisher"
SEQUENCE: Final = "sequence"
STAMP: Final = "stamp"
ARRIVAL: Final = "arrival"  # Nanoseconds since 1970.
PAYLOAD: Final = "payload"
SOURCE: Final = "source"  # The stream or file that it came from.
OFFSET: Final = "offset"  # Where in it: the stream's sequence number, or the line.
REASON: Final = "reason"  # Why it is set aside; null if it is not.
DETAIL: Final = "detail"
PAYLOAD_BYTES: Final = "payload_bytes"  # How long the payload was, where only its beginning is kept.
TIME: Final = "time"  # Of the channels, in nanoseconds; not null only in rows that tell nothing else.
KEY: Final = "key"  # The place in the order: bytes that compare as `MergeRules.key`.
DUE: Final = "due"  # The tick at which it may be released.
POSITION: Final = "position"  # 1, 2, 3, … per channel.
LANE: Final = "lane"
BLOCK: Final = "block"  # A table in Arrow's stream format.
MERGED_BLOCK: Final = "merged"
ASIDE_BLOCK: Final = "aside"
ASIDE_BEFORE: Final = "aside_before"  # How many the lane had set aside before this micro-batch.
WAITING_ROWS: Final = "waiting"
WAITING_BYTES: Final = "waiting_bytes"
CHANNEL_COUNT: Final = "channels"
STATE: Final = "state"
LAST_KEY: Final = "last_key"
LAST_DUE: Final = "last_due"

_TEXT: Final = pa.string()
_LONG: Final = pa.int64()
_BYTES: Final = pa.binary()

_MESSAGE: Final = [
    pa.field(CHANNEL, _TEXT),
    pa.field(PUBLISHER, _TEXT),
    pa.field(SEQUENCE, _LONG),
    pa.field(STAMP, _TEXT),
    pa.field(ARRIVAL, _LONG),
    pa.field(PAYLOAD, _BYTES),
]
_PLACE: Final = [pa.field(SOURCE, _TEXT), pa.field(OFFSET, _LONG)]
_WHY: Final = [pa.field(REASON, _TEXT), pa.field(DETAIL, _TEXT), pa.field(PAYLOAD_BYTES, _LONG)]

# What sources give: a message, or what could be read of one (REASON not null), or a time (TIME not null).
ARRIVED: Final = pa.schema([*_MESSAGE, *_PLACE, *_WHY, pa.field(TIME, _LONG)])

# Decided by itself: KEY and DUE are not null where REASON is null.
SORTABLE: Final = pa.schema([*_MESSAGE, *_PLACE, *_WHY, pa.field(KEY, _BYTES), pa.field(DUE, _LONG)])

# What was released. Key: CHANNEL, POSITION.
MERGED: Final = pa.schema(
    [
        pa.field(CHANNEL, _TEXT),
        pa.field(POSITION, _LONG),
        pa.field(PUBLISHER, _TEXT),
        pa.field(SEQUENCE, _LONG),
        pa.field(STAMP, _TEXT),
        pa.field(ARRIVAL, _LONG),
        pa.field(PAYLOAD, _BYTES),
    ]
)

# What was set aside. Key: SOURCE, OFFSET.
ASIDE: Final = pa.schema([*_MESSAGE, *_PLACE, *_WHY])

# One row per lane and piece of input; BLOCK is a SORTABLE table, or TIME is given.
LANE_INPUT: Final = pa.schema([pa.field(LANE, pa.int32()), pa.field(BLOCK, _BYTES), pa.field(TIME, _LONG)])

# One row per lane and micro-batch.
LANE_OUTPUT: Final = pa.schema(
    [
        pa.field(LANE, pa.int32()),
        pa.field(MERGED_BLOCK, _BYTES),  # Null if nothing was released.
        pa.field(ASIDE_BLOCK, _BYTES),  # Null if nothing was set aside.
        pa.field(ASIDE_BEFORE, _LONG),
        pa.field(WAITING_ROWS, _LONG),
        pa.field(WAITING_BYTES, _LONG),
        pa.field(CHANNEL_COUNT, _LONG),
        pa.field(TIME, _LONG),
    ]
)

LANE_STATE: Final = pa.schema([pa.field(STATE, _BYTES)])

# What a lane knows of its channels. Key: CHANNEL.
CHANNELS: Final = pa.schema(
    [
        pa.field(CHANNEL, _TEXT),
        pa.field(POSITION, _LONG),  # Of the last message released; 0 before the first.
        pa.field(LAST_KEY, _BYTES),  # Of the last message released; empty before the first.
        pa.field(LAST_DUE, _LONG),
    ]
)
