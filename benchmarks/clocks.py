"""Clocks: ns per tick, merge and compare, and bytes, beside a plain dict and the packages of PyPI."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any

from beforehand.clocks import (
    BoundedClock,
    Bounds,
    DifferenceEncoder,
    HybridClock,
    LamportClock,
    MatrixClock,
    OrderingClock,
    VectorClock,
    VectorStamp,
    View,
)
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, median_of, report_of, target
from benchmarks.timing import REPEATS, Timing, compare

__all__ = ["report"]

SIZES = (2, 10, 100, 1000)
LIMIT = 10**7


def report() -> Report:
    columns = [vector_timings(size) for size in SIZES]
    heads = tuple(f"{size} entries" for size in SIZES)
    vectors = tuple(
        Row((operation,), tuple(_beside_dict(operation, timings) for timings in columns)) for operation in columns[0]
    )
    sizes = [stamp_sizes(size) for size in SIZES]
    lengths = tuple(Row((form,), tuple(Figure(row[form]) for row in sizes)) for form in sizes[0])
    others = tuple(Row((name,), (timing.figure(),)) for name, timing in other_timings().items())
    return report_of(
        "clocks",
        [
            Section(
                "Vector clocks",
                "Nanoseconds per operation; after × the ratio to the plain dict of the same run. A dict that is "
                "ticked keeps no stamp of the event: `dict, copied` does. vectorclock has neither tick nor merge; "
                "its rows are loops over its own get and set. Names are like `node-0001`.",
                Table("vector", ("operation", *heads), vectors, median_of(REPEATS, "All in turns.")),
            ),
            Section(
                "Bytes of one stamp", "", Table("bytes", ("form", *heads), lengths, "Counted, so always the same.")
            ),
            Section(
                "Other clocks",
                "",
                Table("other", ("operation", "ns"), others, median_of(REPEATS, "All in turns.")),
            ),
        ],
        packages=("vectorclock", "hlcpy"),
    )


def _beside_dict(operation: str, timings: dict[str, Timing]) -> Figure:
    baseline = timings[f"dict: {operation.split(': ')[1].removesuffix(' (`receive`)')}"]
    return timings[operation].figure(ratio=timings[operation].over(baseline))


def entries(size: int, *, plus: int = 0) -> dict[str, int]:
    return {f"node-{i:04}": 7 + (i * 97) % 90_000 + plus for i in range(size)}


def vector_timings(size: int) -> dict[str, Timing]:
    from vectorclock.vectorclock import VectorClock as PackageClock

    me, mine = "node-0000", entries(size)
    # Half of the entries of the other are news, as in a merge that does something.
    theirs = {name: value + (at % 2) for at, (name, value) in enumerate(entries(size).items())} | {me: 1}
    later, aside = entries(size, plus=1), entries(size, plus=1) | {me: 1}

    plain = dict(mine)

    def dict_tick() -> None:
        plain[me] += 1

    def dict_tick_copied() -> dict[str, int]:
        plain[me] += 1
        return dict(plain)

    def dict_merge() -> dict[str, int]:
        clock = dict(mine)
        for name, value in theirs.items():
            if value > clock.get(name, 0):
                clock[name] = value
        clock[me] += 1
        return clock

    def dict_compare(other: dict[str, int]) -> tuple[bool, bool]:
        below = all(other.get(name, 0) >= value for name, value in mine.items())
        above = all(mine.get(name, 0) >= value for name, value in other.items())
        return below, above

    package, package_theirs = PackageClock(dict(mine)), PackageClock(dict(theirs))
    package_later, package_aside = PackageClock(dict(later)), PackageClock(dict(aside))

    def package_tick() -> None:
        package.set_clock(me, package.get_clock(me) + 1)

    def package_merge() -> Any:
        clock = PackageClock(dict(mine))
        for name in theirs:
            value = package_theirs.get_clock(name)
            if value > (clock.get_clock(name) or 0):
                clock.set_clock(name, value)
        clock.set_clock(me, clock.get_clock(me) + 1)
        return clock

    start, stamp = VectorStamp(mine), VectorStamp(theirs)
    clock = VectorClock(me, start=start)
    later_stamp, aside_stamp = VectorStamp(later), VectorStamp(aside)

    fresh = VectorClock(me, start=start)
    known = fresh._others

    def our_merge() -> VectorStamp:
        # Put the clock back, so that there is always the same news in what it receives.
        fresh._others, fresh._shared = known, True
        return fresh.receive(stamp)

    return compare(
        {
            "dict: tick": dict_tick,
            "dict, copied: tick": dict_tick_copied,
            "vectorclock (PyPI): tick": package_tick,
            "**VectorClock**: tick": clock.tick,
            "dict: merge": dict_merge,
            "vectorclock (PyPI): merge": package_merge,
            "**VectorClock**: merge (`receive`)": our_merge,
            "dict: compare (before)": lambda: dict_compare(later),
            "vectorclock (PyPI): compare (before)": lambda: package.compare(package_later, False),
            "**VectorStamp**: compare (before)": lambda: start.compare(later_stamp),
            "dict: compare (concurrent)": lambda: dict_compare(aside),
            "vectorclock (PyPI): compare (concurrent)": lambda: package.compare(package_aside, False),
            "**VectorStamp**: compare (concurrent)": lambda: start.compare(aside_stamp),
        }
    )


def stamp_sizes(size: int) -> dict[str, int]:
    from vectorclock.vectorclock import VectorClock as PackageClock

    values = {f"node-{i:04}": 1 + (i * 7919) % 99_999 for i in range(size)}
    stamp, view = VectorStamp(values), View(sorted(values))
    lagging = VectorStamp({name: value - value % 100 for name, value in values.items()})
    encoder = DifferenceEncoder(epoch=1)
    encoder.encode(stamp, limit=LIMIT)
    changed = stamp.merged(VectorStamp({name: value + 1 for name, value in list(values.items())[:4]}))
    return {
        "vectorclock (PyPI), as string": len(str(PackageClock(values))),
        "with names": len(stamp.encode(limit=LIMIT)),
        "with names, as text": len(stamp.to_text(limit=LIMIT)),
        "in a view": len(stamp.encode(limit=LIMIT, view=view)),
        "in a view, as text": len(stamp.to_text(limit=LIMIT, view=view)),
        "behind a cut (lag below 100), as text": len(stamp.to_text(limit=LIMIT, view=view.after(lagging))),
        "difference, up to 4 changed": len(encoder.encode(changed, limit=LIMIT)),
    }


def other_timings() -> dict[str, Timing]:
    from hlcpy import HLC

    theirs = HLC.from_now()
    other = HLC.from_now()
    hybrid = HybridClock()
    hybrid_stamp = hybrid.tick()
    lamport = LamportClock("p")
    lamport_stamp = lamport.tick()
    bounds = Bounds(epsilon=10, delta=100, processes=50, events_per_tick=10**9)
    bounded, bounded_peer = BoundedClock("p", bounds), BoundedClock("q", bounds)
    readings = count(1)
    ordering, peer = OrderingClock("p"), OrderingClock("q")
    view = View([f"node-{i:04}" for i in range(10)])
    matrix = MatrixClock("node-0000", view)

    def bounded_receive() -> object:
        now = next(readings)
        return bounded.receive(bounded_peer.tick(now), now)

    def ordering_round_trip() -> object:
        return peer.deliver(ordering.send("q"))

    return compare(
        {
            "hlcpy (PyPI): tick (`sync`)": theirs.sync,
            "**HybridClock**: tick": hybrid.tick,
            "hlcpy (PyPI): receive (`merge`)": lambda: theirs.merge(other),
            "**HybridClock**: receive": lambda: hybrid.receive(hybrid_stamp),
            "hlcpy (PyPI): to bytes": theirs.to_bytes,
            "**HybridStamp**: encode": hybrid_stamp.encode,
            "**LamportClock**: tick": lamport.tick,
            "**LamportClock**: receive": lambda: lamport.receive(lamport_stamp),
            "**BoundedClock** (ε = 10): tick": lambda: bounded.tick(next(readings)),
            "**BoundedClock** (ε = 10): tick at one process, receive at another": bounded_receive,
            "**OrderingClock**: send and deliver": ordering_round_trip,
            "**MatrixClock** (10 processes): send": lambda: matrix.send("node-0001"),
        }
    )


if __name__ == "__main__":
    sys.exit(deliver(report(), target(sys.argv[1:])[1]))
