"""`beforehand demo`: a checkout fails; what could have led to it?"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from beforehand.cli.shop import shop_run
from beforehand.errors import InputError

__all__ = ["demo"]


@click.command()
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-output"),
    show_default=True,
    help="Where the events and the page go.",
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
    format, and works out in memory what could have led to the failure. The Spark pipeline will do the same at any
    size; it is not part of this version.
    """
    # Late, because numba takes a moment to load and the rest of the command should not wait for it.
    from beforehand.cli.demo_page import page
    from beforehand.events import Event
    from beforehand.formats import read_events, replacing, write_events
    from beforehand.history import History
    from beforehand.predicate import Predicate

    quiet = as_json
    with _step("the shop runs", quiet=quiet):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot make the folder {folder}: {error.strerror}; choose another with --to"
            ) from error
        log = folder / "events.jsonl"
        write_events(shop_run(seed=seed), log)
    with _step("its history is put in causal order", quiet=quiet):
        history = History(event for event in read_events(log) if isinstance(event, Event))
    with _step("the failure is explained and the order of messages checked", quiet=quiet):
        is_failure = Predicate.parse("attributes.level = error")
        failures = [event for event in history.order() if is_failure(event)]
        if not failures:
            raise InputError(f"{log} did not keep the events written to it; choose another folder with --to")
        failure = failures[-1]
        explanation = history.explain(failure, last=last)
        report = history.check()
    with _step("the page is drawn", quiet=quiet):
        target = folder / "index.html"
        with replacing(target) as stream:
            stream.write(page(history, explanation, report).encode())

    if as_json:
        document = {
            "event": str(failure.id),
            "past": explanation.past,
            "events": [
                {
                    "id": str(event.id),
                    "process": event.process,
                    "index": event.index,
                    "kind": event.kind.value,
                    "name": event.name,
                    "time": event.time,
                    "attributes": dict(event.attributes),
                }
                for event in explanation.events
            ],
            "counts": dict(report.counts),
            "violations": [
                {
                    "kind": violation.kind,
                    "events": [str(event) for event in violation.events],
                    "messages": list(violation.messages),
                    "why": violation.why,
                }
                for violation in report.violations
            ],
            "page": str(target),
        }
        click.echo(json.dumps(document, indent=2))
        return

    reason = failure.attributes.get("reason", "")
    click.echo(f"\n{failure.id} {failure.name} ({reason}). What could have led to it:\n")
    width = max(len(str(event.id)) for event in (*explanation.events, failure))
    for event in (*explanation.events, failure):
        carried = ", ".join([f"sends {m}" for m in event.sends] + [f"receives {m}" for m in event.receives])
        mark = "=>" if event is failure else "  "
        click.echo(f"{mark} {event.id!s:<{width}}  {event.name:<22} {carried}")
    click.echo(f"\n   the last {len(explanation.events)} of {explanation.past} events that happened before it\n")
    for violation in report.violations:
        click.echo(f"{violation.kind} order is violated: {violation.why}")
        for sentence in violation.reasons:
            click.echo(f"   {sentence}")
    click.echo(f"\nThe page: {target}\nThe events: {log}")


@contextmanager
def _step(what: str, *, quiet: bool) -> Iterator[None]:
    start = time.perf_counter()
    yield
    if not quiet:
        on_terminal = sys.stdout is not None and sys.stdout.isatty()
        click.echo(f"{time.perf_counter() - start:5.1f} s  {what}", err=not on_terminal)
