"""The explorer: every run of a protocol at small size, with state hashing, and the shortest run that breaks it."""

from beforehand.sim.explorer.campaign import Progress, explore_all, explore_part
from beforehand.sim.explorer.configuration import (
    Configuration,
    Faults,
    Stack,
    admissions,
    departures,
    duels,
    leavings,
    sendings,
    successions,
)
from beforehand.sim.explorer.counterexample import Counterexample
from beforehand.sim.explorer.matrix import Row, matrix, smallest
from beforehand.sim.explorer.oracle import CAUSAL, FIFO, TOTAL
from beforehand.sim.explorer.plan import Part, explorable, faults_of, parts, stacks
from beforehand.sim.explorer.search import Exploration, Explorer

__all__ = [
    "CAUSAL",
    "FIFO",
    "TOTAL",
    "Configuration",
    "Counterexample",
    "Exploration",
    "Explorer",
    "Faults",
    "Part",
    "Progress",
    "Row",
    "Stack",
    "admissions",
    "departures",
    "duels",
    "explorable",
    "explore_all",
    "explore_part",
    "faults_of",
    "leavings",
    "matrix",
    "parts",
    "sendings",
    "smallest",
    "stacks",
    "successions",
]
