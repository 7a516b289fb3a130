"""Numbers on the command line: ranges of floats without `nan` and `inf`, which no arithmetic here survives."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click

__all__ = ["FiniteRange"]


class FiniteRange(click.FloatRange):
    """As `click.FloatRange`, for finite numbers: `nan` is in every range of click's, `inf` in every open one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number
