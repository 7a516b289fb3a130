"""Real logs and traces that nobody here wrote. They lie beside the project, not in it."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "shared" / "data"


def real_file(name: str) -> Path:
    """Where the file is; the test is skipped where it is absent."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not here: real logs and traces are not part of the project")
    return path
