"""One run from its seed to what is to be thought of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beforehand.events import Event
from beforehand.sim.stabilizing.judging import Violation, judge_events
from beforehand.sim.stabilizing.setting import START, Fault, Setting, draw_setting
from beforehand.sim.stabilizing.world import run_setting

__all__ = ["Trial", "judge_run", "try_seed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A run that was judged. It passed if nothing is wrong with messages sent later than T + `recovery`."""

    setting: Setting
    failures: tuple[Violation, ...]
    recovered: int  # So long after T something was wrong with a message for the last time; 0: never.
    judged: int  # How many messages were sent in the time that is judged.
    events: Sequence[Event]

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def recovered_relative(self) -> float:
        """The same in units of ε + δ."""
        return self.recovered / (self.setting.bounds.epsilon + self.setting.bounds.delta)


def try_seed(fault: Fault, seed: int) -> Trial:
    """The run of this kind of fault and seed, judged."""
    setting = draw_setting(fault, seed)
    return judge_run(setting, run_setting(setting))


def judge_run(setting: Setting, events: Sequence[Event]) -> Trial:
    bounds, healed = setting.bounds, setting.fault_until
    # What is sent later than this may not be due before the run ends.
    until = setting.end - bounds.delta - 2 * bounds.epsilon - setting.rules.span - 2
    right = healed + setting.recovery
    violations = judge_events(
        events,
        epsilon=bounds.epsilon,
        delta=bounds.delta,
        events_per_tick=bounds.events_per_tick,
        after=START - 1 if setting.harmless else healed - 1,
        until=until,
        healthy_after=right,
    )
    asked_from = START if setting.harmless else right + 1
    wrong = [violation.at for violation in violations if violation.at >= healed]
    return Trial(
        setting=setting,
        failures=tuple(violation for violation in violations if violation.at >= asked_from),
        recovered=max(wrong) - healed + 1 if wrong else 0,
        judged=sum(asked_from <= int(e.attributes["at"]) <= until for e in events if e.name == "send"),
        events=events,
    )
