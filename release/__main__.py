"""Builds a release, and proves of it what can be proved before it goes out.

    python -m release build                 dist/*.whl and dist/*.tar.gz, with what they must contain
    python -m release check [EXTRA]...      the same, then every extra alone in an environment of its own, by pip

Exit status 1 if anything is wrong, a line each.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from beforehand import __version__
from release.asking import ask
from release.building import ROOT, build, check_contents, check_rebuilt
from release.environments import extras, installed
from release.programs import ILL_TYPED, WELL_TYPED

__all__ = ["check_types", "main"]


def check_types(python: Path, folder: Path) -> list[str]:
    """A type checker, with the installed wheel: it finds mistakes in a program, and none where there are none."""
    problems: list[str] = []
    for name, program, expected in (("well", WELL_TYPED, 0), ("ill", ILL_TYPED, 2)):
        path = folder / f"{name}_typed.py"
        path.write_text(program)
        command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "--no-incremental"]
        done = subprocess.run([*command, str(path)], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
        errors = done.stdout.count(": error:")
        if errors != expected:
            problems.append(f"mypy found {errors} mistakes in a {name} typed program, not {expected}: {done.stdout}")
    return problems


def main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] not in ("build", "check") or set(arguments[1:]) - set(extras()):
        print(__doc__, file=sys.stderr)
        return 2
    started = time.monotonic()
    built = build(ROOT, ROOT / "dist")
    problems = [*check_contents(built, __version__), *check_rebuilt(built)]
    print(f"{built.wheel.name} and {built.sdist.name}: {time.monotonic() - started:.0f} s", flush=True)
    _say(problems)
    if arguments[0] == "check":
        for extra in arguments[1:] or extras():
            started = time.monotonic()
            folder = Path(tempfile.mkdtemp(prefix=f"release-{extra}-"))
            try:
                python = installed(built.wheel, extra, folder / "environment")
                took = time.monotonic() - started
                found = ask(python, extra, folder / "work", heavy=True)
                found += check_types(python, folder / "work") if extra == "base" else []
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            problems += found
            state = f"{len(found)} problems" if found else "all in order"
            print(f"{extra}: installed in {took:.0f} s, {state} after {time.monotonic() - started:.0f} s", flush=True)
            _say(found)
    return 1 if problems else 0


def _say(problems: Sequence[str]) -> None:
    for problem in problems:
        print(problem, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
