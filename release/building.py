"""Builds the sdist and the wheel, and says what is wrong with them.

The tool that builds is the one that requirements/dev.txt pins. What `check_contents` finds missing would be missing
for every user: a module, a script or style of the page, the mark that the package is typed, the licence.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final
from zipfile import ZipFile

__all__ = ["ROOT", "SHIPPED", "Built", "build", "check_contents", "check_rebuilt", "package_files"]

ROOT: Final = Path(__file__).resolve().parent.parent
_LEFT_OUT: Final = ("__pycache__",)

SHIPPED: Final = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
)
"""Files beside src/ that an sdist must have, so that `make test` can be run in it."""


@dataclass(frozen=True, slots=True)
class Built:
    sdist: Path
    wheel: Path


def build(source: Path, to: Path) -> Built:
    """Both, from the project in `source`; what an earlier call left in `to` is removed."""
    to.mkdir(parents=True, exist_ok=True)
    for old in (*to.glob("beforehand-*.whl"), *to.glob("beforehand-*.tar.gz")):
        old.unlink()
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(to.resolve())]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)  # noqa: S603
    (sdist,), (wheel,) = to.glob("beforehand-*.tar.gz"), to.glob("beforehand-*.whl")
    return Built(sdist, wheel)


def package_files(package: Path = ROOT / "src" / "beforehand") -> set[str]:
    """What a wheel must have, as it names it: `beforehand/events.py`."""
    files = (path for path in package.rglob("*") if path.is_file())
    return {
        path.relative_to(package.parent).as_posix()
        for path in files
        if not set(path.parts) & set(_LEFT_OUT) and path.suffix not in (".pyc", ".swp")
    }


def check_contents(built: Built, version: str) -> list[str]:
    """What is missing or too much, a sentence each; empty if all is well."""
    problems: list[str] = []
    with ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
        info = f"beforehand-{version}.dist-info"
        inside = {name for name in names if not name.startswith(f"{info}/")}
        problems += _different("the wheel", inside, package_files())
        problems += _missing("the wheel", names, {"beforehand/py.typed", f"{info}/licenses/LICENSE"})
        metadata = HeaderParser().parsestr(wheel.read(f"{info}/METADATA").decode())
        scripts = wheel.read(f"{info}/entry_points.txt").decode()
    if metadata["Version"] != version:
        problems.append(f"the wheel says that it is version {metadata['Version']}, the code {version}")
    if metadata["License-Expression"] != "Apache-2.0":
        problems.append(f"the wheel says that its licence is {metadata['License-Expression']}")
    if "beforehand = beforehand.cli:main" not in scripts:
        problems.append("the wheel brings no command `beforehand`")
    with tarfile.open(built.sdist) as sdist:
        members = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = {f"src/{name}" for name in package_files()} | {name for name in SHIPPED if (ROOT / name).is_file()}
    return problems + _missing("the sdist", members, wanted)


def check_rebuilt(built: Built) -> list[str]:
    """The sdist alone, unpacked elsewhere, makes the same wheel, byte by byte."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(built.sdist) as sdist:
            sdist.extractall(folder, filter="data")
        (source,) = Path(folder).iterdir()
        again = build(source, Path(folder) / "dist")
        same = again.wheel.name == built.wheel.name and again.wheel.read_bytes() == built.wheel.read_bytes()
    return [] if same else ["the wheel that is built from the sdist is not the one beside it"]


def _different(where: str, found: set[str], wanted: set[str]) -> list[str]:
    return _missing(where, found, wanted) + [
        f"{where} has {name}, which src/ has not" for name in sorted(found - wanted)
    ]


def _missing(where: str, found: set[str], wanted: Iterable[str]) -> list[str]:
    return [f"{where} lacks {name}" for name in sorted(set(wanted) - found)]
