"""The figures that RESULTS.md has on top: each names the cell that it is taken from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["CLAIMS", "Claim"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    says: str
    part: str
    table: str
    row: tuple[str, ...]
    column: str
    unit: str = ""


CLAIMS: Final = (
    Claim(
        says="merging a stamp of 100 entries",
        part="clocks",
        table="vector",
        row=("**VectorClock**: merge (`receive`)",),
        column="100 entries",
        unit=" ns",
    ),
    Claim(
        says="the same with the package vectorclock",
        part="clocks",
        table="vector",
        row=("vectorclock (PyPI): merge",),
        column="100 entries",
        unit=" ns",
    ),
    Claim(
        says="a stamp of 100 entries in a view",
        part="clocks",
        table="bytes",
        row=("in a view",),
        column="100 entries",
        unit=" bytes",
    ),
    Claim(
        says="stamping a million events of 50 processes in memory",
        part="history",
        table="steps",
        row=("stamps, causal times and sizes of pasts",),
        column="seconds",
        unit=" s",
    ),
    Claim(
        says="the past of the last of them, last 25 events",
        part="history",
        table="queries",
        row=("explain the last event, last 25",),
        column="ms",
        unit=" ms",
    ),
    Claim(
        says="the same past by rustworkx, the graph being loaded",
        part="past",
        table="past",
        row=("rustworkx", "1,000,000"),
        column="past, ms",
        unit=" ms",
    ),
    Claim(
        says="the pipeline over Spark's own sort, 10 million events",
        part="pipeline",
        table="growth",
        row=("10,000,000",),
        column="ratio",
        unit=" times",
    ),
    Claim(
        says="the same, 100 million events",
        part="pipeline-100",
        table="growth",
        row=("100,000,000",),
        column="ratio",
        unit=" times",
    ),
    Claim(
        says="explaining one of 30 million events from the directory, its block unread",
        part="pipeline",
        table="explaining",
        row=("30,000,000",),
        column="a block nobody read, ms",
        unit=" ms",
    ),
    Claim(
        says="causal broadcast among five processes, all members",
        part="groups",
        table="orders",
        row=("causal-broadcast",),
        column="deliveries per second",
        unit=" deliveries/s",
    ),
    Claim(
        says="how much slower than a plain TCP fan-out that is",
        part="groups",
        table="orders",
        row=("causal-broadcast",),
        column="times slower",
        unit=" times",
    ),
    Claim(
        says="a stamped call over HTTP beside a plain one, 2 entries",
        part="rpc",
        table="HTTP",
        row=("timestamps", "2"),
        column="ratio",
        unit=" times",
    ),
    Claim(
        says="the same, 1,000 entries",
        part="rpc",
        table="HTTP",
        row=("timestamps", "1,000"),
        column="ratio",
        unit=" times",
    ),
    Claim(
        says="the live merger beside pass-through",
        part="merge",
        table="live",
        row=("live merger",),
        column="times slower",
        unit=" times",
    ),
    Claim(
        says="reports that carry stamps of 10 processes, stored by the service",
        part="service",
        table="ways",
        row=("10 processes, the reports carry stamps",),
        column="stored, events/s",
        unit=" events/s",
    ),
    Claim(
        says="the past of a failure from the service, 99 of 100 within",
        part="service",
        table="ways",
        row=("10 processes, the reports carry stamps",),
        column="past of a failure, 99 %, ms",
        unit=" ms",
    ),
    Claim(
        says="the page of a million events, opened again",
        part="page",
        table="openings",
        row=("later",),
        column="first picture, s",
        unit=" s",
    ),
)
