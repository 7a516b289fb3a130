"""Graphs as arrays: an order in which causes come first, strong components, short cycles."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beforehand.history.kernels.compiled import kernel

__all__ = ["path_back", "strong_components", "topological_order"]

Integers = npt.NDArray[np.int64]


@kernel
def topological_order(start: Integers, receive_start: Integers, source: Integers, order: Integers) -> int:
    """Write the rows into `order`, causes first; returns how many could be placed. Fewer than all: there is a cycle.

    Process p has the rows start[p] up to start[p + 1]. A process runs until it needs a send that has not been
    placed; it is then parked on that send and runs on from there when it is: each receive is looked at once or twice.
    """
    processes = start.size - 1
    rows = start[processes]
    placed = np.zeros(rows, np.bool_)
    parked = np.full(rows, -1, np.int64)  # Per row, the first process parked on it.
    parked_next = np.full(processes, -1, np.int64)
    at = start[:processes].copy()
    cursor = np.zeros(
        processes, np.int64
    )  # Per process, the first receive of its row that is not known to be placed.
    for p in range(processes):
        if at[p] < start[p + 1]:
            cursor[p] = receive_start[at[p]]
    ready = np.empty(processes, np.int64)
    for i in range(processes):
        ready[i] = processes - 1 - i
    waiting = processes
    count = 0
    while waiting:
        waiting -= 1
        p = ready[waiting]
        while at[p] < start[p + 1]:
            row = at[p]
            needs = -1
            while cursor[p] < receive_start[row + 1]:
                if source[cursor[p]] >= 0 and not placed[source[cursor[p]]]:
                    needs = source[cursor[p]]
                    break
                cursor[p] += 1
            if needs >= 0:
                parked_next[p] = parked[needs]
                parked[needs] = p
                break
            placed[row] = True
            order[count] = row
            count += 1
            at[p] += 1
            q = parked[row]
            while q >= 0:
                ready[waiting] = q
                waiting += 1
                q = parked_next[q]
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
