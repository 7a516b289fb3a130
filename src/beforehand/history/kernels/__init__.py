"""The inner loops, compiled by numba: plain arrays in, plain arrays out.

They know nothing of names, files or Spark. The same kernels replay a whole history in memory and a block of a
larger one on Spark; that is what the arguments `front` and `entering` are for.
"""

from beforehand.history.kernels.blocks import expand, locate, replay_block, share_slots, shrink
from beforehand.history.kernels.compiled import kernel
from beforehand.history.kernels.graph import path_back, strong_components, topological_order
from beforehand.history.kernels.replay import NO_TIME, lamport_times, overtaken, replay

__all__ = [
    "NO_TIME",
    "expand",
    "kernel",
    "lamport_times",
    "locate",
    "overtaken",
    "path_back",
    "replay",
    "replay_block",
    "share_slots",
    "shrink",
    "strong_components",
    "topological_order",
]
