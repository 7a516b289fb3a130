"""`beforehand experiment`, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from beforehand.cli.command import beforehand
from beforehand.sim.experiments import EXPERIMENTS


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "beforehand", "experiment", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_experiment_prints_its_tables_and_writes_a_page_and_a_plot(tmp_path: Path) -> None:
    done = run("sensors", "--quick", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "✓ under total order replicas end equal (003)" in done.stdout
    assert "lamport-total     yes     yes    0" in done.stdout
    written = {file.name for file in tmp_path.iterdir()}
    assert written == {"sensors.md", "sensors.svg", "sensors-causal.svg", "sensors-total.svg"}
    page = (tmp_path / "sensors.md").read_text()
    assert page.startswith("# Replicas of a sensor field")
    assert "| causal-broadcast | yes | - |" in page
    assert "![Replicas" in page
    assert ET.fromstring((tmp_path / "sensors.svg").read_text()).tag.endswith("svg")


def test_as_json_standard_output_holds_one_document_and_nothing_else(tmp_path: Path) -> None:
    done = run("stamp-bytes", "--quick", "--seeds", "1", "--json", "--to", "deep/down", cwd=tmp_path)

    document = json.loads(done.stdout)
    assert done.stderr == ""
    assert document["name"] == "stamp-bytes"
    assert all(set(claim) == {"claim", "holds", "seen"} for claim in document["claims"])
    (table,) = document["tables"]
    assert table["rows"][0]["clock"] == "lamport"
    assert document["files"] == ["deep/down/stamp-bytes.md", "deep/down/stamp-bytes.svg"]
    assert all((tmp_path / file).stat().st_size for file in document["files"])


def test_the_same_command_writes_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        assert invoke("star", "--quick", "--to", str(tmp_path / folder)) == 0
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


def test_without_a_name_there_is_a_list() -> None:
    text = CliRunner().invoke(beforehand, ["experiment"]).output
    assert [line.split()[0] for line in text.splitlines()[1:]] == list(EXPERIMENTS)
    document = json.loads(CliRunner().invoke(beforehand, ["experiment", "--json"]).output)
    assert [one["name"] for one in document["experiments"]] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "there is no experiment 'nonsense'; there are: single-phase, buffering"),
        (["sensors", "--seeds", "0"], "0 is not in the range"),
        (["sensors", "--to", "taken"], "taken"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_status_2(tmp_path: Path, arguments: list[str], says: str) -> None:
    (tmp_path / "taken").write_text("a file")
    done = run(*arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


def invoke(*arguments: str) -> int:
    return CliRunner().invoke(beforehand, ["experiment", *arguments]).exit_code
