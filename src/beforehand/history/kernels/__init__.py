"""The inner loops, compiled by numba: plain arrays in, plain arrays out.

They know nothing of names, files or Spark. The same kernels replay a whole history in memory and a block of a
larger one on Spark; that is what the arguments `front` and `entering` are for.
"""

from beforehand.history.kernels.blocks import (
    assign_slots,
    count_uses,
    expand,
    locate,
    replay_block,
    share_slots,
    shrink,
)
from beforehand.history.kernels.compiled import kernel
from beforehand.history.kernels.graph import order_state, path_back, place_rows, strong_components, topological_order
from beforehand.history.kernels.replay import NO_TIME, lamport_times, overtaken, replay

__all__ = [
    "NO_TIME",
    "assign_slots",
    "count_uses",
    "expand",
    "kernel",
    "lamport_times",
    "locate",
    "order_state",
    "overtaken",
    "path_back",
    "place_rows",
    "replay",
    "replay_block",
    "share_slots",
    "shrink",
    "strong_components",
    "topological_order",
]
