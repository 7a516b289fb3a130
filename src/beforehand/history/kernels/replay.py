"""Replaying events in causal order: vector stamps, causal times, sizes of pasts, overtaken receives.

Rows are events, sorted by process and index. Of a block in a larger history only its own events are rows;
what lies before it comes in as `front` (per process, what its last event before the block knew) and as
`entering` (the stamps of messages that were sent before the block and are received in it). For a whole history both
are empty. A receive names its message's send by a row (0 and up), by `-2 - e` for entering message e, or by -1 if
nobody sent it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels.compiled import kernel

__all__ = ["NO_TIME", "lamport_times", "overtaken", "replay"]

NO_TIME: Final = -(2**63)
"""In place of a missing time: less than every time, so that a maximum passes over it."""

Integers = npt.NDArray[np.int64]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@kernel
def replay(
    order: Integers,  # Rows, causes before effects.
    process: npt.NDArray[np.int32],
    index: Integers,
    time: Integers,
    receive_start: Integers,  # The receives of row i are receive_start[i] up to receive_start[i + 1].
    source: Integers,  # Per receive, where its message was sent (see above).
    front: Stamps,  # Processes × processes. In: before the block. Out: after it.
    front_time: Integers,  # Per process, the latest time in the past of its last event. In and out.
    entering: Stamps,  # Entering messages × processes.
    entering_time: Integers,
    slot: Integers,  # Per row, where in `stamps` its stamp goes, or -1. Sends that rows receive must have one.
    stamps: Stamps,  # Out.
    causal_time: Integers,  # Out, per row: the latest time in its past, itself included.
    past_size: Integers,  # Out, per row: the sum of its stamp.
) -> None:
    width = front.shape[1]
    for row in order:
        p = process[row]
        known = front[p]
        latest = max(front_time[p], time[row])
        for r in range(receive_start[row], receive_start[row + 1]):
            s = source[r]
            if s >= 0:
                sent = stamps[slot[s]]
                latest = max(latest, causal_time[s])
            elif s < -1:
                sent = entering[-2 - s]
                latest = max(latest, entering_time[-2 - s])
            else:
                continue
            for q in range(width):
                if sent[q] > known[q]:
                    known[q] = sent[q]
        known[p] = index[row]
        front_time[p] = latest
        causal_time[row] = latest
        size = 0
        for q in range(width):
            size += known[q]
        past_size[row] = size
        if slot[row] >= 0:
            kept = stamps[slot[row]]
            for q in range(width):
                kept[q] = known[q]


@kernel
def overtaken(
    process: npt.NDArray[np.int32],
    receive_start: Integers,
    source: Integers,
    counted: Flags,  # Per receive, whether its message is a real one.
    send_process: npt.NDArray[np.int32],  # Per receive, of its message's send.
    send_index: Integers,
    slot: Integers,
    stamps: Stamps,
    entering: Stamps,
    known_sends: Stamps,  # K: processes × processes. In: before the block. Out: after it.
    fifo_sends: Integers,  # Per receiver and sender, the greatest send index received so far. In and out.
    causal: Flags,  # Out, per receive: overtaken by a message that its send happened before.
    fifo: Flags,  # Out, per receive: overtaken by a later message of the same sender.
) -> None:
    """K holds, per process, the maximum over all messages it has received of the send's stamp with the sender's own
    entry less one: the events that happened before a send whose message is already here. Messages of one send, and
    messages received in one event, never overtake each other: the first because of the "less one", the second
    because K takes an event's messages over only after all of them were judged.
    """
    width = known_sends.shape[1]
    for row in range(process.size):
        p = process[row]
        first, last = receive_start[row], receive_start[row + 1]
        for r in range(first, last):
            if counted[r] and source[r] != -1:
                q = send_process[r]
                causal[r] = known_sends[p, q] >= send_index[r]
                fifo[r] = fifo_sends[p, q] > send_index[r]
        for r in range(first, last):
            if not counted[r] or source[r] == -1:
                continue
            sent = stamps[slot[source[r]]] if source[r] >= 0 else entering[-2 - source[r]]
            sender = send_process[r]
            for q in range(width):
                news = sent[q] - 1 if q == sender else sent[q]
                if news > known_sends[p, q]:
                    known_sends[p, q] = news
            if send_index[r] > fifo_sends[p, sender]:
                fifo_sends[p, sender] = send_index[r]


@kernel
def lamport_times(
    order: Integers,
    process: npt.NDArray[np.int32],
    receive_start: Integers,
    source: Integers,
    front: Integers,  # Per process, the Lamport time of its last event before the block. In and out.
    entering: Integers,  # Per entering message, that of its send.
    times: Integers,  # Out.
) -> None:
    """One more than the latest of all direct causes: the longest chain that ends in the event."""
    for row in order:
        latest = front[process[row]]
        for r in range(receive_start[row], receive_start[row + 1]):
            s = source[r]
            if s >= 0:
                latest = max(latest, times[s])
            elif s < -1:
                latest = max(latest, entering[-2 - s])
        times[row] = latest + 1
        front[process[row]] = latest + 1
