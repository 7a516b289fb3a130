"""How kernels are compiled: once per machine, kept on disk where that works."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pickle import UnpicklingError
from typing import Final, ParamSpec, TypeVar

from numba import njit

__all__ = ["kernel"]

P = ParamSpec("P")
R = TypeVar("R")

# What numba lets through when its cache on disk is full, cut short or not its own. No kernel raises any of these.
_CACHE_ERRORS: Final = (OSError, EOFError, UnpicklingError, ValueError, KeyError, AttributeError, ImportError)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use, without the interpreter lock; without the cache if that is of no use here.

    Kernels are called from Python only, not from each other: what is returned is a plain function.
    """
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no directory in which it may keep the result.
        compiled = njit(nogil=True)(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal compiled
        try:
            result: R = compiled(*args, **kwargs)
        except _CACHE_ERRORS:
            compiled = njit(nogil=True)(function)
            result = compiled(*args, **kwargs)
        return result

    return call
