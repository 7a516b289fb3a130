"""Runs that are looked at by what was delivered where, and drawn with the application's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from beforehand.diagram import Axis, LayoutOptions, Marks, draw
from beforehand.events import Event
from beforehand.sim.record import Record
from beforehand.sim.scenario import Scenario
from beforehand.sim.stack import stack_of
from beforehand.sim.world import Application, World

__all__ = ["drawn", "ran"]


def ran(scenario: Scenario, application: Application | None = None) -> Record:
    """The record of a run that came to rest with everything delivered."""
    world = World(scenario, stack_of(scenario), application)
    record = world.run()
    assert world.quiet, "the run did not come to rest"
    expected = sum(len(message.to) for message, _ in record.sent.values())
    assert sum(map(len, record.delivered.values())) == expected, "something was not delivered"
    return record


def drawn(
    record: Record,
    told: Callable[[Event], str],
    *,
    title: str,
    processes: Iterable[str] = (),
    overtaken: Mapping[str, object] | Iterable[str] = (),
) -> str:
    """The run as SVG, each event under the name that `told` gives it; messages that were `overtaken` stand out."""
    events = [replace(event, name=told(event)) for event in record.events]
    marks = Marks(violating_messages=tuple(overtaken))
    options = LayoutOptions(processes=tuple(processes), axis=Axis.STEPS, message_labels=False)
    return draw(events, marks=marks, options=options, title=title)
