"""Kernels run whatever has become of numba's cache on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

QUESTION = """
from beforehand.events import Event
from beforehand.history import History
history = History([Event(process="a", index=1, sends=("m",)), Event(process="b", index=1, receives=("m",))])
assert history.happened_before("a:1", "b:1")
"""


def ask(cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", QUESTION], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_damaged_cache_is_passed_over(suffix: str, content: bytes, tmp_path: Path) -> None:
    assert ask(tmp_path).returncode == 0
    damaged = list(tmp_path.rglob(f"*.{suffix}"))
    assert damaged
    for path in damaged:
        path.write_bytes(content)
    done = ask(tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_cache_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = ask(tmp_path / "file" / "under")
    assert done.returncode == 0, done.stderr
