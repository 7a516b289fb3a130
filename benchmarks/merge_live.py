"""The live merger on a real broker: messages per second beside plain pass-through, and how much later than due.

Pass-through is the same reader and the same chained writes without a merger between them, in the same run, in turns.
Both rates are taken from the broker's own times of what was written: from the first message to the last.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from beforehand.clocks.bounded import BoundedClock
from beforehand.formats.merged import PUBLISHER_HEADER, SEQUENCE_HEADER, STAMP_HEADER
from beforehand.formats.published import Arrived, RecordReader
from beforehand.ordering.merging import MergeSettings, Published
from beforehand.runtime import (
    Connection,
    EmbeddedBroker,
    LiveMerger,
    Publisher,
    StreamAddress,
    StreamOutput,
    StreamReader,
    connect,
    ensure_stream,
)
from beforehand.runtime.merge_output import Checkpoint, Outgoing
from benchmarks.report import Figure, Row, Section, Table, median_of

__all__ = ["sections"]

MS = 1_000_000
SETTINGS = MergeSettings(epsilon_ns=10 * MS, delta_ns=500 * MS)
PUBLISHERS = 8
PAYLOAD = b"x" * 100
MESSAGES = 200_000
GROUP = 200  # So many are stamped and sent at once while a stream is filled.
ROUNDS = 3
LIVE_RATE = 1_000  # Messages per second, while delay is measured.
LIVE_S = 8


@dataclass(frozen=True, slots=True)
class Rate:
    per_second: float
    cpu_us: float  # Processor time of the process that merges, per message.


@dataclass(frozen=True, slots=True)
class Delay:
    """How much later than r + c + δ + ε a message was written, in milliseconds."""

    median: float
    p95: float
    p99: float
    most: float
    early: int  # Written before it was due: must be 0.
    messages: int


def sections() -> list[Section]:
    with EmbeddedBroker() as broker:
        merged, plain = asyncio.run(_rates(broker.url))
        delays = {grace_ns: asyncio.run(_delay(broker.url, grace_ns)) for grace_ns in (SETTINGS.epsilon_ns, 0)}
    rates = []
    for name, each in (("pass-through", plain), ("live merger", merged)):
        slower = [base.per_second / rate.per_second for base, rate in zip(plain, each, strict=True)]
        rates.append(
            Row(
                (name,),
                (
                    Figure.of(rate.per_second for rate in each),
                    Figure.of(slower, digits=2),
                    Figure.of((rate.cpu_us for rate in each), digits=1),
                ),
            )
        )
    late = tuple(
        Row(
            (f"{grace_ns // MS} ms",),
            (
                *(Figure.of([value], digits=1) for value in (delay.median, delay.p95, delay.p99, delay.most)),
                Figure(delay.early),
                Figure(delay.messages),
            ),
        )
        for grace_ns, delay in delays.items()
    )
    return [
        Section(
            "The live merger",
            f"{MESSAGES:,} messages of {PUBLISHERS} publishers, {len(PAYLOAD)} bytes each, stored before the merger "
            f"starts; NATS to NATS, with positions, exactly once. ε = {SETTINGS.epsilon_ns // MS} ms, "
            f"δ = {SETTINGS.delta_ns // MS} ms. One process merges, one is the broker.",
            Table(
                "live",
                ("way", "messages per second", "times slower", "processor time per message, µs"),
                tuple(rates),
                median_of(ROUNDS, "In turns."),
            ),
        ),
        Section(
            "How much later than due",
            f"{LIVE_RATE:,} messages per second for {LIVE_S} s, published while the merger runs. Due is r + c + δ + "
            "ε; written is the broker's time of the output. The grace is waited for on top.",
            Table(
                "late",
                ("grace", "median, ms", "95 %", "99 %", "most", "before due", "messages"),
                late,
                "One run of each; the figures are over its messages.",
            ),
        ),
    ]


async def _rates(url: str) -> tuple[list[Rate], list[Rate]]:
    gc.set_threshold(100_000, 50, 100)  # As the command does.
    connection = await connect(url)
    merged, plain = [], []
    for number in range(ROUNDS):
        await _fill(connection, url, f"IN-{number}")
        plain.append(await _pass_through(connection, url, f"IN-{number}", f"PLAIN-{number}"))
        merged.append(await _merge(connection, url, f"IN-{number}", f"OUT-{number}"))
        for stream in (f"IN-{number}", f"OUT-{number}", f"PLAIN-{number}"):
            await connection.jetstream().delete_stream(stream)
    await connection.close()
    return merged, plain


async def _fill(connection: Connection, url: str, stream: str) -> None:
    """Messages as publishers send them, with stamps of now."""
    await ensure_stream(connection.jetstream(), StreamAddress.parse(f"{url}/{stream}"), [f"{stream}.>"])
    now = SETTINGS.reading(time.time_ns()) - 1
    clocks = [BoundedClock(f"publisher-{number}", SETTINGS.bounds, now=now) for number in range(PUBLISHERS)]
    inbox, answered = connection.new_inbox(), asyncio.Event()

    async def answer(message: object) -> None:  # noqa: ARG001
        answered.set()

    subscription = await connection.subscribe(inbox, cb=answer)
    for start in range(0, MESSAGES, GROUP):
        commands = []
        for number in range(start, start + GROUP):
            clock = clocks[number % PUBLISHERS]
            headers = {
                PUBLISHER_HEADER: clock.process,
                SEQUENCE_HEADER: str(number // PUBLISHERS + 1),
                STAMP_HEADER: clock.tick(SETTINGS.reading(time.time_ns())).to_text(),
            }
            reply = inbox if number == start + GROUP - 1 else ""
            commands.append(connection.command(f"{stream}.a", PAYLOAD, headers=headers, reply=reply))
        answered.clear()
        await connection.send(commands)
        await asyncio.wait_for(answered.wait(), 30)
    await subscription.unsubscribe()


async def _merge(connection: Connection, url: str, source: str, target: str) -> Rate:
    output = StreamOutput(connection, StreamAddress.parse(f"{url}/{target}"))
    merger = LiveMerger(connection, StreamAddress.parse(f"{url}/{source}"), output, SETTINGS)
    cpu = time.process_time()
    figures = await merger.run(asyncio.Event(), drain=True)
    cpu = time.process_time() - cpu
    assert figures.delivered == MESSAGES, figures
    return Rate(await _rate(connection, target), cpu / MESSAGES * 1e6)


async def _pass_through(connection: Connection, url: str, source: str, target: str) -> Rate:
    """Read and write; the records are those of a merger, for the writer is the same."""
    output = StreamOutput(connection, StreamAddress.parse(f"{url}/{target}"))
    await output.open(RecordReader(SETTINGS), "pass-through")
    reader = StreamReader(connection, StreamAddress.parse(f"{url}/{source}"))
    await reader.open()
    unread = BoundedClock("nobody", SETTINGS.bounds).stamp()
    cpu = time.process_time()
    position = 0
    while True:
        fetched = await reader.fetch()
        batch: list[Outgoing] = []
        for stored in fetched.messages:
            position += 1
            headers = stored.headers or {}
            message = Published(
                publisher=headers[PUBLISHER_HEADER],
                sequence=int(headers[SEQUENCE_HEADER]),
                stamp=unread,
                payload=stored.payload,
            )
            arrived = Arrived(
                channel=stored.subject, message=message, stamp=headers[STAMP_HEADER], arrival=stored.time_ns
            )
            batch.append(Outgoing(arrived, stored.sequence, position))
        await output.write(batch, Checkpoint())
        if fetched.drained:
            break
    await output.flush()
    cpu = time.process_time() - cpu
    await reader.close()
    assert position == MESSAGES
    return Rate(await _rate(connection, target), cpu / MESSAGES * 1e6)


async def _rate(connection: Connection, stream: str) -> float:
    """From the broker's times of the first and the last message."""
    jetstream = connection.jetstream()
    state = (await jetstream.stream_info(stream)).state
    assert state.messages == MESSAGES
    first, last = await jetstream.get_msg(stream, 1), await jetstream.get_msg(stream, state.last_seq)
    assert first.time is not None
    assert last.time is not None
    return (MESSAGES - 1) / (last.time - first.time).total_seconds()


