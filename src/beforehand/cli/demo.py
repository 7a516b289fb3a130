"""`beforehand demo`: a shop of six processes, a failed checkout, and what could have led to it."""

from __future__ import annotations

from pathlib import Path

import click

from beforehand.cli.printing import echo_json, echo_table, event_rows, opened, shown
from beforehand.cli.shop import shop_run
from beforehand.errors import InputError
from beforehand.pipeline.documents import event_record

__all__ = ["demo"]


@click.command()
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-output"),
    show_default=True,
    help="Where the events and the history directory go.",
)
@click.option(
    "--last",
    type=click.IntRange(1, 1000),
    default=25,
    show_default=True,
    help="How many events of the failure's past to show.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Another day at the shop.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output instead of text.")
def demo(folder: Path, last: int, seed: int, as_json: bool) -> None:
    """Explain a failed checkout in a shop of six processes.

    Makes a run of the shop in which one message is overtaken by a chain of others, writes its events in the native
    format, analyzes them on Spark, and shows what could have led to the failure. The folder keeps the events, the
    history directory and the report page, for you to play with.

    \b
    Example:
      beforehand demo --to shop-demo
    """
    # Late, because Spark and numba take a moment to load and the rest of the command should not wait for them.
    from beforehand.formats import write_events
    from beforehand.pipeline.jobs.analyze import Settings, analyze
    from beforehand.pipeline.progress import Progress
    from beforehand.pipeline.stored.checking import found_violations

    progress = Progress(quiet=as_json)
    log, target = folder / "events.jsonl", folder / "history"
    with progress.step("the shop runs"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot make the folder {folder}: {error.strerror}; choose another with --to"
            ) from error
        write_events(shop_run(seed=seed), log)
        if not log.is_file():
            raise InputError(f"{log} did not keep the events written to it; choose another folder with --to")
    report = analyze([str(log)], target, Settings(replace=True, last=last), progress=progress)
    history = opened(target)
    failure = report["failures"][0]["event"]
    found = history.explain(failure, last=last)
    violations = list(found_violations(history.directory))
    page = target / "report.html"
    if as_json:
        echo_json(
            {
                "event": failure,
                "past": found.past,
                "events": [event_record(event) for event in found.events],
                "counts": report["violations"],
                "violations": violations,
                "page": str(page),
            }
        )
        return

    reason = found.event.attributes.get("reason", "")
    click.echo(f"\n{failure} {found.event.name} ({reason}). What could have led to it:\n")
    echo_table(event_rows([*found.events, found.event], found.event))
    click.echo(f"\nthe last {len(found.events)} of {found.past} events that happened before it\n")
    for violation in violations:
        click.echo(f"{violation['kind']} order is violated: {shown(violation['why'], 500)}")
        for sentence in violation["reasons"]:  # type: ignore[attr-defined]
            click.echo(f"   {shown(sentence, 500)}")
    click.echo(f"\nThe page:     {page}\nThe events:   {log}\nAsk for more: beforehand explain {target} cart:36")
