"""`beforehand order`: all events in one order that everybody agrees on."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from beforehand.cli.outputs import refuse_clashes
from beforehand.cli.printing import directory_argument, echo_json, execution_option, json_option, opened, writing

__all__ = ["order"]


@click.command()
@directory_argument
@click.option(
    "--to", "target", type=click.Path(path_type=Path), help="A file instead of standard output (.gz, .zst)."
)
@execution_option
@json_option
def order(directory: Path, target: Path | None, execution: str | None, as_json: bool) -> None:
    """Write all events in the deterministic order: causes before effects, the same for everybody.

    DIR is a history directory, as analyze writes it. One JSON object a line, in the native format with the key id
    added. With --to, --json tells how many there were.

    \b
    Example:
      beforehand order shop --to run.jsonl.gz
    """
    from collections.abc import Iterator

    import msgspec

    from beforehand.formats import replacing, to_json

    refuse_clashes({"--to": target}, history=directory)
    history = opened(directory)
    if execution is not None:
        history.one_execution(execution)

    def lines() -> Iterator[bytes]:
        for event in history.order(execution=execution):
            yield b'{"id":' + msgspec.json.encode(str(event.id)) + b"," + to_json(event)[1:] + b"\n"

    if target is None:
        if sys.stdout is not None:
            for line in lines():
                sys.stdout.buffer.write(line)
            sys.stdout.flush()
        return
    count = 0
    with replacing(target) as stream:
        for line in lines():
            stream.write(line)
            count += 1
    if as_json:
        echo_json({"events": count, "to": str(target)})
    else:
        writing(target)
