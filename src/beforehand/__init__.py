"""Beforehand: the events of a distributed system in the order in which they could have caused each other.

The rooms of the house, each importing only those above it:

    errors      every error we raise, as one tree
    events      the event record that every room hands to the next
    clocks      stamps and the clocks that issue them, with their wire forms
    formats     bytes to events and back
    predicate   the small `where` language
    history     one execution in memory: precedence, cuts, runs, checks, measures
    ordering    protocols that deliver messages in an order, without I/O
    diagram     space-time layout, SVG and the page
    sim         the simulator that tortures the protocols
    reporting   events out of a program, to a service or a file
    runtime     members, publishers and mergers on a real network
    rpc         stamps over the RPC that people have
    pipeline    the analysis on Spark, and queries of what it writes
    service     the event reporting service
    notebook    `analyze` and `open`, for notebooks and programs
    cli         the `beforehand` command

`beforehand.analyze` and `beforehand.open` are loaded when they are first used: importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from beforehand.notebook import Analysis, analyze
    from beforehand.notebook import open_history as open  # noqa: A004

__version__ = "0.1.0"

__all__ = ["Analysis", "__version__", "analyze", "open"]

_PLACES: Final = {"Analysis": "Analysis", "analyze": "analyze", "open": "open_history"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("beforehand.notebook"), _PLACES[name])
