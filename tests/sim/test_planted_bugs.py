"""The simulator finds bugs: each of many that are planted, one at a time, is caught by a scenario that it draws.

First the seed that is known to catch a bug is tried; only if it no longer does, others are. How many scenarios it
takes from seed 0 on is in the table at the end of the run, and `python tests/sim/planted_bugs.py` finds it out anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import mutants
import pytest
from mutants import Bug, ChangedTextError, build, search, shows, source_of, true_source, with_bug
from planted_bugs import BUGS, EQUIVALENT, KNOWN, SEEDS

from beforehand.ordering import PROTOCOLS
from beforehand.sim import simulate

MODULES = sorted({bug.module for bug in BUGS})
LAYERS = {"effects", "link_sending", "reliable_link", "stability", "flush", "view_change", "membership"}
UNHURT = 12  # Seeds of each protocol in which an equivalent change must not show.

true_run = cache(lambda protocol, seed: shows(simulate, protocol, seed))


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """What was caught by what; shown when all is done."""
    rows: dict[str, str] = {}
    yield rows
    tries = sorted(tried + 1 for name, (_, _, tried) in KNOWN.items() if name in rows)
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    capture = request.config.pluginmanager.get_plugin("capturemanager")
    if reporter is None or capture is None or not tries:
        return
    with capture.global_and_fixture_disabled():
        reporter.ensure_newline()
        reporter.section(f"{len(rows)} planted bugs caught: by how many scenarios from seed 0, and which", sep="-")
        for name, row in rows.items():
            reporter.line(f"{row}  {name}")
        reporter.line(f"median {tries[len(tries) // 2]}, nine in ten {tries[len(tries) * 9 // 10]}, most {tries[-1]}")


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug, table: dict[str, str]) -> None:
    protocol, seed, tried = KNOWN.get(bug.name, (bug.run[0], 0, -1))
    if shows(with_bug(bug), protocol, seed) is None:
        catch = search(bug, SEEDS)
        assert catch is not None, f"no scenario shows it; it should break: {bug.breaks}"
        protocol, seed, tried = catch.protocol, catch.seed, catch.tried
    assert true_run(protocol, seed) is None, "the true program fails in this scenario: that shows nothing of the bug"
    table[bug.name] = f"{tried + 1:5d}  {protocol} {seed}"


@pytest.mark.parametrize("change", EQUIVALENT, ids=lambda bug: bug.name)
def test_an_equivalent_change_is_not_caught(change: Bug) -> None:
    changed = with_bug(change)
    failures = {(p, seed): shows(changed, p, seed) for p in change.run for seed in range(UNHURT)}
    assert set(failures.values()) == {None}, f"it was thought to break nothing: {change.breaks}"


@pytest.mark.parametrize("module", MODULES)
def test_a_copy_without_a_bug_behaves_as_the_program(module: str) -> None:
    bug = next(bug for bug in BUGS if bug.module == module)
    protocol, seed, _ = KNOWN.get(bug.name, (bug.run[0], 0, -1))
    copy = build(module, true_source(module))
    here, there = simulate(mutants.drawn(protocol, seed)), copy(mutants.drawn(protocol, seed))
    assert here.record.events == there.record.events


@pytest.mark.parametrize("module", MODULES)
def test_what_runs_is_the_changed_module(module: str) -> None:
    bug = next(bug for bug in BUGS if bug.module == module)
    protocol, seed, _ = KNOWN.get(bug.name, (bug.run[0], 0, -1))
    with pytest.raises(RuntimeError, match="this is the copy"):
        build(module, true_source(module) + LOUD)(mutants.drawn(protocol, seed))


LOUD = """
def _loud(*_: object, **__: object) -> None:
    raise RuntimeError("this is the copy")

for _thing in list(globals().values()):
    if isinstance(_thing, type) and _thing.__module__ == __name__:
        for _name, _method in list(vars(_thing).items()):
            if callable(_method) and (_name == "__post_init__" or not _name.startswith("__")):
                setattr(_thing, _name, _loud)
"""
"""Put at the end of a module: whatever calls a method of one of its classes hears of it."""


def test_a_text_that_is_gone_is_told() -> None:
    gone = Bug("gone", "ordering.fifo", "no such text", "", ("fifo",), "nothing")
    with pytest.raises(ChangedTextError, match="0 times"):
        source_of(gone)


def test_bugs_are_planted_everywhere() -> None:
    assert len(BUGS) >= 60
    assert len({bug.name for bug in (*BUGS, *EQUIVALENT)}) == len(BUGS) + len(EQUIVALENT)
    assert {protocol for bug in BUGS for protocol in bug.run} == set(PROTOCOLS)
    assert {module.removeprefix("ordering.") for module in MODULES} >= LAYERS
    assert set(KNOWN) <= {bug.name for bug in BUGS}
