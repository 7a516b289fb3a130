"""An archive of Java classes, from which a JVM of ours starts with much less work.

BEFOREHAND_JAVA_CLASSES names its file. If there is none, the next JVM that ends in good order leaves one there, which
takes it some seconds; from then on each maps the file instead of reading and verifying Spark's classes. It is of use
to who starts many short analyses, as our tests do. Java itself refuses, and does without, a file that is not of the
same Java and Spark; so a stale one costs time and nothing else.
"""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["MAKING_SECONDS_MAX", "ClassArchive", "class_archive"]

MAKING_SECONDS_MAX: Final = 120
"""How long a JVM may take to end when it makes one."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive that was asked for, and where it is made if it is not there."""

    file: Path
    made: Path

    @property
    def is_there(self) -> bool:
        return self.file.is_file()

    @property
    def option(self) -> str:
        """For the JVM, in the form that Spark takes apart."""
        if self.is_there:
            return shlex.quote(f"-XX:SharedArchiveFile={self.file}")
        return shlex.quote(f"-XX:ArchiveClassesAtExit={self.made}")

    def keep(self) -> None:
        """When the JVM has ended: what it made goes to its place, whole. No archive is no reason to fail."""
        if self.made.is_file():
            whole = self.file.with_name(f"{self.file.name}.{os.getpid()}")
            with suppress(OSError):
                shutil.move(self.made, whole)
                whole.replace(self.file)


def class_archive(scratch: Path) -> ClassArchive | None:
    """The archive that the environment asks for."""
    asked = os.environ.get("BEFOREHAND_JAVA_CLASSES")
    return ClassArchive(Path(asked).absolute(), scratch / "classes.jsa") if asked else None
