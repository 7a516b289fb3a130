"""Pairs of messages that break the finer conditions of Garg's problems 12.2 and 12.3."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels.compiled import kernel

__all__ = ["crossed_pairs"]

Integers = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@kernel
def _before(a: int, b: int, process: npt.NDArray[np.int32], index: Integers, stamps: Stamps) -> bool:
    """Row a happened before row b."""
    return a != b and stamps[b, process[a]] >= index[a]


@kernel
def crossed_pairs(
    condition: int,
    message: Integers,  # Per receive whose send is known.
    send: Integers,  # Rows.
    receive: Integers,
    process: npt.NDArray[np.int32],
    index: Integers,
    stamps: Stamps,
    witness: Integers,  # Out: the two receives of the first pair found.
) -> int:
    """How many pairs of messages violate a condition: 1, 2, 3 for C1 to C3, 4 for mysterious order."""
    found = 0
    for x in range(send.size):
        sx, rx = send[x], receive[x]
        for y in range(send.size):
            sy, ry = send[y], receive[y]
            if message[x] == message[y]:
                continue
            if condition == 4:
                # Symmetric: count each pair once.
                wrong = x < y and _before(sx, ry, process, index, stamps) and _before(sy, rx, process, index, stamps)
            else:
                same_sender = process[sx] == process[sy] and index[sx] < index[sy]
                sent_before = same_sender if condition == 2 else _before(sx, sy, process, index, stamps)
                same_receiver = process[ry] == process[rx] and index[ry] < index[rx]
                wrong = sent_before and (same_receiver if condition == 3 else _before(ry, rx, process, index, stamps))
            if wrong:
                if found == 0:
                    witness[0], witness[1] = x, y
                found += 1
    return found
