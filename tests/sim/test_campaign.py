"""Thousands of seeds over all protocols, and the campaign that runs the rest."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from analyzing import alive, environment, started, wait_until
from beforehand.ordering import PROTOCOLS
from beforehand.sim import Scenario, draw, read_scenario, simulate
from beforehand.sim import campaign as campaigns
from beforehand.sim.campaign import run_campaign, run_seeds
from beforehand.sim.coverage import STATES
from beforehand.sim.shrinking import shrink, without_operations

REACHED_BY = {
    "long pending queue": "skeen",
    "flush": "fifo",
    "two flushes at once": "fifo",
    "crash of a leader during its flush": "causal-unicast",
    "loss while holding the token": "rotating-token",
    "loss of the token on its way": "rotating-token",
    "crash while holding the token": "rotating-token",
    "crash between the phases": "skeen",
    "resending after a restart": "fifo",
    "full buffer": "coordinator",
    "full buffer at the receiver": "causal-broadcast",
    "counter at its end": "single-phase",
    "FIFO message overtakes its causal past": "causal-broadcast",
}
SEEDS = 180  # Of each protocol: with all of them about 2,500.


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_seed_breaks_a_promise(protocol: str) -> None:
    chunk = run_seeds(protocol, 0, SEEDS)
    assert chunk.failed == (), f"beforehand: draw({protocol!r}, seed) fails for these seeds"


@pytest.mark.parametrize("state", STATES)
def test_the_drawn_scenarios_reach_each_rare_state(state: str) -> None:
    protocol = REACHED_BY[state]
    assert any(state in simulate(draw(protocol, seed)).record.seen for seed in range(120))


def fails_with_two_of_a(scenario: Scenario) -> bool:
    """Stands for a bug: it needs two messages of a and a crash."""
    return sum(o.process == "a" for o in scenario.operations) >= 2 and bool(scenario.crashes)


def test_shrinking_leaves_what_is_needed() -> None:
    big = next(s for s in (draw("fifo", seed) for seed in range(100)) if fails_with_two_of_a(s))
    small = shrink(big, fails_with_two_of_a)
    assert fails_with_two_of_a(small)
    assert len(small.operations) == 2
    assert len(small.crashes) == 1
    assert (small.partitions, small.clogs, small.pauses, small.departures, small.loss) == ((), (), (), (), 0.0)


def test_operations_that_build_on_one_left_out_no_longer_do() -> None:
    scenario = draw("fifo", 3)
    first, *rest = scenario.operations[:3]
    chain = replace(scenario, operations=(first, replace(rest[0], depends=(0,)), replace(rest[1], depends=(0, 1))))
    assert [o.depends for o in without_operations(chain, {0}).operations] == [(), (0,)]


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    class Here:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> Here:
            return self

        def __exit__(self, *_: object) -> None: ...

        map = staticmethod(map)

    monkeypatch.setattr("beforehand.sim.seeds.ProcessPoolExecutor", Here)


def test_a_campaign_goes_on_where_it_stopped(
    tmp_path: Path, one_worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_campaign(tmp_path, ["fifo"], 3)
    ran: list[tuple[int, int]] = []
    monkeypatch.setattr(
        campaigns, "run_seeds", lambda p, start, end: ran.append((start, end)) or run_seeds(p, start, end)
    )
    campaign = run_campaign(tmp_path, ["fifo"], 5)
    assert ran == [(3, 5)]
    assert campaign["fifo"].done == 5
    assert campaign["fifo"].failed == []


def test_a_failing_seed_is_kept_as_a_small_file_that_replays(
    tmp_path: Path, one_worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Verdict:
        def __init__(self, passed: bool) -> None:
            self.passed = passed

    class Fake:
        def __init__(self, scenario: Scenario) -> None:
            self.verdict = Verdict(not fails_with_two_of_a(scenario))
            self.record = simulate(scenario).record

    monkeypatch.setattr(campaigns, "simulate", Fake)
    campaign = run_campaign(tmp_path, ["fifo"], 30)
    failed = campaign["fifo"].failed
    assert failed
    saved = read_scenario(tmp_path / f"fifo-{failed[0]}.json")
    assert fails_with_two_of_a(saved)
    assert len(saved.operations) == 2


@pytest.mark.slow
def test_a_campaign_uses_all_processors(tmp_path: Path) -> None:
    told: list[int] = []
    campaign = run_campaign(tmp_path, ["fifo", "skeen"], 60, workers=2, tell=lambda c: told.append(c["fifo"].done))
    assert {name: progress.done for name, progress in campaign.items()} == {"fifo": 60, "skeen": 60}
    assert told == sorted(told)


def test_the_workers_of_a_campaign_that_is_killed_end_too(tmp_path: Path) -> None:
    env = environment()
    words = ["-m", "beforehand.sim.campaign", "--seeds", "100000", "--to", tmp_path, "--workers", "1"]
    with started(*words, env=env, command=[sys.executable]) as campaign:
        wait_until(lambda: (tmp_path / "progress.json").exists(), "the first seeds are done", seconds=120)
        assert len([line for line in alive(env) if "spawn_main" in line]) == 1
        campaign.kill()
        campaign.wait()
    wait_until(lambda: not alive(env), "all have ended", seconds=30)
