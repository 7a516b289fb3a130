"""All experiments by name, as on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from beforehand.sim.experiments.buffering import BUFFERING
from beforehand.sim.experiments.findings import Experiment
from beforehand.sim.experiments.merge_stamps import MERGE_STAMPS
from beforehand.sim.experiments.sensors import SENSORS
from beforehand.sim.experiments.single_phase import SINGLE_PHASE
from beforehand.sim.experiments.stamp_bytes import STAMP_BYTES
from beforehand.sim.experiments.star import STAR
from beforehand.sim.experiments.token_updates import TOKEN_UPDATES

__all__ = ["EXPERIMENTS"]

_ALL: Final = (SINGLE_PHASE, BUFFERING, STAMP_BYTES, SENSORS, STAR, TOKEN_UPDATES, MERGE_STAMPS)

EXPERIMENTS: Final[Mapping[str, Experiment]] = {experiment.name: experiment for experiment in _ALL}
