"""Run all benchmarks; print them and write RESULTS.md."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import clocks, history, ordering

RESULTS = Path(__file__).parent / "RESULTS.md"


def heading() -> Iterator[str]:
    yield "# Results"
    yield ""
    yield "Made by `make bench`. Read ratios, not seconds: the machine is shared and noisy."
    yield ""
    yield f"- {datetime.now(UTC):%Y-%m-%d}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    packages = ("numpy", "numba", "vectorclock", "hlcpy")
    yield f"- Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages)
    yield ""


def main() -> int:
    lines: list[str] = []
    for part in (heading(), clocks.report(), history.report(), ordering.report()):
        for line in part:
            print(line, flush=True)
            lines.append(line)
    RESULTS.write_text("\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
