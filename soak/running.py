"""Members, mergers and the service together, under faults, for a given time; then all is judged.

Five members of a replicated map, over TCP through wires that delay and cut, killed with SIGKILL and started again;
each reports what it does to a running service, which is killed, too. Two mergers of what two publishers send over a
broker. At the end: equal copies, one order, nothing lost or twice, all that was acknowledged, equal outputs, and
no process that grew. A finding is one line; exit status 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from beforehand.errors import BeforehandError
from beforehand.runtime import EmbeddedBroker
from soak import judging
from soak.parts import Part, grown
from soak.wires import bad_wires

__all__ = ["main", "soak"]

NAMES = ("a", "b", "c", "d", "e")
PUBLISHERS = ("p1", "p2")
PORTS = range(20_000, 32_000)  # Below those that outgoing connections get.
STAMPING = ("--epsilon", "50", "--delta", "3000")
BEFOREHAND = (sys.executable, "-m", "beforehand")
QUIET_S = 8.0  # At the end, without faults.
PATIENCE_S = 120.0
SAMPLES = 400


class Soak:
    """All parts, in one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.choose = random.Random(seed)
        self.findings: list[str] = []
        self.published = dict.fromkeys(PUBLISHERS, 0)
        self.kills = 0
        ports = self.choose.sample(PORTS, 100)
        free = [port for port in ports if _free(port)]
        self.true = {name: f"127.0.0.1:{free.pop()}" for name in NAMES}
        port = free.pop()
        self.url = f"http://127.0.0.1:{port}"
        store = str(folder / "events.db")
        self.service = Part(
            "service", [*BEFOREHAND, "serve", "--store", store, "--port", str(port), "--deadline", "2"], folder
        )
        self.members = {name: Part(name, [sys.executable, "-m", "soak.member"], folder) for name in NAMES}
        self.mergers: list[Part] = []
        self.publishers: dict[str, Part] = {}

    @property
    def outputs(self) -> list[Path]:
        return [self.folder / f"{merger.name}.jsonl" for merger in self.mergers]

    def parts(self) -> list[Part]:
        return [self.service, *self.members.values(), *self.mergers, *self.publishers.values()]

    def start(self, broker: EmbeddedBroker, wires: dict[str, str]) -> None:
        stream = f"{broker.url}/SOAK"
        for number in (1, 2):
            name = f"merger{number}"
            to = str(self.folder / f"{name}.jsonl")
            merge = [*BEFOREHAND, "merge", "--live", "--from", stream, "--to", to, *STAMPING, "--create"]
            self.mergers.append(Part(name, merge, self.folder))
        for name in PUBLISHERS:
            publish = [
                *BEFOREHAND,
                "publish",
                "--to",
                stream,
                "--channel",
                f"SOAK.{name}",
                "--publisher",
                name,
                *STAMPING,
            ]
            self.publishers[name] = Part(name, publish, self.folder, fed=True)
        self.wires = wires
        self.service.start()
        for name in NAMES:
            self.start_member(name)
        for merger in self.mergers:
            merger.start()
            time.sleep(2)  # The first makes the stream.
        for publisher in self.publishers.values():
            publisher.start()

    def start_member(self, name: str) -> None:
        life = len(self.members[name].lives) + 1
        peers = {**self.wires, name: self.true[name]}
        given = {"me": name, "life": life, "folder": str(self.folder), "peers": peers, "service": self.url}
        self.members[name].start(json.dumps(given))

    def run(self, seconds: float) -> None:
        start = now = time.monotonic()
        every = max(0.2, seconds / SAMPLES)
        fault_at = now + self.choose.uniform(2, 6)
        while now < start + seconds:
            time.sleep(every)
            for part in self.parts():
                part.sample()
            self.publish()
            now = time.monotonic()
            if fault_at <= now < start + seconds - QUIET_S:
                self.fault()
                fault_at = now + self.choose.uniform(2, 6)
            for part in self.parts():
                if not part.alive():
                    raise RuntimeError(f"{part.name} ended by itself: {part.last_words()}")

    def publish(self) -> None:
        for name, publisher in self.publishers.items():
            with suppress(BrokenPipeError):
                publisher.input.write(b"%d\n" % self.published[name])
                publisher.input.flush()
                self.published[name] += 1

    def fault(self) -> None:
        self.kills += 1
        if self.choose.random() < 0.25:
            self.service.kill()
            time.sleep(self.choose.uniform(0, 1))
            self.service.start()
            return
        name = self.choose.choice(NAMES)
        self.members[name].kill()
        time.sleep(self.choose.uniform(0, 1))
        self.start_member(name)

    def end(self) -> None:
        """Everybody comes to rest; then all end."""
        for publisher in self.publishers.values():
            publisher.input.close()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and not all(self.listens(member) for member in self.members.values()):
            time.sleep(0.1)
        for member in self.members.values():
            member.tell_to_end()
        while time.monotonic() < deadline and not all((self.folder / f"{name}.copy").exists() for name in NAMES):
            time.sleep(0.1)
        for member in self.members.values():
            member.tell_to_end()
        for publisher in self.publishers.values():
            self.wait_for(publisher)
        for member in self.members.values():
            self.wait_for(member)
        wanted = sum(self.published.values())
        while time.monotonic() < deadline and any(_lines(path) < wanted for path in self.outputs):
            time.sleep(0.1)
        for part in (*self.mergers, self.service):
            part.tell_to_end(signal.SIGINT)
            self.wait_for(part)

    def listens(self, member: Part) -> bool:
        """Whether a member that was started again can be told to end: before, that would end it without a word."""
        return (self.folder / f"{member.name}.{len(member.lives)}.acknowledged").exists()

    def kill(self) -> None:
        for part in self.parts():
            part.kill()

    def wait_for(self, part: Part) -> None:
        if not part.ended(PATIENCE_S):
            self.findings.append(f"{part.name} did not end: {part.last_words()}")

    def judge(self) -> str:
        exported = self.folder / "exported.jsonl"
        store = str(self.folder / "events.db")
        export = Part("export", [*BEFOREHAND, "export", store, "--as", "native", "--to", str(exported)], self.folder)
        export.start()
        self.wait_for(export)
        self.findings += judging.copies(self.folder, NAMES)
        found, sent = judging.journals(self.folder, NAMES)
        self.findings += found
        found, acknowledged = judging.reports(self.folder, exported)
        self.findings += found
        found, merged = judging.merged(self.outputs, self.published)
        self.findings += found
        lives = [life for part in self.parts() for life in part.lives]
        self.findings += [finding for life in lives for finding in grown(life)]
        return f"{sent} messages, {acknowledged} events acknowledged, {merged} merged, {self.kills} kills"


