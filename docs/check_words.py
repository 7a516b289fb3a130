"""Checks the page of words: what options and keys several commands share stands there, with these commands.

So an option or a key that is added to a second command makes somebody read what it means in the first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from beforehand.cli.command import beforehand as command_group
from check_interfaces import printed_keys
from pages import ROOT, Page, Problem

__all__ = ["check_words", "shared_keys", "shared_options"]

PAGE: Final = "docs/reference/words.md"
_ROW: Final = re.compile(r"^\| `([^`]+)` \|[^|]*\|([^|]*)\|$")
_NAME: Final = re.compile(r"`([a-z]+)`")


def shared_options() -> dict[str, set[str]]:
    """Options that more than one command has → these commands. Of `token` its own commands count as one."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, command in _commands().items():
        parts = command.commands.values() if isinstance(command, click.Group) else [command]
        for part in parts:
            for option in part.params:
                if isinstance(option, click.Option):
                    found[option.opts[0]].add(name)
    return {option: names for option, names in found.items() if len(names) > 1}


def shared_keys(source: Path = ROOT / "src" / "beforehand" / "cli") -> dict[str, set[str]]:
    """Keys that more than one command prints with `--json` → these commands."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name in _commands():
        for key in printed_keys(source / f"{name}.py"):
            found[key].add(name)
    return {key: names for key, names in found.items() if len(names) > 1}


def check_words(pages: Sequence[Page]) -> Iterator[Problem]:
    page = next((page for page in pages if page.name == PAGE), None)
    if page is None:
        yield Problem(PAGE, 1, "the page is not there", "write it: it says what the words mean")
        return
    told = _told(page)
    for wanted in (shared_options(), shared_keys()):
        yield from _compared(wanted, told)
    known = {*shared_options(), *shared_keys()}
    for word, (line, _) in told.items():
        if word not in known:
            yield Problem(PAGE, line, f"`{word}` is not of several commands", "take it out of the table")


def _commands() -> dict[str, click.Command]:
    context = click.Context(command_group)
    found = {name: command_group.get_command(context, name) for name in command_group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


def _told(page: Page) -> dict[str, tuple[int, set[str]]]:
    found: dict[str, tuple[int, set[str]]] = {}
    for number, line in enumerate(page.prose.split("\n"), start=1):
        if row := _ROW.match(line):
            found[row.group(1)] = (number, set(_NAME.findall(row.group(2))))
    return found


def _compared(wanted: Mapping[str, set[str]], told: Mapping[str, tuple[int, set[str]]]) -> Iterator[Problem]:
    for word, names in sorted(wanted.items()):
        shown = ", ".join(f"`{name}`" for name in sorted(names))
        line, given = told.get(word, (1, set()))
        if given != names:
            yield Problem(
                PAGE, line, f"`{word}` is of other commands than it says", f"they are {shown}; one meaning?"
            )
