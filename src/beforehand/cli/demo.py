"""`beforehand demo`: a shop of six processes, a failed checkout, and what could have led to it.

The whole house in one story: a protocol delivers the shop's messages in the simulator, its processes report to the
event service, a subscriber is told of the failure with what led to it, Spark analyzes the log and finds the same.

Nothing is left behind but the output folder, and nothing is left running, however the demo ends. Exit status 0 says
that it showed what it promised: with an order that is not causal, a failure, its cause, and the same past from the
service and from the pipeline; with a causal order, that nothing failed. Otherwise 1.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from beforehand.cli.extras import need
from beforehand.cli.printing import echo_json, echo_table, event_rows, opened, shown
from beforehand.errors import InputError
from beforehand.events import Event
from beforehand.pipeline.documents import event_record

if TYPE_CHECKING:
    from beforehand.history import Explanation
    from beforehand.pipeline.progress import Progress

__all__ = ["demo"]

_ORDER_WORDS: Final = {
    "unordered": "in no order",
    "fifo": "in FIFO order",
    "causal": "in causal order",
    "total": "in causal total order",
}
_NOTICE_SECONDS: Final = 30.0
_SILENCE_SECONDS: Final = 1.0
"""How long the subscriber listens where nothing is to come."""
_WINDOW: Final = "&at=540000000&width=80000000"
"""Where the page looks: at the sixth customer, in nanoseconds from the first event, whatever the seed."""
_SPARK_CONF: Final = {
    "spark.sql.shuffle.partitions": "2",
}
_NEEDED: Final = ("fastapi", "uvicorn", "pyspark", "pyarrow", "pandas", "duckdb", "numba", "numpy", "regex")


@click.command()
@click.option(
    "--order",
    type=click.Choice(list(_ORDER_WORDS)),
    default="fifo",
    show_default=True,
    help="How messages are delivered. With unordered and fifo a checkout fails; with causal and total it cannot.",
)
@click.option("--keep", is_flag=True, help="Let the event service run on, with its live page, until Ctrl-C.")
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
def demo(order: str, keep: bool, folder: Path, last: int, seed: int, as_json: bool) -> None:
    """Explain a failed checkout in a shop of six processes.

    The shop runs in the simulator, where a real protocol delivers its messages in the order you choose. Its processes
    report to an event service, which tells a subscriber of the failure and of what led to it. Spark analyzes the log
    and finds what was out of order. The folder keeps the events, the history directory and the report page.

    \b
    Examples:
      beforehand demo
      beforehand demo --order causal     the same day, and nothing fails
      beforehand demo --keep             and look at the live page
    """
    need("pipeline,service", *_NEEDED)
    from beforehand.cli.shop import PROCESSES

    story = _Story(order=order, seed=seed, last=last, folder=folder, quiet=as_json)
    story.say(f"A shop of six processes: {', '.join(PROCESSES)}. Six customers come. When the last one")
    story.say(
        "is there, the line from stock to orders is clogged for a moment: what stock tells orders arrives late.\n"
    )
    story.run_shop()
    with ExitStack() as stack:
        with story.step("service", "The event service starts"):
            from beforehand.cli.demo_service import serving  # Late: what it needs takes a moment to load.

            service = stack.enter_context(serving(folder))
        story.say(f"   {service.url}")
        story.report(service.url)
        story.analyze()
        story.ask()
        if as_json:
            echo_json(story.document(url=service.url if keep else None))
        else:
            story.tell_end(kept=service.url if keep else None)
        if keep:
            _await_interrupt()
    if story.broken:
        click.echo("beforehand: this is not what the demo promises: " + "; ".join(story.broken), err=True)
        raise click.exceptions.Exit(1)


@dataclass
class _Story:
    """What happened so far, step by step; each step says on standard output what it found, unless quiet."""

    order: str
    seed: int
    last: int
    folder: Path
    quiet: bool
    seconds: dict[str, float] = field(default_factory=dict)  # Per step.
    events: list[Event] = field(default_factory=list)
    notice: dict[str, Any] | None = None  # What the subscriber was told.
    analysis: dict[str, Any] = field(default_factory=dict)  # report.json
    found: Explanation | None = None  # The past of the failure, by the pipeline.
    violations: list[dict[str, Any]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # What the demo promised and did not show.

    @property
    def log(self) -> Path:
        return self.folder / "events.jsonl"

    @property
    def history(self) -> Path:
        return self.folder / "history"

    @property
    def fails(self) -> bool:
        """Whether a checkout is to fail."""
        return self.order in ("unordered", "fifo")

    def say(self, text: str) -> None:
        if not self.quiet:
            click.echo(text)

    @contextmanager
    def step(self, name: str, title: str, *, parted: bool = False) -> Iterator[Progress]:
        """One numbered step. On a terminal a line shows that it runs, or which of its parts, if it tells of them."""
        from beforehand.pipeline.progress import Progress

        start = time.perf_counter()
        progress = Progress(quiet=self.quiet, passing=True)
        with nullcontext() if parted else progress.step(title):
            yield progress
        self.seconds[name] = time.perf_counter() - start
        self.say(f"{len(self.seconds)}. {title} ({self.seconds[name]:.1f} s)")

    def run_shop(self) -> None:
        from beforehand.cli.shop import shop_run
        from beforehand.formats import write_events
        from beforehand.pipeline.directory import check_target

        with self.step("shop", f"The shop runs in the simulator; messages are delivered {_ORDER_WORDS[self.order]}"):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"cannot make the folder {self.folder}: {error.strerror}; choose another with --to"
                ) from error
            check_target(self.history.absolute(), replace=True)  # Sooner than Spark would find out.
            self.events = shop_run(seed=self.seed, order=self.order)
            write_events(self.events, self.log)
            if not self.log.is_file():
                raise InputError(f"{self.log} did not keep the events written to it; choose another folder with --to")
        placed = sum(event.name.endswith(" placed") for event in self.events)
        failed = sum(event.attributes.get("level") == "error" for event in self.events)
        self._promise(failed == self.fails, f"{failed} checkouts failed in the shop")
        self.say(
            f"   {len(self.events)} events; orders placed: {placed}; checkouts failed: {failed}, although every item "
            "was reserved"
            if failed
            else f"   {len(self.events)} events; orders placed: {placed}; checkouts failed: 0"
        )

    def report(self, url: str) -> None:
        from beforehand.cli.demo_service import Subscriber, missing_events, report

        with (
            self.step("report", "The processes report to it; a subscriber waits for failures"),
            Subscriber(url, last=self.last) as subscriber,
        ):
            report(url, self.events)
            self.notice = subscriber.notice(_NOTICE_SECONDS if self.fails else _SILENCE_SECONDS)
            missing = missing_events(url, self.events)
        self._promise(not missing, f"the service lacks {missing} events")
        if self.notice is None:
            self._promise(not self.fails, "the subscriber was not told of the failure")
            self.say("   The subscriber was told of nothing.")
            return
        self._promise(self.fails, "the subscriber was told of a failure")
        known = {str(event.id): event for event in self.events}
        failure, past = known[self.notice["event"]["id"]], self.notice["events"]
        self.say(f"   The subscriber was told: {failure.id} {failure.name} ({failure.attributes['reason']}). It got")
        self.say(f"   the last {len(past)} of {self.notice['past']} events that could have led to it:\n")
        if not self.quiet:
            echo_table(event_rows([*(known[event["id"]] for event in past), failure], failure))
        self.say("")

    def analyze(self) -> None:
        with self.step("analyze", "Spark analyzes the log of the shop", parted=True) as progress:
            with progress.step("load the pipeline"):
                from beforehand.pipeline.jobs.analyze import Settings, analyze

            settings = Settings(replace=True, last=self.last, conf=_SPARK_CONF)
            self.analysis = analyze([str(self.log)], self.history, settings, progress=progress)
        rest = self.seconds["analyze"] - sum(progress.seconds.values())
        for step, taken in {**progress.seconds, "end Spark": rest}.items():
            self.say(f"   {taken:6.1f} s  {step}")

    def ask(self) -> None:
        from beforehand.pipeline.stored.checking import found_violations

        with self.step("ask", "Its history is asked what was out of order"):
            history = opened(self.history)
            self.violations = list(found_violations(history.directory))
            failures = [failure["event"] for failure in self.analysis["failures"]]
            if failures:
                self.found = history.explain(failures[0], last=self.last)
        causal = self.analysis["violations"]["causal"]
        self._promise(bool(causal) == self.fails, f"{causal} messages were overtaken")
        self._promise(bool(failures) == self.fails, f"{len(failures)} failures are in the log")
        for violation in self.violations:
            self.say(f"   {violation['kind']} order is violated: {shown(violation['why'], 500)}")
            for sentence in violation["reasons"]:
                self.say(f"      {shown(sentence, 500)}")
        if not causal:
            self.say("   Nothing: no message was overtaken by a chain of others.")
        if self.found is not None and self.notice is not None:
            same = [str(event.id) for event in self.found.events] == [event["id"] for event in self.notice["events"]]
            same = same and self.found.past == self.notice["past"]
            self._promise(same, "the service and the pipeline do not agree on the past of the failure")
            if same:
                self.say("   The pipeline finds the same past that the service told the subscriber of.")

    def tell_end(self, *, kept: str | None) -> None:
        """What to look at and what to try next."""
        event = "orders:18" if self.found is None else str(self.found.event.id)
        program, where = _program(), shlex.quote(str(self.history))
        order, why = ("causal", "the same day, and nothing fails") if self.fails else ("fifo", "and a checkout fails")
        commands = {
            f"{program} explain {where} {event} --last 10": "what could have led to it",
            f"{program} check {where}": "what was out of order",
            f"{program} cut {where} --after {event}": "which messages were on their way",
            f"{program} demo --order {order}": why,
        }
        if kept is None:
            commands[f"{program} demo --keep"] = "look at the live page of the service"
        self.say(
            f"\n{sum(self.seconds.values()):.1f} s in all. The page to look at: {self.history / 'report.html'}\n"
        )
        self.say("Try:")
        width = max(map(len, commands))
        for command, what in commands.items():
            self.say(f"  {command.ljust(width)}   # {what}")
        if kept is not None:
            self.say(f"\nThe event service runs on until Ctrl-C. Its live page, with {event} chosen:")
            self.say(f"  {kept}#selected={event}{_WINDOW if self.fails else ''}\nAsk it:")
            self.say(f"  curl -s '{kept}api/past?id={event}&last=3'")
            self.say(f"  curl -s '{kept}api/find?where=name~failed'")

    def document(self, *, url: str | None) -> dict[str, Any]:
        """What `--json` prints."""
        found = self.found
        return {
            "order": self.order,
            "seed": self.seed,
            "event": None if found is None else str(found.event.id),
            "past": 0 if found is None else found.past,
            "events": [] if found is None else [event_record(event) for event in found.events],
            "told": None if self.notice is None else [event["id"] for event in self.notice["events"]],
            "counts": self.analysis["violations"],
            "violations": self.violations,
            "page": str(self.history / "report.html"),
            "url": url,
            "seconds": {name: round(taken, 3) for name, taken in self.seconds.items()},
            "broken": self.broken,
        }

    def _promise(self, held: bool, otherwise: str) -> None:
        if not held:
            self.broken.append(otherwise)


def _program() -> str:
    """How whoever reads it calls this command."""
    if shutil.which("beforehand") is not None:
        return "beforehand"
    called = Path(sys.argv[0])
    return str(called) if called.name == "beforehand" else f"{sys.executable} -m beforehand"


def _await_interrupt() -> None:
    """Until Ctrl-C, which is how it is meant to end. Other signals end it as they end everything."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        click.echo("beforehand: stopped", err=True)
