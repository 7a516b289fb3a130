"""Every table of the pipeline: its columns, their types and the key of a row. Nothing is inferred.

Tables are given as Arrow schemas, which Python tasks and queries use as they are; `spark_type` turns one into what
Spark calls it. Column names are constants, so that no name is typed twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# The event, as in the native format.
EXECUTION: Final = "execution"
PROCESS: Final = "process"
INDEX: Final = "index"
SENDS: Final = "sends"
RECEIVES: Final = "receives"
TIME: Final = "time"
NAME: Final = "name"
ATTRIBUTES: Final = "attributes"
CLOCK: Final = "clock"
# Where it stood in the input; the order of the input is (file, offset).
FILE: Final = "file"
SPLIT: Final = "split"
OFFSET: Final = "offset"
LINE: Final = "line"
ORDINAL: Final = "ordinal"
# What analysis adds.
BLOCK: Final = "block"
KIND: Final = "kind"
CAUSAL_TIME: Final = "causal_time"
PAST_SIZE: Final = "past_size"
LAMPORT_TIME: Final = "lamport_time"
SOURCES: Final = "sources"
# Messages.
MESSAGE: Final = "message"
INFERRED: Final = "inferred"
SEND_PROCESS: Final = "send_process"
SEND_INDEX: Final = "send_index"
SEND_TIME: Final = "send_time"
RECEIVE_PROCESS: Final = "receive_process"
RECEIVE_INDEX: Final = "receive_index"
RECEIVE_TIME: Final = "receive_time"
# Numbers that stand for names while an execution is cut into blocks.
NUMBER: Final = "number"  # Of an execution that is cut, in the order of names.
MEMBER: Final = "member"  # Of a process within its execution, in the order of names.
SENDER: Final = "sender"  # The member that sent.
RECEIVER: Final = "receiver"
OUTCOME: Final = "outcome"
FIRST_INDEX: Final = "first_index"
RECEIVERS: Final = "receivers"
SPREAD: Final = "spread"
POSITION: Final = "position"  # Of a message among the receives of its event.
# What became of an end of a message.
RECEIVED: Final = "received"
UNSENT: Final = "unsent"
UNRECEIVED: Final = "unreceived"
DUPLICATE_SEND: Final = "duplicate-send"
DUPLICATE_RECEIVE: Final = "duplicate-receive"
CYCLE: Final = "cycle"
# Rejections and violations.
REASON: Final = "reason"
DETAIL: Final = "detail"
TEXT: Final = "text"
EVENTS: Final = "events"
MESSAGES: Final = "messages"
WHY: Final = "why"
REASONS: Final = "reasons"

_TEXTS: Final = pa.list_(pa.string())
_EVENT: Final = [
    pa.field(EXECUTION, pa.string(), nullable=False),
    pa.field(PROCESS, pa.string(), nullable=False),
    pa.field(INDEX, pa.int64(), nullable=False),
    pa.field(SENDS, _TEXTS, nullable=False),
    pa.field(RECEIVES, _TEXTS, nullable=False),
    pa.field(TIME, pa.int64()),
    pa.field(NAME, pa.string(), nullable=False),
    pa.field(ATTRIBUTES, pa.map_(pa.string(), pa.string()), nullable=False),
    pa.field(CLOCK, pa.map_(pa.string(), pa.int64())),
]

NATIVE: Final = pa.schema(_EVENT)
"""The native format as Parquet: what may be given as input, and what the columns of `events/` begin with."""

PARSED: Final = pa.schema(
    [
        *(pa.field(INDEX, pa.int64()) if field.name == INDEX else field for field in _EVENT),
        pa.field(ORDINAL, pa.int64(), nullable=False),
        pa.field(FILE, pa.int32(), nullable=False),
        pa.field(SPLIT, pa.int32(), nullable=False),
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field(LINE, pa.int64()),
    ]
)
"""What parsing gives: events that may lack their index, with where they stood. Key: file, offset.

`ordinal` counts, from 1, the events without an index of one process within one split of one file."""

SOURCED: Final = pa.schema(
    [*_EVENT, pa.field(FILE, pa.int32(), nullable=False), pa.field(OFFSET, pa.int64(), nullable=False)]
)
"""All events, each with its index. Key: file, offset. An event's id may still occur twice."""

STORED: Final = pa.schema(
    [
        pa.field(EXECUTION, pa.string(), nullable=False),
        pa.field(BLOCK, pa.int32(), nullable=False),
        *_EVENT[1:],
        pa.field(KIND, pa.string(), nullable=False),
        pa.field(CAUSAL_TIME, pa.int64()),
        pa.field(PAST_SIZE, pa.int64(), nullable=False),
        pa.field(LAMPORT_TIME, pa.int64()),
        pa.field(
            SOURCES,
            pa.list_(pa.struct([pa.field(SENDER, pa.int32(), nullable=False), pa.field(SEND_INDEX, pa.int64())])),
            nullable=False,
        ),
    ]
)
"""`events/`. Key: execution, process, index. Sorted by execution, block, process, index within a file.

`sources` has, per element of `receives`, the member and the index that sent it; member -1: nobody did; -2: this
receive was rejected. `lamport_time` is null unless it was asked for, and directories of old do not have it."""

