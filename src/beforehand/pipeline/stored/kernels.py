"""Kernels for single questions about a block: linear in its events, without a vector stamp in sight."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels import kernel

__all__ = ["inside_of", "knowledge_of", "stamp_of"]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@kernel
def stamp_of(
    row: int,  # Whose stamp is wanted.
    start: Integers,  # Process p has the rows start[p] up to start[p + 1].
    process: Numbers,
    index: Integers,
    receive_start: Integers,
    source: Integers,  # Per receive: a row, -2 - e for entering message e, or -1.
    front: Stamps,  # Processes × processes: what is known where the block begins.
    entering: Stamps,  # The same per entering message.
    stamp: Integers,  # Out, zeros at first.
) -> None:
    """Back from the row through its past inside the block, each row once; vectors only where that past begins."""
    width = start.size - 1
    reached = start[:-1] - 1  # Per process, the last row in the past.
    brought = np.zeros(entering.shape[0], np.bool_)
    waiting = np.empty(source.size + 1, np.int64)
    waiting[0] = row
    count = 1
    while count:
        count -= 1
        last = waiting[count]
        p = process[last]
        known = reached[p]
        if last <= known:
            continue
        reached[p] = last
        for r in range(receive_start[known + 1], receive_start[last + 1]):
            s = source[r]
            if s < -1:
                brought[-2 - s] = True
            elif s >= 0 and s > reached[process[s]]:
                waiting[count] = s
                count += 1
    for p in range(width):
        if reached[p] >= start[p]:
            for q in range(width):
                stamp[q] = max(stamp[q], front[p, q])
            stamp[p] = max(stamp[p], index[reached[p]])
    for e in range(brought.size):
        if brought[e]:
            for q in range(width):
                stamp[q] = max(stamp[q], entering[e, q])


@kernel
def knowledge_of(
    order: Integers,  # Rows, causes before effects.
    process: Numbers,
    index: Integers,
    receive_start: Integers,
    source: Integers,  # Per receive: a row, -2 - e for entering message e, or -1.
    wanted: int,  # A process.
    front: Integers,  # Per process: how much of the wanted one its last event before the block knew.
    entering: Integers,  # Per entering message, the same for its send.
    known: Integers,  # Out, per row: the wanted entry of its stamp.
) -> None:
    latest = front.copy()
    for row in order:
        p = process[row]
        value = latest[p]
        for r in range(receive_start[row], receive_start[row + 1]):
            s = source[r]
            if s >= 0:
                value = max(value, known[s])
            elif s < -1:
                value = max(value, entering[-2 - s])
        if p == wanted:
            value = index[row]
        latest[p] = value
        known[row] = value


@kernel
def inside_of(
    order: Integers,
    process: Numbers,
    index: Integers,
    receive_start: Integers,
    source: Integers,
    cut: Integers,  # Per process.
    front: Flags,  # Per process: whether the past of its last event before the block lies inside the cut.
    entering: Flags,  # Per entering message, the same for its send.
    inside: Flags,  # Out, per row: whether it and its whole past lie inside the cut.
) -> None:
    latest = front.copy()
    for row in order:
        p = process[row]
        value = latest[p] and index[row] <= cut[p]
        for r in range(receive_start[row], receive_start[row + 1]):
            s = source[r]
            if s >= 0:
                value = value and inside[s]
            elif s < -1:
                value = value and entering[-2 - s]
        latest[p] = value
        inside[row] = value
