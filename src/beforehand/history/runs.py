"""Runs: sequences of all events. Is what an observer recorded possible, and does it respect causality?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beforehand.history.columns import Columns

__all__ = ["Run", "judge"]


@dataclass(frozen=True, slots=True)
class Run:
    """The verdict on a sequence of events.

    A *run* has every event once and keeps each process's own order. A run is *consistent* if each event also comes
    after everything that happened before it: every prefix is then a consistent cut.
    """

    is_run: bool
    is_consistent: bool
    why: str  # Empty if it is a consistent run.


def judge(columns: Columns, rows: Sequence[int]) -> Run:
    count = columns.process.size
    place = np.full(count, -1, np.int64)
    for at, row in enumerate(rows):
        if place[row] >= 0:
            return Run(False, False, f"{columns.event_id(row)} occurs twice")
        place[row] = at
    missing = np.flatnonzero(place < 0)
    if missing.size:
        return Run(False, False, f"{missing.size} events are missing, {columns.event_id(int(missing[0]))} for one")
    return _order(columns, place)


def _order(columns: Columns, place: npt.NDArray[np.int64]) -> Run:
    same = columns.process[1:] == columns.process[:-1]
    turned = np.flatnonzero(same & (place[1:] < place[:-1]))
    if turned.size:
        first = int(turned[0])
        return Run(False, False, f"{columns.event_id(first + 1)} comes before {columns.event_id(first)}")
    source, row = columns.source, columns.receive_row
    early = np.flatnonzero((source >= 0) & (place[row] < place[source]))
    if early.size:
        r = int(early[0])
        message = columns.messages[columns.receive_message[r]]
        receiver, sender = columns.event_id(int(row[r])), columns.event_id(int(source[r]))
        return Run(True, False, f"{receiver} receives {message!r} before {sender} sends it")
    return Run(True, True, "")
