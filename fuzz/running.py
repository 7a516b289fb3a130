"""Runs targets: `python -m fuzz [--seconds S] [--seed N] [TARGET...]`, or briefly from the tests.

A *finding* is an input at which a target raises something else than it promises, takes more than `SECONDS_MAX` of
processor time, or makes the process larger than `MEMORY_MAX`. Findings are written to --to (fuzz-findings), with what
was raised; the same target and seed give the same inputs.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from beforehand.errors import BeforehandError, InvariantError
from fuzz.mutating import mutated

__all__ = ["Finding", "Target", "attack", "main"]

SECONDS_MAX = 10.0
MEMORY_MAX = 3 << 30


@dataclass(frozen=True, slots=True)
class Target:
    """Something that takes bytes from strangers. `call` may raise BeforehandError, and nothing else."""

    name: str
    seeds: tuple[bytes, ...]
    call: Callable[[bytes], object]
    promised: tuple[type[Exception], ...] = (BeforehandError,)


@dataclass(frozen=True, slots=True)
class Finding:
    target: str
    data: bytes
    why: str


def attack(target: Target, *, seed: int, count: int | None = None, until: float | None = None) -> list[Finding]:
    """So many inputs, or until this moment of the monotonic clock; the findings."""
    random = Random(f"{target.name} {seed}")
    found: dict[str, Finding] = {}
    done = 0
    for data in target.seeds:  # What is right must be taken.
        target.call(data)
    while (count is None or done < count) and (until is None or time.monotonic() < until):
        data = mutated(target.seeds, random)
        done += 1
        why = _tried(target, data)
        if why is not None:
            found.setdefault(why.splitlines()[-1][:200], Finding(target.name, data, why))
    return list(found.values())


def _tried(target: Target, data: bytes) -> str | None:
    start = time.process_time()
    try:
        target.call(data)
    except InvariantError:
        return traceback.format_exc()  # It says that we are wrong.
    except target.promised:
        pass
    except (Exception, RecursionError):  # noqa: BLE001 (that is what is looked for)
        return traceback.format_exc()
    took = time.process_time() - start
    if took > SECONDS_MAX:
        return f"it took {took:.1f} s of processor time"
    return None


def main(arguments: Sequence[str]) -> int:
    from fuzz.targets import targets

    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Attack every decoder and reader.")
    parser.add_argument("--seconds", type=float, default=900, help="for all targets together (900)")
    parser.add_argument("--seed", type=int, default=None, help="the same inputs again; else the time of day")
    parser.add_argument("--to", type=Path, default=Path("fuzz-findings"), help="where findings are written")
    parser.add_argument("target", nargs="*", help="only these")
    given = parser.parse_args(arguments)
    seed = int(time.time()) if given.seed is None else given.seed
    chosen = [one for one in targets() if not given.target or one.name in given.target]
    if not chosen:
        print(f"no such target; there are: {', '.join(one.name for one in targets())}", file=sys.stderr)
        return 2
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    findings: list[Finding] = []
    for target in chosen:
        until = time.monotonic() + given.seconds / len(chosen)
        found = attack(target, seed=seed, until=until)
        print(f"{target.name}: {len(found) or 'no'} findings (seed {seed})", flush=True)
        findings += found
    for one in findings:
        given.to.mkdir(parents=True, exist_ok=True)
        stem = f"{one.target}-{hashlib.blake2b(one.data, digest_size=6).hexdigest()}"
        (given.to / f"{stem}.bin").write_bytes(one.data)
        (given.to / f"{stem}.txt").write_text(one.why)
        print(f"  {given.to / stem}.bin: {one.why.strip().splitlines()[-1][:200]}")
    return 1 if findings else 0
