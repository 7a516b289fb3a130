"""Commands do not write over what they read, nor two things into one file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from beforehand.cli.command import beforehand
from beforehand.cli.shop import shop_run
from history_directories import make_pack_directory


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_pack_directory([shop_run(seed=1)], tmp_path, packs=1).path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(beforehand, list(map(str, arguments)))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "arguments",
    [
        ("order", "--to", "manifest.json"),
        ("order", "--to", "events/new.jsonl"),
        ("export", "--as", "native", "--to", "events/pack-00000.parquet"),
        ("draw", "--to", "report.html"),
        ("tune", "--to", "cuts/plot.svg"),
    ],
)
def test_the_files_of_a_history_are_not_written_over(shop: Path, arguments: tuple[str, ...]) -> None:
    before = contents(shop)
    command, *options, target = arguments

    done = run(command, shop, *options, shop / target)

    assert done.exit_code == 2
    assert "belongs to the history in" in done.output
    assert contents(shop) == before


def test_a_picture_beside_the_tables_of_a_history_is_allowed(shop: Path) -> None:
    assert run("draw", shop, "--around", "orders:17", "--to", shop / "failure.svg").exit_code == 0
    assert (shop / "failure.svg").exists()


def test_a_scenario_is_not_written_over_by_its_own_replay(tmp_path: Path) -> None:
    scenario = tmp_path / "run.json"
    assert run("simulate", "fifo", "--messages", "5", "--save", scenario).exit_code == 0
    kept = scenario.read_bytes()
    (tmp_path / "link.json").symlink_to(scenario)

    for target in (scenario, tmp_path / "link.json"):
        done = run("simulate", "--replay", scenario, "--to", target)
        assert (done.exit_code, "is what --replay reads: name another file" in done.output) == (2, True)
    assert scenario.read_bytes() == kept


def test_two_outputs_are_not_one_file(tmp_path: Path) -> None:
    target = tmp_path / "run.html"

    done = run("simulate", "fifo", "--messages", "5", "--save", target, "--draw", target)

    assert (done.exit_code, target.exists()) == (2, False)
    assert "--draw" in done.output
    assert "is what --save writes, too" in done.output
    assert run("simulate", "fifo", "--messages", "5", "--save", os.devnull, "--to", os.devnull).exit_code == 0
