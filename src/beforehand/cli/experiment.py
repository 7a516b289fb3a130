"""`beforehand experiment`: what the papers claim about protocols and clocks, measured in the simulator."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import click

from beforehand.cli.completing import experiments
from beforehand.cli.extras import need
from beforehand.cli.live_line import LiveLine
from beforehand.cli.printing import WIDTH, echo_json, echo_table, json_option, writing
from beforehand.errors import InputError

if TYPE_CHECKING:
    from beforehand.sim.experiments import Experiment, Findings

__all__ = ["experiment"]

_QUICK_SEEDS: Final = 3


@click.command()
@click.argument("name", required=False, shell_complete=experiments)
@click.option(
    "--seeds", type=click.IntRange(1, 10_000), help="Runs for each point; each experiment has its own default."
)
@click.option("--quick", is_flag=True, help="Fewer points and shorter runs: a look, in seconds.")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The folder for the table and the plot; the current one unless told otherwise.",
)
@json_option
def experiment(name: str | None, seeds: int | None, quick: bool, folder: Path, as_json: bool) -> None:
    """Run the experiment NAME: print its tables, write NAME.md and NAME.svg.

    What a paper claims stands first, with what was seen of it here. The same command gives the same figures. Without
    NAME: a list of the experiments.

    \b
    Examples:
      beforehand experiment single-phase --to results
      beforehand experiment sensors --quick
    """
    need("history", "numpy", "numba")
    from beforehand.sim.experiments import EXPERIMENTS, Size

    if name is None:
        _list_experiments(as_json)
        return
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    chosen = EXPERIMENTS[name]
    _make(folder)
    size = Size(seeds=seeds or (_QUICK_SEEDS if quick else chosen.seeds), quick=quick)
    line = LiveLine()
    try:
        findings = chosen.run(size, lambda what: line.show(lambda: f"{what} …"))
    finally:
        line.clear()
    files = _write(chosen, findings, folder)
    if as_json:
        echo_json(_document(chosen, findings, files))
        return
    _print(chosen, findings)
    for file in files:
        writing(file)


def _list_experiments(as_json: bool) -> None:
    from beforehand.sim.experiments import EXPERIMENTS

    if as_json:
        told = [{"name": e.name, "title": e.title, "paper": e.paper, "seeds": e.seeds} for e in EXPERIMENTS.values()]
        echo_json({"experiments": told})
        return
    echo_table([[e.name, e.title] for e in EXPERIMENTS.values()], ["experiment", "measures"], whole=0)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}; choose another with --to") from error


def _write(chosen: Experiment, findings: Findings, folder: Path) -> list[Path]:
    from beforehand.formats import replacing
    from beforehand.sim.experiments import as_markdown

    pictures = {f"{chosen.name}.svg": findings.plot}
    pictures |= {f"{chosen.name}-{word}.svg": drawn for word, drawn in findings.examples.items()}
    page = as_markdown(chosen, findings, pictures=list(pictures))
    files = []
    for file, text in {f"{chosen.name}.md": page, **pictures}.items():
        with replacing(folder / file) as stream:
            stream.write(text.encode())
        files.append(folder / file)
    return files


def _document(chosen: Experiment, findings: Findings, files: list[Path]) -> dict[str, Any]:
    return {
        "name": chosen.name,
        "title": chosen.title,
        "paper": chosen.paper,
        "state": findings.state,
        "claims": [{"claim": c.text, "holds": c.holds, "seen": c.seen} for c in findings.claims],
        "tables": [{"title": table.title, "rows": table.records()} for table in findings.tables],
        "files": [str(file) for file in files],
    }


def _print(chosen: Experiment, findings: Findings) -> None:
    click.echo(f"{chosen.title}\n{fill(findings.state, WIDTH)}\n")
    for claim in findings.claims:
        told = fill(claim.seen, WIDTH, initial_indent="    ", subsequent_indent="    ")
        click.echo(f"{'✓' if claim.holds else '✗'} {claim.text}\n{told}")
    for table in findings.tables:
        click.echo(f"\n{table.title}\n")
        echo_table(table.texts(), table.head, whole=0)
    click.echo()
