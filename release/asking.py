"""What is asked of an environment: every command, and a program for each extra.

A command whose extra is there must do its work. A command whose extra is not there must say so in one line, which
names the extra to install, and exit with 2: a traceback is a failure, and so is a hint that would not help.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.programs import PROGRAMS

__all__ = ["CASES", "Case", "ask", "ask_command", "brings"]

_HINT: Final = re.compile(r"^beforehand: .* not installed: pip install 'beforehand\[([a-z,]+)\]'$")
_SECONDS_MAX: Final = 300.0

# Every extra, and the smaller ones whose packages it has too.
_BRINGS: Final[Mapping[str, frozenset[str]]] = {
    "base": frozenset(),
    "history": frozenset({"history"}),
    "pipeline": frozenset({"pipeline", "history"}),
    "service": frozenset({"service", "history"}),
    "nats": frozenset({"nats"}),
    "broker": frozenset({"broker", "nats"}),
    "http": frozenset({"http"}),
    "grpc": frozenset({"grpc"}),
    "opentelemetry": frozenset({"opentelemetry"}),
    "all": frozenset({"history", "pipeline", "service", "nats", "broker", "http", "grpc", "opentelemetry"}),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A command line; `needs` are the extras without any of which it cannot work, in the order in which it asks."""

    line: str
    needs: tuple[str, ...] = ()
    status: int = 0  # When it works.
    says: str = ""  # On standard output or standard error, when it works.
    serves: bool = False  # It runs until it is stopped, once it has said that.
    heavy: bool = False  # It takes more than a few seconds when it works.

    @property
    def command(self) -> str:
        return self.line.split()[0]


_NOBODY: Final = "nats://127.0.0.1:9/A"
_DIRECTORY: Final = ("pipeline",)

CASES: Final = (
    Case("--version", says="beforehand, version"),
    Case("--help", says="Commands:"),
    Case("analyze shop.jsonl --to shop --replace", _DIRECTORY, says="violations: causal 1", heavy=True),
    Case("find shop --where 'attributes.level = error'", _DIRECTORY, says="orders:17"),
    Case("explain shop orders:17 --last 3", _DIRECTORY, says="3 events, the last of 105"),
    Case("relate shop stock:17 orders:17", _DIRECTORY, says="stock:17 happened before orders:17"),
    Case("order shop --to run.jsonl.zst", _DIRECTORY, says="wrote run.jsonl.zst"),
    Case("check shop", _DIRECTORY, status=1, says="overtaken receives: 1"),
    Case("cut shop --after orders:17", _DIRECTORY, says="the cut is consistent"),
    Case("measure shop", _DIRECTORY, says="ahead of cart"),
    Case("tune shop", _DIRECTORY, says="54 messages"),
    Case("draw shop --to shop.html", _DIRECTORY, says="wrote shop.html"),
    Case("export shop --as perfetto --to shop.json", _DIRECTORY, says="wrote shop.json"),
    Case("simulate fifo --messages 5", ("history",), says="fifo    kept"),
    Case("experiment", ("history",), says="sensors"),
    Case(
        "merge --from in --to out --epsilon 1 --delta 1 --checkpoint state --once",
        ("pipeline",),
        status=2,
        says="in",
        heavy=True,
    ),
    Case(
        f"merge --live --from {_NOBODY} --to merged.jsonl --epsilon 1 --delta 1",
        ("nats",),
        2,
        "nothing listens there",
    ),
    Case(
        f"publish --to {_NOBODY} --channel A.b --publisher p --epsilon 1 --delta 1", ("nats",), 2, "nothing listens"
    ),
    Case(f"subscribe --from {_NOBODY} --once", ("nats",), 2, "nothing listens there"),
    Case("chat --name ada --peers ada=127.0.0.1:0", says="ada listens at 127.0.0.1:"),
    Case("serve --store new.db --port 0", ("service",), says="serving new.db at http://127.0.0.1:", serves=True),
    Case(
        "serve --open shop --port 0", ("service", "pipeline"), says="serving shop at http://127.0.0.1:", serves=True
    ),
    Case("token list", says="there are no tokens"),
    Case("demo --to demo", ("pipeline", "service"), says="checkout failed", heavy=True),
    Case("completion bash", says="_BEFOREHAND_COMPLETE=bash_complete"),
)