async def _delay(url: str, grace_ns: int) -> Delay:
    connection = await connect(url)
    source, target = f"LIVE-{grace_ns}", f"DONE-{grace_ns}"
    address = StreamAddress.parse(f"{url}/{source}")
    await ensure_stream(connection.jetstream(), address, [f"{source}.>"])
    output = StreamOutput(connection, StreamAddress.parse(f"{url}/{target}"))
    merger = LiveMerger(connection, address, output, SETTINGS, grace_ns=grace_ns)
    stop = asyncio.Event()
    merging = asyncio.create_task(merger.run(stop))
    command = [sys.executable, "-m", "benchmarks.merge_live", url, source]
    publishing = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL)
    await publishing.wait()
    await asyncio.sleep(1)
    stop.set()
    await merging
    late = await _lateness(connection, f"{url}/{target}")
    await connection.close()
    return Delay(
        median=_share(late, 0.5),
        p95=_share(late, 0.95),
        p99=_share(late, 0.99),
        most=late[-1],
        early=sum(each < 0 for each in late),
        messages=len(late),
    )


async def _lateness(connection: Connection, target: str) -> list[float]:
    """Written less due, in milliseconds, sorted."""
    reader = StreamReader(connection, StreamAddress.parse(target))
    records = RecordReader(SETTINGS)
    await reader.open()
    late: list[float] = []
    drained = False
    while not drained:
        fetched = await reader.fetch()
        drained = fetched.drained
        for stored in fetched.messages:
            arrival = int((stored.headers or {})["Beforehand-Arrival"])
            arrived = records.headers(stored.subject, stored.headers, stored.payload, arrival=arrival)
            assert isinstance(arrived, Arrived)
            due_ns = SETTINGS.rules.due(arrived.message.stamp) * SETTINGS.tick_ns
            late.append((stored.time_ns - due_ns) / 1e6)
    await reader.close()
    return sorted(late)


def _share(values: Sequence[float], share: float) -> float:
    return values[min(int(len(values) * share), len(values) - 1)]


async def _publish(url: str, stream: str) -> None:
    """In a process of its own: even load."""
    connection = await connect(url)
    address = StreamAddress.parse(f"{url}/{stream}")
    publishers = [
        await Publisher.open(connection, address, f"publisher-{number}", SETTINGS) for number in range(PUBLISHERS)
    ]
    begun = time.monotonic()
    for number in range(LIVE_RATE * LIVE_S):
        await asyncio.sleep(max(0.0, begun + number / LIVE_RATE - time.monotonic()))
        await publishers[number % PUBLISHERS].publish(f"{stream}.a", PAYLOAD)
    for publisher in publishers:
        await publisher.close()
    await connection.close()


if __name__ == "__main__":
    asyncio.run(_publish(sys.argv[1], sys.argv[2]))
