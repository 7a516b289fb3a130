"""The graph of what was received directly after what, over all processes: total order holds iff it has no cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beforehand.history.columns import Columns
from beforehand.history.kernels import kernel

__all__ = ["Succession", "succession"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Succession:
    """Nodes below `messages` are messages. The others are joints: between an event that receives several messages and
    the next one, all of the former lead to a joint and the joint to all of the latter, so that edges stay few.
    """

    messages: int
    start: Integers  # The successors of node i are target[start[i]] up to target[start[i + 1]].
    target: Integers
    inverted: npt.NDArray[np.bool_]  # Per message: came directly after one with a higher number. On every cycle.


def succession(columns: Columns, real: npt.NDArray[np.bool_]) -> Succession:
    """`real` tells per receive whether to count it."""
    row = columns.receive_row[real]
    message = columns.receive_message[real]
    count = len(columns.messages)
    tail, head = np.empty(2 * row.size, np.int64), np.empty(2 * row.size, np.int64)
    edges, joints = _edges(columns.process[row], row, message, count, tail, head)
    tail, head = tail[:edges], head[:edges]
    by_tail = np.argsort(tail, kind="stable")
    start = np.searchsorted(tail[by_tail], np.arange(count + joints + 1)).astype(np.int64)

    # Number the messages by their first place in the input; any numbering will do to break every cycle.
    highest = np.arange(count + joints)
    highest[count:] = -1
    into_joint = head >= count
    np.maximum.at(highest, head[into_joint], tail[into_joint])
    inverted = np.zeros(count, np.bool_)
    onward = ~into_joint
    inverted[head[onward][highest[tail[onward]] > head[onward]]] = True
    return Succession(count, start, head[by_tail], inverted)


@kernel
def _edges(
    process: npt.NDArray[np.int32], row: Integers, message: Integers, joint: int, tail: Integers, head: Integers
) -> tuple[int, int]:
    """Receives come sorted by row, rows by process. Returns how many edges and joints were made."""
    first_joint = joint
    edges = 0
    begin = 0  # The receives of the event before: begin up to end.
    end = 0
    while end < row.size:
        next_end = end
        while next_end < row.size and row[next_end] == row[end]:
            next_end += 1
        if end > begin and process[end] == process[begin]:
            if end - begin == 1 and next_end - end == 1:
                tail[edges], head[edges] = message[begin], message[end]
                edges += 1
            else:
                for r in range(begin, end):
                    tail[edges], head[edges] = message[r], joint
                    edges += 1
                for r in range(end, next_end):
                    tail[edges], head[edges] = joint, message[r]
                    edges += 1
                joint += 1
        begin, end = end, next_end
    return edges, joint - first_joint
