"""Groups of five processes on loopback: deliveries per second and delay per protocol, beside a plain TCP fan-out.

    python -m benchmarks.groups [SECONDS [REPEATS]]

Every member sends to all, as fast as it may: at most `WINDOW` of its own messages are not delivered to itself yet (in
the fan-out: not echoed by all others). A delivery is a message handed to one member's application. The delay is from
sending to delivery at another member, on one machine's clock.

Those of `TO_ONE` are for messages to one: each goes to another member by chance, beside plain TCP that does so, and
a message is one delivery. Those of `BOUNDS` deliver when a bound has passed, not when all have answered: what they
deliver a second follows from the bound and the window.

Nobody leaves before all have measured: a member that waits for one that is gone would wait for ever.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from beforehand.ordering import PROTOCOLS, Message
from beforehand.runtime import Group
from benchmarks.report import Figure, Report, Row, Section, Table, deliver, median_of, report_of, target

__all__ = ["main", "report"]

NAMES = ("a", "b", "c", "d", "e")
WINDOW = 50
SECONDS = 5.0
REPEATS = 3
PAYLOAD = 100
PLAIN = "plain TCP fan-out"
PLAIN_TO_ONE = "plain TCP"
MEASURED = "measured"
PATIENCE_S = 120.0  # For a member to start and end, beside what is measured.
PORTS = range(20_000, 32_000)
TO_ONE = ("causal-unicast", "rendezvous")
BOUND_MS = 500  # Generous: five busy members on two cores must stay within it.
BOUNDS: dict[str, dict[str, int]] = {
    "timed-delivery": {"delay_max": BOUND_MS * 1_000_000},
    "causal-merge": {"epsilon": 5, "delta": BOUND_MS},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run of one order: of all members together."""

    rate: float  # Deliveries per second.
    median_ms: float  # Of the delay.
    most_ms: float  # 99 % of the delays are below.
    cpu_us: float  # Per delivery.
    set_aside: int  # Messages that came too late for one member's order.


async def member(me: str, peers: dict[str, str], order: str, seconds: float) -> dict[str, Any]:
    """One member: how much it was handed, and how late."""
    late: list[int] = []
    count = mine = 0
    room = asyncio.Event()
    others = [name for name in peers if name != me]

    async def handle(message: Message) -> None:
        nonlocal count, mine
        count += 1
        if message.sender == me:
            mine += 1
            room.set()
        else:
            late.append(time.time_ns() - int.from_bytes(message.payload[:8]))

    async with Group(me, peers, order=order, handler=handle, options=BOUNDS.get(order)) as group:
        await _all_there(group)
        start, begun, sent = time.monotonic(), time.process_time(), 0
        until = start + seconds
        while time.monotonic() < until:
            if order in TO_ONE:  # Only the group holds the sender back.
                await group.send(time.time_ns().to_bytes(8).ljust(PAYLOAD, b"."), random.choice(others))
                continue
            if sent - mine >= WINDOW:
                room.clear()
                with suppress(TimeoutError):  # Of those set aside we would never hear.
                    async with asyncio.timeout(until - time.monotonic()):
                        await room.wait()
                continue
            await group.send(time.time_ns().to_bytes(8).ljust(PAYLOAD, b"."))
            sent += 1
        taken, cpu = time.monotonic() - start, time.process_time() - begun
        done, set_aside = count, sum(group.figures().discarded.values())
        await _all_measured()
    return {"rate": done / taken, "late": late, "cpu": cpu / max(done, 1), "set_aside": set_aside}


async def _all_there(group: Group) -> None:
    while len(group.figures().transport.connected) < len(NAMES) - 1:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)


