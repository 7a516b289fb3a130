"""`beforehand draw`: a space-time diagram."""

from __future__ import annotations

from pathlib import Path

import click

from beforehand.cli.completing import events
from beforehand.cli.outputs import refuse_clashes
from beforehand.cli.printing import directory_argument, echo_json, execution_option, json_option, opened, writing

__all__ = ["draw"]


@click.command()
@directory_argument
@click.option(
    "--around",
    metavar="EVENT",
    shell_complete=events,
    help="The event to look at; without it, a whole execution is drawn.",
)
@click.option(
    "--count", type=click.IntRange(1, 1_000), default=40, show_default=True, help="Events of its past to draw."
)
@click.option("--to", "target", type=click.Path(path_type=Path), required=True, help="A file, .html or .svg.")
@click.option(
    "--axis",
    type=click.Choice(["steps", "clocks"]),
    default="steps",
    show_default=True,
    help="From left to right: steps of causality, or the processes' own clocks.",
)
@execution_option
@json_option
def draw(
    directory: Path, around: str | None, count: int, target: Path, axis: str, execution: str | None, as_json: bool
) -> None:
    """Draw a space-time diagram: processes as lanes, messages as arrows.

    DIR is a history directory, as analyze writes it. An .html file can be explored (choose an event to see its
    past and future); an .svg file is the picture alone.

    \b
    Example:
      beforehand draw shop --around orders:17 --to failure.html
    """
    suffix = target.suffix.lower()
    if suffix not in (".html", ".svg"):
        raise click.UsageError(f"--to {target} must end in .html or .svg")
    if around is not None and execution is not None:
        raise click.UsageError("--execution goes without --around: an event's id says where it belongs")
    from beforehand.diagram import Axis, LayoutOptions, draw, layout
    from beforehand.formats import replacing

    refuse_clashes({"--to": target}, history=directory)

    history = opened(directory)
    from beforehand.pipeline.stored.choosing import to_draw

    choice = to_draw(history, around, count=count, execution=execution)
    options = LayoutOptions(axis=Axis(axis))
    if suffix == ".svg":
        text = draw(choice.events, marks=choice.marks, options=options, title=choice.title)
    else:
        from beforehand.diagram import diagram_page

        text = diagram_page(choice.events, marks=choice.marks, options=options, title=choice.title)
    with replacing(target) as stream:
        stream.write(text.encode())
    if as_json:
        hidden = layout(choice.events, marks=choice.marks, options=options).hidden
        echo_json({"to": str(target), "events": len(choice.events) - hidden, "hidden": hidden})
    else:
        writing(target)