def soak(folder: Path, seconds: float, seed: int) -> tuple[list[str], str]:
    """The findings, and what happened in a line."""
    one = Soak(folder, seed)
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        wires = stack.enter_context(bad_wires(one.true, seed, cut=0.002))
        stack.callback(one.kill)
        try:
            one.start(broker, wires)
            one.run(seconds)
            one.end()
        except RuntimeError as error:
            return [str(error)], "it ended early"
    return one.findings, one.judge()


def _free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _lines(path: Path) -> int:
    texts = [one.read_bytes() for one in (path, path.with_name(f"{path.name}.set-aside")) if one.exists()]
    return sum(text.count(b"\n") for text in texts)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m soak", description="All parts together, under faults.")
    parser.add_argument("--seconds", type=float, default=900, help="how long (900)")
    parser.add_argument("--seed", type=int, default=None, help="of the faults; else the time of day")
    parser.add_argument("--to", type=Path, default=None, help="a folder for what is left; else it is removed")
    given = parser.parse_args(arguments)
    seed = int(time.time()) if given.seed is None else given.seed
    with ExitStack() as stack:
        folder = given.to or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            findings, happened = soak(folder, given.seconds, seed)
        except BeforehandError as error:
            findings, happened = [str(error)], "it could not be judged"
    print(f"seed {seed}, {given.seconds:g} s: {happened}: {len(findings) or 'no'} findings")
    for finding in findings:
        print(f"  {finding}")
    return 1 if findings else 0
