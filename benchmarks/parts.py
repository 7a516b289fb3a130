"""The parts of the benchmarks: each is a module that can run by itself, in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["PARTS", "Part"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    title: str
    module: str
    arguments: tuple[str, ...] = ()
    takes: str  # Roughly, on two cores.

    @property
    def command(self) -> str:
        return f"make bench PARTS={self.name}"


_ALL: Final = (
    Part(name="clocks", title="Clocks", module="benchmarks.clocks", takes="half a minute"),
    Part(name="history", title="A history in memory", module="benchmarks.history", takes="a minute"),
    Part(
        name="past",
        title="Stamps and pasts beside graph libraries",
        module="benchmarks.past",
        takes="some minutes, 4 GB",
    ),
    Part(name="ordering", title="Waiting messages", module="benchmarks.ordering", takes="some minutes"),
    Part(name="groups", title="Groups", module="benchmarks.groups", takes="eight minutes"),
    Part(name="rpc", title="Calls with stamps", module="benchmarks.rpc", takes="some minutes"),
    Part(name="reporting", title="Reporting", module="benchmarks.reporting", takes="half a minute"),
    Part(
        name="pipeline",
        title="The pipeline on Spark",
        module="benchmarks.pipeline",
        arguments=("1", "10", "30"),
        takes="half an hour, 20 GB of disk",
    ),
    Part(
        name="pipeline-100",
        title="The pipeline on Spark, 100 million events",
        module="benchmarks.pipeline",
        arguments=("10", "100"),
        takes="an hour, 60 GB of disk",
    ),
    Part(
        name="pipeline-processes",
        title="The pipeline on Spark, 10 to 1,000 processes",
        module="benchmarks.pipeline_processes",
        takes="ten minutes",
    ),
    Part(name="merge", title="Merging", module="benchmarks.merge", takes="ten minutes"),
    Part(name="service", title="The event service over HTTP", module="benchmarks.service", takes="fifteen minutes"),
    Part(name="store", title="The service's store", module="benchmarks.service_store", takes="ten minutes"),
    Part(name="views", title="The service's views", module="benchmarks.service_views", takes="five minutes"),
    Part(name="page", title="The page in a browser", module="benchmarks.page", takes="ten minutes, a Chromium"),
)

PARTS: Final = {part.name: part for part in _ALL}
"""By name, in the order of RESULTS.md."""
