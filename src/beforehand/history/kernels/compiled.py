"""How kernels are compiled: once per machine, kept on disk where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use, without the interpreter lock; in every process anew where nothing is writable."""
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no directory in which it may keep the result.
        compiled = njit(nogil=True)(function)
    return cast("Callable[P, R]", compiled)
