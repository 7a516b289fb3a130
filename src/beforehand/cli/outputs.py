"""What a command writes must not be what it reads, nor two things at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

__all__ = ["refuse_clashes"]


def refuse_clashes(
    outputs: Mapping[str, Path | None],
    *,
    inputs: Mapping[str, Path | None] | None = None,
    history: Path | None = None,
) -> None:
    """`click.UsageError` if two outputs are one file, or one is an input or a file of the history."""
    taken = {os.path.realpath(path): name for name, path in (inputs or {}).items() if path is not None}
    for name, path in outputs.items():
        if path is None or (path.exists() and not path.is_file()):  # A device takes what several write to it.
            continue
        place = os.path.realpath(path)
        if place in taken:
            raise click.UsageError(f"{name} {path} is {taken[place]}: name another file")
        if history is not None and _is_of(Path(place), history):
            raise click.UsageError(f"{name} {path} belongs to the history in {history}: name another file")
        taken[place] = f"what {name} writes, too"


def _is_of(place: Path, history: Path) -> bool:
    from beforehand.pipeline.directory import OWN_NAMES

    try:
        inside = place.relative_to(os.path.realpath(history))
    except ValueError:
        return False
    return bool(inside.parts) and inside.parts[0] in OWN_NAMES
