"""Kernels for a block between two consistent cuts of a larger history.

`replay_block` is `replay` and `overtaken` in one pass along the causal order, with the stamps of sends kept only
while a receive still needs them: what it takes grows with the messages in flight, not with the events.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels.compiled import kernel

__all__ = ["assign_slots", "count_uses", "expand", "locate", "replay_block", "share_slots", "shrink"]

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Stamps = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@kernel
def locate(start: Integers, index: Integers, process: Numbers, wanted: Integers, row: Integers) -> None:
    """Per pair of process and index, its row, or -1 where there is none. Process p has the rows start[p] and up."""
    for i in range(wanted.size):
        p = process[i]
        row[i] = -1
        if p < 0:
            continue
        low, high = start[p], start[p + 1]
        while low < high:
            middle = (low + high) // 2
            if index[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        if low < start[p + 1] and index[low] == wanted[i]:
            row[i] = low


def share_slots(order: Integers, receive_start: Integers, source: Integers, kept: Flags, slot: Integers) -> int:
    """Give each send that a row receives, and each row that is kept, a slot; returns how many slots there are.

    A slot is free again once the last receive of its send was passed. What is kept keeps its slot.
    """
    uses, counts = np.zeros(order.size, np.int64), np.zeros(2, np.int64)
    count_uses(source, uses)
    assign_slots(order, receive_start, source, kept, uses, np.empty(order.size, np.int64), counts, slot)
    return int(counts[1])


@kernel
def count_uses(source: Integers, uses: Integers) -> None:
    """Per row, by how many of these receives it is received: added to `uses`."""
    for s in source:
        if s >= 0:
            uses[s] += 1


@kernel
def assign_slots(
    order: Integers,  # All rows, causes before effects, or some more of them.
    receive_start: Integers,
    source: Integers,
    kept: Flags,
    uses: Integers,  # From `count_uses`. In and out.
    free: Integers,  # Slots that are free again: a stack. In and out.
    counts: Integers,  # How many these are, and how many slots there are in all. In and out.
    slot: Integers,  # Out.
) -> None:
    """`share_slots`, piece by piece of the order."""
    free_size, slots = counts
    for row in order:
        for r in range(receive_start[row], receive_start[row + 1]):
            s = source[r]
            if s >= 0:
                uses[s] -= 1
                if uses[s] == 0 and not kept[s]:
                    free[free_size] = slot[s]
                    free_size += 1
        slot[row] = -1
        if uses[row] > 0 or kept[row]:
            if free_size:
                free_size -= 1
                slot[row] = free[free_size]
            else:
                slot[row] = slots
                slots += 1
    counts[0] = free_size
    counts[1] = slots


@kernel
def replay_block(
    order: Integers,  # Rows, causes before effects; or the next of them, where the last call left off.
    process: Numbers,
    index: Integers,
    time: Integers,
    receive_start: Integers,
    source: Integers,  # Per receive: a row, -2 - e for entering message e, or -1.
    counted: Flags,  # Per receive: whether checks of order count it.
    send_process: Numbers,
    send_index: Integers,
    front: Stamps,  # Processes × processes. In: before the block. Out: after it. So are the next three.
    front_time: Integers,
    known_sends: Stamps,
    fifo_sends: Integers,
    entering: Stamps,
    entering_time: Integers,
    entering_known: bool,  # Whether `entering` has true stamps, which the causal check may use.
    slot: Integers,
    stamps: Stamps,  # Scratch and out: slots × processes.
    clock_given: Flags,  # Per row: whether the application reported a clock; its entries without zeros follow.
    clock_start: Integers,
    clock_process: Numbers,  # -1 for one that the history does not have.
    clock_count: Integers,
    causal_time: Integers,  # Out, per row. So are the next two.
    past_size: Integers,
    clock_wrong: Flags,
    causal: Flags,  # Out, per receive.
    fifo: Flags,
) -> None:
    width = front.shape[1]
    for row in order:
        p = process[row]
        known = front[p]
        latest = max(front_time[p], time[row])
        first, last = receive_start[row], receive_start[row + 1]
        for r in range(first, last):
            if counted[r] and source[r] != -1:
                q = send_process[r]
                causal[r] = known_sends[p, q] >= send_index[r]
                fifo[r] = fifo_sends[p, q] > send_index[r]
        for r in range(first, last):
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
            if not counted[r]:
                continue
            sender = send_process[r]
            if send_index[r] > fifo_sends[p, sender]:
                fifo_sends[p, sender] = send_index[r]
            if s >= 0 or entering_known:
                for q in range(width):
                    news = sent[q] - 1 if q == sender else sent[q]
                    if news > known_sends[p, q]:
                        known_sends[p, q] = news
        known[p] = index[row]
        front_time[p] = latest
        causal_time[row] = latest
        size = 0
        entries = 0
        for q in range(width):
            size += known[q]
            if known[q] > 0:
                entries += 1
        past_size[row] = size
        if clock_given[row]:
            right = entries == clock_start[row + 1] - clock_start[row]
            for c in range(clock_start[row], clock_start[row + 1]):
                right = right and clock_process[c] >= 0 and known[clock_process[c]] == clock_count[c]
            clock_wrong[row] = not right
        if slot[row] >= 0:
            kept = stamps[slot[row]]
            for q in range(width):
                kept[q] = known[q]


@kernel
def expand(
    partial: Stamps,  # In: what is known from inside the block. Out: all that is known.
    partial_time: Integers,  # In and out, likewise.
    cut: Integers,  # Per process, where the block begins.
    front: Stamps,  # The true stamps of the cut's front.
    front_time: Integers,
    entering_start: Integers,  # The entering messages of process q are entering_start[q] and up, by send index.
    entering_index: Integers,
    entering: Stamps,
    entering_time: Integers,
) -> None:
    """Each entry that lies before the block names one event whose true stamp is known: take its knowledge over.

    An entry that some knowledge taken over has already reached brings nothing more: whoever knows an event knows
    its past. That leaves few to look up.
    """
    width = cut.size
    for row in range(partial.shape[0]):
        taken = np.zeros(width, partial.dtype)
        latest = partial_time[row]
        for q in range(width):
            reach = min(partial[row, q], cut[q])
            if reach <= taken[q]:
                continue
            if reach == cut[q]:
                brought = front[q]
                latest = max(latest, front_time[q])
            else:
                low, high = entering_start[q], entering_start[q + 1]
                while low < high:
                    middle = (low + high) // 2
                    if entering_index[middle] < reach:
                        low = middle + 1
                    else:
                        high = middle
                brought = entering[low]
                latest = max(latest, entering_time[low])
            for k in range(width):
                if brought[k] > taken[k]:
                    taken[k] = brought[k]
        for k in range(width):
            if taken[k] > partial[row, k]:
                partial[row, k] = taken[k]
        partial_time[row] = latest


@kernel
def shrink(sender: Numbers, send: Integers, receiver: Numbers, receive: Integers, cuts: Integers) -> bool:
    """Shrink cuts (cuts × processes, growing) until no message among these is received inside and sent outside.

    Returns whether anything changed. The largest consistent cut inside a given one is unique, so the order in which
    messages are looked at does not matter.
    """
    changed_ever = False
    changed = True
    while changed:
        changed = False
        for m in range(send.size):
            p, q = sender[m], receiver[m]
            # The first cut that has the receive; from there on, all that lack the send must lose the receive.
            low, high = 0, cuts.shape[0]
            while low < high:
                middle = (low + high) // 2
                if cuts[middle, q] < receive[m]:
                    low = middle + 1
                else:
                    high = middle
            k = low
            while k < cuts.shape[0] and cuts[k, p] < send[m]:
                cuts[k, q] = receive[m] - 1
                changed = True
                k += 1
        changed_ever = changed_ever or changed
    return changed_ever
