"""Experiments: what the papers claim about protocols and clocks, measured in the simulator."""

from beforehand.sim.experiments.findings import Claim, Experiment, Findings, Size, Spread, Table
from beforehand.sim.experiments.markdown import as_markdown
from beforehand.sim.experiments.registry import EXPERIMENTS

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Findings", "Size", "Spread", "Table", "as_markdown"]
