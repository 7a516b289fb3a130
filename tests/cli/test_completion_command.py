"""The tab key: what the shells are offered, that bash takes the script, and that nothing is written over the line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from beforehand.cli.completing import EXPERIMENT_NAMES, PROTOCOL_NAMES, REPORT_BYTES_MAX

HEAVY = ("pyspark", "pyarrow", "numba", "numpy", "fastapi")
REPORT = {
    "processes_table": [{"process": "cart"}, {"process": "orders"}],
    "failures": [{"event": "orders:17", "name": "checkout failed"}],
}


def offered(words: str, folder: Path) -> list[str]:
    """What bash is told for a line that is being typed; the last word is the unfinished one."""
    environment = {
        **os.environ,
        "_BEFOREHAND_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "beforehand"], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "report.json").write_text(json.dumps(REPORT))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("beforehand exp", ["explain", "export", "experiment"]),
        ("beforehand simulate causal-", ["causal-unicast", "causal-broadcast", "causal-merge"]),
        ("beforehand experiment se", ["sensors"]),
        ("beforehand analyze --format ja", ["jaeger"]),
        ("beforehand chat --name me --order ca", ["causal"]),
        ("beforehand token add x --scope r", ["report", "read"]),
        ("beforehand explain --wh", ["--where"]),
        ("beforehand explain shop or", ["orders:17", "orders:"]),
        ("beforehand explain shop orders : 1", ["17"]),  # As bash parts it.
        ("beforehand relate shop cart : 3 or", ["orders:17", "orders:"]),
        ("beforehand explain shop orders:17 --process c", ["cart"]),
        ("beforehand draw shop --around or", ["orders:17", "orders:"]),
        ("beforehand completion f", ["fish"]),
    ],
)
def test_names_and_values_are_offered(shop: Path, words: str, expected: list[str]) -> None:
    assert offered(words, shop) == expected


@pytest.mark.parametrize("text", ["", "[", "[1]", '{"failures": 7, "processes_table": [1, {}]}', "[" * 100_000])
def test_a_directory_that_cannot_be_read_offers_nothing_and_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "report.json").write_text(text)
    assert offered("beforehand explain shop x", tmp_path) == []
    assert offered("beforehand explain nothing x", tmp_path) == []


def test_a_report_that_is_too_large_is_not_read(shop: Path) -> None:
    path = shop / "shop" / "report.json"
    path.write_text(path.read_text() + " " * REPORT_BYTES_MAX)
    assert offered("beforehand explain shop or", shop) == []


def test_the_protocols_and_experiments_that_are_offered_are_those_that_there_are() -> None:
    from beforehand.ordering import PROTOCOLS
    from beforehand.sim.experiments import EXPERIMENTS

    assert list(PROTOCOLS) == list(PROTOCOL_NAMES)

    assert list(EXPERIMENTS) == list(EXPERIMENT_NAMES)


def test_completing_loads_nothing_heavy(shop: Path) -> None:
    code = (
        "import os, sys\n"
        "os.environ['_BEFOREHAND_COMPLETE'] = 'bash_complete'\n"
        "os.environ.update(COMP_WORDS='beforehand explain shop or', COMP_CWORD='3')\n"
        "from beforehand.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        f"    print('heavy', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=shop, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy []"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script_that_asks_us(shell: str) -> None:
    command = [sys.executable, "-m", "beforehand", "completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"_BEFOREHAND_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_takes_the_script_and_completes_a_protocol(tmp_path: Path) -> None:
    here = tmp_path / "bin"
    here.mkdir()
    (here / "beforehand").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m beforehand "$@"\n')
    (here / "beforehand").chmod(0o755)
    script = (
        'eval "$(beforehand completion bash)"\n'
        "COMP_WORDS=(beforehand simulate sk) COMP_CWORD=2\n"
        '_beforehand_completion beforehand sk simulate\necho "${COMPREPLY[@]}"\ncomplete -p beforehand\n'
    )
    environment = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0] == "skeen"
    assert "-F _beforehand_completion beforehand" in done.stdout
    assert done.stderr == ""