MESSAGE_TABLE: Final = pa.schema(
    [
        pa.field(EXECUTION, pa.string(), nullable=False),
        pa.field(NUMBER, pa.int32()),
        pa.field(MESSAGE, pa.string(), nullable=False),
        pa.field(INFERRED, pa.bool_(), nullable=False),
        pa.field(OUTCOME, pa.string(), nullable=False),
        pa.field(SENDER, pa.int32()),
        pa.field(SEND_PROCESS, pa.string()),
        pa.field(SEND_INDEX, pa.int64()),
        pa.field(SEND_TIME, pa.int64()),
        pa.field(RECEIVER, pa.int32()),
        pa.field(RECEIVE_PROCESS, pa.string()),
        pa.field(RECEIVE_INDEX, pa.int64()),
        pa.field(RECEIVE_TIME, pa.int64()),
        pa.field(POSITION, pa.int32()),
        pa.field(RECEIVERS, pa.int32()),
        pa.field(SPREAD, pa.int64()),
    ]
)
"""`messages/`. A row per receive (outcome `received`, or `unsent` if nobody sent it), one per message that nobody
received (`unreceived`), and one per end that was left out: `duplicate-send`, `duplicate-receive` and
`cycle`. `receivers` (how many receives the message has) and `spread` (the longest less the shortest of its delivery
times) stand on one row of each message. `number` is null for small executions.
Key: execution, message, outcome, sender, send_index, receiver, receive_index."""

REJECTED: Final = pa.schema(
    [
        pa.field(REASON, pa.string(), nullable=False),
        pa.field(DETAIL, pa.string(), nullable=False),
        pa.field(FILE, pa.string()),
        pa.field(LINE, pa.int64()),
        pa.field(OFFSET, pa.int64()),
        pa.field(TEXT, pa.string(), nullable=False),
        pa.field(EVENTS, _TEXTS, nullable=False),
        pa.field(MESSAGE, pa.string()),
    ]
)
"""`rejected/`. A row per thing refused."""

STAGED_REJECTED: Final = pa.schema([*REJECTED, pa.field(NUMBER, pa.int32()), pa.field(SPLIT, pa.int32())])
"""Rejections while an analysis runs: with number and split, `line` counts from the beginning of that split."""

STAGED_SPAN: Final = pa.schema(
    [
        pa.field("trace", pa.string(), nullable=False),
        pa.field("is_span", pa.bool_(), nullable=False),
        pa.field("joins", _TEXTS, nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
"""Spans and log records: the trace, the other traces that it references, and the record in MessagePack."""

VIOLATION: Final = pa.schema(
    [
        pa.field(EXECUTION, pa.string(), nullable=False),
        pa.field(KIND, pa.string(), nullable=False),
        pa.field(EVENTS, _TEXTS, nullable=False),
        pa.field(MESSAGES, _TEXTS, nullable=False),
        pa.field(WHY, pa.string(), nullable=False),
        pa.field(REASONS, _TEXTS, nullable=False),
    ]
)
"""`violations/`. A row per witness."""

CUT: Final = pa.schema(
    [
        pa.field(EXECUTION, pa.string(), nullable=False),
        pa.field(NUMBER, pa.int32(), nullable=False),
        pa.field(BLOCK, pa.int32(), nullable=False),
        pa.field(EVENTS, pa.int64(), nullable=False),
        pa.field("cut", pa.list_(pa.int64()), nullable=False),
        pa.field("count", pa.list_(pa.int64()), nullable=False),
        pa.field(CAUSAL_TIME, pa.list_(pa.int64()), nullable=False),
    ]
)
"""`cuts/cuts.parquet`. A row per block, with the cut where it ENDS: per process its last index inside, how many
events it has inside, and the causal time of the last of them. Key: execution, block."""

FRONT: Final = pa.schema(
    [
        pa.field(KIND, pa.string(), nullable=False),
        pa.field(MEMBER, pa.int32(), nullable=False),
        pa.field(INDEX, pa.int64(), nullable=False),
        pa.field(CAUSAL_TIME, pa.int64()),
        pa.field("stamp", pa.list_(pa.int64()), nullable=False),
    ]
)
"""`cuts/NUMBER-BLOCK.parquet`: the true stamps where the block BEGINS, of the front (`front`, a row per process) and
of the messages that enter it (`message`, by sender and send index)."""

MEMBERS: Final = pa.schema(
    [
        pa.field(EXECUTION, pa.string(), nullable=False),
        pa.field(NUMBER, pa.int32(), nullable=False),
        pa.field(MEMBER, pa.int32(), nullable=False),
        pa.field(PROCESS, pa.string(), nullable=False),
        pa.field(EVENTS, pa.int64(), nullable=False),
        pa.field(FIRST_INDEX, pa.int64(), nullable=False),
        pa.field("last_index", pa.int64(), nullable=False),
    ]
)
"""`cuts/members.parquet`: the processes of the executions that were cut into blocks."""

DONE: Final = pa.schema([pa.field("done", pa.string(), nullable=False)])
"""What a Python task that writes its own files gives back: one row, a JSON text of bounded size."""

BLOCK_ROW: Final = pa.schema(
    [
        pa.field(BLOCK, pa.int32(), nullable=False),
        pa.field(MEMBER, pa.int32(), nullable=False),
        pa.field(INDEX, pa.int64(), nullable=False),
        pa.field("rank", pa.int8(), nullable=False),
        pa.field(FILE, pa.int32(), nullable=False),
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field(SENDER, pa.int32()),
        pa.field(TIME, pa.int64()),
        pa.field(SENDS, _TEXTS),
        pa.field(RECEIVES, _TEXTS),
        pa.field(NAME, pa.string()),
        pa.field(ATTRIBUTES, pa.map_(pa.string(), pa.string())),
        pa.field(CLOCK, pa.map_(pa.string(), pa.int64())),
    ]
)
"""What is shuffled by block: events (rank 0) and, for each receive whose message was sent or that was left out, its
source (rank 1), with `file` the position of the receive and `offset` the index of the send."""


def spark_type(schema: pa.Schema) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
