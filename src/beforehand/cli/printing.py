"""What all commands that ask a history directory share: their arguments, and how events are shown.

Text from events is made visible before it reaches a terminal: no control character of a log can move the cursor, set
a title or hide a line. Tables are at most as wide as the terminal, 100 columns where there is none.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from beforehand.cli.extras import need
from beforehand.errors import InputError
from beforehand.events import Event, parse_time

if TYPE_CHECKING:
    from beforehand.pipeline.stored import StoredHistory

__all__ = [
    "WIDTH",
    "directory_argument",
    "echo_events",
    "echo_json",
    "echo_table",
    "event_rows",
    "execution_option",
    "json_option",
    "opened",
    "read_time",
    "shown",
    "shown_id",
    "writing",
]

F = TypeVar("F", bound=Callable[..., Any])

WIDTH: Final = 100
_SHORT_MAX: Final = 12

directory_argument = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
execution_option = click.option(
    "--execution", metavar="NAME", help="The execution that is meant, if there are several."
)


def opened(directory: Path) -> StoredHistory:
    """The history directory, with what is needed to ask it."""
    need("pipeline", "pyarrow", "duckdb", "numba")
    from beforehand.pipeline.stored import StoredHistory

    history = StoredHistory.open(directory)
    history.execution_word = "--execution"
    return history


def read_time(text: str) -> int:
    """RFC 3339, or nanoseconds since 1970."""
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 19:
        return int(text)
    try:
        return parse_time(text)
    except ValueError as error:
        raise InputError(f"{error}; nanoseconds since 1970 will do too") from None


def echo_json(document: object) -> None:
    """The one document of `--json`."""
    click.echo(json.dumps(document, indent=2))


def shown(text: object, limit: int = 200) -> str:
    """Text from strangers, for a line of a terminal."""
    from beforehand.diagram.text import visible  # Late: no `--help` should wait for all of `diagram`.

    return visible(str(text), limit)


def shown_id(text: object, limit: int = 200) -> str:
    """The same for ids, which often differ only at their end: too long ones are cut in the middle."""
    line = shown(text, 10_000)
    head = (limit - 1) // 2
    return line if len(line) <= limit else f"{line[:head]}…{line[len(line) - (limit - 1 - head) :]}"


def echo_events(events: Sequence[Event], marked: Event | None = None) -> None:
    """A table of events. An execution that all of them are of is named once, above."""
    executions = {event.execution for event in events}
    once = len(events) > 1 and len(executions) == 1 and "" not in executions
    if once:
        name = shown_id(next(iter(executions)))
        click.echo(f"of execution {name}; before each id stands {name}/\n")
    rows = event_rows(events, marked, bare=once)
    if marked is None:
        echo_table([row[1:] for row in rows], whole=0)
    else:
        echo_table(rows)


def event_rows(events: Iterable[Event], marked: Event | None = None, *, bare: bool = False) -> list[tuple[str, ...]]:
    """Rows for `echo_table`: mark, id, time, name, and what else there is. `bare`: ids without their execution."""
    from beforehand.diagram.page.times import rfc3339

    rows: list[tuple[str, ...]] = []
    for event in events:
        name = f"{event.process}:{event.index}" if bare else event.id
        more = [*(f"sends {m}" for m in event.sends), *(f"receives {m}" for m in event.receives)]
        more += [f"{key}={value}" for key, value in event.attributes.items()]
        time = "" if event.time is None else rfc3339(event.time)
        mark = "=>" if marked is not None and event.id == marked.id else "  "
        rows.append((mark, shown_id(name), time, shown(event.name), shown(", ".join(more), 500)))
    return rows


def echo_table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), *, whole: int | None = 1) -> None:
    """Columns side by side. What is too wide is cut: the last column first, then the widest, but never the column
    `whole`, which has ids: people copy those.
    """
    if not rows:
        return
    room = max(shutil.get_terminal_size((WIDTH, 24)).columns, 40) if _on_terminal() else WIDTH
    table = [list(head), *rows] if head else [list(row) for row in rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    gaps = 2 * (len(widths) - 1)
    last = len(widths) - 1
    widths[last] = max(min(widths[last], room - gaps - sum(widths[:last])), min(widths[last], _SHORT_MAX))
    while sum(widths) + gaps > room:
        widest = max((at for at in range(len(widths)) if at != whole), key=lambda at: widths[at])
        if widths[widest] <= _SHORT_MAX:
            break
        widths[widest] -= 1
    for row in table:
        cells = [_fitted(cell, width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())


def writing(target: Path) -> None:
    """A word about a file that was written, where people see it."""
    click.echo(f"wrote {target}", err=not _on_terminal())


def _fitted(text: str, width: int) -> str:
    if len(text) > width:
        text = text[: max(width - 1, 0)] + "…"
    return text.ljust(width)


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
