"""Kernels for single questions about a block: linear in its events, without a vector stamp in sight."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels import kernel

__all__ = ["inside_of", "knowledge_of"]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


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
