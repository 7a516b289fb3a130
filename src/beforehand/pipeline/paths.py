"""Paths as Spark takes them. They are no URIs: a blank stays a blank; and where it reads, brackets are patterns."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["to_read", "to_write"]

_PATTERN: Final = frozenset("{}[]*?\\")


def to_read(path: str | os.PathLike[str]) -> str:
    """For `spark.read`: this very file or folder, whatever its name."""
    return "".join(f"\\{sign}" if sign in _PATTERN else sign for sign in to_write(path))


def to_write(path: str | os.PathLike[str]) -> str:
    """For `DataFrame.write`. Says `file:`, for a cluster may have another file system as its default."""
    return f"file://{os.path.abspath(path)}"
