"""One execution in memory: precedence, cuts, runs, checks and measures; and the kernels under them."""

from beforehand.history.checks import CheckReport, Violation
from beforehand.history.columns import Columns
from beforehand.history.conditions import Conditions
from beforehand.history.cuts import Cut
from beforehand.history.history import Explanation, History
from beforehand.history.judging import Judged
from beforehand.history.measures import HiddenChannel, Lateness, Measures, Synchrony
from beforehand.history.offsets import ClockBounds
from beforehand.history.runs import Run

__all__ = [
    "CheckReport",
    "ClockBounds",
    "Columns",
    "Conditions",
    "Cut",
    "Explanation",
    "HiddenChannel",
    "History",
    "Judged",
    "Lateness",
    "Measures",
    "Run",
    "Synchrony",
    "Violation",
]
