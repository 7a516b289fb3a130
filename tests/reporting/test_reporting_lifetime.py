"""Reporters in coroutines, in forked children, in signal handlers and at the end of the program."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

from event_server import EventServer
from gated_target import GatedTarget

from beforehand.events import Event
from beforehand.formats import read_events
from beforehand.reporting import Reporter, ReportLimits

MINUTE = 60.0


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=MINUTE)


def test_coroutines_report_and_flush_while_the_loop_goes_on() -> None:
    target = GatedTarget()

    async def work() -> list[str]:
        order: list[str] = []

        async def open_later() -> None:
            await asyncio.sleep(0)
            order.append("the loop goes on")
            target.gate.set()

        async with Reporter(target, process="p") as reporter:
            reporter.event("one")
            opening = asyncio.create_task(open_later())
            assert await reporter.aflush(MINUTE)  # Would stand for ever if it blocked the loop.
            order.append("flushed")
            await opening
            reporter.event("two")
        return order

    assert asyncio.run(work()) == ["the loop goes on", "flushed"]
    assert target.indexes() == [1, 2]
    assert target.closed


def test_aflush_and_aclose_end_at_their_timeouts() -> None:
    target = GatedTarget()

    async def work() -> tuple[bool, bool]:
        reporter = Reporter(target, process="p", linger=0.0)
        reporter.event("one")
        return await reporter.aflush(0.01), await reporter.aclose(0.01)

    assert asyncio.run(work()) == (False, False)
    target.gate.set()


def test_the_policy_wait_never_stops_an_event_loop() -> None:
    target = GatedTarget()

    async def work() -> dict[str, int]:
        reporter = Reporter(
            target, process="p", linger=0.0, drop="wait", wait=1000.0, limits=ReportLimits(events_max=1)
        )
        for _ in range(3):
            reporter.event("more")
        target.gate.set()
        assert await reporter.aclose(MINUTE)
        return reporter.dropped

    assert asyncio.run(work()) == {"wait-over": 2}


def test_a_signal_handler_may_report() -> None:
    target = GatedTarget(is_open=True)
    reporter = Reporter(target, process="p")
    fired: list[int] = []

    def on_signal(number: int, frame: object) -> None:
        fired.append(reporter.event("signal").index)

    before = signal.signal(signal.SIGALRM, on_signal)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        while len(fired) < 50:
            reporter.event("work")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert reporter.close(MINUTE)
    total = len(target.lines)
    assert sorted(target.indexes()) == list(range(1, total + 1))  # type: ignore[type-var]


FORK = """
import os, sys, threading
from beforehand.reporting import FileTarget, Reporter, Taken

class Gated(FileTarget):
    gate = threading.Event()
    def send(self, lines):
        self.gate.wait(30)
        return super().send(lines)

reporter = Reporter(Gated(sys.argv[1]), process="parent", stamps=True, linger=0.0)
for _ in range(3):
    reporter.event("before the fork")
with reporter._outbox.lock:  # The worst moment: a lock is held.
    pid = os.fork()
if pid == 0:
    Gated.gate.set()
    assert reporter.status().queued == 0
    for _ in range(2):
        reporter.event("in the child")
    os._exit(0 if reporter.close(30) else 1)
assert os.waitpid(pid, 0)[1] == 0
Gated.gate.set()
reporter.event("after the fork")
assert reporter.close(30)
print(pid)
"""


def test_a_forked_child_is_a_new_process_and_sends_nothing_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    done = run(FORK, path)
    assert done.returncode == 0, done.stderr
    events = [event for event in read_events(path) if isinstance(event, Event)]
    parents = [event for event in events if event.process == "parent"]
    children = [event for event in events if event.process != "parent"]
    assert [event.index for event in parents] == [1, 2, 3, 4]
    assert [(event.index, event.name) for event in children] == [(1, "in the child"), (2, "in the child")]
    (child,) = {event.process for event in children}
    assert child.startswith(f"parent+{done.stdout.strip()}.")
    assert children[0].clock == {"parent": 3, child: 1}  # It inherits what its parent knew.


FORK_HTTP = """
import os, sys
from beforehand.reporting import Reporter
reporter = Reporter(sys.argv[1], process="parent", linger=0.0)
reporter.event("one")
assert reporter.flush(30)  # There is a connection now.
closed = Reporter(sys.argv[1], process="closed")
closed.close()
pid = os.fork()
if pid == 0:
    reporter.event("child")
    closed.event("late")
    assert closed.close(30) and closed.dropped == {"closed": 1}
    os._exit(0 if reporter.close(30) else 1)
reporter.event("two")
assert os.waitpid(pid, 0)[1] == 0
assert reporter.close(30)
"""


def test_a_forked_child_makes_a_connection_of_its_own_and_leaves_closed_what_is() -> None:
    with EventServer() as server:
        done = run(FORK_HTTP, server.url)
    assert done.returncode == 0, done.stderr
    assert server.indexes("parent") == [1, 2]
    assert len(server.stored) == 3
    by_process = {(request.events[0]["process"], request.connection) for request in server.requests}
    assert len({connection for _, connection in by_process}) == 2
    assert len(by_process) == 2


FORGOTTEN = """
import atexit, sys
from beforehand.reporting import Reporter
reporter = Reporter(sys.argv[1], process="p", linger=1000.0, exit_timeout=float(sys.argv[2]))
atexit.register(reporter.event, "at the end")
for _ in range(100):
    reporter.event("one")
"""


def test_what_is_queued_at_the_end_of_the_program_is_sent() -> None:
    with EventServer() as server:
        done = run(FORGOTTEN, server.url, 30)
    assert (done.returncode, done.stderr) == (0, "")
    assert server.indexes() == list(range(1, 102))


def test_a_dead_server_holds_the_end_of_the_program_no_longer_than_allowed() -> None:
    started = time.monotonic()
    done = run(FORGOTTEN, "http://127.0.0.1:9", 0.2)
    assert done.returncode == 0
    assert "101 events were not reported" in done.stderr
    assert time.monotonic() - started < 20


def test_the_room_needs_msgspec_and_nothing_else() -> None:
    script = """
import sys
import beforehand.reporting
roots = {name.split(".")[0] for name in sys.modules if not name.startswith("_")}
print(*sorted(roots - set(sys.stdlib_module_names) - {"beforehand", "site", "sitecustomize"}))
"""
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {"msgspec", "typing_extensions"}
