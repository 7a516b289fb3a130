"""Stabilization, tried: the paper's publishers and mergers under its faults, and a judge of what happened."""

from beforehand.sim.stabilizing.campaign import Campaign, Progress, run_campaign, summary
from beforehand.sim.stabilizing.judging import Violation, judge_events
from beforehand.sim.stabilizing.setting import START, Fault, Setting, draw_setting
from beforehand.sim.stabilizing.trial import Trial, judge_run, try_seed
from beforehand.sim.stabilizing.world import World, run_setting

__all__ = [
    "START",
    "Campaign",
    "Fault",
    "Progress",
    "Setting",
    "Trial",
    "Violation",
    "World",
    "draw_setting",
    "judge_events",
    "judge_run",
    "run_campaign",
    "run_setting",
    "summary",
    "try_seed",
]
