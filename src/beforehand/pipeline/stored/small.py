"""Small executions: read whole out of their pack, and asked in memory.

The rows say who sent each message that was received, so that a message that was sent twice is not matched anew: rows
are sorted, and the order of the input, in which the first one stays, is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from beforehand.events import Event
from beforehand.history import History
from beforehand.history.columns import from_events
from beforehand.pipeline.directory import Directory, pack_of
from beforehand.pipeline.schemas import EXECUTION, SEND_INDEX, SENDER, SOURCES, STORED
from beforehand.pipeline.stored.arrays import open_parquet, reading
from beforehand.pipeline.stored.records import EVENT_COLUMNS, events_of

__all__ = ["read_small"]

Sources = list[list[tuple[int, int | None]]]
Repeated = Callable[[], set[tuple[str, str, int]]]


def read_small(directory: Directory, packs: int, execution: str, repeated: Repeated) -> History | None:
    """The execution of this name, None if no pack has it.

    `repeated` tells which sends were left out (message, process, index); it is asked only if a message has several.
    """
    path = directory.pack(pack_of(execution, packs))
    if not path.exists():
        return None  # A pack without executions is not written.
    parts: list[pa.Table] = []
    with open_parquet(path, STORED) as file, reading(path):
        for group in range(file.num_row_groups):
            bounds = file.metadata.row_group(group).column(0).statistics
            if bounds is not None and bounds.has_min_max and not bounds.min <= execution <= bounds.max:
                continue
            table = file.read_row_group(group, columns=[*EVENT_COLUMNS, SOURCES], use_threads=False)
            parts.append(table.filter(pc.equal(table[EXECUTION], pa.scalar(execution))))
    table = pa.concat_tables(parts) if parts else None
    if table is None or not len(table):
        return None
    with reading(path):
        events = events_of(table)
        sources = [[(s[SENDER], s[SEND_INDEX]) for s in row] for row in table[SOURCES].to_pylist()]
    return _history(events, sources, repeated)


def _history(events: list[Event], sources: Sources, repeated: Repeated) -> History:
    sends = [message for event in events for message in event.sends]
    twice = len(set(sends)) < len(sends)
    if not twice and all(sender != -2 for row in sources for sender, _ in row):
        return History(events)
    # Sends and receives that analysis left out are left out here too; the events shown keep them.
    gone = repeated() if twice else set()
    kept = [
        replace(
            event,
            sends=tuple(m for m in event.sends if (m, event.process, event.index) not in gone),
            receives=tuple(m for m, (sender, _) in zip(event.receives, row, strict=True) if sender != -2),
        )
        for event, row in zip(events, sources, strict=True)
    ]
    whole = {event.id: event for event in events}
    columns = from_events(kept)
    return History.from_columns(replace(columns, events=[whole[event.id] for event in columns.events]))
