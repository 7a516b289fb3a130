"""What the commands that run on Spark share: settings of Spark on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from beforehand.errors import InputError

__all__ = ["spark_conf"]


def spark_conf(given: Iterable[str]) -> dict[str, str]:
    """What `--conf KEY=VALUE`, repeated, sets; of a key that stands twice the last one counts, as in spark-submit."""
    conf: dict[str, str] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise InputError(f"--conf {pair!r} is not KEY=VALUE")
        if not key.startswith("spark."):  # Spark would leave it out and say nothing.
            raise InputError(f"--conf {pair!r} is no setting of Spark: they start with spark.")
        conf[key] = value
    return conf