def brings(extra: str) -> frozenset[str]:
    return _BRINGS[extra]


def ask(python: Path, extra: str, folder: Path, *, heavy: bool) -> list[str]:
    """All cases and programs in this environment; what went wrong, a sentence each."""
    folder.mkdir(parents=True, exist_ok=True)
    write = "from beforehand.cli.shop import shop_run; from beforehand.formats import write_events; "
    # By who asks: the shop runs in the simulator, which takes an extra.
    made = _run([sys.executable, "-c", f"{write}write_events(shop_run(seed=1), 'shop.jsonl')"], folder)
    problems = [] if made.returncode == 0 else [f"the shop could not be written: {made.stderr.strip()[-300:]}"]
    there = brings(extra)
    for case in CASES:
        works = set(case.needs) <= there
        if works and not heavy and (case.heavy or _asks_shop(case)):
            continue
        problems += [f"[{extra}] beforehand {case.line}: {text}" for text in ask_command(python, case, there, folder)]
    for name, program in PROGRAMS.items():
        if name == "base" or (name in there and (heavy or name != "pipeline")):
            done = _run([str(python), "-c", program], folder)
            if done.returncode or done.stderr:
                problems.append(f"[{extra}] the program for {name}: {done.stderr.strip()[-600:]}")
    module = _run([str(python), "-m", "beforehand", "--help"], folder)
    if module.returncode or "Usage: beforehand" not in module.stdout:
        problems.append(f"[{extra}] python -m beforehand --help: {module.stderr.strip()[-300:]}")
    return problems


def ask_command(python: Path, case: Case, there: frozenset[str], folder: Path) -> list[str]:
    """One command line; what is wrong with what it did."""
    command = [str(python.parent / "beforehand"), *shlex.split(case.line)]
    missing = [extra for extra in case.needs if extra not in there]
    if case.serves and not missing:
        return _ask_server(command, case, folder)
    done = _run(command, folder)
    said = done.stdout + done.stderr
    if not missing:
        expected = done.returncode == case.status and case.says in said and "Traceback" not in said
        return [] if expected else [f"status {done.returncode}, and said {said.strip()[-400:]!r}"]
    lines = done.stderr.splitlines()
    hint = _HINT.match(lines[0]) if len(lines) == 1 else None
    if hint is None or done.returncode != 2 or done.stdout:
        return [f"not one line that says what to install (status {done.returncode}): {said.strip()[-400:]!r}"]
    advised = set(hint.group(1).split(","))
    if not advised <= set(case.needs) or advised <= there:
        return [f"advises to install {hint.group(1)}, which would not help"]
    return []


def _ask_server(command: Sequence[str], case: Case, folder: Path) -> list[str]:
    with (
        (folder / "served.txt").open("w+") as said,
        subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, env=_environment()) as server,  # noqa: S603
    ):
        until = time.monotonic() + _SECONDS_MAX
        text = ""
        while case.says not in text and server.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
            text = (folder / "served.txt").read_text()
        server.send_signal(signal.SIGTERM)
        status = server.wait(60)
    return [] if case.says in text and "Traceback" not in text else [f"status {status}, and said {text[-400:]!r}"]


def _asks_shop(case: Case) -> bool:
    """It needs the history directory that `analyze` makes, which takes Spark."""
    return " shop" in case.line and case.command != "analyze"


def _run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        command,
        cwd=folder,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )


def _environment() -> dict[str, str]:
    """Ours, without what would let an environment see packages that are not its own."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "BEFOREHAND_"))}
