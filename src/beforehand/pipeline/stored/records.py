"""Rows of `events/` as events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.pipeline.schemas import (
    ATTRIBUTES,
    CLOCK,
    EXECUTION,
    INDEX,
    NAME,
    PROCESS,
    RECEIVES,
    SENDS,
    TIME,
)

__all__ = ["EVENT_COLUMNS", "event_of", "events_of"]

EVENT_COLUMNS: Final = [EXECUTION, PROCESS, INDEX, SENDS, RECEIVES, TIME, NAME, ATTRIBUTES, CLOCK]
"""All that an event has, in the order that `event_of` takes."""

Pairs = Mapping[str, Any] | Iterable[tuple[str, Any]]


def events_of(table: pa.Table) -> list[Event]:
    """The events of rows that have the columns above."""
    columns = [table[name].to_pylist() for name in EVENT_COLUMNS]
    return [event_of(*row) for row in zip(*columns, strict=True)]


def event_of(
    execution: str,
    process: str,
    index: int,
    sends: list[str],
    receives: list[str],
    time: int | None,
    name: str,
    attributes: Pairs,
    clock: Pairs | None,
) -> Event:
    try:
        return Event(
            execution=execution,
            process=process,
            index=index,
            sends=tuple(sends),
            receives=tuple(receives),
            time=time,
            name=name,
            attributes=dict(attributes),
            clock=None if clock is None else dict(clock),
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"events/ holds a row that is no event ({error}): analyze again") from error
