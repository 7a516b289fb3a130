"""Directories that are not whole are refused in one line, by the library and by every command."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from beforehand.errors import InputError
from beforehand.pipeline.stored import StoredHistory
from history_directories import Case

COMMANDS = {
    "find": ["--where", "name ~ pay"],
    "explain": ["p1:40"],
    "relate": ["p1:3", "p2:40"],
    "order": [],
    "cut": ["--after", "p1:40"],
    "draw": ["--around", "p1:40", "--to", "picture.svg"],
    "export": ["--as", "shiviz", "--to", "log.txt"],
}


def run(command: str, directory: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "beforehand", command, str(directory), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def no_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def other_schema(path: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"schema_version": 99}))


def no_json(path: Path) -> None:
    (path / "manifest.json").write_text("{")


def deep_json(path: Path) -> None:
    (path / "manifest.json").write_text("[" * 100_000)


def other_types(path: Path) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"packs": "many"}))


def no_cuts(path: Path) -> None:
    shutil.rmtree(path / "cuts")


def fewer_cuts(path: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(path / "cuts" / "cuts.parquet")
    pq.write_table(table.slice(1), path / "cuts" / "cuts.parquet")


def no_block(path: Path) -> None:
    for block in (path / "events").glob("*.parquet"):
        block.unlink()


def broken_block(path: Path) -> None:
    for block in (path / "events").glob("*.parquet"):
        block.write_bytes(block.read_bytes()[:100])


def mangled_block(path: Path) -> None:
    for block in (path / "events").glob("*.parquet"):
        data = bytearray(block.read_bytes())
        data[4 : len(data) - 3000] = bytes(len(data) - 3004)
        block.write_bytes(bytes(data))


def shorter_block(path: Path) -> None:
    import pyarrow.parquet as pq

    for block in (path / "events").glob("*.parquet"):
        pq.write_table(pq.read_table(block).slice(1), block)


def other_columns(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for block in (path / "events").glob("*.parquet"):
        pq.write_table(pa.table({"x": [1]}), block)


DAMAGES = [
    no_manifest,
    other_schema,
    no_json,
    deep_json,
    other_types,
    no_cuts,
    fewer_cuts,
    no_block,
    broken_block,
    mangled_block,
    shorter_block,
    other_columns,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_directory_is_an_input_error_that_says_what_to_do(
    damage: Callable[[Path], None], cut_cases: dict[str, Case], tmp_path: Path
) -> None:
    shutil.copytree(cut_cases["blocks"].path, tmp_path / "shop")
    damage(tmp_path / "shop")
    with pytest.raises(InputError, match=r"analyze again|beforehand analyze") as refused:
        StoredHistory.open(tmp_path / "shop").explain("p1:40")
    assert "\n" not in str(refused.value)


def test_a_file_is_no_history_directory(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("{}")
    with pytest.raises(InputError, match=r"is a file, not a history directory: make one with beforehand analyze"):
        StoredHistory.open(tmp_path / "events.jsonl")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("damage", [no_manifest, no_block, broken_block], ids=lambda damage: damage.__name__)
def test_every_command_refuses_a_damaged_directory_in_one_line(
    command: str, damage: Callable[[Path], None], cut_cases: dict[str, Case], tmp_path: Path
) -> None:
    shutil.copytree(cut_cases["blocks"].path, tmp_path / "shop")
    damage(tmp_path / "shop")
    done = run(command, tmp_path / "shop", *COMMANDS[command], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "analyze" in done.stderr
    assert "bug" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shop"], "nothing is left behind"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_answers_from_a_directory_in_blocks(
    command: str, cut_cases: dict[str, Case], tmp_path: Path
) -> None:
    done = run(command, cut_cases["blocks"].path, *COMMANDS[command], cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_missing_front_is_refused(cut_cases: dict[str, Case], tmp_path: Path) -> None:
    shutil.copytree(cut_cases["blocks"].path, tmp_path / "shop")
    for front in (tmp_path / "shop" / "cuts").glob("00000-*.parquet"):
        front.unlink()
    with pytest.raises(InputError, match="is missing"):
        StoredHistory.open(tmp_path / "shop").explain("p1:40")


def test_the_names_of_a_directory_may_hold_what_is_special_to_sql_and_globs(
    cut_cases: dict[str, Case], tmp_path: Path
) -> None:
    target = tmp_path / "it's [a] *shop*?"
    shutil.copytree(cut_cases["blocks"].path, target)
    history = cut_cases["blocks"].histories[""]
    assert list(StoredHistory.open(target).order()) == history.order()
