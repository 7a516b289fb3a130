"""Histories in memory as lanes: imported files, and the small executions of a history directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from beforehand.formats.failing import is_failure
from beforehand.history import History
from beforehand.history.kernels import NO_TIME
from beforehand.service.views.lanes import Axis, Lane, Lanes, edges_between
from beforehand.service.views.source import Detail, Point, detail_of

__all__ = ["details_of_history", "lanes_of_history"]


def lanes_of_history(history: History, axis: Axis | None) -> Lanes:
    """The lanes of a history. Steps are Lamport times: as narrow as the longest causal chain."""
    columns = history.columns
    times = history.causal_times
    if axis is None:
        axis = "time" if times.size and int(times.max()) != NO_TIME else "steps"
    xs = times if axis == "time" else history.lamport_times
    failing = np.fromiter((is_failure(event.attributes) for event in columns.events), np.bool_, len(history))
    lanes = []
    for at, process in enumerate(columns.processes):
        rows = slice(int(columns.start[at]), int(columns.start[at + 1]))
        lanes.append(Lane(process, columns.index[rows], xs[rows], np.flatnonzero(failing[rows])))
    sent = np.flatnonzero(columns.source >= 0)
    senders, receivers = columns.source[sent], columns.receive_row[sent]
    edges = edges_between(
        lanes,
        columns.process[senders].astype(np.int64),
        columns.index[senders],
        columns.process[receivers].astype(np.int64),
        columns.index[receivers],
    )
    return Lanes(history.execution, axis, lanes, edges)


def details_of_history(
    history: History, lanes: Lanes, points: Sequence[Point], complete: Mapping[str, int]
) -> list[Detail | None]:
    """`complete`: per process, the greatest index up to which all of the past is here."""
    columns, source = history.columns, history.columns.source
    found: list[Detail | None] = []
    for lane, index in points:
        at = lanes.lanes[lane].position(index)
        assert at is not None
        row = int(columns.start[lane]) + at
        event = columns.events[row]
        received = []
        for r in range(int(columns.receive_start[row]), int(columns.receive_start[row + 1])):
            if source[r] >= 0:
                sender = columns.event_id(int(source[r]))
                received.append((columns.messages[columns.receive_message[r]], sender.process, sender.index))
        state = "complete" if event.index <= complete.get(event.process, 0) else "incomplete"
        found.append(detail_of(event, received, state))
    return found