async def _all_measured() -> None:
    """Tell who started us, and wait until it closes our input."""
    print(MEASURED, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def plain(me: str, peers: dict[str, str], seconds: float, *, to_one: bool = False) -> dict[str, Any]:
    """The same load without a protocol: frames over TCP, echoed by their number."""
    late: list[int] = []
    count = 0
    echoed = {name: 0 for name in peers if name != me}
    room = asyncio.Event()
    writers: dict[str, asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                data = await reader.readexactly(size)
                count += 1
                late.append(time.time_ns() - int.from_bytes(data[:8]))
                writer.write(b"+")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()  # The other end is done, or we are.

    async def hear(name: str, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(4096):
            echoed[name] += len(data)
            room.set()

    host, _, port = peers[me].rpartition(":")
    server = await asyncio.start_server(serve, host, int(port))
    tasks = []
    for name in echoed:
        host, _, port = peers[name].rpartition(":")
        while name not in writers:
            try:
                reader, writers[name] = await asyncio.open_connection(host, int(port))
                tasks.append(asyncio.create_task(hear(name, reader)))
            except OSError:
                await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    start, begun, sent = time.monotonic(), time.process_time(), 0
    while time.monotonic() < start + seconds:
        if sent - (sum(echoed.values()) if to_one else min(echoed.values())) >= WINDOW:
            room.clear()
            await room.wait()
            continue
        frame = PAYLOAD.to_bytes(4) + time.time_ns().to_bytes(8).ljust(PAYLOAD, b".")
        if to_one:
            random.choice([*writers.values()]).write(frame)
        else:
            for writer in writers.values():
                writer.write(frame)
            count += 1  # To itself.
        sent += 1
        await asyncio.sleep(0)
    taken, done, cpu = time.monotonic() - start, count, time.process_time() - begun
    await _all_measured()
    server.close()
    for writer in writers.values():
        writer.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"rate": done / taken, "late": late, "cpu": cpu / max(done, 1), "set_aside": 0}


def addresses() -> dict[str, str]:
    """Ports below those that outgoing connections get: such a one may not take a member's before it listens."""
    with ExitStack() as stack:
        ports: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            with suppress(OSError):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == len(NAMES):
                break
        return {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=True)}


def results(order: str, running: list[subprocess.Popen[str]], patience_s: float) -> list[dict[str, Any]]:
    """What each member found. RuntimeError if one ends too soon, or not in time."""

    def give_up() -> None:
        for process in running:
            process.kill()

    late = threading.Timer(patience_s, give_up)
    late.start()
    try:
        for name, process in zip(NAMES, running, strict=True):
            assert process.stdout is not None
            if process.stdout.readline().strip() != MEASURED:
                raise RuntimeError(f"{order}: member {name} ended, or had not measured after {patience_s:g} s")
        for process in running:
            assert process.stdin is not None
            process.stdin.close()
            process.stdin = None  # For `communicate`.
        return [json.loads(process.communicate()[0]) for process in running]
    finally:
        late.cancel()
        give_up()
        for process in running:
            process.wait()


def measure(order: str, seconds: float) -> Measured:
    peers = addresses()
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.groups", "--member", json.dumps([name, peers, order, seconds])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in NAMES
    ]
    found = results(order, running, seconds + PATIENCE_S)
    late = sorted(each for one in found for each in one["late"])
    return Measured(
        rate=sum(one["rate"] for one in found),
        median_ms=late[len(late) // 2] / 1e6,
        most_ms=late[len(late) * 99 // 100] / 1e6,
        cpu_us=statistics.mean(one["cpu"] for one in found) * 1e6,
        set_aside=sum(one["set_aside"] for one in found),
    )


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] == "--member":
        me, peers, order, seconds = json.loads(sys.argv[2])
        without = order in (PLAIN, PLAIN_TO_ONE)
        doing = (
            plain(me, peers, seconds, to_one=order == PLAIN_TO_ONE) if without else member(me, peers, order, seconds)
        )
        print(json.dumps(asyncio.run(doing)))
        return 0
    rest, to = target(sys.argv[1:])
    seconds, repeats = float(rest[0]) if rest else SECONDS, int(rest[1]) if len(rest) > 1 else REPEATS
    return deliver(report(seconds, repeats), to)


def report(seconds: float, repeats: int) -> Report:
    to_all = [PLAIN, *(order for order in PROTOCOLS if order not in TO_ONE and order not in BOUNDS)]
    found: dict[str, list[Measured]] = {order: [] for order in (*to_all, PLAIN_TO_ONE, *TO_ONE, *BOUNDS)}
    for _ in range(repeats):
        for order, runs in found.items():
            runs.append(measure(order, seconds))
            print(f"{order}: {runs[-1].rate:,.0f} deliveries a second", file=sys.stderr, flush=True)
    how = median_of(repeats, "All orders in turns.")
    return report_of(
        "groups",
        [
            Section(
                "",
                "Deliveries of all members together. Causal protocols deliver to the sender at once, so only the "
                "link holds their senders back: their delay is the time in its queues.",
                Table("orders", COLUMNS, tuple(_row(order, found, PLAIN) for order in to_all), how),
            ),
            Section(
                "To one",
                "Each message goes to one other member by chance, so a message is one delivery, not five: compare "
                "with the first row here, not with the orders above. Only the group holds senders back; with "
                "rendezvous a member sends its next message when the one before has left.",
                Table("to one", COLUMNS, tuple(_row(o, found, PLAIN_TO_ONE) for o in (PLAIN_TO_ONE, *TO_ONE)), how),
            ),
            Section(
                "By the clock",
                f"To all again. These deliver when their bound of {BOUND_MS} ms has passed: that is their delay, and "
                f"as each member has at most {WINDOW} messages under way, it is their rate as well, and with it how "
                f"many times slower than the {PLAIN} above they are. What is set aside came later than the bound at "
                "one member.",
                Table("by the clock", CLOCKED, tuple(_clocked(order, found) for order in BOUNDS), how),
            ),
        ],
        about=f"Five processes on loopback over TCP, without state; every member sends {PAYLOAD} bytes to all, at "
        f"most {WINDOW} of its own not delivered to itself; {seconds:g} s each. Sections say where it is otherwise.",
    )


DELAYS = ("delay to others, median, ms", "delay, 99 %, ms", "processor time per delivery, µs")
COLUMNS = ("order", "deliveries per second", "times slower", *DELAYS)
CLOCKED = (*COLUMNS, "set aside")


def _row(order: str, found: dict[str, list[Measured]], plainly: str) -> Row:
    runs, beside = found[order], found[plainly]
    slower = Figure.of((base.rate / run.rate for base, run in zip(beside, runs, strict=True)), digits=1)
    return Row((order,), (Figure.of(run.rate for run in runs), slower, *_delays(runs)))


def _clocked(order: str, found: dict[str, list[Measured]]) -> Row:
    row = _row(order, found, PLAIN)
    return Row(row.name, (*row.cells, Figure.of(run.set_aside for run in found[order])))


def _delays(runs: list[Measured]) -> tuple[Figure, Figure, Figure]:
    return (
        Figure.of((run.median_ms for run in runs), digits=1),
        Figure.of((run.most_ms for run in runs), digits=1),
        Figure.of(run.cpu_us for run in runs),
    )


if __name__ == "__main__":
    sys.exit(main())
