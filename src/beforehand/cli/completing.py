"""What a shell offers when the tab key is pressed: names of protocols, experiments, processes and events.

It must be quick and must never fail aloud: whoever presses the key waits, and an error would be written over the line
that they type. So nothing here loads Spark, Arrow or numba. Of a history directory only report.json is read, up to
`REPORT_BYTES_MAX`: it has the processes and the events that failed. Where that does not work, nothing is offered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

__all__ = [
    "EXPERIMENT_NAMES",
    "PROTOCOL_NAMES",
    "REPORT_BYTES_MAX",
    "events",
    "experiments",
    "processes",
    "protocols",
]

REPORT_BYTES_MAX: Final = 4_000_000
_OFFERED_MAX: Final = 200

PROTOCOL_NAMES: Final = (
    "unordered",
    "fifo",
    "causal-unicast",
    "causal-broadcast",
    "schiper-causal",
    "independent-sends",
    "group-leaders",
    "rendezvous",
    "skeen",
    "coordinator",
    "rotating-token",
    "lamport-total",
    "single-phase",
    "timed-delivery",
    "causal-merge",
)
"""Those of `beforehand.ordering`, which takes as long to load as all the rest; a test compares them."""

EXPERIMENT_NAMES: Final = (
    "single-phase",
    "buffering",
    "stamp-bytes",
    "sensors",
    "star",
    "token-updates",
    "merge-stamps",
)
"""Those of `beforehand.sim.experiments`, which takes a moment to load; a test compares them."""


def protocols(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    return _beginning(PROTOCOL_NAMES, incomplete)


def experiments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    return _beginning(EXPERIMENT_NAMES, incomplete)


def processes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Of the history directory that stands on the line already."""
    return _beginning(_processes(_report(ctx)), incomplete)


def events(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """The failures, each with its name, and every process with a colon: the number is left to the user."""
    from click.shell_completion import CompletionItem

    report = _report(ctx)
    failures = {str(one["event"]): str(one["name"]) for one in _records(report, "failures", "event", "name")}
    found = [CompletionItem(event, help=name) for event, name in failures.items() if event.startswith(incomplete)]
    found += [CompletionItem(f"{name}:") for name in _beginning(_processes(report), incomplete)]
    return found[:_OFFERED_MAX]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)][:_OFFERED_MAX]


def _processes(report: dict[str, Any]) -> list[str]:
    return [str(one["process"]) for one in _records(report, "processes_table", "process")]


def _records(report: dict[str, Any], key: str, *wanted: str) -> list[dict[str, Any]]:
    found = report.get(key)
    rows = found if isinstance(found, list) else []
    return [row for row in rows if isinstance(row, dict) and all(name in row for name in wanted)]


def _report(ctx: click.Context) -> dict[str, Any]:
    # An option whose value is being typed ends click's parsing early: what came before it is then left in `args`.
    words = [ctx.params.get("directory"), *(arg for arg in ctx.args if not arg.startswith("-"))]
    directory = next((word for word in words if word is not None), None)
    try:
        path = Path(directory or "") / "report.json"
        if path.stat().st_size > REPORT_BYTES_MAX:
            return {}
        found = json.loads(path.read_bytes())
    except (TypeError, OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
