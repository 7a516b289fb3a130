"""A merge in a process of its own, to be killed. Arguments: a JSON object with the options."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from merge_broker import SETTINGS as LIVE
from merge_cases import SETTINGS

from beforehand.cli.merge_spark import run_on_spark
from beforehand.pipeline.merging.options import SparkMergeOptions
from beforehand.runtime.nats import StreamAddress


def place(text: str) -> Path | StreamAddress:
    return StreamAddress.parse(text) if text.startswith("nats://") else Path(text)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    run_on_spark(
        SparkMergeOptions(
            source=place(given["source"]),
            sink=place(given["sink"]),
            checkpoint=Path(given["checkpoint"]),
            settings=LIVE if given["source"].startswith("nats://") else SETTINGS,
            once=given.get("once", True),
            flush=given.get("once", True),
            messages_max=given.get("messages_max", 100),
            bytes_max=1,
            master="local[2]",
            # It lives for seconds: not worth optimizing itself.
            conf=(
                ("spark.driver.memory", "1g"),
                ("spark.driver.defaultJavaOptions", "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1"),
            ),
        )
    )
