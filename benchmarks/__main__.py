"""Runs parts of the benchmarks, one after the other, and writes RESULTS.md.

    python -m benchmarks [PART ...]     run these parts, or all
    python -m benchmarks --list         what there is, and how long it takes
    python -m benchmarks --assemble     run nothing; draw pages, plots and RESULTS.md from the data again

Each part runs in a process of its own: one that fails is marked in RESULTS.md and takes no other with it, nor the
figures of its last good run. A part changes its own files in results/ and RESULTS.md, nothing else.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from benchmarks.assembling import FOLDER, assemble, keep, note_failure
from benchmarks.parts import PARTS, Part
from benchmarks.report import Report, decode

__all__ = ["main", "run"]

ROOT: Final = Path(__file__).resolve().parent.parent


def run(part: Part) -> Report | str:
    """The report of this part, or what went wrong, in a few words."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "report.json"
        command = [sys.executable, "-m", part.module, *part.arguments, "--to", str(target)]
        last = ""
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace", cwd=ROOT) as process:
            assert process.stderr is not None
            for line in process.stderr:
                sys.stderr.write(line)
                last = line.strip() or last
        if process.returncode:
            # The name of an error only: its text may tell of this machine.
            name = last.partition(":")[0]
            told = f", {name}" if name.isidentifier() else ""
            return f"exit {process.returncode}{told}"
        try:
            report = decode(target.read_bytes())
        except (OSError, msgspec.MsgspecError) as error:
            return f"no report: {type(error).__name__}"
    return msgspec.structs.replace(report, part=part.name)


def main(arguments: Sequence[str], folder: Path = FOLDER, parts: Mapping[str, Part] = PARTS) -> int:
    if list(arguments) == ["--list"]:
        for part in parts.values():
            print(f"{part.name:<20}{part.title} ({part.takes})")
        return 0
    if list(arguments) == ["--assemble"]:
        assemble(folder)
        return 0
    unknown = [name for name in arguments if name not in parts]
    if unknown:
        print(f"benchmarks: there is no part {unknown[0]}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    failed = 0
    for part in [parts[name] for name in dict.fromkeys(arguments)] or list(parts.values()):
        print(f"benchmarks: {part.name} ({part.takes})", file=sys.stderr, flush=True)
        outcome = run(part)
        if isinstance(outcome, str):
            failed += 1
            print(f"benchmarks: {part.name} failed: {outcome}", file=sys.stderr, flush=True)
            note_failure(folder, part.name, f"{datetime.now(UTC):%Y-%m-%d}, {outcome}")
        else:
            keep(folder, outcome)
        assemble(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
