"""The simulator: a deterministic world with faults in which protocols run, and the judge of what they did."""

from beforehand.sim.drawing import draw
from beforehand.sim.record import Record
from beforehand.sim.run import Outcome, simulate
from beforehand.sim.scenario import (
    ClockFault,
    Clog,
    Crash,
    Delay,
    DelayKind,
    Departure,
    Join,
    Operation,
    Partition,
    Pause,
    Point,
    Scenario,
    read_scenario,
    write_scenario,
)
from beforehand.sim.verdict import Verdict

__all__ = [
    "ClockFault",
    "Clog",
    "Crash",
    "Delay",
    "DelayKind",
    "Departure",
    "Join",
    "Operation",
    "Outcome",
    "Partition",
    "Pause",
    "Point",
    "Record",
    "Scenario",
    "Verdict",
    "draw",
    "read_scenario",
    "simulate",
    "write_scenario",
]
