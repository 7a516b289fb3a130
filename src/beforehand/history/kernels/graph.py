"""Graphs as arrays: an order in which causes come first, strong components, short cycles."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels.compiled import kernel

__all__ = ["order_state", "path_back", "place_rows", "strong_components", "topological_order"]

Integers = npt.NDArray[np.int64]


def topological_order(start: Integers, receive_start: Integers, source: Integers, order: Integers) -> int:
    """Write the rows into `order`, causes first; returns how many could be placed. Fewer than all: there is a cycle.

    Process p has the rows start[p] up to start[p + 1].
    """
    return place_rows(start, receive_start, source, order_state(start, receive_start), order)


# Rows of the state of `place_rows`: an entry per process.
_AT: Final = 0  # Its next row.
_CURSOR: Final = 1  # The first receive of that row that is not known to be placed.
_READY: Final = 2  # A stack of processes that may run; how many there are stands behind it.
_PARKED: Final = 3  # The first process parked on one of its rows, or -1,
_PARKED_NEXT: Final = 4  # the next one parked on the same process as this one,
_PARKED_ROW: Final = 5  # the row that this one is parked on,
_WANTED: Final = 6  # and the least row that anybody is parked on here.


def order_state(start: Integers, receive_start: Integers) -> Integers:
    """What `place_rows` begins with."""
    processes = start.size - 1
    state = np.full((7, processes + 1), -1, np.int64)
    state[_AT, :processes] = start[:processes]
    state[_CURSOR, :processes] = receive_start[start[:processes]]
    state[_READY, :processes] = np.arange(processes)[::-1]
    state[_READY, processes] = processes
    state[_WANTED] = start[processes]
    return state


@kernel
def place_rows(start: Integers, receive_start: Integers, source: Integers, state: Integers, order: Integers) -> int:
    """Place the next rows until `order` is full or no row can be placed; returns how many were.

    A process runs until it needs a send that has not been placed; it is then parked on that send and runs on from
    there when it is: each receive is looked at once or twice. What it takes does not grow with the rows: whether one
    was placed is told by how far its process came.
    """
    processes = start.size - 1
    rows = start[processes]
    at, cursor, ready = state[_AT], state[_CURSOR], state[_READY]
    parked, parked_next, parked_row, wanted = state[_PARKED], state[_PARKED_NEXT], state[_PARKED_ROW], state[_WANTED]
    waiting = ready[processes]
    count = 0
    while waiting:
        waiting -= 1
        p = ready[waiting]
        while at[p] < start[p + 1]:
            row = at[p]
            needs = -1
            while cursor[p] < receive_start[row + 1]:
                s = source[cursor[p]]
                if s >= 0:
                    low, high = 0, processes  # The process that sent: start[low] <= s < start[low + 1].
                    while high - low > 1:
                        middle = (low + high) // 2
                        if start[middle] <= s:
                            low = middle
                        else:
                            high = middle
                    if s >= at[low]:
                        needs = low
                        break
                cursor[p] += 1
            if needs >= 0:
                parked_row[p] = source[cursor[p]]
                parked_next[p] = parked[needs]
                parked[needs] = p
                wanted[needs] = min(wanted[needs], parked_row[p])
                break
            if count == order.size:
                ready[waiting] = p
                ready[processes] = waiting + 1
                return count
            order[count] = row
            count += 1
            at[p] += 1
            if row != wanted[p]:
                continue
            wanted[p] = rows
            before = -1
            q = parked[p]
            while q >= 0:
                following = parked_next[q]
                if parked_row[q] == row:
                    ready[waiting] = q
                    waiting += 1
                    if before < 0:
                        parked[p] = following
                    else:
                        parked_next[before] = following
                else:
                    wanted[p] = min(wanted[p], parked_row[q])
                    before = q
                q = following
    ready[processes] = 0
    return count


@kernel
def strong_components(start: Integers, target: Integers, component: Integers) -> int:
    """Number the strongly connected components (Tarjan, without recursion); returns how many there are.

    The successors of node i are target[start[i]] up to target[start[i + 1]].
    """
    nodes = start.size - 1
    number = np.full(nodes, -1, np.int64)
    low = np.zeros(nodes, np.int64)
    on_stack = np.zeros(nodes, np.bool_)
    stack = np.empty(nodes, np.int64)
    path = np.empty(nodes, np.int64)
    edge = start[:nodes].copy()
    stack_size = count = components = 0
    for root in range(nodes):
        if number[root] >= 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            node = path[depth]
            if number[node] < 0:
                number[node] = low[node] = count
                count += 1
                stack[stack_size] = node
                stack_size += 1
                on_stack[node] = True
            descend = False
            while edge[node] < start[node + 1]:
                to = target[edge[node]]
                edge[node] += 1
                if number[to] < 0:
                    depth += 1
                    path[depth] = to
                    descend = True
                    break
                if on_stack[to]:
                    low[node] = min(low[node], number[to])
            if descend:
                continue
            if low[node] == number[node]:
                while True:
                    stack_size -= 1
                    member = stack[stack_size]
                    on_stack[member] = False
                    component[member] = components
                    if member == node:
                        break
                components += 1
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[node])
    return components


@kernel
def path_back(
    start: Integers,
    target: Integers,
    component: Integers,
    real: int,  # Nodes from here on are joints: passing through one costs nothing.
    node: int,
    longest: int,  # Give up beyond this many steps.
    parent: Integers,  # Scratch, one per node, all -1; left so.
    path: Integers,  # Out: the cycle backwards, `node` first.
) -> int:
    """The shortest cycle through `node` within its component; returns its length in nodes, 0 if it is too long."""
    here = np.empty(parent.size, np.int64)  # All nodes at this distance; joints join the level that reaches them.
    there = np.empty(parent.size, np.int64)
    seen = np.empty(parent.size, np.int64)
    here[0] = node
    here_size, seen_size, length = 1, 0, 0
    for _ in range(longest):
        at = there_size = 0
        while at < here_size and length == 0:
            via = here[at]
            at += 1
            for e in range(start[via], start[via + 1]):
                to = target[e]
                if to == node:
                    path[0] = node
                    length = 1
                    while via != node:
                        if via < real:
                            path[length] = via
                            length += 1
                        via = parent[via]
                    break
                if parent[to] >= 0 or component[to] != component[node]:
                    continue
                parent[to] = via
                seen[seen_size] = to
                seen_size += 1
                if to >= real:
                    here[here_size] = to
                    here_size += 1
                else:
                    there[there_size] = to
                    there_size += 1
        if length or there_size == 0:
            break
        here, there = there, here
        here_size = there_size
    for i in range(seen_size):
        parent[seen[i]] = -1
    return length
