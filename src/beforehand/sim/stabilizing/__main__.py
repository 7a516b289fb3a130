"""`python -m beforehand.sim.stabilizing --seeds N --to FOLDER`: the campaign; exit status 1 if a seed failed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from beforehand.errors import InputError
from beforehand.formats import write_events
from beforehand.sim.seeds import report, tell_progress
from beforehand.sim.stabilizing.campaign import Campaign, run_campaign, summary
from beforehand.sim.stabilizing.setting import Fault
from beforehand.sim.stabilizing.trial import try_seed

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m beforehand.sim.stabilizing", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="of each kind of fault (default: 2000)")
    parser.add_argument("--to", type=Path, default=None, help="the folder; an earlier campaign there goes on")
    parser.add_argument("--workers", type=int, default=None, help="processes; by default one per processor")
    parser.add_argument("--fault", action="append", choices=list(Fault), help="only this kind; may be repeated")
    parser.add_argument(
        "--replay", nargs=2, metavar=("FAULT", "SEED"), help="one run: what is wrong with it; --to FILE"
    )
    chosen = parser.parse_args(arguments)
    if chosen.replay is not None:
        fault, seed = chosen.replay
        return _replay(parser, fault, seed, chosen.to)
    if chosen.to is None or chosen.seeds < 1:
        parser.error("a campaign needs --to FOLDER, and --seeds from 1")
    faults = [Fault(name) for name in chosen.fault or list(Fault)]

    def tell(campaign: Campaign) -> None:
        tell_progress(campaign, faults, chosen.seeds * len(faults))

    try:
        campaign = run_campaign(chosen.to, faults, chosen.seeds, workers=chosen.workers, tell=tell)
    except InputError as error:
        print(f"beforehand: {error}", file=sys.stderr)  # noqa: T201
        return 2
    report(chosen.to, summary(campaign))
    return 1 if any(campaign[fault].failed for fault in faults) else 0


def _replay(parser: argparse.ArgumentParser, fault: str, seed: str, to: Path | None) -> int:
    if fault not in list(Fault) or not seed.isdecimal():
        parser.error(f"--replay takes a fault ({', '.join(Fault)}) and a seed, not {fault} {seed}")
    trial = try_seed(Fault(fault), int(seed))
    setting = trial.setting
    print(f"{setting.bounds}, T = {setting.fault_until}, right from {setting.fault_until + setting.recovery}")  # noqa: T201
    print(f"{trial.judged} messages judged; the last thing wrong {trial.recovered} after T")  # noqa: T201
    for violation in trial.failures:
        print(f"{violation.at}: {violation.question}: {violation.text}")  # noqa: T201
    if to is not None:
        write_events(trial.events, to)
    return 0 if trial.passed else 1


if __name__ == "__main__":
    sys.exit(main())
