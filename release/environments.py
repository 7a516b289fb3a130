"""Environments that have the wheel and one extra, and nothing else.

`installed` makes one as a user does, with pip and a package index, with the versions that requirements/dev.txt pins.
`linked` needs no index and takes seconds: it links what the extra asks for, and what that asks for, from the Python
that runs this. It is as good except for packages that share a folder, as `opentelemetry`: all of the folder is there.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.building import ROOT

__all__ = ["BASE", "distributions", "extras", "installed", "linked"]

BASE: Final = "base"
"""The name of the environment without any extra."""

_PIN: Final = re.compile(r"^[A-Za-z0-9_.-]+==[^ \\]+", re.MULTILINE)


def extras(project: Path = ROOT / "pyproject.toml") -> dict[str, list[str]]:
    """Of pyproject.toml: each extra and what it asks for; `base`, which is always asked for, first."""
    found = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    return {BASE: found["dependencies"], **found["optional-dependencies"]}


def installed(wheel: Path, extra: str, to: Path) -> Path:
    """By pip, with the settings that it has; the Python of the environment."""
    python = _empty(to, with_pip=True)
    pins = to / "pins.txt"
    pins.write_text("\n".join(_PIN.findall((ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8"))))
    what = f"{wheel.resolve()}{'' if extra == BASE else f'[{extra}]'}"
    _pip(python, "--constraint", str(pins), what)
    return python


def linked(wheel: Path, extra: str, to: Path) -> Path:
    """From the packages of this Python; the Python of the environment."""
    python = _empty(to, with_pip=False)
    (packages,) = to.glob("lib/python*/site-packages")
    for name in sorted(distributions(extra)):
        for file in importlib.metadata.distribution(name).files or ():
            if file.parts[0] != "..":
                target, link = file.locate(), packages / file.parts[0]
                for _ in file.parts[1:]:
                    target = Path(str(target)).parent
            elif file.parts[-2] == "bin":
                target, link = file.locate(), to / "bin" / file.name
            else:
                continue
            if not link.exists() and Path(str(target)).exists():
                link.symlink_to(Path(str(target)).resolve())
    _pip(python, "--no-deps", "--no-index", str(wheel.resolve()))
    return python


def distributions(extra: str) -> set[str]:
    """All packages that come with an extra, those of the base too, by what is installed here."""
    asked = extras()
    todo = [Requirement(text) for text in (*asked[BASE], *(asked[extra] if extra != BASE else ()))]
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) in seen:
                continue
            seen.add((name, wanted))
            if name == "beforehand":  # `all` is made of the others.
                todo += [Requirement(text) for text in asked.get(wanted, ())]
                continue
            found.add(name)
            todo += _asked_by(name, wanted)
    return found


def _asked_by(name: str, extra: str) -> Iterator[Requirement]:
    for text in importlib.metadata.requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _empty(to: Path, *, with_pip: bool) -> Path:
    venv.EnvBuilder(with_pip=with_pip, symlinks=True, clear=True).create(to)
    return to / "bin" / "python"


def _pip(python: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"pip could not install {arguments[-1]}: {done.stderr.strip()[-2_000:]}")
